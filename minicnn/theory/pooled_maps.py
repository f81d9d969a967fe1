"""What survives max pooling, in every region of a batch of feature maps: Algorithm 2 of the paper, fast.

The notation is that of minicnn/theory/pooling.py.  `reconstruct` gives x' of chosen regions, one SVD each; `ratios`
gives ||x - x'|| / ||x|| of all of them, one Cholesky factorisation each.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from minicnn.backend import Array, array_module, device_of, where_its_arrays_are
from minicnn.ops.conv import conv2d
from minicnn.ops.pool import max_pool2d, max_pool2d_switches
from minicnn.ops.windows import Pad, Size, Windows, as_pair, unfold
from minicnn.parallel import over_batch, pieces
from minicnn.theory.frames import compact_svd
from minicnn.theory.operators import check_filters
from minicnn.theory.pooling import most_of_one_sign, solve


class PooledMaps(NamedTuple):
    """What pooling keeps of N maps; on the last axis F positive phases, then F negative ones."""

    values: Array  # (N, PH, PW, 2 F): p and -q, bias included; 0 where the phase was not active
    switches: Array  # (N, PH, PW, 2 F): integers i kw + j, the cell (i, j) of the pooling window


class RegionBound(NamedTuple):
    """One region: ||x - x'|| / ||x||, and the bounds of theory/pooling.py that need no assumption about x."""

    ratio: float
    shared: float  # sqrt(1 - share l / (mu L))
    unconditional: float  # sqrt(1 - share lambda+_min(W) / (n lambda_max(W^)))
    share: float  # ||Q x||^2 / ||x||^2: what any shift of any filter sees
    mu: int


