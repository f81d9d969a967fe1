"""How to draw arguments: functions of hypothesis' `draw` that give (arrays, static).

Data is kink-free by construction: all magnitudes are distinct and away from zero, so that nothing changes sign or
order within a finite difference.
"""

import numpy as np
from hypothesis import strategies as st

from minicnn import ops

SMALL, FEW = st.integers(1, 4), st.integers(1, 3)
TINY_STEP = 1e-6  # of finite differences; values below are far wider apart


def rng(draw):
    return np.random.default_rng(draw(st.integers(0, 2**32 - 1)))


def distinct(generator, *shape):
    """Values in (-1, 1), magnitudes at least 1/n apart and at least 1/(2n) from zero, n the size."""
    n = int(np.prod(shape))
    values = (generator.permutation(n) + 0.5) / max(n, 1)
    return (values * generator.choice([-1.0, 1.0], n)).reshape(shape)


def view(draw, array):
    """The same numbers with other strides: every k-th of an array k times as long, backwards, axes swapped."""
    step = draw(
        st.sampled_from([1, 2, 4, 8, -1])
    )  # 8 and 4: where NumPy's own `negative` goes wrong: fast/cpu/elementwise.py, crelu
    longer = np.zeros((*array.shape[:-1], array.shape[-1] * abs(step)), array.dtype)
    if draw(st.booleans()):
        longer = np.asfortranarray(longer)
    seen = longer[..., ::step]
    seen[...] = array
    return seen


def any_shape(draw, least_ndim=1, most_ndim=4):
    return tuple(draw(st.lists(SMALL, min_size=least_ndim, max_size=most_ndim)))


def one_array(draw):
    return (distinct(rng(draw), *any_shape(draw)),), {}


def positive(draw):
    """One array of numbers between 0.5 and 1.5."""
    (x,), _ = one_array(draw)
    return (np.abs(x) + 0.5,), {}


def power(draw):
    """Whole exponents of numbers of either sign, any of positive ones."""
    if draw(st.booleans()):
        return one_array(draw)[0], {"exponent": draw(st.sampled_from([0, 1, 2, 3.0]))}
    return positive(draw)[0], {"exponent": draw(st.sampled_from([-2, -0.5, 0.5, 1.5]))}


def getitem(draw):
    """Numbers, slices in both directions, new axes and dots."""
    (x,), _ = one_array(draw)
    at = []
    for size in x.shape[: draw(st.integers(0, x.ndim))]:
        number = st.integers(-size, size - 1)
        ends = st.one_of(st.none(), st.integers(-size - 1, size + 1))
        slices = st.builds(slice, ends, ends, st.sampled_from([None, 1, 2, -1, -2]))
        at += [None] * draw(st.integers(0, 1)) + [draw(st.one_of(number, slices))]
    if draw(st.booleans()):
        at.insert(draw(st.integers(0, len(at))), Ellipsis)
        if at.index(Ellipsis) < len(at) - 1:  # what follows it speaks of the last axes, which have other sizes
            at = at[: at.index(Ellipsis) + 1]
    return (x,), {"at": at[0] if len(at) == 1 else tuple(at)}


def with_axis(draw, even=False):
    shape = list(any_shape(draw))
    axis = draw(st.integers(-len(shape), len(shape) - 1))
    if even:
        shape[axis] *= 2
    return (distinct(rng(draw), *shape),), {"axis": axis}


def broadcastable(draw):
    """Two arrays that broadcast, the second away from zero."""
    shape = any_shape(draw, least_ndim=0)
    generator = rng(draw)

    def shape_of_one():
        kept = tuple(1 if draw(st.booleans()) else n for n in shape)
        return kept[draw(st.integers(0, len(kept))) :]

    return (distinct(generator, *shape_of_one()), distinct(generator, *shape_of_one())), {}


def matrices(draw):
    m, k, n = (draw(SMALL) for _ in range(3))
    generator = rng(draw)
    return (distinct(generator, m, k), distinct(generator, k, n)), {}


def linear(draw):
    (x, w), _ = matrices(draw)
    b = distinct(rng(draw), w.shape[1])
    return (x, w, b) if draw(st.booleans()) else (x, w), {}


def reduction(draw):
    (x,), _ = one_array(draw)
    axes = draw(st.one_of(st.none(), st.sets(st.integers(0, x.ndim - 1)).map(lambda s: tuple(sorted(s)))))
    if axes and draw(st.booleans()):
        axes = axes[0] - x.ndim
    return (x,), {"axis": axes, "keepdims": draw(st.booleans())}


def reshape(draw):
    (x,), _ = one_array(draw)
    return (x,), {"shape": draw(st.sampled_from([(-1,), (x.size,), x.shape[::-1], (1, *x.shape), (x.shape[0], -1)]))}


def several(draw):
    shape = list(any_shape(draw))
    axis = draw(st.integers(-len(shape), len(shape) - 1))
    generator, arrays = rng(draw), []
    for _ in range(draw(st.integers(1, 3))):
        shape[axis] = draw(SMALL)
        arrays.append(distinct(generator, *shape))
    return tuple(arrays), {"axis": axis}


