"""Theory and analyses of arrays on a GPU that is not the current one: all that takes arrays, against the CPU."""

import inspect
from importlib import import_module
from itertools import chain
from pkgutil import iter_modules

import numpy as np
import pytest

import minicnn.analysis
import minicnn.theory
from minicnn import backend, nn
from minicnn.analysis import correlation, invariance, inversion, layers, pairing, stimuli
from minicnn.backend import CPU, is_array, to_host
from minicnn.random import Stream
from minicnn.theory import (
    frames,
    joint,
    operators,
    piecewise,
    pooled_maps,
    pooling,
    rademacher,
    reconstruction,
    subspace,
)
from minicnn.theory.monte_carlo import Estimate, MonteCarlo

if problem := backend.gpu_problem():
    pytest.skip(f"no GPU: {problem}", allow_module_level=True)

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(backend.gpu_count() < 2, reason="there is one GPU")]

RNG = np.random.default_rng(0)
W, V, COEFFICIENTS = (
    RNG.standard_normal(shape) for shape in ((6, 4), (6,), (4,))
)  # a frame, a signal, its coefficients
X, FILTERS, BIAS = (RNG.standard_normal(shape) for shape in ((2, 8, 8, 3), (3, 3, 3, 12), (12,)))  # images, a layer
RESPONSES = RNG.standard_normal((2, 8, 8, 12))
NEXT = RNG.standard_normal((3, 3, 24, 4))  # filters that follow it
PICTURES = RNG.standard_normal((2, 9, 9, 3)).astype(np.float32)
SHORT, SHIFTS = RNG.standard_normal((3, 2)), RNG.standard_normal((2, 6))  # filters of signals, and their coefficients
CLASS = RNG.standard_normal((3, 5))  # three functions on five points
POOL = {"k": 3, "stride": 2, "pad": 1, "ceil": False}
BY = MonteCarlo(20, Stream(0))


def layer_of(put):
    return reconstruction.Layer(put(FILTERS), put(BIAS), 1, 1)


def convolution(put):
    return operators.Convolution(put(FILTERS), (8, 8), pad=1)


def network(put):
    second = reconstruction.Layer(put(NEXT), None, 1, 1)
    return piecewise.Network([piecewise.Stage(layer_of(put), "crelu", POOL), piecewise.Stage(second, "crelu")], (8, 8))


def pooled(put):
    return pooled_maps.PooledConvolution(put(FILTERS), pad=1)


def jointly(put):
    of = network(put)
    return joint.invert_jointly(of, of.features(put(X)), low=put(np.array(-3.0)), high=put(np.array(3.0)), steps=3)


def model(device):
    """Two layers that can be inverted, with a pool between them, and one that reads them."""
    first, second = nn.Conv2d(3, 6, 3, pad=1), nn.Conv2d(12, 4, 3, pad=1)
    pool, last = nn.MaxPool2d(3, stride=2), nn.Linear(8, 5)
    return nn.Sequential(first, nn.CReLU(), pool, second, nn.CReLU(), nn.GlobalAvgPool(), last).initialise(0).to(device)


def steps(device):
    return inversion.crelu_steps(model(device))


def measured(device):
    def batches():
        yield PICTURES

    found = invariance.invariance(model(device), batches, len(PICTURES), stimuli.cifar_stimuli(), device=device)
    return [[score.threshold, score.fired, *score.both.values()] for of in found.values() for score in of.values()]


