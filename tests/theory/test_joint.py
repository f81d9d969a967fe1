"""Images from deep features, all layers at once: the pieces against the ops, the derivative, and what comes back."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minicnn import ops
from minicnn.gradcheck import check_adjoint
from minicnn.theory.joint import Known, Network, Stage, invert_jointly, residual
from minicnn.theory.reconstruction import Layer, invert, ratio
from tests.devices import on_devices

RHO = {"relu": ops.relu, "crelu": ops.crelu, "avr": ops.avr}
POOL = {"k": 3, "stride": 2, "pad": 0, "ceil": True}


def make(generator, widths, activation, pooled=(), *, channels=2, scale=1.0, put=np.asarray, dtype=np.float64):
    """Stages of 3x3 filters with pad 1 and a bias; a max pool follows those in `pooled`."""
    stages = []
    for i, width in enumerate(widths):
        w = scale * generator.normal(size=(3, 3, channels, width)) / np.sqrt(9 * channels / 2)
        layer = Layer(put(w.astype(dtype)), put((0.1 * generator.normal(size=width)).astype(dtype)), 1, 1)
        stages.append(Stage(layer, activation, POOL if i in pooled else None))
        channels = width * (2 if activation == "crelu" else 1)
    return stages


def by_ops(x, stages):
    """The responses of the last stage."""
    for layer, activation, pool in stages[:-1]:
        x = RHO[activation](ops.conv2d(x, layer.w, layer.b, stride=layer.stride, pad=layer.pad))
        x = x if pool is None else ops.max_pool2d(x, **pool)
    layer = stages[-1].layer
    return ops.conv2d(x, layer.w, layer.b, stride=layer.stride, pad=layer.pad)


# --- f, on pieces ---


@pytest.mark.parametrize("activation", RHO)
@given(seed=st.integers(0, 2**32 - 1), pooled=st.sampled_from([(), (0,), (0, 1)]), told=st.booleans())
def test_the_pieces_are_the_ops(activation, seed, pooled, told):
    """Values, and with the switches of x itself the same values; the features of the last stage."""
    generator = np.random.default_rng(seed)
    stages = make(generator, (3, 4, 3), activation, pooled)
    x = generator.normal(size=(2, 7, 6, 2))
    network = Network(stages, (7, 6))
    known = network.features(x)
    expected = by_ops(x, stages)
    np.testing.assert_allclose(known.y, RHO[activation](expected), atol=1e-12)
    np.testing.assert_allclose(network.forward(x, known.switches if told else None), expected, atol=1e-12)
    assert [s is not None for s in known.switches] == [i in pooled for i in range(2)]


@pytest.mark.parametrize("activation", RHO)
@given(seed=st.integers(0, 2**32 - 1), pooled=st.sampled_from([(), (0,), (1,)]), told=st.booleans())
def test_jvp_is_the_derivative_and_vjp_its_adjoint(activation, seed, pooled, told):
    """On the piece of x, with its own maxima or with the switches of another image."""
    generator = np.random.default_rng(seed)
    stages = make(generator, (3, 4, 3), activation, pooled)
    x, d, other = generator.normal(size=(3, 2, 7, 6, 2))
    network = Network(stages, (7, 6))
    switches = network.features(other).switches if told else None
    step = 1e-7
    difference = (network.forward(x + step * d, switches) - network.forward(x - step * d, switches)) / (2 * step)
    network.forward(x, switches)
    np.testing.assert_allclose(network.jvp(d), difference, atol=1e-5)
    check_adjoint(network.jvp, network.vjp, d)


def test_switches_tell_the_signs_of_what_fired():
    """One pixel, w = 1, z = -2 for the true image.  From x = 1, the pooled negative phase is -z, not max(-z, 0)."""
    stage = Stage(Layer(np.ones((1, 1, 1, 1))), "crelu", {"k": 1, "stride": 1, "pad": 0, "ceil": False})
    last = Stage(Layer(np.array([[[[0.0], [1.0]]]])), "crelu")  # reads the negative phase
    network = Network([stage, last], 1)
    known = network.features(np.full((1, 1, 1, 1), -2.0))
    assert known.y.ravel().tolist() == [2, 0]
    x = np.ones((1, 1, 1, 1))
    assert network.forward(x).item() == 0
    assert network.forward(x, known.switches).item() == -1
    assert network.jvp(x).item() == -1


def test_residuals_by_hand():
    z = np.array([2.0, -1.0, -3.0, 4.0])
    r, slope = residual(z, np.array([1.0, 0, 0, 4, 0, 1, 2, 0]), "crelu")
    np.testing.assert_array_equal(r, [1, 0, -1, 0])
    np.testing.assert_array_equal(slope, 1)
    r, slope = residual(z, np.array([1.0, 0, 5, 0]), "relu")  # z <= 0 is all that y = 0 says; z = y where y > 0
    np.testing.assert_array_equal(r, [1, 0, -8, 4])
    np.testing.assert_array_equal(slope, [1, 0, 1, 1])
    r, slope = residual(z, np.array([1.0, 1, 4, 4]), "avr")
    np.testing.assert_array_equal(r, [1, 0, -1, 0])
    np.testing.assert_array_equal(slope, [1, -1, -1, 1])


# --- the solver ---


@pytest.mark.parametrize(("pooled", "tolerance", "most"), [((), 1e-8, 1e-6), ((0,), 1e-4, 0.05)])
def test_wide_crelu_networks_give_the_image_back(pooled, tolerance, most):
    """Three layers, ten or more responses for each number of the image, with switches."""
    generator = np.random.default_rng(0)
    stages = make(generator, (8, 24, 80 if pooled else 24), "crelu", pooled)
    x = generator.uniform(0, 1, (2, 8, 8, 2))
    network = Network(stages, 8)
    found = invert_jointly(network, network.features(x), low=0.0, high=1.0, tolerance=tolerance)
    assert found.converged.all()
    assert ratio(x, found.x).max() < most
    assert found.residuals.shape[1] == 2
    assert (np.diff(found.residuals, axis=0) <= 0).all()


@on_devices
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_on_every_device(device, dtype):
    """Three steps are the same as on the host."""
    x = np.random.default_rng(1).uniform(0, 1, (1, 5, 5, 2)).astype(dtype)
    found = []
    for put in (np.asarray, device.put):
        network = Network(make(np.random.default_rng(0), (4, 6), "crelu", (0,), put=put, dtype=dtype), 5)
        found.append(invert_jointly(network, network.features(put(x)), low=0.0, high=1.0, steps=2, inner=2))
    assert device.get(found[1].x).dtype == dtype
    np.testing.assert_allclose(device.get(found[1].x), found[0].x, atol=1e-4 if dtype is np.float32 else 1e-12)


def test_where_layer_by_layer_fails():
    """conv2 has fewer filters than its windows have numbers: each step back loses, both together do not."""
    generator = np.random.default_rng(1)
    stages = make(generator, (4, 10), "crelu")
    x = generator.uniform(0, 1, (2, 10, 10, 2))
    network = Network(stages, 10)
    known = network.features(x)
    assert network.responses_per_number == 5
    layers = [stage.layer for stage in stages]
    assert ratio(x, invert(known.y, layers, 10)).min() > 0.3
    assert ratio(x, invert_jointly(network, known, low=0.0, high=1.0, tolerance=1e-9).x).max() < 1e-6


def test_relu_says_less():
    """The same four filters for two channels: CReLU features give the image back, ReLU's are half as many."""
    generator = np.random.default_rng(2)
    crelu = make(generator, (4,), "crelu")
    relu = [crelu[0]._replace(activation="relu")]
    x = generator.uniform(-1, 1, (2, 8, 8, 2))
    errors = {}
    for name, stages in (("crelu", crelu), ("relu", relu)):
        network = Network(stages, 8)
        found = invert_jointly(network, network.features(x), low=-1.0, high=1.0, tolerance=1e-9)
        assert found.residuals[-1].max() < 0.01  # the features are met,
        errors[name] = ratio(x, found.x).max()
    assert errors["crelu"] < 1e-6 < 0.01 < errors["relu"]  # but not by this image alone