def sizes(draw, least, most):
    """An int or a pair."""
    one = st.integers(least, most)
    return draw(st.one_of(one, st.tuples(one, one)))


def padding(draw, most):
    """An int, a pair, or ((top, bottom), (left, right))."""
    one = st.integers(0, most)
    return draw(st.one_of(one, st.tuples(one, one), st.tuples(st.tuples(one, one), st.tuples(one, one))))


def conv(draw, channels=SMALL):
    kh, kw = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    pad = padding(draw, 2)
    n, c, f = draw(st.integers(1, 3)), draw(channels), draw(channels)
    h, w = draw(st.integers(kh, kh + 4)), draw(st.integers(kw, kw + 4))
    generator = rng(draw)
    arrays = (distinct(generator, n, h, w, c), distinct(generator, kh, kw, c, f))
    if draw(st.booleans()):
        arrays += (distinct(generator, f),)
    return arrays, {"stride": sizes(draw, 1, 3), "pad": pad}


def pointwise_conv(draw, channels=SMALL):
    """A convolution with kernel 1, which has a faster version, with and without pad."""
    n, h, w, c, f = (draw(s) for s in (SMALL, SMALL, SMALL, channels, channels))
    generator = rng(draw)
    arrays = (distinct(generator, n, h, w, c), distinct(generator, 1, 1, c, f))
    return arrays + ((distinct(generator, f),) if draw(st.booleans()) else ()), {"pad": padding(draw, 2)}


def any_conv(draw, channels=SMALL):
    return (pointwise_conv if draw(st.integers(0, 3)) == 0 else conv)(draw, channels)


def activated(drawing):
    """A drawn convolution with an activation: its bias is such that no output is near the kink."""

    def draw_it(draw):
        (x, w, *_), static = drawing(draw)
        y = np.sort(ops.conv2d.textbook(x, w, **static)[0].reshape(-1, w.shape[3]), axis=0)
        below, above = y[:1] - 1, y[:1]  # all are positive, unless there is a gap where the signs can change
        if len(y) > 1:
            at = np.diff(y, axis=0).argmax(axis=0)[None]
            gap = np.take_along_axis(y, at, 0), np.take_along_axis(y, at + 1, 0)
            wide = gap[1] - gap[0] > 1e-3
            below, above = np.where(wide, gap[0], below), np.where(wide, gap[1], above)
        b = -(below + above)[0] / 2
        return (x, w, b), {**static, "activation": draw(st.sampled_from(["relu", "crelu"]))}

    return draw_it


def normalised(drawing):
    """The same with a scale, of either sign, and a shift; perhaps without the activation."""

    def draw_it(draw):
        (x, w, b), static = activated(drawing)(draw)
        scale = distinct(rng(draw), w.shape[3]) + draw(st.sampled_from([-3.0, 3.0]))
        if draw(st.booleans()):
            static["activation"] = None
        return (x, w, scale, b * scale), static

    return draw_it


def pool(draw, channels=FEW):
    k = sizes(draw, 1, 3)
    kh, kw = k if isinstance(k, tuple) else (k, k)
    h, w = draw(st.integers(kh, kh + 5)), draw(st.integers(kw, kw + 5))
    x = distinct(rng(draw), draw(st.integers(1, 2)), h, w, draw(channels))
    static = {"k": k, "pad": padding(draw, min(kh, kw) - 1), "ceil": draw(st.booleans())}
    if draw(st.booleans()):
        static["stride"] = sizes(draw, 1, 4)
    return (x,), static


def avg_pool(draw):
    arrays, static = pool(draw)
    return arrays, {**static, "count_include_pad": draw(st.booleans())}


def images(draw):
    return (distinct(rng(draw), *(draw(SMALL) for _ in range(4))),), {}


def norm(draw):
    shape = (draw(st.integers(2, 5)), *any_shape(draw, most_ndim=3))
    generator = rng(draw)
    c = shape[-1]
    static = {"eps": draw(st.sampled_from([1e-5, 1e-3]))}
    if draw(st.booleans()):
        static |= {"moments": (generator.normal(size=c), generator.uniform(0.5, 2, c)), "fixed": True}
    return (distinct(generator, *shape), distinct(generator, c), distinct(generator, c)), static


def vectors(draw):
    """Rows 0, 1, 2, ... in some order, moved a little: of a certain length, and no entry at the mean of its row."""
    shape = (*any_shape(draw, most_ndim=3), draw(st.integers(2, 5)))
    generator = rng(draw)
    rows = np.broadcast_to(np.arange(shape[-1]), shape) + generator.uniform(-0.3, 0.3, shape)
    return (generator.permuted(rows, axis=-1),), {}


def logits(draw):
    n, classes = draw(SMALL), draw(SMALL)
    generator = rng(draw)
    static = {"smoothing": draw(st.sampled_from([0.05, 0.2, 0.9]))} if draw(st.booleans()) else {}
    return (distinct(generator, n, classes) * 5, generator.integers(0, classes, n)), static