# What is called, and how: with what brings an array to a device, or with the device.
CALLS = {
    frames.check_matrix: lambda put: frames.check_matrix("here", put(W)),
    frames.analysis: lambda put: frames.analysis(put(W), put(V)),
    frames.synthesis: lambda put: frames.synthesis(put(W), put(COEFFICIENTS)),
    frames.frame_operator: lambda put: frames.frame_operator(put(W), put(V)),
    frames.numerical_rank: lambda put: frames.numerical_rank(put(np.array([3.0, 1.0, 0.0])), (3, 3)),
    frames.frame_bounds: lambda put: frames.frame_bounds(put(W)),
    frames.compact_svd: lambda put: abs(to_host(frames.compact_svd(put(W))[0])),
    frames.pseudoinverse: lambda put: frames.pseudoinverse(put(W)),
    frames.project: lambda put: frames.project(put(W), put(V)),
    frames.norm_bounds: lambda put: frames.norm_bounds(put(W), put(V)),
    frames.shift_matrix: lambda put: frames.shift_matrix(put(SHORT), 8),
    frames.layer_bounds: lambda put: frames.layer_bounds(operators.Convolution(put(FILTERS[..., :2].copy()), (4, 4))),
    operators.check_numbers: lambda put: operators.check_numbers("here", "x", put(X)),
    operators.check_filters: lambda put: operators.check_filters("here", put(FILTERS)),
    operators.on_columns: lambda put: convolution(put).linear_operator() @ X[0].ravel(),
    operators.Convolution: lambda put: (
        convolution(put).frame_operator(put(X)),
        convolution(put).dense(),
        convolution(put).sparse().toarray(),
    ),
    operators.TileInverse: lambda put: operators.TileInverse(convolution(put), 4)(put(X)),
    operators.dot: lambda put: operators.dot(put(X), put(X)),
    operators.norm: lambda put: operators.norm(put(X)),
    operators.positive: lambda put: operators.positive(put(X)),
    reconstruction.features: lambda put: reconstruction.features(put(X), [layer_of(put)]),
    reconstruction.responses: lambda put: reconstruction.responses(put(X[..., :2]), put(BIAS[:1])),
    reconstruction.recover_regions: lambda put: reconstruction.recover_regions(
        put(RESPONSES), put(FILTERS), (8, 8), pad=1
    ),
    reconstruction.least_squares: lambda put: reconstruction.least_squares(
        convolution(put), put(RESPONSES), inverse=operators.TileInverse(convolution(put), 4), iterations=5
    ),
    reconstruction.invert: lambda put: reconstruction.invert(
        reconstruction.features(put(X), [layer_of(put)]), [layer_of(put)], (8, 8)
    ),
    reconstruction.invert_layer: lambda put: reconstruction.invert_layer(
        reconstruction.features(put(X), [layer_of(put)]), layer_of(put), (8, 8), method="global", iterations=200
    ),
    reconstruction.ratio: lambda put: reconstruction.ratio(put(X), put(X[::-1].copy())),
    reconstruction.psnr: lambda put: (
        reconstruction.psnr(put(X), put(X[::-1].copy())),
        reconstruction.psnr(put(X), put(X + 1), peak=2.0),
    ),
    piecewise.Network: lambda put: (
        (of := network(put)).features(put(X)),
        (d := of.jvp(put(X))),
        of.vjp(d),
        of.forward(put(X), [None, None]),
    ),
    joint.residual: lambda put: [joint.residual(put(X), put(abs(X)), name) for name in ("relu", "avr")],
    joint.invert_jointly: jointly,
    pooling.pool_signal: lambda put: pooling.pool_signal(put(SHORT), put(np.arange(8.0) % 3 - 1)),
    pooling.selected: lambda put: pooling.selected(put(SHORT), pooling.pool_signal(put(SHORT), put(V)), 6),
    pooling.reconstruct_signal: lambda put: pooling.reconstruct_signal(
        put(SHORT), pooling.pool_signal(put(SHORT), put(V)), 6
    ),
    pooling.one_of_each_sign: lambda put: pooling.one_of_each_sign(put(SHIFTS)),
    pooling.most_of_one_sign: lambda put: pooling.most_of_one_sign(put(SHIFTS)),
    pooling.theorem_matrices: lambda put: pooling.theorem_matrices(put(SHORT), put(SHIFTS), 8, signs="responses"),
    pooling.ratio_bounds: lambda put: pooling.ratio_bounds(put(W), put(W * 2)),
    pooling.shared_bound: lambda put: pooling.shared_bound(put(W), put(W * 2), 2),
    pooling.unconditional_bound: lambda put: pooling.unconditional_bound(put(W), put(W * 2), 3),
    pooling.noise_gain: lambda put: pooling.noise_gain(put(W)),
    pooling.solve: lambda put: (pooling.solve(put(W), put(COEFFICIENTS)), pooling.solve(put(0 * W), put(COEFFICIENTS))),
    pooled_maps.PooledConvolution: lambda put: (
        (of := pooled(put)).ratios(put(X)),
        of.patches(put(X)),
        of.reconstruct(of.pool(put(X)), [(0, 1, 1)]),
        of.bounds(put(X), [(0, 1, 1)]),
    ),
    rademacher.layer: lambda put: rademacher.layer(put(CLASS), activation="crelu"),
    rademacher.rademacher: lambda put: rademacher.rademacher(put(CLASS), by=BY),
    rademacher.rademacher_linear: lambda put: [
        rademacher.rademacher_linear(put(CLASS), norm=n) for n in (1, 2, np.inf)
    ],
    rademacher.crelu_bounds: lambda put: list(vars(rademacher.crelu_bounds(put(CLASS))).values()),
    subspace.projection_ratio: lambda put: subspace.projection_ratio(put(W), put(V)),
    pairing.pairing: lambda put: pairing.pairing(put(FILTERS)),
    pairing.cosine_with: lambda put: pairing.cosine_with(put(FILTERS), put(FILTERS[::-1].copy())),
    correlation.outgoing_correlation: lambda put: correlation.outgoing_correlation(put(NEXT)),
    stimuli.flip: lambda put: stimuli.flip(put(X)),
    stimuli.translate: lambda put: [stimuli.translate(put(X), 1, -2, fill=fill) for fill in ("edge", "mean")],
    stimuli.rotate: lambda put: stimuli.rotate(put(X), 15),
    invariance.sided: lambda put: [invariance.sided(put(X), side) for side in ("one", "two")],
}

