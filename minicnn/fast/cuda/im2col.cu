// The windows of images as rows of a matrix, and back.  Window (p, q) of image n starts at row p sh - top.

// x (N, H, W, C) -> rows (N OH OW, kh kw C), zeros outside the image.
KERNEL unfold(REAL* rows, const REAL* x, INDEX H, INDEX W, INDEX C, INDEX kh, INDEX kw, INDEX sh, INDEX sw, INDEX top,
              INDEX left, INDEX OH, INDEX OW, INDEX count) {
    EACH(i, count) {
        INDEX c = i % C, b = i / C % kw, a = i / C / kw % kh, window = i / C / kw / kh;
        INDEX q = window % OW, p = window / OW % OH, n = window / OW / OH;
        INDEX h = p * sh - top + a, w = q * sw - left + b;
        bool inside = 0 <= h && h < H && 0 <= w && w < W;
        rows[i] = inside ? x[((n * H + h) * W + w) * C + c] : 0;
    }
}

// The adjoint: a pixel adds up its places in the rows of all windows that cover it.
KERNEL fold(REAL* image, const REAL* rows, INDEX H, INDEX W, INDEX C, INDEX kh, INDEX kw, INDEX sh, INDEX sw,
            INDEX top, INDEX left, INDEX OH, INDEX OW, INDEX count) {
    EACH(i, count) {
        Pixel x = pixel(i, H, W, C, kh, kw, sh, sw, top, left, OH, OW);
        REAL sum = 0;
        for (INDEX p = x.p0; p <= x.p1; p++)
            for (INDEX q = x.q0; q <= x.q1; q++) {
                INDEX window = (x.n * OH + p) * OW + q;
                sum += rows[((window * kh + x.h - p * sh) * kw + x.w - q * sw) * C + x.c];
            }
        image[i] = sum;
    }
}
