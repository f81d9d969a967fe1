"""What docs/conventions.md decides: derivatives at kinks, ties, padding, moments."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference.pool
from minicnn import Stream, ops
from minicnn.gradcheck import check_gradient
from tests import draw
from tests.devices import on_devices


@pytest.mark.parametrize(
    ("op", "static", "slope"),
    [
        (ops.relu, {}, 0),
        (ops.avr, {}, 0),
        (ops.leaky_relu, {"slope": 0.1}, 0.1),
        (ops.crelu, {}, 0),
        (ops.concatenated, {"activation": ops.relu}, 0),
        (ops.soft_threshold, {"threshold": 0.0}, 0),
    ],
    ids=str,
)
def test_derivative_at_the_kink(op, static, slope):
    for zero in (0.0, -0.0):
        y, vjp = op.pair(np.array([zero]), **static)
        np.testing.assert_array_equal(vjp(np.ones_like(y))[0], [slope])


def test_crelu_blocks_are_not_interleaved():
    """The outgoing pair of filter c is (c, c + C)."""
    x = np.arange(-3.0, 3).reshape(1, 1, 1, 6)
    np.testing.assert_array_equal(ops.crelu(x)[0, 0, 0], [0, 0, 0, 0, 1, 2, 3, 2, 1, 0, 0, 0])


@on_devices
@given(data=st.data())
def test_switches_point_to_the_first_maximum_inside_the_image(device, data):
    """Small integers and infinities: many ties, some windows all -inf, some with NaN."""
    (x,), static = data.draw(st.composite(draw.pool)())
    generator = draw.rng(data.draw)
    values = [-np.inf, -np.inf, 0.0, 1.0, 2.0, np.nan] if data.draw(st.booleans()) else [-np.inf, 0.0, 1.0]
    x = generator.choice(values, x.shape)
    there = device.put(x)
    switches = ops.max_pool2d_switches(there, **static)
    np.testing.assert_array_equal(device.get(switches), reference.pool.max_pool2d_switches(x, **static))
    y, vjp = ops.max_pool2d.pair(there, **static)
    np.testing.assert_array_equal(device.get(y), reference.pool.max_pool2d(x, **static))
    # the gradient of the sum counts, for every pixel, the windows that point to it: all of them inside the image
    assert float(vjp(device.xp.ones_like(y))[0].sum()) == y.size


@on_devices
def test_in_a_tie_the_first_maximum_in_row_major_order_gets_the_gradient(device):
    """A 3x3 image of ones, 2x2 windows with stride 1: each window points to its upper left pixel."""
    _, vjp = ops.max_pool2d.pair(device.put(np.ones((1, 3, 3, 1))), k=2, stride=1)
    (gx,) = vjp(device.put(np.arange(1.0, 5.0).reshape(1, 2, 2, 1)))
    np.testing.assert_array_equal(device.get(gx)[0, :, :, 0], [[1, 2, 0], [3, 4, 0], [0, 0, 0]])


def test_switches_of_an_image_of_minus_infinities():
    """The first cell of each window that lies inside the image, also where windows overlap the padding."""
    x = np.full((1, 4, 5, 1), -np.inf)
    for static in ({"k": 3, "stride": 2, "pad": 2}, {"k": 3, "stride": 1, "pad": ((2, 0), (1, 2))}):
        np.testing.assert_array_equal(
            ops.max_pool2d_switches(x, **static), reference.pool.max_pool2d_switches(x, **static)
        )


def test_antirectifier_of_a_short_vector():
    """Where eps wins, the vector is only scaled."""
    x = np.array([[0.1, 0.2, -0.4]])
    d = x - x.mean()
    np.testing.assert_allclose(ops.crelu_inverse(ops.antirectifier(x, eps=100.0)), d / 10)
    check_gradient(ops.antirectifier, x, eps=100.0)


def test_dropout_drops_exactly_the_share_that_it_divides_by():
    """Values below the threshold are dropped, the threshold itself is kept; a rate of almost 1 still divides by > 0."""
    stream = Stream(0).child("dropout")
    drawn = int(stream.uniform16(1, 1)[0, 0])
    x = np.ones((1, 1))
    assert ops.dropout(x, rate=drawn / 65536, stream=stream) == 65536 / (65536 - drawn)
    assert ops.dropout(x, rate=(drawn + 1) / 65536, stream=stream) == 0
    assert np.isfinite(ops.dropout(np.ones((9, 999)), rate=0.9999999, stream=stream)).all()


def test_switches_of_a_large_window():
    x = np.arange(17 * 17.0).reshape(1, 17, 17, 1)
    switches = ops.max_pool2d_switches(x, k=17)
    assert switches.item() == 17 * 17 - 1
    assert switches.dtype == np.int32


def test_given_batch_moments_change_nothing():
    """The layer computes them once, for the running statistics and for the normalisation."""
    rng = np.random.default_rng(0)
    x, gamma, beta = rng.normal(size=(5, 3, 2, 4)), rng.normal(size=4), rng.normal(size=4)
    y, vjp = ops.batch_norm.pair(x, gamma, beta)
    y_given, vjp_given = ops.batch_norm.pair(x, gamma, beta, moments=ops.batch_moments(x))
    np.testing.assert_array_equal(y, y_given)
    for a, b in zip(vjp(y), vjp_given(y), strict=True):
        np.testing.assert_array_equal(a, b)


@on_devices
def test_batch_moments(device):
    x = np.random.default_rng(0).normal(3, 2, size=(5, 3, 2, 4))
    mean, var = ops.batch_moments(device.put(x))
    np.testing.assert_allclose(device.get(mean), x.mean((0, 1, 2)))
    np.testing.assert_allclose(device.get(var), x.var((0, 1, 2)))


def test_batch_moments_of_integers_are_refused():
    with pytest.raises(TypeError, match="batch_moments: x has dtype uint8; only float32 and float64"):
        ops.batch_moments(np.full((100, 4), 200, np.uint8))


def test_sums_over_a_batch_keep_single_precision():
    """A running sum over 10^6 positions would lose several digits."""
    x = np.full((256, 64, 64, 1), 0.1, np.float32)
    mean, var = ops.batch_moments(x)
    np.testing.assert_allclose(mean, np.float32(0.1), rtol=1e-6)
    assert abs(var.item()) < 1e-12
    _, vjp = ops.conv2d.pair(x, np.ones((1, 1, 1, 1), np.float32), np.zeros(1, np.float32))
    np.testing.assert_allclose(vjp(x)[2], x.size * 0.1, rtol=1e-6)


def test_the_environment_switches_fast_versions_off(monkeypatch):
    used = []
    monkeypatch.setattr(
        ops.conv2d,
        "faster",
        [(fits, lambda *a, f=f, **s: used.append(1) or f(*a, **s)) for fits, f in ops.conv2d.faster],
    )
    x, w = np.ones((1, 2, 2, 3)), np.ones((1, 1, 3, 4))
    monkeypatch.setenv("MINICNN_FAST", "0")
    ops.conv2d(x, w)
    assert not used
    monkeypatch.setenv("MINICNN_FAST", "1")
    ops.conv2d(x, w)
    assert used == [1]


def test_elementary_functions_at_their_ends():
    """The sigmoid never overflows; x^0 is 1 with derivative 0, also at 0; x^p has NumPy's infinities and NaN."""
    for dtype in ("float32", "float64"):
        y, vjp = ops.sigmoid.pair(np.array([-1e4, -np.inf, 0, 1e4, np.inf], dtype))
        np.testing.assert_array_equal(y, [0, 0, 0.5, 1, 1])
        np.testing.assert_array_equal(vjp(np.ones_like(y))[0], [0, 0, 0.25, 0, 0])
    y, vjp = ops.power.pair(np.array([0.0, -2, 3]), exponent=0)
    np.testing.assert_array_equal(y, [1, 1, 1])
    np.testing.assert_array_equal(vjp(np.ones(3))[0], [0, 0, 0])
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(ops.power(np.array([0.0, -1]), exponent=-0.5), [np.inf, np.nan])
        np.testing.assert_array_equal(ops.log(np.array([0.0, -1])), [-np.inf, np.nan])
