/* Convolution as a matrix product (im2col), a range of output pixels at a time.

   Output pixels are numbered through all images of a batch.  The columns of a pixel are the kh kw C numbers that its
   window sees, in the order of the filters' weights; `row` is the step from those of a pixel to those of the next. */

#include "activation.h"
#include "gemm.h"
#include "threads.h"
#include "windows.h"

INLINE void copy(REAL *to, const REAL *from, long count) {
    long i = 0;
    for (; i + LANES <= count; i += LANES) store(to + i, load(from + i, LANES), LANES);
    for (; i < count; i++) to[i] = from[i];
}

INLINE void add(REAL *to, const REAL *from, long count) {
    long i = 0;
    for (; i + LANES <= count; i += LANES) store(to + i, load(to + i, LANES) + load(from + i, LANES), LANES);
    for (; i < count; i++) to[i] += from[i];
}

/* Where the window of an output pixel is: its corner in the image, of which a part may be padding. */
typedef struct {
    long image, row, column; /* of the output pixel */
} position;

INLINE position position_of(const windows *w, long pixel) {
    const long within = pixel % (w->rows * w->columns);
    return (position){pixel / (w->rows * w->columns), within / w->columns, within % w->columns};
}

INLINE position next(const windows *w, position p) {
    if (++p.column == w->columns) {
        p.column = 0;
        if (++p.row == w->rows) p = (position){p.image + 1, 0, 0};
    }
    return p;
}

/* Row i of a window holds kw C numbers, of which from .. to - 1 are in the image, where they begin at the index `at`. */
typedef struct {
    long from, to, at;
} part;

INLINE part part_of(const windows *w, position p, long i) {
    const long y = p.row * w->down - w->top + i, x = p.column * w->across - w->left;
    const long first = x < 0 ? least(-x, w->kw) : 0, end = least(w->width - x, w->kw);
    if (y < 0 || y >= w->height || end <= first) return (part){0, 0, 0};
    return (part){first * w->channels, end * w->channels,
                  ((p.image * w->height + y) * w->width + x + first) * w->channels};
}

/* The columns of the pixels first .. last - 1. */
void columns_gather(const REAL *x, const windows *w, long first, long last, REAL *columns, long row) {
    const long across = w->kw * w->channels;
    position p = position_of(w, first);
    for (long pixel = first; pixel < last; pixel++, p = next(w, p), columns += row)
        for (long i = 0; i < w->kh; i++) {
            const part inside = part_of(w, p, i);
            REAL *to = columns + i * across;
            for (long z = 0; z < inside.from; z++) to[z] = 0;
            copy(to + inside.from, x + inside.at, inside.to - inside.from);
            for (long z = inside.to; z < across; z++) to[z] = 0;
        }
}

/* Add the gradients of the columns to the images, in which they overlap. */
void columns_add(const REAL *columns, long row, const windows *w, long first, long last, REAL *gx) {
    const long across = w->kw * w->channels;
    position p = position_of(w, first);
    for (long pixel = first; pixel < last; pixel++, p = next(w, p), columns += row)
        for (long i = 0; i < w->kh; i++) {
            const part inside = part_of(w, p, i);
            add(gx + inside.at, columns + i * across + inside.from, inside.to - inside.from);
        }
}

/* A matrix w (k, n), or its transpose, as panels: (n / WIDE, k, WIDE), 0 beyond the last column. */
void columns_panels(const REAL *w, long k, long n, long transposed, REAL *u) {
    for (long j = 0; j < n; j += WIDE)
        for (long i = 0; i < k; i++)
            for (long l = 0; l < WIDE; l++)
                *u++ = j + l < n ? w[transposed ? (j + l) * k + i : i * n + j + l] : 0;
}

/* y = the activation of scale A W + bias, for `pixels` rows of A and n columns of W; y has the step y_row, and CReLU's
   second half begins `second` numbers after the first.  Some rows at a time, so that they are still in the cache when the
   bias comes. */
