"""Images from deep features, all layers at once: what comes back, and what stops it."""

import numpy as np
import pytest

from minicnn.theory.joint import invert_jointly, residual
from minicnn.theory.piecewise import Known, Network, Stage
from minicnn.theory.reconstruction import Layer, invert, ratio
from tests.devices import on_devices
from tests.theory.test_piecewise import make


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


def test_steps_that_do_not_help_are_not_taken():
    """A narrow ReLU network with a pool and no switches: some steps fail, and the residual never grows."""
    generator = np.random.default_rng(1)
    network = Network(make(generator, (3, 4, 3), "relu", (0,)), 8)
    known = network.features(generator.uniform(0, 1, (1, 8, 8, 2)))._replace(switches=None)
    found = invert_jointly(network, known, low=0.0, high=1.0, steps=12, inner=10)
    change = np.diff(found.residuals[:, 0])
    assert (change <= 0).all()
    assert (change == 0).sum() > 2
    assert (change < 0).sum() > 2


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
        (lambda: invert_jointly(Network(STAGES, 5), Known(np.ones((1, 4, 5, 2))), low=0.0, high=1.0), "do not fit"),
        (lambda: invert_jointly(Network(STAGES, 5), Known(np.full((1, 5, 5, 2), np.nan)), low=0.0, high=1.0), "finite"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_picture_of_one_colour_is_no_place_to_start():
    """max over 2x2 cells, which is to be 0.2: from 0.5 in all cells, lowering the first of them helps nobody.

    From noise each step lowers the cell that is the largest, until none is above 0.2.
    """
    one = Layer(np.ones((1, 1, 1, 1)), None, 1, 0)
    pool = {"k": 2, "stride": 2, "pad": 0, "ceil": False}
    network = Network([Stage(one, "relu", pool), Stage(one, "relu")], 4)
    x = np.full((1, 4, 4, 1), 0.2)
    known = network.features(x)._replace(switches=None)
    stuck = invert_jointly(network, known, low=0.0, high=1.0, start=np.full_like(x, 0.5))
    np.testing.assert_array_equal(stuck.x, 0.5)
    assert not stuck.converged.any()
    found = invert_jointly(network, known, low=0.0, high=1.0)
    assert found.converged.all()
    np.testing.assert_allclose(found.x.reshape(2, 2, 2, 2).max(axis=(1, 3)), 0.2, atol=1e-3)


def test_the_start_is_noise_in_the_box():
    """With no step: around the middle, an eighth of the box, cut to it; the same for every image and in every call."""
    network = Network(make(np.random.default_rng(0), (2,), "crelu"), 32)
    known = network.features(np.zeros((2, 32, 32, 2)))
    x, again = (invert_jointly(network, known, low=-1.0, high=3.0, steps=0).x for _ in range(2))
    assert x.mean() == pytest.approx(1, abs=0.05)
    assert x.std() == pytest.approx(0.5, abs=0.03)
    assert x.min() >= -1
    np.testing.assert_array_equal(x, again)
    np.testing.assert_array_equal(x[0], x[1])
