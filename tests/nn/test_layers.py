"""Layers: what they own, what they compute, on every device."""

import numpy as np
import pytest

from minicnn import Parameter, Stream, Tape, Tensor, nn, ops
from minicnn.backend import CPU
from minicnn.gradcheck import check_gradient
from minicnn.optim import SGD
from minicnn.training import Trainer
from tests.devices import on_devices

RNG = np.random.default_rng(0)
IMAGES = RNG.normal(size=(2, 6, 6, 3))
STREAM = Stream(0).child("dropout")

LAYERS = {
    "Conv2d": (lambda: nn.Conv2d(3, 4, 3, stride=2, pad=1), (2, 3, 3, 4)),
    "Conv2d 1x1": (lambda: nn.Conv2d(3, 4, 1, bias=False), (2, 6, 6, 4)),
    "BatchNorm": (lambda: nn.BatchNorm(3), (2, 6, 6, 3)),
    "Dropout": (lambda: nn.Dropout(0.3), (2, 6, 6, 3)),
    "MaxPool2d": (lambda: nn.MaxPool2d(3, stride=2, ceil=True), (2, 3, 3, 3)),
    "AvgPool2d": (lambda: nn.AvgPool2d(2, pad=1, count_include_pad=True), (2, 4, 4, 3)),
    "GlobalAvgPool": (nn.GlobalAvgPool, (2, 3)),
    "Flatten": (nn.Flatten, (2, 108)),
    "ReLU": (nn.ReLU, (2, 6, 6, 3)),
    "LeakyReLU": (lambda: nn.LeakyReLU(0.1), (2, 6, 6, 3)),
    "AVR": (nn.AVR, (2, 6, 6, 3)),
    "CReLU": (nn.CReLU, (2, 6, 6, 6)),
    "CReLU leaky": (lambda: nn.CReLU(ops.leaky_relu, slope=0.2), (2, 6, 6, 6)),
    "Antirectifier": (nn.Antirectifier, (2, 6, 6, 6)),
    "Sequential": (
        lambda: nn.Sequential(nn.Conv2d(3, 2, 3), nn.CReLU(), nn.Flatten(), nn.Linear(64, 5)),
        (2, 5),
    ),
}


@on_devices
@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("train", [False, True])
def test_every_layer_computes_and_learns_on_every_device(name, device, train):
    make, shape = LAYERS[name]
    layer = make().initialise(seed=3).to(device)
    x = Tensor(device.put(IMAGES.astype(np.float32)), requires_grad=True)
    with Tape() as tape:
        y = layer(x, train=train, stream=STREAM)
        loss = (y * y).sum()
    assert y.shape == shape
    assert y.dtype == np.float32
    tape.backward(loss) if len(tape) else None
    for p in layer.parameters():
        assert p.grad.shape == p.shape
        assert p.grad.dtype == np.float32
        assert type(p.grad) is type(p.data) is device.xp.ndarray
    host = make().initialise(seed=3)
    expected = host(IMAGES.astype(np.float32), train=train, stream=STREAM).numpy()
    np.testing.assert_allclose(y.numpy(), expected, rtol=1e-5, atol=1e-6)  # near 0, sums in another order differ more


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("train", [False, True])
def test_every_layer_has_the_right_gradients(name, train):
    layer = LAYERS[name][0]().initialise(seed=3).to(dtype=np.float64)
    check_gradient(lambda x: layer(x, train=train, stream=STREAM), IMAGES, parameters=layer.parameters())


def test_layers_accept_arrays_and_give_tensors():
    for make, _ in LAYERS.values():
        assert isinstance(make()(IMAGES.astype(np.float32)), Tensor)


