"""The programs in examples/ and docs/own_networks.md: they run, and what they train has learned."""

import importlib.util
import re
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from minicnn import nn
from minicnn.exchange import onnx_model
from tests.exchange.networks import assert_same, images, with_random_state

ROOT = Path(__file__).parents[1]


def example(name):
    spec = importlib.util.spec_from_file_location(f"example_{name}", ROOT / "examples" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_resnet_with_crelu(capsys):
    module = example("resnet_crelu")
    assert module.main(images=200, epochs=5) < 75  # chance is 90
    said = capsys.readouterr().out
    assert "  block1: Residual(\n    body: Sequential(\n      0: Conv2d(3x3x8x4 pad 1)\n" in said
    assert re.search(r"^block1\.body\.0 +Conv2d ", said, re.M)


def test_the_resnet_goes_to_other_programs():
    model = with_random_state(example("resnet_crelu").resnet())
    x = images((32, 32, 3))
    session = onnxruntime.InferenceSession(onnx_model(model, (32, 32, 3)), providers=["CPUExecutionProvider"])
    (logits,) = session.run(["logits"], {"images": np.ascontiguousarray(x.transpose(0, 3, 1, 2))})
    assert_same(model(x).numpy(), logits)


def test_own_data(tmp_path, capsys):
    module = example("own_data")
    module.draw(tmp_path)
    assert module.main(tmp_path) < 30  # chance is 50
    assert "108 steps" in capsys.readouterr().out


def test_own_op(capsys):
    assert example("own_op").main() < 0.01
    assert "the derivative is wrong by 0.0e+00" in capsys.readouterr().out


def test_own_optimiser():
    """Its steps are those of the paper's pseudo-code; the network learns."""
    module = example("own_optimiser")
    losses = module.main(images=200, epochs=4)
    assert losses[-1] < losses[0] - 0.1
    p, m = np.array([1.0, 1, 1]), np.array([0.0, 1, -1])
    module.Lion.update(None, p, np.array([2.0, -20, 0]), {"mean": m}, 0.5, 1)
    np.testing.assert_allclose(p, [0.5, 1.5, 1.5])  # signs of 0.2, 0.9 - 2, -0.9
    np.testing.assert_allclose(m, [0.02, 0.79, -0.99])


def test_transfer(capsys):
    before, after = example("transfer").main()
    assert before > 80
    assert after < 72
    assert "2 of 16 arrays are learned" in capsys.readouterr().out


def test_every_example_is_tested_and_listed():
    names = {path.stem for path in (ROOT / "examples").glob("*.py")}
    assert set(re.findall(r'example\("(\w+)"\)', Path(__file__).read_text())) == names
    assert set(re.findall(r"`examples/(\w+)\.py`", (ROOT / "docs" / "own_networks.md").read_text())) == names


def test_the_code_in_the_document_runs():
    text = (ROOT / "docs" / "own_networks.md").read_text()
    scope = {}
    for block in re.findall(r"^```python\n(.*?)^```", text, re.M | re.S):
        exec(compile(block, "docs/own_networks.md", "exec"), scope)
    assert scope["losses"][-1] < scope["losses"][0]
    assert scope["error"] < 75
    gate = scope["Gate"](nn.Conv2d(3, 3, 1))
    x = np.ones((1, 2, 2, 3), np.float32)
    np.testing.assert_allclose(gate(x).numpy(), (gate.body(x).numpy() + x) / 2, rtol=1e-6)  # sigmoid(0) = 1/2
    assert len(gate.parameters()) == 3


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.stem)
def test_examples_are_short(path):
    assert len(path.read_text().splitlines()) <= 80
