/* Max pooling.  The forward pass notes which cell of its window each maximum is; the derivative gathers: for each pixel
   of the image, the gradients of those windows whose maximum it is. */

#include "threads.h"
#include "vector.h"
#include "windows.h"

typedef uint8_t bytes __attribute__((vector_size(REGISTER / sizeof(REAL)))); /* one per lane */

INLINE bytes load_bytes(const uint8_t *p, const int count) {
    bytes v = {0};
    memcpy(&v, p, (size_t)count);
    return v;
}

/* The cells of a window that lie in the image: rows y0 .. y1 - 1 and columns x0 .. x1 - 1 of it. */
typedef struct {
    long top, left, y0, y1, x0, x1;
} cells;

INLINE cells cells_of(const windows *w, long row, long column) {
    const long top = row * w->down - w->top, left = column * w->across - w->left;
    return (cells){top, left, top < 0 ? 0 : top, least(top + w->kh, w->height), left < 0 ? 0 : left,
                   least(left + w->kw, w->width)};
}

/* The maximum of a window in the lanes from channel c on, and which cell it is, if that is asked for (`numbered`).  Of
   equal ones the first counts, and a NaN is the largest. */
INLINE void maximum(const REAL *x, const windows *w, cells in, long c, const int count, const int numbered, REAL *y,
                    uint8_t *cell) {
    vec best = load(x + (in.y0 * w->width + in.x0) * w->channels + c, count);
    mask where = (mask){0} + (INTEGER)((in.y0 - in.top) * w->kw + in.x0 - in.left);
    for (long i = in.y0; i < in.y1; i++)
        for (long j = in.x0; j < in.x1; j++) {
            const vec value = load(x + (i * w->width + j) * w->channels + c, count);
            const mask number = (mask){0} + (INTEGER)((i - in.top) * w->kw + j - in.left);
            const mask larger = (value > best) | ((value != value) & (best == best));
            best = (vec)(((mask)value & larger) | ((mask)best & ~larger));
            if (numbered) where = (number & larger) | (where & ~larger);
        }
    store(y + c, best, count);
    if (numbered) {
        const bytes narrow = __builtin_convertvector(where, bytes);
        memcpy(cell + c, &narrow, (size_t)count);
    }
}

typedef struct {
    const REAL *x;
    const windows *w;
    long rows, share;
    REAL *y;
    uint8_t *cell;
} maxima;

static void some_maxima(const void *context, long item, long thread) {
    (void)thread;
    const maxima *m = context;
    const windows *w = m->w;
    for (long i = item * m->share; i < least((item + 1) * m->share, m->rows); i++)
        for (long column = 0; column < w->columns; column++) {
            const long at = (i * w->columns + column) * w->channels;
            const cells in = cells_of(w, i % w->rows, column);
            const REAL *from = m->x + i / w->rows * w->height * w->width * w->channels;
            if (m->cell)
                OVER_CHANNELS(c, count, w->channels, maximum(from, w, in, c, count, 1, m->y + at, m->cell + at));
            else
                OVER_CHANNELS(c, count, w->channels, maximum(from, w, in, c, count, 0, m->y + at, m->cell));
        }
}

/* y, and the cells of the maxima unless `cell` is null; `rows` of windows, which are numbered through all images, shared
   out `share` at a time. */
void pool_max(const REAL *x, const windows *w, long rows, long threads, long share, REAL *y, uint8_t *cell) {
    const maxima all = {x, w, rows, share, y, cell};
    share_out(threads, (rows + share - 1) / share, some_maxima, &all);
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