class PooledConvolution:
    """Convolution (w, b, stride, pad), CReLU and max pooling (k, pool_stride, pool_pad, ceil), and what they keep.

    The region of a pooling window is a patch of ((k - 1) stride + kh) x ((k - 1) stride + kw) pixels.  **At the
    border**, cells that the convolution padded, and cells that no response looks at because the pooling window hangs
    over the edge of the map, belong to the patch with value 0, and filters are not clipped there: x is what the
    convolution saw.  Switches never point outside the map.
    """

    @where_its_arrays_are
    def __init__(
        self,
        w: Array,
        b: Array | None = None,
        *,
        stride: Size = 1,
        pad: Pad = 0,
        k: Size = 3,
        pool_stride: Size = 2,
        pool_pad: Pad = 0,
        ceil: bool = True,
    ):
        where = "PooledConvolution"
        check_filters(where, w)
        xp = array_module(w)
        self.w, self.b, self.k, self.device = w, b, as_pair(where, "k", k), device_of(w)
        self._conv: dict[str, Any] = {"stride": stride, "pad": pad}
        self._pool: dict[str, Any] = {"k": k, "stride": pool_stride, "pad": pool_pad, "ceil": ceil}
        (kh, kw, c, f), (sh, sw) = w.shape, as_pair(where, "stride", stride)
        self.patch: tuple[int, int, int] = ((self.k[0] - 1) * sh + kh, (self.k[1] - 1) * sw + kw, c)
        shifts = xp.zeros((*self.patch, *self.k, f))
        for i, j in np.ndindex(self.k):
            shifts[i * sh : i * sh + kh, j * sw : j * sw + kw, :, i, j] = w
        self.shifts = shifts.reshape(math.prod(self.patch), -1)  # (D, M), float64; column (i kw + j) F + f

    @where_its_arrays_are
    def pool(self, x: Array) -> PooledMaps:
        """The pooled values and switches of images (N, H, W, C), in the precision of x."""
        xp = array_module(x)
        y = conv2d(x, *(None if a is None else a.astype(x.dtype) for a in (self.w, self.b)), **self._conv)
        p, q = (xp.maximum(max_pool2d(a, **self._pool), 0) for a in (y, -y))
        switches = [max_pool2d_switches(a, **self._pool) for a in (y, -y)]
        return PooledMaps(xp.concatenate((p, -q), -1), xp.concatenate(switches, -1))

    @where_its_arrays_are
    def patches(self, x: Array) -> Array:
        """Every region of images (N, H, W, C): (N, PH, PW, *patch), a view of the padded images."""
        return unfold(*self._regions(x))

    @where_its_arrays_are
    def reconstruct(self, pooled: PooledMaps, regions: Sequence[tuple[int, int, int]]) -> Array:
        """x' = (W^')+ z of the regions (n, P, Q), one SVD each: (R, *patch), float64.

        Directions that are weaker than the rounding of the pooled values (dead filters, twins) count as not seen.
        """
        xp, eps = array_module(pooled.values), float(np.finfo(pooled.values.dtype).eps)
        columns, z = self._columns_and_responses(pooled)
        found = xp.zeros((len(regions), *self.patch))

        def work(piece: slice) -> None:
            for i, region in enumerate(regions[piece], piece.start):
                active = xp.flatnonzero(pooled.values[region])
                found[i] = solve(self.shifts[:, columns[region][active]], z[region][active], eps).reshape(self.patch)

        over_batch(work, len(regions), 3 * 8 * len(self.shifts) * 2 * self.w.shape[3], found)
        return found

    @where_its_arrays_are
    def ratios(self, x: Array) -> Array:
        """||x - x'|| / ||x|| of every region of images x (N, H, W, C): (N, PH, PW), float64; 0 where x is 0.

        x' is a projection, so ||x - x'||^2 = ||x||^2 - z' G+ z with the Gram matrix G = W^' W^, looked up in that of
        all shifts; one Cholesky factorisation per region, in float64.  Columns are scaled to norm 1 and
        delta = 20 F eps is added to the diagonal, so dependent shifts do no harm.  The square of the ratio is right to
        about delta / (least non-zero eigenvalue of G): where all of x is recovered, expect 1e-6, not 1e-16.
        """
        xp = array_module(x)
        lengths = xp.sqrt((self.shifts**2).sum(axis=0))  # (M,)
        lengths = xp.where(lengths > 0, lengths, 1)
        gram = xp.zeros((len(lengths) + 1, len(lengths) + 1))  # the last row and column: a phase that is not active
        gram[:-1, :-1] = (self.shifts / lengths).T @ (self.shifts / lengths)
        result = xp.zeros((len(x), *self._regions(x[:0])[1].out))
        for piece in pieces(len(x), 8 * math.prod(x.shape[1:]), x):
            images = x[piece].astype(np.float64)
            pooled, square = self.pool(images), self._squares(images)  # square (n, PH, PW)
            if not bool(xp.isfinite(square).all()):
                raise ValueError("PooledConvolution: x holds NaN or infinite values, or its squares overflow")
            columns, z = self._columns_and_responses(pooled)
            active = pooled.values != 0
            z = xp.where(active, z / lengths[columns], 0) / xp.sqrt(xp.where(square > 0, square, 1))[..., None]
            kept = _explained(gram, xp.where(active, columns, len(lengths)), z)
            result[piece] = xp.sqrt(xp.where(square > 0, xp.maximum(1 - kept, 0), 0))
        return result

    @where_its_arrays_are
    def bounds(self, x: Array, regions: Sequence[tuple[int, int, int]]) -> list[RegionBound]:
        """What Algorithm 2 recovers of the regions (n, P, Q) of x, and what it must: without bias, inside the map.

        c = W+ x over all n shifts W of all filters; its signs choose W~.
        """
        if self.b is not None and bool((self.b != 0).any()):
            raise ValueError("PooledConvolution.bounds: a bias can silence a phase; leave it out")
        xp, f = array_module(x), self.w.shape[3]
        u, s, v = compact_svd(self.shifts)  # of W (D, M)
        pooled, patches = self.pool(x.astype(np.float64)), self.patches(x.astype(np.float64))
        columns, z = self._columns_and_responses(pooled)
        found = []
        for region in regions:
            patch = patches[region].reshape(-1)
            active = xp.flatnonzero(pooled.values[region])
            inside, norm = u.T @ patch, float(patch @ patch)
            c = (v @ (inside / s)).reshape(-1, f).T  # (F, n)
            occurs = xp.concatenate(((c > 0).any(axis=1), (c < 0).any(axis=1)))[active]
            W_hat = self.shifts[:, columns[region][active]]
            error, share = patch - solve(W_hat, z[region][active]), float(inside @ inside) / norm
            mu, least = most_of_one_sign(c), float(s[-1]) ** 2
            all_of_it, chosen = (float(xp.linalg.norm(a, 2)) ** 2 for a in (W_hat, W_hat[:, occurs]))
            ratio = math.sqrt(float(error @ error) / norm)
            shared, unconditional = (
                math.sqrt(1 - share * least / (n * largest)) for n, largest in ((mu, chosen), (c.shape[1], all_of_it))
            )
            found.append(RegionBound(ratio, shared, unconditional, share, mu))
        return found

    def _regions(self, x: Array) -> tuple[Array, Windows]:
        """The part of the padded images that the convolution looks at, and the windows that are its regions."""
        conv = Windows.over("PooledConvolution", x, self.w.shape[:2], **self._conv)
        maps = np.empty((1, *conv.out, 1), np.float32)
        pool = Windows.over("PooledConvolution", maps, **self._pool)
        height, width = ((out - 1) * s + k for out, s, k in zip(conv.out, conv.stride, conv.k, strict=True))
        stride = (pool.stride[0] * conv.stride[0], pool.stride[1] * conv.stride[1])
        pad = ((pool.pad[0][0] * conv.stride[0], 0), (pool.pad[1][0] * conv.stride[1], 0))
        windows = Windows((height, width), self.patch[:2], stride, pad, pool.out)
        return conv.padded(x)[:, :height, :width], windows

    def _squares(self, x: Array) -> Array:
        """||x||^2 of every region: (N, H, W, C) -> (N, PH, PW)."""
        image, windows = self._regions(x)
        total = array_module(x).zeros((len(x), *windows.out))
        for _, _, cell in windows.cells(windows.padded((image**2).sum(axis=-1, keepdims=True))):
            total += cell[..., 0]
        return total

    def _columns_and_responses(self, pooled: PooledMaps) -> tuple[Array, Array]:
        """The columns of `shifts` that the switches select, and W' x there: the values without the bias."""
        xp, f = array_module(pooled.values), self.w.shape[3]
        values, switches = pooled
        if values.shape != switches.shape or values.ndim != 4 or values.shape[3] != 2 * f:
            shapes = f"{values.shape} and {switches.shape}"
            raise ValueError(f"PooledConvolution: values and switches must be (N, PH, PW, {2 * f}), got {shapes}")
        if switches.dtype.kind not in "iu" or not bool(((switches >= 0) & (switches < math.prod(self.k))).all()):
            raise ValueError(f"PooledConvolution: switches must be integers in 0 .. {math.prod(self.k) - 1}")
        bias = 0.0 if self.b is None else xp.concatenate((self.b, self.b)).astype(np.float64)
        return switches.astype(np.int64) * f + xp.arange(2 * f) % f, values.astype(np.float64) - bias


