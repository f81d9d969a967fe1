// Pooling of x (N, H, W, C) by windows of kh x kw, to y (N, OH, OW, C).  Window (p, q) starts at row p sh - top.
// Windows are small: loops over one, or over those that cover a pixel, are not unrolled.

// Reciprocals, for a thread that finds its window.
#define PER_WINDOW u64 by_C, u64 by_OW, u64 by_OH
#define THE_PER_WINDOW by_C, by_OW, by_OH

// Where in its window the maximum is (a kw + b), in a tie the first, goes to `switches`; cells outside the image do not
// count.
template <int LANES>
__device__ void max_pool_lanes(REAL* y, u8* switches, const REAL* x, WINDOWS, PER_WINDOW, INDEX count) {
    EACH(i, count) {
        INDEX n = i, c = split(n, C, by_C), q = split(n, OW, by_OW), p = split(n, OH, by_OH);
        INDEX row = p * sh - top, column = q * sw - left;
        INDEX a0 = larger<INDEX>(0, -row), a1 = smaller<INDEX>(kh, H - row);
        INDEX b0 = larger<INDEX>(0, -column), b1 = smaller<INDEX>(kw, W - column);
        Lanes<REAL, LANES> best = load<LANES>(x, ((n * H + row + a0) * W + column + b0) * C + c);
        Lanes<u8, LANES> at;
        for (int k = 0; k < LANES; k++) at.at[k] = (u8)(a0 * kw + b0);
        for (INDEX a = a0; a < a1; a++)
            #pragma unroll 1
            for (INDEX b = b0; b < b1; b++) {
                Lanes<REAL, LANES> value = load<LANES>(x, ((n * H + row + a) * W + column + b) * C + c);
                for (int k = 0; k < LANES; k++)
                    if (!(value.at[k] <= best.at[k]) && best.at[k] == best.at[k]) {  // greater, or the first NaN
                        best.at[k] = value.at[k];
                        at.at[k] = (u8)(a * kw + b);
                    }
            }
        store<LANES>(y, i, best);
        store<LANES>(switches, i, at);
    }
}

WITH_LANES(max_pool, (REAL* __restrict__ y, u8* __restrict__ switches, const REAL* __restrict__ x, WINDOWS, PER_WINDOW,
                      INDEX count),
           (y, switches, x, THE_WINDOWS, THE_PER_WINDOW, count))

// A pixel gets the g of every window that covers it and has its maximum there.
template <int LANES>
__device__ void max_pool_grad_lanes(REAL* gx, const REAL* g, const u8* switches, WINDOWS, PER_PIXEL, INDEX count) {
    EACH(i, count) {
        Pixel x = pixel(i, THE_WINDOWS, THE_PER_PIXEL);
        Lanes<REAL, LANES> sum = {};
        for (INDEX p = x.p0; p <= x.p1; p++)
            #pragma unroll 1
            for (INDEX q = x.q0; q <= x.q1; q++) {
                INDEX window = ((x.n * OH + p) * OW + q) * C + x.c, place = (x.h - p * sh) * kw + x.w - q * sw;
                Lanes<u8, LANES> at = load<LANES>(switches, window);
                Lanes<REAL, LANES> there = load<LANES>(g, window);
                for (int k = 0; k < LANES; k++) sum.at[k] += at.at[k] == place ? there.at[k] : 0;
            }
        store<LANES>(gx, i, sum);
    }
}

WITH_LANES(max_pool_grad, (REAL* __restrict__ gx, const REAL* __restrict__ g, const u8* __restrict__ switches, WINDOWS,
                           PER_PIXEL, INDEX count),
           (gx, g, switches, THE_WINDOWS, THE_PER_PIXEL, count))

// How many cells of a window count: those from `first` on and before `last`, in rows or columns of the padded image.
__device__ INDEX counted(INDEX window, INDEX k, INDEX stride, INDEX first, INDEX last) {
    return smaller<INDEX>(window * stride + k, last) - larger<INDEX>(window * stride, first);
}

#define CELLS INDEX row0, INDEX row1, INDEX column0, INDEX column1

template <int LANES>
__device__ void avg_pool_lanes(REAL* y, const REAL* x, WINDOWS, CELLS, PER_WINDOW, INDEX count) {
    EACH(i, count) {
        INDEX n = i, c = split(n, C, by_C), q = split(n, OW, by_OW), p = split(n, OH, by_OH);
        INDEX row = p * sh - top, column = q * sw - left;
        Lanes<REAL, LANES> sum = {};
        for (INDEX a = larger<INDEX>(0, -row); a < smaller<INDEX>(kh, H - row); a++)
            #pragma unroll 1
            for (INDEX b = larger<INDEX>(0, -column); b < smaller<INDEX>(kw, W - column); b++) {
                Lanes<REAL, LANES> value = load<LANES>(x, ((n * H + row + a) * W + column + b) * C + c);
                for (int k = 0; k < LANES; k++) sum.at[k] += value.at[k];
            }
        REAL cells = (REAL)(counted(p, kh, sh, row0, row1) * counted(q, kw, sw, column0, column1));
        for (int k = 0; k < LANES; k++) sum.at[k] /= cells;
        store<LANES>(y, i, sum);
    }
}

WITH_LANES(avg_pool, (REAL* __restrict__ y, const REAL* __restrict__ x, WINDOWS, CELLS, PER_WINDOW, INDEX count),
           (y, x, THE_WINDOWS, row0, row1, column0, column1, THE_PER_WINDOW, count))

template <int LANES>
__device__ void avg_pool_grad_lanes(REAL* gx, const REAL* g, WINDOWS, CELLS, PER_PIXEL, INDEX count) {
    EACH(i, count) {
        Pixel x = pixel(i, THE_WINDOWS, THE_PER_PIXEL);
        Lanes<REAL, LANES> sum = {};
        for (INDEX p = x.p0; p <= x.p1; p++)
            #pragma unroll 1
            for (INDEX q = x.q0; q <= x.q1; q++) {
                REAL cells = (REAL)(counted(p, kh, sh, row0, row1) * counted(q, kw, sw, column0, column1));
                Lanes<REAL, LANES> there = load<LANES>(g, ((x.n * OH + p) * OW + q) * C + x.c);
                for (int k = 0; k < LANES; k++) sum.at[k] += there.at[k] / cells;
            }
        store<LANES>(gx, i, sum);
    }
}

WITH_LANES(avg_pool_grad, (REAL* __restrict__ gx, const REAL* __restrict__ g, WINDOWS, CELLS, PER_PIXEL, INDEX count),
           (gx, g, THE_WINDOWS, row0, row1, column0, column1, THE_PER_PIXEL, count))

// The gradient of the mean over all pixels: g (N, C) / pixels, at every pixel.
template <int LANES>
__device__ void global_avg_pool_grad_lanes(REAL* gx, const REAL* g, INDEX pixels, INDEX C, u64 by_C, u64 by_pixels,
                                     INDEX count) {
    EACH(i, count) {
        INDEX n = i, c = split(n, C, by_C);
        split(n, pixels, by_pixels);
        Lanes<REAL, LANES> value = load<LANES>(g, n * C + c);
        for (int k = 0; k < LANES; k++) value.at[k] /= (REAL)pixels;
        store<LANES>(gx, i, value);
    }
}

WITH_LANES(global_avg_pool_grad, (REAL* __restrict__ gx, const REAL* __restrict__ g, INDEX pixels, INDEX C, u64 by_C,
                                  u64 by_pixels, INDEX count),
           (gx, g, pixels, C, by_C, by_pixels, count))