OPTIONS = {  # a layer with options of its own, and the op that it must call
    "Conv2d": (
        lambda: nn.Conv2d(3, 4, (2, 3), stride=(2, 1), pad=((0, 1), (1, 0)), scheme=nn.init.glorot_uniform),
        lambda m, x: ops.conv2d(x, m.weight, m.bias, stride=(2, 1), pad=((0, 1), (1, 0))),
    ),
    "Linear": (
        lambda: nn.Sequential(nn.Flatten(), nn.Linear(108, 2)),
        lambda m, x: x.reshape(2, -1) @ m["1"].weight.data,
    ),
    "BatchNorm": (
        lambda: nn.BatchNorm(3, eps=0.5),
        lambda m, x: ops.batch_norm(
            x, m.gamma, m.beta, moments=(x[0, 0, 0] * 0, x[0, 0, 0] * 0 + 1), fixed=True, eps=0.5
        ),
    ),
    "MaxPool2d": (lambda: nn.MaxPool2d(3, stride=1, pad=1), lambda m, x: ops.max_pool2d(x, k=3, stride=1, pad=1)),
    "AvgPool2d": (
        lambda: nn.AvgPool2d(4, stride=3, pad=1, ceil=True, count_include_pad=True),
        lambda m, x: ops.avg_pool2d(x, k=4, stride=3, pad=1, ceil=True, count_include_pad=True),
    ),
    "LeakyReLU": (lambda: nn.LeakyReLU(0.3), lambda m, x: ops.leaky_relu(x, slope=0.3)),
    "CReLU": (lambda: nn.CReLU(axis=1), lambda m, x: ops.crelu(x, axis=1)),
    "CReLU leaky": (
        lambda: nn.CReLU(ops.leaky_relu, slope=0.3, axis=2),
        lambda m, x: ops.concatenated(x, activation=ops.leaky_relu, slope=0.3, axis=2),
    ),
    "AVR": (nn.AVR, lambda m, x: abs(x)),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_a_layer_is_its_op_with_all_its_options(name):
    make, expected = OPTIONS[name]
    layer = make().initialise(seed=1).to(dtype=np.float64)
    y = expected(layer, IMAGES)
    np.testing.assert_array_equal(layer(IMAGES).data, y.data if isinstance(y, Tensor) else y)


def test_batch_norm_trains_with_its_eps():
    y = nn.BatchNorm(3, eps=3.0).to(dtype=np.float64)(IMAGES, train=True).data
    np.testing.assert_allclose(y.var((0, 1, 2)), IMAGES.var((0, 1, 2)) / (IMAGES.var((0, 1, 2)) + 3))


def test_a_refused_call_leaves_the_running_statistics_alone():
    layer = nn.BatchNorm(1)
    for bad in (np.ones((5, 4), np.float32), np.ones((5, 1))):
        with pytest.raises((ValueError, TypeError)):
            layer(bad, train=True)
        assert layer.running_mean.data.shape == (1,)
        assert layer.running_mean.data.dtype == np.float32
        assert not layer.running_mean.data.any()


@on_devices
def test_batch_norm_keeps_running_statistics(device):
    layer = nn.BatchNorm(3, momentum=0.25).to(device, dtype=np.float64)
    for _ in range(2):
        layer(device.put(IMAGES), train=True)
    mean, var = IMAGES.mean((0, 1, 2)), IMAGES.var((0, 1, 2), ddof=1)
    np.testing.assert_allclose(device.get(layer.running_mean.data), (1 - 0.75**2) * mean)
    np.testing.assert_allclose(device.get(layer.running_var.data), 0.75**2 + (1 - 0.75**2) * var)
    before = layer.state_dict()
    layer(device.put(IMAGES))  # evaluation leaves them alone
    for name, value in layer.state_dict().items():
        np.testing.assert_array_equal(value, before[name])


def test_batch_norm_starts_anew_also_after_a_training_that_diverged():
    layer = nn.BatchNorm(2)
    layer.running_mean.data[:] = layer.running_var.data[:] = np.nan
    layer.initialise(seed=0)
    np.testing.assert_array_equal(layer.running_mean.data, [0, 0])
    np.testing.assert_array_equal(layer.running_var.data, [1, 1])


def test_batch_norm_needs_more_than_one_value_to_train():
    with pytest.raises(ValueError, match=r"more than one value .* x has shape \(1, 3\); choose a batch size"):
        nn.BatchNorm(3)(np.ones((1, 3), np.float32), train=True)
    assert nn.BatchNorm(3)(np.ones((1, 3), np.float32)).shape == (1, 3)


def test_dropout_in_training_needs_a_stream_and_in_evaluation_does_nothing():
    x = IMAGES.astype(np.float32)
    with pytest.raises(
        ValueError, match=r'random bits: .* stream=Stream\(seed\).child\("dropout"\).at\(step\)\)'
    ) as error:
        nn.Dropout(0.5)(x, train=True)
    model, seed, step = nn.Sequential(nn.Dropout(0.5), nn.Conv2d(x.shape[3], 1, 1)), 3, 7
    advised = eval(
        str(error.value).split(": ")[-1], {"model": model, "x": x, "seed": seed, "step": step, "Stream": Stream}
    )
    trainer = Trainer(model, SGD(model.parameters(), 0.1), [], device=CPU, seed=seed)  # whose masks it advises
    np.testing.assert_array_equal(advised.data, model(x, train=True, stream=trainer.dropout.at(step)).data)
    assert nn.Dropout(0.5)(x).data is x
    assert nn.Dropout(0.0)(x, train=True).data is x


def test_dropout_masks_depend_on_step_layer_and_position_alone():
    net = nn.Sequential(nn.Dropout(0.5), nn.Dropout(0.5))
    x = np.ones((4, 1000), np.float32)
    whole = net(x, train=True, stream=STREAM.at(5)).numpy()
    half = net(x[2:], train=True, stream=STREAM.at(5, first=2)).numpy()
    np.testing.assert_array_equal(whole[2:], half)
    assert (whole != net(x, train=True, stream=STREAM.at(6)).numpy()).any()
    # two layers with masks of their own keep a quarter, with the same mask they would keep a half
    assert 0.2 < (whole != 0).mean() < 0.3
    assert abs(whole.mean() - 1) < 0.1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: nn.Conv2d(0, 4, 3), "Conv2d: c_in must be a positive integer, got 0"),
        (lambda: nn.Conv2d(3, 4, 0), "Conv2d: k must be an integer >= 1"),
        (lambda: nn.Linear(3, -1), "Linear: c_out must be a positive integer"),
        (lambda: nn.BatchNorm(2.5), "BatchNorm: c must be a positive integer"),
        (lambda: nn.Dropout(1), r"Dropout: rate must be in \[0, 1\)"),
    ],
)
def test_nonsense_is_refused_when_the_layer_is_made(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_module_without_forward():
    with pytest.raises(NotImplementedError, match="Module does not define forward"):
        nn.Module()(IMAGES)


def test_parameters_are_leaves():
    assert all(isinstance(p, Parameter) and p.requires_grad for p in nn.Conv2d(3, 4, 3).parameters())
