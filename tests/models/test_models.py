"""The networks are those of the paper's tables: layer by layer, parameter by parameter (reference/paper)."""

import copy
import math
import pickle

import numpy as np
import pytest

from minicnn import Stream, Tape, nn, ops
from minicnn.models import allcnn_b, convpool, vgg
from minicnn.models.allcnn import SMALLEST, VARIANTS
from minicnn.models.table import ACTIVATIONS, Conv, build
from minicnn.models.vgg import dropout_rates
from minicnn.nn import init
from reference.paper import ARCHITECTURES, GEOMETRIES, parameter_counts
from tests.devices import on_devices

KIND = {"conv": nn.Conv2d, "max": nn.MaxPool2d, "avg": nn.GlobalAvgPool, "dropout": nn.Dropout, "linear": nn.Linear}
ACT = {"relu": nn.ReLU, "avr": nn.AVR, "crelu": nn.CReLU}


MAKE = {
    "convpool": lambda key, **options: convpool(*key, dropout=(0, 0, 0), logits_act=True, **options),
    "convpool-c": lambda key, **options: convpool(
        *key, arch="convpool-c", dropout=(0, 0, 0), logits_act=True, **options
    ),
    "vgg": lambda key, **options: vgg("crelu", key, **options),
    "imagenet": lambda key, **options: allcnn_b(key, logits_act=True, **options),
}
BASELINE = {"vgg": (), "imagenet": "baseline"}

CLASSES = {"cifar10": 10, "cifar100": 100, "imagenet": 1000}
every_network = pytest.mark.parametrize(
    ("architecture", "dataset"),
    [
        pytest.param(architecture, dataset, id=f"{architecture.family}-{architecture.key}-{dataset}")
        for architecture in ARCHITECTURES
        for dataset in (["imagenet"] if architecture.family == "imagenet" else ["cifar10", "cifar100"])
    ],
)


@every_network
def test_the_network_is_the_table(architecture, dataset):
    """Walk through both: every row of the table is the next layer of the network, and none is left over."""
    classes = CLASSES[dataset]
    model = MAKE[architecture.family](architecture.key, classes=classes)
    count = sum(p.data.size for p in model.parameters())
    assert count == parameter_counts(architecture.family, architecture.key, dataset).corrected
    layers = [layer for _, layer in model.children() if not isinstance(layer, nn.Flatten)]
    for row in architecture.corrected:
        if row.kind == "dropout" and not row.rate:
            continue  # printed as a row of its own, and no layer
        layer = layers.pop(0)
        assert type(layer) is KIND[row.kind], row
        if row.kind in ("conv", "linear"):
            assert layer.weight.shape == row.sizes(classes), row
        if row.kind == "conv":
            assert (layer.stride, layer.pad) == (row.stride, row.pad), row
        elif row.kind == "max":
            assert layer.options == {"k": row.kernel[0], "stride": row.stride, "pad": 0, "ceil": True}, row
        elif row.kind == "dropout":
            assert layer.rate == row.rate, row
        activation = row.activation
        if activation.startswith("bn+"):
            assert type(layers.pop(0)) is nn.BatchNorm, row
            activation = activation.removeprefix("bn+")
        if activation:
            assert type(layers.pop(0)) is ACT[activation], row
    assert not layers


@pytest.mark.parametrize("family", MAKE)
def test_sizes_of_the_maps(family):
    key, side = BASELINE.get(family, ("relu", "base")), GEOMETRIES[family].image
    rows = nn.describe(MAKE[family](key, scale=0.05), (side, side, 3)).rows
    ours = tuple(row.output[0] for row in rows if row.layer in ("Conv2d", "MaxPool2d"))
    assert ours == GEOMETRIES[family].sides


def test_crelu_half_has_half_the_parameters_of_the_baseline():
    """To within the first layer and the biases."""
    base, half = (
        sum(p.data.size for p in convpool(*key).parameters()) for key in (("relu", "base"), ("crelu", "half"))
    )
    assert abs(half / base - 0.5) < 0.001


