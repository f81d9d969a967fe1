"""Networks as PyTorch modules: the same outputs, gradients and statistics; and weights from modules of others."""

from unittest import mock

import numpy as np
import pytest

from experiments.analyses.rivals import with_pytorch
from minicnn import Tape, nn, ops
from minicnn.data.augment import Normaliser
from minicnn.data.dataset import DataError
from minicnn.exchange import load_pytorch_state, read_arrays, write
from minicnn.models import Classifier, convpool, sprint, vgg
from tests.exchange.networks import assert_same, channels_last, every_network, images, with_random_state
from tests.torch_parity.convert import torch

EVERY = [pytest.param(model, shape, id=name) for name, model, shape in every_network()]


def torch_module(*arguments):
    from minicnn.exchange.torch_module import torch_module as make  # needs torch, so not where tests are collected

    return make(*arguments)


def nchw(x):
    return torch.from_numpy(np.ascontiguousarray(x.transpose(0, 3, 1, 2)))


@pytest.mark.parametrize(("model", "shape"), EVERY)
def test_the_module_computes_the_same(model, shape):
    x = images(shape)
    with torch.inference_mode():
        theirs = torch_module(model, shape).eval()(nchw(x)).numpy()
    assert_same(model(x).numpy(), channels_last(theirs))


def test_a_step_of_training_is_the_same():
    """Batch statistics, gradients and what becomes of the running statistics."""
    model = with_random_state(nn.Sequential(
        conv=nn.Conv2d(3, 4, 3, bias=False), bn=nn.BatchNorm(4, momentum=0.3, eps=0.01), act=nn.CReLU(),
        flatten=nn.Flatten(), fc=nn.Linear(6 * 5 * 8, 7),
    )).to(dtype=np.float64)  # fmt: skip
    x, labels = images((8, 7, 3), 5).astype(np.float64), np.array([0, 6, 1, 2, 3])
    module = torch_module(model, (8, 7, 3)).train()
    torch.nn.functional.cross_entropy(module(nchw(x)), torch.from_numpy(labels)).backward()
    with Tape() as tape:
        loss = ops.softmax_cross_entropy(model(x, train=True), labels)
    tape.backward(loss)
    assert_same(model["conv"].weight.grad.transpose(3, 2, 0, 1), module.conv.weight.grad.numpy(), 1e-10)
    assert_same(model["bn"].gamma.grad, module.bn.weight.grad.numpy(), 1e-10)
    assert_same(model["bn"].running_var.data, module.bn.running_var.numpy(), 1e-10)


def test_frozen_layers_stay_frozen():
    module = torch_module(sprint(scale=0.1), (32, 32, 3))
    frozen = [name for name, p in module.named_parameters() if not p.requires_grad]
    assert frozen == ["conv1.weight", *(f"conv{i}_bn.weight" for i in range(2, 8))]


@pytest.mark.parametrize("suffix", ["pt", "pth"])
def test_files_of_pytorch(tmp_path, suffix):
    model, path = with_random_state(vgg("crelu", (1,), scale=0.05)), tmp_path / f"model.{suffix}"
    write(model, (32, 32, 3), path)
    torch_module(model, (32, 32, 3)).load_state_dict(torch.load(path, weights_only=True))
    other = with_random_state(vgg("crelu", (1,), scale=0.05), seed=3)
    load_pytorch_state(other, read_arrays(path), (32, 32, 3))
    assert all(np.array_equal(other.state_dict()[name], a) for name, a in model.state_dict().items())


class Theirs(torch.nn.Module):
    """A network as one writes it in PyTorch, with names, groups and a Flatten of its own."""

    def __init__(self):
        super().__init__()
        self.features = torch.nn.Sequential(
            torch.nn.Conv2d(3, 4, 3, padding=1),
            torch.nn.ReLU(),
            torch.nn.Conv2d(4, 6, 3, groups=2),
            torch.nn.BatchNorm2d(6),
            torch.nn.ReLU(),
        )
        self.classifier = torch.nn.Linear(6 * 6 * 5, 6 * 6 * 5)  # square: transposed, it would fit as well

    def forward(self, x):
        return self.classifier(self.features(x).flatten(1))


def test_weights_from_a_network_of_others(tmp_path):
    torch.manual_seed(0)
    theirs = Theirs()
    with torch.no_grad():
        theirs.train()(torch.randn(20, 3, 8, 7))  # running statistics that are not those of the start
    torch.save(theirs.eval().state_dict(), tmp_path / "theirs.pt")
    ours = nn.Sequential(
        conv1=nn.Conv2d(3, 4, 3, pad=1), act1=nn.ReLU(), conv2=nn.Conv2d(4, 6, 3), bn2=nn.BatchNorm(6), act2=nn.ReLU(),
        flatten=nn.Flatten(), fc=nn.Linear(180, 180),
    )  # fmt: skip
    arrays = read_arrays(tmp_path / "theirs.pt")
    with pytest.raises(ValueError, match="misshapen"):
        load_pytorch_state(ours, arrays, (8, 7, 3), by_order=True)
    load_pytorch_state(ours, arrays, (8, 7, 3), by_order=True, groups={"conv2": 2})
    x = images((8, 7, 3))
    with torch.inference_mode():
        assert_same(ours(x).numpy(), theirs(nchw(x)).numpy())


def test_checkpoints_and_whole_modules(tmp_path):
    """Weights beside other things are found; a module itself would have to be executed."""
    state = torch.nn.Linear(2, 3).state_dict()
    for name in ("state_dict", "model_state_dict", "model"):
        torch.save({name: state, "epoch": 3}, tmp_path / "checkpoint.pt")
        assert {key: a.shape for key, a in read_arrays(tmp_path / "checkpoint.pt").items()} == {
            "weight": (3, 2),
            "bias": (3,),
        }
    torch.save(torch.nn.Linear(2, 3), tmp_path / "module.pt")
    with pytest.raises(DataError, match=r"holds more than weights: save module.state_dict\(\) there"):
        read_arrays(tmp_path / "module.pt")


def test_pytorch_sees_what_we_see():
    """experiments.evaluate --against torch: softmax outputs of more images than a batch has."""
    model = with_random_state(convpool("crelu", "half", scale=0.1))
    network = Classifier(model, Normaliser((0.5, 0.4, 0.3), (0.2, 0.3, 0.4)), tuple("abcdefghij"), 32, 32)
    pictures = np.random.default_rng(0).integers(0, 256, (7, 32, 32, 3), dtype=np.uint8)
    done = []
    with mock.patch("experiments.analyses.rivals.BATCH", 3):
        assert_same(network.probabilities(pictures), with_pytorch(network, pictures, done.append))
    assert done == [3, 3, 1]


def test_what_is_unknown_is_refused():
    with pytest.raises(TypeError, match=r"first \(Lambda of .* has no translation to PyTorch"):
        torch_module(nn.Sequential(first=nn.Lambda(lambda x: x)), (8, 8, 3))
