"""Networks for other programs, and weights from them: ONNX, PyTorch, safetensors.

    write(model, (32, 32, 3), "model.onnx")                  or .safetensors, .pt
    load_pytorch_state(model, read_arrays("theirs.pt"), (32, 32, 3))

and in a file that imports torch, minicnn.exchange.torch_module makes a torch.nn.Module that computes the same.

Other frameworks have images as NCHW and filters as OIHW; layout.py knows all that follows from this, and the other
files use it.  The packages onnx, safetensors and torch are imported only where they are needed.
"""

from minicnn.exchange.files import SUFFIXES, read_arrays, write
from minicnn.exchange.layout import load_pytorch_state, pytorch_state
from minicnn.exchange.onnx_model import onnx_model
from minicnn.exchange.walk import Step, steps

__all__ = ["SUFFIXES", "Step", "load_pytorch_state", "onnx_model", "pytorch_state", "read_arrays", "steps", "write"]