@on_devices
@pytest.mark.parametrize("act", ACTIVATIONS)
def test_every_activation_trains(act, device):
    for model in (convpool(act, scale=0.05), vgg(act, (1, 2, 13), scale=0.05, bn_before_act=True)):
        model.to(device)
        x = device.put(np.random.default_rng(0).normal(size=(4, 32, 32, 3)).astype(np.float32))
        with Tape() as tape:
            loss = ops.softmax_cross_entropy(model(x, train=True, stream=Stream(0)), np.arange(4))
        tape.backward(loss)
        assert math.isfinite(loss.item())
        assert all(p.grad is not None for p in model.parameters())


def test_dropout_rates_of_vgg():
    assert dropout_rates(()) == {1: 0.3, 3: 0.4, 5: 0.4, 6: 0.4, 8: 0.4, 9: 0.4, 11: 0.4, 12: 0.4}
    assert dropout_rates((1, 3, 5)) == {1: 0.1, 3: 0.2, 5: 0.2, 6: 0.2, 8: 0.4, 9: 0.4, 11: 0.4, 12: 0.4}
    assert dropout_rates((2, 8)) == {1: 0.3, 3: 0.4, 5: 0.4, 6: 0.4, 8: 0.2, 9: 0.4, 11: 0.4, 12: 0.4}


@on_devices
@pytest.mark.parametrize("variant", VARIANTS)
def test_every_imagenet_network_trains(variant, device):
    model = allcnn_b(variant, classes=4, scale=0.05).to(device)
    x = device.put(np.random.default_rng(0).normal(size=(2, SMALLEST, SMALLEST, 3)).astype(np.float32))
    with Tape() as tape:
        loss = ops.softmax_cross_entropy(model(x, train=True, stream=Stream(0)), np.arange(2))
    tape.backward(loss)
    assert math.isfinite(loss.item())
    assert all(p.grad is not None for p in model.parameters())
    assert ("drop9" in model.layers) == (VARIANTS[variant].dropout > 0)


def test_crelu_all_has_half_the_weights_of_the_baseline():
    """Exactly, without the biases: with the corrections of E4."""
    base, half = (
        sum(p.data.size for p in allcnn_b(variant).parameters() if p.data.ndim == 4)
        for variant in ("baseline", "crelu-all")
    )
    assert (base, half) == (2 * 4_683_792, 4_683_792)


def test_seeds_and_options():
    a, b, c = convpool(seed=0), convpool(seed=0), convpool(seed=1)
    assert (a["conv1"].weight.data == b["conv1"].weight.data).all()
    assert (a["conv1"].weight.data != c["conv1"].weight.data).any()
    assert "conv8_act" not in a.layers
    assert type(convpool("avr", logits_act=True)["conv8_act"]) is nn.AVR
    assert type(convpool("crelu", logits_act=True)["conv8_act"]) is nn.ReLU
    assert "drop0" in a.layers
    assert "drop0" not in convpool(dropout=(0, 0.5, 0.5)).layers
    # AVR does not double the channels, so nothing is halved
    assert vgg("avr", (1,))["conv1"].weight.shape == (3, 3, 3, 64)
    assert "conv1_bn" in vgg("crelu", (1,), bn_before_act=True).layers


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: convpool("gelu"), "unknown activation 'gelu'; choose from relu, leaky"),
        (lambda: convpool(width="huge"), "unknown width 'huge'"),
        (lambda: convpool(arch="resnet"), "unknown arch 'resnet'"),
        (lambda: vgg("gelu"), "unknown activation"),
        (lambda: allcnn_b("crelu-conv5"), "unknown variant 'crelu-conv5'; choose from baseline, crelu-conv1-4"),
        (lambda: vgg(at=(0, 14)), r"convolutions 1 \.\. 13, got \(0, 14\)"),
    ],
)
def test_nonsense_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_small_table():
    model = build([Conv("a", 4, k=3, act="crelu"), Conv("b", 2, k=1)], channels=3)
    assert model["b"].weight.shape == (1, 1, 8, 2)


@pytest.mark.parametrize("scale", [0, -1, float("nan")])
def test_a_scale_that_is_not_positive_is_refused(scale):
    with pytest.raises(ValueError, match="must be positive"):
        convpool("relu", scale=scale)


