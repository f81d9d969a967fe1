// The windows of images as rows of a matrix, and back.  Window (p, q) of image n starts at row p sh - top.

// x (N, H, W, C) -> rows (N OH OW, kh kw C), zeros outside the image.  Row a of a window is kw C numbers that lie side
// by side in both; the one that thread i takes is `along` from their start.
template <int LANES>
__device__ void unfold_lanes(REAL* rows, const REAL* x, WINDOWS, u64 by_kwC, u64 by_kh, u64 by_OW, u64 by_OH, INDEX count) {
    EACH(i, count) {
        INDEX n = i, along = split(n, kw * C, by_kwC), a = split(n, kh, by_kh);
        INDEX q = split(n, OW, by_OW), p = split(n, OH, by_OH);
        INDEX h = p * sh - top + a, at = (q * sw - left) * C + along;  // a row of the image is W C numbers
        bool inside = 0 <= h && h < H && 0 <= at && at < W * C;
        store<LANES>(rows, i, inside ? load<LANES>(x, (n * H + h) * W * C + at) : Lanes<REAL, LANES>{});
    }
}

WITH_LANES(unfold, (REAL* __restrict__ rows, const REAL* __restrict__ x, WINDOWS, u64 by_kwC, u64 by_kh, u64 by_OW,
                    u64 by_OH, INDEX count),
           (rows, x, THE_WINDOWS, by_kwC, by_kh, by_OW, by_OH, count))

// The adjoint: a pixel adds up its places in the rows of all windows that cover it.
template <int LANES>
__device__ void fold_lanes(REAL* image, const REAL* rows, WINDOWS, PER_PIXEL, INDEX count) {
    EACH(i, count) {
        Pixel x = pixel(i, THE_WINDOWS, THE_PER_PIXEL);
        Lanes<REAL, LANES> sum = {};
        for (INDEX p = x.p0; p <= x.p1; p++)
            #pragma unroll 1  // a pixel is in few windows
            for (INDEX q = x.q0; q <= x.q1; q++) {
                INDEX window = (x.n * OH + p) * OW + q;
                Lanes<REAL, LANES> there =
                    load<LANES>(rows, ((window * kh + x.h - p * sh) * kw + x.w - q * sw) * C + x.c);
                for (int k = 0; k < LANES; k++) sum.at[k] += there.at[k];
            }
        store<LANES>(image, i, sum);
    }
}

WITH_LANES(fold, (REAL* __restrict__ image, const REAL* __restrict__ rows, WINDOWS, PER_PIXEL, INDEX count),
           (image, rows, THE_WINDOWS, THE_PER_PIXEL, count))