static void some_rows(long pixels, long k, long n, const REAL *a, panels w, const REAL *scale, const REAL *bias,
                      long activation, long second, REAL *y, long y_row) {
    for (long first = 0; first < pixels; first += 16 * TALL) {
        const long some = least(pixels - first, 16 * TALL);
        REAL *out = y + first * y_row;
        multiply(some, n, k, (matrix){a + first * k, k, 1}, w, (result){out, y_row}, 0);
        if (!scale && !bias && activation == NOTHING) continue;
        for (long pixel = 0; pixel < some; pixel++, out += y_row) {
#define FINISH(kind)                                                               \
    OVER_CHANNELS(c, count, n, {                                                    \
        const vec s = scale ? load(scale + c, count) : (vec){0} + 1;                \
        const vec b = bias ? load(bias + c, count) : (vec){0};                      \
        activate(kind, s * load(out + c, count) + b, out + c, second, count);       \
    })
            if (activation == NOTHING)
                FINISH(NOTHING);
            else if (activation == RELU)
                FINISH(RELU);
            else
                FINISH(CRELU);
#undef FINISH
        }
    }
}

/* The forward pass, shared out: `pixels` of them and `filters` per item; filters begin with a panel. */
typedef struct {
    const REAL *x;
    const windows *w;
    long count, k, all_filters;
    panels weights;
    const REAL *scale, *bias;
    long activation, pixels, filters;
    REAL *memory; /* for the columns, or null where pixels are rows of the product as they are */
    REAL *y;
} forward;

static void some_outputs(const void *context, long item, long thread) {
    const forward *f = context;
    const long shares = (f->all_filters + f->filters - 1) / f->filters, y_row = f->all_filters * (f->activation == CRELU ? 2 : 1);
    const long from = item % shares * f->filters, first = item / shares * f->pixels;
    const long last = least(first + f->pixels, f->count);
    REAL *columns = f->memory + thread * f->pixels * f->k;
    if (f->memory) columns_gather(f->x, f->w, first, last, columns, f->k);
    const panels weights = {f->weights.at + from / WIDE * f->weights.panel, f->weights.panel, f->weights.row};
    some_rows(last - first, f->k, least(f->filters, f->all_filters - from), f->memory ? columns : f->x + first * f->k,
              weights, f->scale ? f->scale + from : 0, f->bias ? f->bias + from : 0, f->activation, f->all_filters,
              f->y + first * y_row + from, y_row);
}

/* y of all `count` output pixels and all filters; k is the length of the columns. */
void columns_forward(const REAL *x, const windows *w, long count, long k, long all_filters, const REAL *weights,
                     long panel, long row, const REAL *scale, const REAL *bias, long activation, long threads, long pixels,
                     long filters, REAL *memory, REAL *y) {
    const forward all = {x, w, count, k, all_filters, {weights, panel, row}, scale, bias, activation, pixels, filters, memory, y};
    share_out(threads, (count + pixels - 1) / pixels * ((all_filters + filters - 1) / filters), some_outputs, &all);
}

/* C (m, n) = A B, of rows with a step; W comes as panels. */
void columns_product(long m, long k, long n, const REAL *a, long a_row, const REAL *u, REAL *c, long c_row) {
    multiply(m, n, k, (matrix){a, a_row, 1}, (panels){u, k * WIDE, WIDE}, (result){c, c_row}, 0);
}

/* The gradient before the activation, for `pixels` rows of g and of its output y: n channels each, the step of `out` is
   out_row, and 0 fills what lies between. */
void columns_before(const REAL *g, const REAL *y, long pixels, long n, long activation, REAL *out, long out_row) {
    const long step = activation == CRELU ? 2 * n : n;
    for (long pixel = 0; pixel < pixels; pixel++, g += step, y += step, out += out_row) {
        if (activation == NOTHING)
            OVER_CHANNELS(c, count, n, store(out + c, before(NOTHING, g + c, g + c, 0, count), count));
        else if (activation == RELU)
            OVER_CHANNELS(c, count, n, store(out + c, before(RELU, g + c, y + c, 0, count), count));
        else
            OVER_CHANNELS(c, count, n, store(out + c, before(CRELU, g + c, y + c, n, count), count));
        for (long c = n; c < out_row; c++) out[c] = 0;
    }
}

/* gW (k, n) = A' G, of `pixels` rows; added to what is there if `more`. */
void columns_filters(long pixels, long k, long n, const REAL *a, long a_row, const REAL *g, long g_row, long more,
                     REAL *gw) {
    multiply(k, n, pixels, (matrix){a, 1, a_row}, (panels){g, WIDE, g_row}, (result){gw, n}, (int)more);
}
