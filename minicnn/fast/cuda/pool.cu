// Pooling of x (N, H, W, C) by windows of kh x kw, to y (N, OH, OW, C).  Window (p, q) starts at row p sh - top.

// Where in its window the maximum is (a kw + b), in a tie the first, goes to `switches`; cells outside the image do not
// count.
KERNEL max_pool(REAL* y, u8* switches, const REAL* x, INDEX H, INDEX W, INDEX C, INDEX kh, INDEX kw, INDEX sh, INDEX sw,
                INDEX top, INDEX left, INDEX OH, INDEX OW, INDEX count) {
    EACH(i, count) {
        INDEX c = i % C, q = i / C % OW, p = i / C / OW % OH, n = i / C / OW / OH;
        INDEX row = p * sh - top, column = q * sw - left;
        INDEX a0 = larger<INDEX>(0, -row), a1 = smaller<INDEX>(kh, H - row);
        INDEX b0 = larger<INDEX>(0, -column), b1 = smaller<INDEX>(kw, W - column);
        REAL best = x[((n * H + row + a0) * W + column + b0) * C + c];
        INDEX at = a0 * kw + b0;
        for (INDEX a = a0; a < a1; a++)
            for (INDEX b = b0; b < b1; b++) {
                REAL value = x[((n * H + row + a) * W + column + b) * C + c];
                if (!(value <= best) && best == best) {  // greater, or the first NaN
                    best = value;
                    at = a * kw + b;
                }
            }
        y[i] = best;
        switches[i] = (u8)at;
    }
}

// A pixel gets the g of every window that covers it and has its maximum there.
KERNEL max_pool_grad(REAL* gx, const REAL* g, const u8* switches, INDEX H, INDEX W, INDEX C, INDEX kh, INDEX kw,
                     INDEX sh, INDEX sw, INDEX top, INDEX left, INDEX OH, INDEX OW, INDEX count) {
    EACH(i, count) {
        Pixel x = pixel(i, H, W, C, kh, kw, sh, sw, top, left, OH, OW);
        REAL sum = 0;
        for (INDEX p = x.p0; p <= x.p1; p++)
            for (INDEX q = x.q0; q <= x.q1; q++) {
                INDEX window = ((x.n * OH + p) * OW + q) * C + x.c;
                if (switches[window] == (x.h - p * sh) * kw + x.w - q * sw) sum += g[window];
            }
        gx[i] = sum;
    }
}

// How many cells of a window count: those from `first` on and before `last`, in rows or columns of the padded image.
__device__ INDEX counted(INDEX window, INDEX k, INDEX stride, INDEX first, INDEX last) {
    return smaller<INDEX>(window * stride + k, last) - larger<INDEX>(window * stride, first);
}

KERNEL avg_pool(REAL* y, const REAL* x, INDEX H, INDEX W, INDEX C, INDEX kh, INDEX kw, INDEX sh, INDEX sw, INDEX top,
                INDEX left, INDEX OH, INDEX OW, INDEX row0, INDEX row1, INDEX column0, INDEX column1, INDEX count) {
    EACH(i, count) {
        INDEX c = i % C, q = i / C % OW, p = i / C / OW % OH, n = i / C / OW / OH;
        INDEX row = p * sh - top, column = q * sw - left;
        REAL sum = 0;
        for (INDEX a = larger<INDEX>(0, -row); a < smaller<INDEX>(kh, H - row); a++)
            for (INDEX b = larger<INDEX>(0, -column); b < smaller<INDEX>(kw, W - column); b++)
                sum += x[((n * H + row + a) * W + column + b) * C + c];
        y[i] = sum / (REAL)(counted(p, kh, sh, row0, row1) * counted(q, kw, sw, column0, column1));
    }
}

KERNEL avg_pool_grad(REAL* gx, const REAL* g, INDEX H, INDEX W, INDEX C, INDEX kh, INDEX kw, INDEX sh, INDEX sw,
                     INDEX top, INDEX left, INDEX OH, INDEX OW, INDEX row0, INDEX row1, INDEX column0, INDEX column1,
                     INDEX count) {
    EACH(i, count) {
        Pixel x = pixel(i, H, W, C, kh, kw, sh, sw, top, left, OH, OW);
        REAL sum = 0;
        for (INDEX p = x.p0; p <= x.p1; p++)
            for (INDEX q = x.q0; q <= x.q1; q++) {
                INDEX cells = counted(p, kh, sh, row0, row1) * counted(q, kw, sw, column0, column1);
                sum += g[((x.n * OH + p) * OW + q) * C + x.c] / (REAL)cells;
            }
        gx[i] = sum;
    }
}

// The gradient of the mean over all pixels: g (N, C) / pixels, at every pixel.
KERNEL global_avg_pool_grad(REAL* gx, const REAL* g, INDEX pixels, INDEX C, INDEX count) {
    EACH(i, count) gx[i] = g[i / C / pixels * C + i % C] / (REAL)pixels;
}
