"""conv2d against torch.nn.functional.conv2d."""

from typing import Any, NamedTuple

import pytest

from minicnn import Parameter, Tape, ops
from tests.torch_parity.convert import F, assert_close_to_largest, compare, leaf, nchw, nhwc, normal, oihw, torch

pytestmark = pytest.mark.usefixtures("version")


class Case(NamedTuple):
    k: tuple[int, int]
    stride: Any = 1
    pad: Any = 0
    x: tuple[int, int, int, int] = (2, 9, 12, 3)  # (N, H, W, C)
    filters: int = 4


GRID = {
    f"k{k}-s{stride}-p{pad}": Case((k, k), stride, pad, x=(2, k + 3, k + 6, 3))
    for k in range(1, 12)
    for stride in range(1, 5)
    for pad in range(3)
}
SPECIAL = {
    "k1x3": Case((1, 3)),
    "k3x1-p2": Case((3, 1), pad=2),
    "k2x5-s2-p1": Case((2, 5), stride=2, pad=1),
    "k7x4-s3-p2": Case((7, 4), stride=3, pad=2),
    "k11x1-p5x0": Case((11, 1), pad=(5, 0)),
    "k1x11-s4-p0x5": Case((1, 11), stride=4, pad=(0, 5)),
    "s1x2": Case((3, 3), stride=(1, 2)),
    "s4x1-p1x2": Case((3, 3), stride=(4, 1), pad=(1, 2)),
    "pad-bottom-right": Case((2, 2), pad=((0, 1), (0, 1))),
    "pad-top-left": Case((2, 2), stride=2, pad=((1, 0), (1, 0))),
    "pad-all-different": Case((4, 3), pad=((0, 3), (2, 1))),
    "pad-all-different-s3": Case((5, 2), stride=3, pad=((4, 1), (0, 2))),
    "pad-larger-than-k": Case((1, 2), pad=((3, 2), (4, 3))),
    "k1-pad-only-right": Case((1, 1), pad=((0, 0), (0, 1))),
    "pixel-k1": Case((1, 1), x=(3, 1, 1, 2)),
    "pixel-k3-p1": Case((3, 3), pad=1, x=(3, 1, 1, 2)),
    "pixel-k5-p2-s4": Case((5, 5), stride=4, pad=2, x=(2, 1, 1, 3)),
    "pixel-all-one": Case((1, 1), x=(1, 1, 1, 1), filters=1),
    "pixel-k2-pad-top-left": Case((2, 2), pad=((1, 0), (1, 0)), x=(2, 1, 1, 2)),
    "one-row": Case((1, 2), x=(2, 1, 7, 3)),
    "one-column": Case((3, 1), stride=2, pad=1, x=(2, 5, 1, 3)),
    "one-channel": Case((3, 3), pad=1, x=(2, 5, 7, 1)),
    "one-filter": Case((3, 3), stride=2, x=(2, 7, 5, 3), filters=1),
    "one-channel-one-filter": Case((2, 2), x=(2, 3, 5, 1), filters=1),
    "one-image": Case((3, 3), pad=1, x=(1, 5, 6, 3)),
    "one-image-k1": Case((1, 1), x=(1, 7, 3, 5)),
    "k-is-the-image": Case((5, 7), x=(2, 5, 7, 3)),
    "k-is-the-padded-image": Case((11, 9), pad=2, x=(2, 7, 5, 3)),
    "k1-no-overlap": Case((1, 1), stride=(2, 3), x=(2, 5, 7, 3)),
    "several-pieces": Case((5, 5), stride=1, pad=2, x=(5, 20, 20, 24)),  # of the batch: minicnn/parallel.py
}
CASES = GRID | SPECIAL


def torch_conv2d(x, w, b=None, *, stride, pad):
    x = nchw(x)
    if isinstance(pad, tuple) and isinstance(pad[0], tuple):
        (top, bottom), (left, right) = pad
        x, pad = F.pad(x, (left, right, top, bottom)), 0
    return nhwc(F.conv2d(x, oihw(w), b, stride=stride, padding=pad))


@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no-bias"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_conv2d(case, bias, dtype):
    c, f = case.x[3], case.filters
    shapes = [case.x, (*case.k, c, f), (f,)] if bias else [case.x, (*case.k, c, f)]
    options = {"stride": case.stride, "pad": case.pad}
    compare(
        lambda *args: ops.conv2d(*args, **options),
        lambda *args: torch_conv2d(*args, **options),
        *normal(dtype, *shapes),
    )


@pytest.mark.parametrize("k", [1, 3])
def test_filters_of_a_first_layer(k, dtype):
    """The images are plain arrays: their gradient is not computed, that of the filters is the same."""
    x, w, b = normal(dtype, (2, 5, 6, 3), (k, k, 3, 4), (4,))
    ours = [Parameter(w), Parameter(b)]
    with Tape() as tape:
        loss = ops.reduce_sum(ops.conv2d(x, *ours))
    tape.backward(loss)
    theirs = [leaf(w), leaf(b)]
    torch_conv2d(torch.tensor(x), *theirs, stride=1, pad=0).sum().backward()
    for p, q, what in zip(ours, theirs, ["gw", "gb"], strict=True):
        assert_close_to_largest(p.grad, q.grad, dtype, what)


def test_one_by_one_has_a_version_to_dispatch_to(dtype):
    """So for k = 1 `textbook` and `dispatch` above are two different programs."""
    x, w = normal(dtype, SPECIAL["pixel-k1"].x, (1, 1, 2, 4))
    assert any(fits(x, w) for fits, _ in ops.conv2d.faster)