def _explained(gram: Array, columns: Array, z: Array) -> Array:
    """z' G+ z of every region, G = gram[columns][:, columns]: (M + 1, M + 1), (..., m), (..., m) -> (...).

    The last row of the Cholesky factor L of [[G, z], [z', 2]] is L^-1 z, and z' G^-1 z = ||L^-1 z||^2 <= 1.
    """
    xp, m = array_module(z), z.shape[-1]
    columns, flat = columns.reshape(-1, m), z.reshape(-1, m)
    result = xp.zeros(len(flat))
    delta = 10 * m * float(np.finfo(np.float64).eps)

    def work(piece: slice) -> None:
        pairs = columns[piece][:, :, None] * len(gram) + columns[piece][:, None, :]  # (n, m, m)
        bordered = xp.empty((len(pairs), m + 1, m + 1))
        bordered[:, :m, :m] = gram.reshape(-1).take(pairs)
        bordered.reshape(len(pairs), -1)[:, :: m + 2] = 1 + delta  # the diagonal
        bordered[:, m, :m] = bordered[:, :m, m] = flat[piece]
        bordered[:, m, m] = 2
        result[piece] = (xp.linalg.cholesky(bordered)[:, m, :m] ** 2).sum(axis=1)

    over_batch(work, len(flat), 3 * 8 * (m + 1) ** 2, flat)
    if not bool((result <= 1 + 1e-3).all()):  # NaN too
        raise ArithmeticError("PooledConvolution: a projection longer than x: responses and switches do not match")
    return result.reshape(z.shape[:-1])
