/* Max pooling.  The forward pass notes which cell of its window each maximum is; the derivative gathers: for each pixel
   of the image, the gradients of those windows whose maximum it is. */

#include "vector.h"
#include "windows.h"

typedef uint8_t bytes __attribute__((vector_size(REGISTER / sizeof(REAL)))); /* one per lane */

INLINE bytes load_bytes(const uint8_t *p, const int count) {
    bytes v = {0};
    memcpy(&v, p, (size_t)count);
    return v;
}

/* The maximum of a window in the lanes from channel c on; of equal ones the first counts, and a NaN is the largest. */
INLINE void maximum(const REAL *x, const windows *w, long y0, long y1, long x0, long x1, long top, long left, long c,
                    const int count, REAL *y, uint8_t *cell) {
    vec best = {0};
    mask where = {0};
    int first = 1;
    for (long i = y0; i < y1; i++)
        for (long j = x0; j < x1; j++) {
            const vec value = load(x + (i * w->width + j) * w->channels + c, count);
            const INTEGER number = (INTEGER)((i - top) * w->kw + (j - left));
            const mask larger = first ? ~(mask){0} : (value > best) | ((value != value) & (best == best));
            best = (vec)(((mask)value & larger) | ((mask)best & ~larger));
            where = (((mask){0} + number) & larger) | (where & ~larger);
            first = 0;
        }
    store(y + c, best, count);
    const bytes narrow = __builtin_convertvector(where, bytes);
    memcpy(cell + c, &narrow, (size_t)count);
}

/* y and the cells of the images first .. last - 1. */
void pool_max(const REAL *x, const windows *w, long first, long last, REAL *y, uint8_t *cell) {
    for (long image = first; image < last; image++)
        for (long row = 0; row < w->rows; row++)
            for (long column = 0; column < w->columns; column++) {
                const long at = ((image * w->rows + row) * w->columns + column) * w->channels;
                const long top = row * w->down - w->top, left = column * w->across - w->left;
                const long y0 = top < 0 ? 0 : top, y1 = least(top + w->kh, w->height);
                const long x0 = left < 0 ? 0 : left, x1 = least(left + w->kw, w->width);
                const REAL *from = x + image * w->height * w->width * w->channels;
                OVER_CHANNELS(c, count, w->channels,
                              maximum(from, w, y0, y1, x0, x1, top, left, c, count, y + at, cell + at));
            }
}

/* The first window along an axis that a pixel lies in, and the one after the last. */
INLINE long first_window(long pixel, long pad, long k, long step) {
    const long before = pixel + pad - k + 1; /* a window that starts earlier ends too early */
    return before <= 0 ? 0 : (before + step - 1) / step;
}

INLINE long end_window(long pixel, long pad, long step, long count) { return least((pixel + pad) / step + 1, count); }

INLINE void gather(const REAL *g, const uint8_t *cell, const windows *w, long y, long x, long r0, long r1, long c0,
                   long c1, long c, const int count, REAL *gx) {
    vec sum = {0};
    for (long row = r0; row < r1; row++)
        for (long column = c0; column < c1; column++) {
            const long at = (row * w->columns + column) * w->channels + c;
            const INTEGER number =
                (INTEGER)((y - row * w->down + w->top) * w->kw + x - column * w->across + w->left);
            const mask here = __builtin_convertvector(load_bytes(cell + at, count), mask) == (mask){0} + number;
            sum += keep(load(g + at, count), here);
        }
    store(gx + c, sum, count);
}

/* gx of the images first .. last - 1. */
void pool_max_adjoint(const REAL *g, const uint8_t *cell, const windows *w, long first, long last, REAL *gx) {
    for (long image = first; image < last; image++) {
        const long from = image * w->rows * w->columns * w->channels;
        for (long y = 0; y < w->height; y++)
            for (long x = 0; x < w->width; x++) {
                REAL *to = gx + ((image * w->height + y) * w->width + x) * w->channels;
                const long r0 = first_window(y, w->top, w->kh, w->down);
                const long r1 = end_window(y, w->top, w->down, w->rows);
                const long c0 = first_window(x, w->left, w->kw, w->across);
                const long c1 = end_window(x, w->left, w->across, w->columns);
                OVER_CHANNELS(c, count, w->channels,
                              gather(g + from, cell + from, w, y, x, r0, r1, c0, c1, c, count, to));
            }
    }
}