def test_looks_linear_networks_start_as_linear_ones():
    """f(x) + f(-x) = 0 without biases, for a layer behind CReLU; the variance stays."""
    rng = np.random.default_rng(0)
    first, second = init.he_normal((6, 40), rng), init.looks_linear((80, 30), rng)
    x = rng.normal(size=(500, 6))

    def network(x):
        return ops.crelu.textbook(x @ first)[0] @ second

    np.testing.assert_allclose(network(x), -network(-x), atol=1e-12)
    np.testing.assert_allclose(network(x), x @ first @ second[:40], atol=1e-12)
    assert 0.7 < (network(x) ** 2).mean() / ((x @ first) ** 2).mean() < 1.4
    with pytest.raises(ValueError, match="even number of channels"):
        init.looks_linear((3, 3, 5, 2), rng)


@pytest.mark.parametrize("act", ["relu", "avr", "crelu"])
def test_convpool_is_centred_behind_activations_only(act):
    for looks_linear in (False, True):
        model = convpool(act, scale=0.1, centred=True, looks_linear=looks_linear)
        for name, w in model.state_dict().items():
            if name.endswith("weight"):
                sums = np.abs(w.reshape(-1, w.shape[-1]).sum(axis=0))
                assert (sums.max() < 1e-5) == (name != "conv1.weight"), name


def test_a_gain_of_1_keeps_the_size_of_responses_behind_absolute_values():
    """E |x|^2 = E x^2, where ReLU keeps half.  Centred filters see Var |x| = (1 - 2 / pi) E x^2 alone."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 500))
    for scheme, seen in ((init.he_normal, 1.0), (init.he_centred, 1 - 2 / math.pi)):
        for gain in (1.0, init.HE):
            w = init.with_gain(scheme, gain)((500, 400), rng)
            kept = ((np.abs(x) @ w) ** 2).mean() / (x**2).mean()
            assert kept == pytest.approx(seen * gain**2, rel=0.05)


@pytest.mark.parametrize(
    ("act", "start"), [("avr", {"centred": True}), ("crelu", {"looks_linear": True}), ("relu", {})]
)
def test_convpool_takes_a_gain_behind_activations_only(act, start):
    usual, other = (convpool(act, scale=0.1, **start, **gain).state_dict() for gain in ({}, {"gain": 1.0}))
    for name, w in usual.items():
        behind = name.endswith("weight") and name != "conv1.weight"
        np.testing.assert_allclose(other[name], w / init.HE if behind else w, rtol=1e-6)
    copy.deepcopy(pickle.loads(pickle.dumps(convpool(act, scale=0.1, gain=1.0, **start)))).initialise(seed=1)


def test_responses_of_centred_avr_networks_shrink_as_those_of_relu():
    """With He's gain; with a gain of 1 they shrink by another sqrt 2 per layer (docs/recipes.md, recipe `hour`)."""
    x = np.random.default_rng(0).normal(size=(4, 32, 32, 3)).astype(np.float32)

    def left(act, gain):
        """Of the deviation of conv1's responses, in conv8."""
        y, spread = x, []
        for _, layer in convpool(act, scale=0.25, centred=True, gain=gain, dropout=(0, 0, 0)).children():
            y = layer(y)
            if isinstance(layer, nn.Conv2d):
                spread.append(float(y.data.std()))
        return spread[-1] / spread[0]

    relu, avr, smaller = left("relu", init.HE), left("avr", init.HE), left("avr", 1.0)
    assert 0.05 < relu < 0.7
    assert 0.5 < avr / relu < 2
    assert smaller / avr == pytest.approx(2**-3.5, rel=1e-3)


def test_convpool_looks_linear_behind_crelu_only():
    for act, width in (("crelu", "half"), ("relu", "base")):
        usual, other = (convpool(act, width, scale=0.1, looks_linear=flag).state_dict() for flag in (False, True))
        changed = {name for name in usual if (usual[name] != other[name]).any()}
        assert changed == ({f"conv{i}.weight" for i in range(2, 9)} if act == "crelu" else set())
    first, second = np.split(other["conv2.weight"], 2, axis=2)
    assert (first != -second).any()
    linear = convpool("crelu", "half", scale=0.1, looks_linear=True).state_dict()
    for i in range(2, 9):
        first, second = np.split(linear[f"conv{i}.weight"], 2, axis=2)
        np.testing.assert_array_equal(second, -first)