def test_the_box_is_kept_and_helps():
    """A pixel value that no filter sees is free; the box, and the start, decide it."""
    generator = np.random.default_rng(3)
    stages = make(generator, (1,), "crelu")
    x = generator.choice([0.0, 1.0], (1, 6, 6, 2))
    network = Network(stages, 6)
    known = network.features(x)
    found = invert_jointly(network, known, low=0.0, high=1.0)
    assert found.x.min() >= 0
    assert found.x.max() <= 1
    free = invert_jointly(network, known, low=-9.0, high=9.0, start=np.full_like(x, 0.5))
    assert free.x.min() < -0.01
    assert ratio(x, found.x) < ratio(x, free.x)


def test_too_few_steps_are_not_convergence():
    generator = np.random.default_rng(0)
    network = Network(make(generator, (8, 24), "crelu"), 6)
    x, seen = generator.uniform(0, 1, (2, 6, 6, 2)), []
    known = network.features(x)
    found = invert_jointly(
        network, known, low=0.0, high=1.0, steps=1, inner=1, callback=lambda step, x: seen.append(step)
    )
    assert seen == [1]
    assert not found.converged.any()
    again = invert_jointly(network, known, low=0.0, high=1.0, start=x)
    assert again.converged.all()
    assert len(again.residuals) == 1


STAGES = make(np.random.default_rng(0), (2,), "relu")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Network([], 5), "at least one stage"),
        (lambda: Network([STAGES[0]._replace(activation="tanh")], 5), "crelu, relu, avr, got 'tanh'"),
        (lambda: invert_jointly(Network(STAGES, 5), Known(np.ones((1, 4, 5, 2))), low=0.0, high=1.0), "do not fit"),
        (lambda: invert_jointly(Network(STAGES, 5), Known(np.full((1, 5, 5, 2), np.nan)), low=0.0, high=1.0), "finite"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
