"""A network as a piecewise linear map: the pieces against the ops, the derivative and its adjoint."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minicnn import ops
from minicnn.gradcheck import check_adjoint
from minicnn.theory.piecewise import Network, Stage
from minicnn.theory.reconstruction import Layer

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


def test_bad_input():
    (stage,) = make(np.random.default_rng(0), (2,), "relu")
    with pytest.raises(ValueError, match="at least one stage"):
        Network([], 5)
    with pytest.raises(ValueError, match="crelu, relu, avr, got 'tanh'"):
        Network([stage._replace(activation="tanh")], 5)