# The same of what is given a device, or a model on it.
ON_DEVICE = {
    subspace.simulated_ratio: lambda device: subspace.simulated_ratio(2, 5, BY, device=device),
    subspace.random_filter_ratio: lambda device: subspace.random_filter_ratio(
        MonteCarlo(2, Stream(0)), channels=4, filters=3, regions=2, device=device
    ),
    pairing.random_mu: lambda device: pairing.random_mu((3, 3, 2, 4), draws=2, stream=Stream(0), device=device),
    layers.responses: lambda device: [z for _, z in layers.responses(model(device), device.put(PICTURES))],
    layers.outgoing_weights: lambda device: [w for w, _ in layers.outgoing_weights(model(device)).values()],
    stimuli.imagenet_stimuli: lambda device: [
        transform(device.put(PICTURES)) for transform in stimuli.imagenet_stimuli(crop=7).transforms.values()
    ],
    invariance.invariance: measured,
    inversion.inputs: lambda device: inversion.inputs(device.put(PICTURES), steps(device))[0],
    inversion.reconstruct: lambda device: inversion.reconstruct(device.put(PICTURES), steps(device), method="region"),
    inversion.pooling_ratios: lambda device: inversion.pooling_ratios(device.put(PICTURES), steps(device)[:1]),
}

# Helpers of those above, and what takes its arrays to the host first.
OTHERS = {"injectivity", "invariance.Largest", "invariance.Thresholds", "invariance.Counter", "inversion.Step"}


def on_the_host(result):
    """The numbers in a result, all of them, each as an array on the host."""
    if isinstance(result, (tuple, list)):
        return list(chain.from_iterable(map(on_the_host, result)))
    if isinstance(result, Estimate):
        return on_the_host(list(vars(result).values()))
    return [] if result is None else [to_host(result) if is_array(result) else np.array(result)]


@pytest.mark.parametrize("work", [*CALLS, *ON_DEVICE], ids=lambda work: f"{work.__module__[8:]}.{work.__name__}")
def test_it_gives_the_numbers_of_the_cpu(work):
    """In float64, or up to float32's rounding where a network computes."""
    other = backend.device("gpu:1")
    backend.device("gpu:0")  # the current one from now on
    if work in CALLS:
        ours, theirs = (on_the_host(CALLS[work](device.put)) for device in (other, CPU))
    else:
        ours, theirs = (on_the_host(ON_DEVICE[work](device)) for device in (other, CPU))
    assert len(ours) == len(theirs)
    tolerance = 1e-6 if work in CALLS else 1e-3
    for one, expected in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, expected, rtol=tolerance, atol=tolerance)


def takes_arrays(thing):
    """Whether a function, or a method of a class, says that it takes or gives arrays of a device."""
    functions = vars(thing).values() if inspect.isclass(thing) else [thing]
    return any("Array" in str(f.__annotations__) for f in functions if inspect.isfunction(f))


def test_nothing_is_left_out():
    missing = []
    for package in (minicnn.theory, minicnn.analysis):
        for found in iter_modules(package.__path__):
            module = import_module(f"{package.__name__}.{found.name}")
            for name, thing in vars(module).items():
                public = (inspect.isfunction(thing) or inspect.isclass(thing)) and name[0] != "_"
                if public and thing.__module__ == module.__name__ and takes_arrays(thing):
                    missing += [] if thing in CALLS or thing in ON_DEVICE else [f"{found.name}.{name}"]
    assert [name for name in missing if name not in OTHERS and name.split(".")[0] not in OTHERS] == []
