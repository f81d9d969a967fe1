"""minicnn: convolutional networks from scratch, on NumPy and CuPy, around Concatenated ReLUs.

Where to start: docs/tour.md.  The operations are in minicnn.ops, layers in minicnn.nn.
"""

from minicnn import nn, ops, optim
from minicnn.autodiff import Buffer, Parameter, Tape, Tensor, op
from minicnn.backend import Device, DeviceError, array_module, device, device_of, to_device, to_host
from minicnn.checkpoint import load, save
from minicnn.fast import dispatch  # noqa: F401  (enters the faster versions into the ops)
from minicnn.random import Stream

__version__ = "0.1.0"
__all__ = [
    "Buffer",
    "Device",
    "DeviceError",
    "Parameter",
    "Stream",
    "Tape",
    "Tensor",
    "array_module",
    "device",
    "device_of",
    "load",
    "nn",
    "op",
    "ops",
    "optim",
    "save",
    "to_device",
    "to_host",
]
