/* The steps of Winograd's algorithms F(4x4, 3x3) and F(2x2, 5x5); minicnn/fast/winograd.py explains them, and the names
   are the same.

   Tiles are numbered through all images of a batch.  V, M and their gradients have 36 places, a number of tiles and
   some channels; `place` and `tile` are the steps between them, in numbers.

   An activation may follow the convolution: then Y is what comes out of it, and gY the gradient of that.  What lies
   between the two is never written to memory. */

#include "activation.h"
#include "gemm.h"
#include "threads.h"

#define MOST_CHANNELS 4096 /* the Python side leaves wider layers to other versions */

typedef struct {
    long height, width;    /* of an image */
    long pixel;            /* step from a pixel to the next, in numbers: all its channels */
    long channels;         /* of these, the number that is worked on */
    long rows, columns;    /* of tiles in an image */
    long top, left;        /* how far the first tile begins above and left of the image */
    long outputs;          /* of a tile along each axis, which is the step from a tile to the next: 4 or 2 */
} grid;

typedef struct {
    REAL *at;
    long place, tile;
} places;

/* The addresses of the side x side pixels of a tile; `outside` for those that are not in the image. */
INLINE void pixels_of(REAL *images, const grid *g, long tile, const int side, REAL *outside, REAL **pixel) {
    const long image = tile / (g->rows * g->columns), within = tile % (g->rows * g->columns);
    const long top = within / g->columns * g->outputs - g->top, left = within % g->columns * g->outputs - g->left;
    for (int i = 0; i < side; i++) {
        const long y = top + i;
        for (int j = 0; j < side; j++) {
            const long x = left + j;
            const int inside = y >= 0 && y < g->height && x >= 0 && x < g->width;
            pixel[i * side + j] = inside ? images + ((image * g->height + y) * g->width + x) * g->pixel : outside;
        }
    }
}

static REAL zeros[2 * MOST_CHANNELS]; /* what is outside of an image */

/* B', A' and their transposes.  `step` is between the vectors that go in, `out` between those that come out. */

INLINE void input_matrix(const vec *d, const int step, vec *v, const int out) {
    const vec even = d[4 * step] - 4 * d[2 * step], odd = d[3 * step] - 4 * d[step];
    const vec small = d[4 * step] - d[2 * step], twice = 2 * (d[3 * step] - d[step]);
    v[0] = 4 * d[0] - 5 * d[2 * step] + d[4 * step];
    v[out] = even + odd;
    v[2 * out] = even - odd;
    v[3 * out] = small + twice;
    v[4 * out] = small - twice;
    v[5 * out] = 4 * d[step] - 5 * d[3 * step] + d[5 * step];
}

INLINE void input_matrix_transposed(const vec *v, const int step, vec *d, const int out) {
    const vec sum12 = v[step] + v[2 * step], less12 = v[step] - v[2 * step];
    const vec sum34 = v[3 * step] + v[4 * step], less34 = v[3 * step] - v[4 * step];
    d[0] = 4 * v[0];
    d[out] = 4 * (v[5 * step] - less12) - 2 * less34;
    d[2 * out] = -5 * v[0] - 4 * sum12 - sum34;
    d[3 * out] = less12 + 2 * less34 - 5 * v[5 * step];
    d[4 * out] = v[0] + sum12 + sum34;
    d[5 * out] = v[5 * step];
}

INLINE void output_matrix(const int outputs, const vec *m, const int step, vec *y, const int out) {
    const vec sum12 = m[step] + m[2 * step], less12 = m[step] - m[2 * step];
    const vec sum34 = m[3 * step] + m[4 * step], less34 = m[3 * step] - m[4 * step];
    y[0] = m[0] + sum12 + sum34;
    y[out] = less12 + 2 * less34;
    if (outputs == 2) {
        y[out] += m[5 * step];
    } else {
        y[2 * out] = sum12 + 4 * sum34;
        y[3 * out] = less12 + 8 * less34 + m[5 * step];
    }
}

INLINE void output_matrix_transposed(const int outputs, const vec *g, const int step, vec *m, const int out) {
    vec even = g[0], odd = g[step], fours = g[0], eights = 2 * g[step];
    if (outputs == 4) {
        even += g[2 * step];
        odd += g[3 * step];
        fours += 4 * g[2 * step];
        eights += 8 * g[3 * step];
    }
    m[0] = g[0];
    m[out] = even + odd;
    m[2 * out] = even - odd;
    m[3 * out] = fours + eights;
    m[4 * out] = fours - eights;
    m[5 * out] = g[(outputs - 1) * step];
}

INLINE void input_tile(REAL *const *x, long c, const int count, places v) {
    vec d[36], half[36];
    UNROLL for (int i = 0; i < 36; i++) d[i] = load(x[i] + c, count);
    UNROLL for (int j = 0; j < 6; j++) input_matrix(d + j, 6, half + j, 6);
    UNROLL for (int i = 0; i < 6; i++) {
        vec out[6];
        input_matrix(half + 6 * i, 1, out, 1);
        UNROLL for (int j = 0; j < 6; j++) store(v.at + (6 * i + j) * v.place + c, out[j], count);
    }
}

/* V = B' d B of the tiles first .. last - 1. */
void winograd_input(REAL *x, const grid *g, long first, long last, REAL *v_at, long place, long tile) {
    places v = {v_at, place, tile};
    for (long i = first; i < last; i++, v.at += v.tile) {
        REAL *pixel[36];
        pixels_of(x, g, i, 6, zeros, pixel);
        OVER_CHANNELS(c, count, g->channels, input_tile(pixel, c, count, v));
    }
}

INLINE void input_tile_adjoint(places gv, long c, const int count, REAL *const *gx) {
    vec half[36];
    UNROLL for (int i = 0; i < 6; i++) {
        vec in[6];
        UNROLL for (int j = 0; j < 6; j++) in[j] = load(gv.at + (6 * i + j) * gv.place + c, count);
        input_matrix_transposed(in, 1, half + 6 * i, 1);
    }
    UNROLL for (int j = 0; j < 6; j++) {
        vec out[6];
        input_matrix_transposed(half + j, 6, out, 1);
        UNROLL for (int i = 0; i < 6; i++) {
            REAL *at = gx[6 * i + j] + c;
            store(at, load(at, count) + out[i], count);
        }
    }
}

/* Add B gV B' of some tiles to the images gx, in which they overlap. */
void winograd_input_adjoint(REAL *gv_at, long place, long tile, const grid *g, long first, long last, REAL *gx) {
    REAL nowhere[MOST_CHANNELS];
    memset(nowhere, 0, sizeof nowhere);
    places gv = {gv_at, place, tile};
    for (long i = first; i < last; i++, gv.at += gv.tile) {
        REAL *pixel[36];
        pixels_of(gx, g, i, 6, nowhere, pixel);
        OVER_CHANNELS(c, count, g->channels, input_tile_adjoint(gv, c, count, pixel));
    }
}

INLINE void output_tile(const int outputs, places m, long c, const int count, const REAL *scale, const REAL *bias,
                        const int activation, long second, REAL *const *y) {
    vec half[24];
    UNROLL for (int i = 0; i < 6; i++) {
        vec in[6];
        UNROLL for (int j = 0; j < 6; j++) in[j] = load(m.at + (6 * i + j) * m.place + c, count);
        output_matrix(outputs, in, 1, half + outputs * i, 1);
    }
    const vec a = scale ? load(scale + c, count) : (vec){0} + 1, b = bias ? load(bias + c, count) : (vec){0};
    UNROLL for (int j = 0; j < outputs; j++) {
        vec out[4];
        output_matrix(outputs, half + j, outputs, out, 1);
        UNROLL for (int i = 0; i < outputs; i++)
            activate(activation, a * out[i] + b, y[outputs * i + j] + c, second, count);
    }
}

/* `step`, in which `outputs` and `kind` are constants, for the algorithm and the activation at hand. */
#define FOR_EACH_KIND(algorithm, activation, step)       \
    do {                                                 \
        if ((algorithm) == 4) {                          \
            enum { outputs = 4 };                        \
            FOR_EACH_ACTIVATION(activation, step);       \
        } else {                                         \
            enum { outputs = 2 };                        \
            FOR_EACH_ACTIVATION(activation, step);       \
        }                                                \
    } while (0)
#define FOR_EACH_ACTIVATION(activation, step) \
    do {                                      \
        if ((activation) == NOTHING) {        \
            enum { kind = NOTHING };          \
            step;                             \
        } else if ((activation) == RELU) {    \
            enum { kind = RELU };             \
            step;                             \
        } else {                              \
            enum { kind = CRELU };            \
            step;                             \
        }                                     \
    } while (0)

/* Y = A' M A, scaled and with a bias where there are such, through the activation; CReLU's second half begins `second`
   channels after the first. */
void winograd_output(REAL *m_at, long place, long tile, const REAL *scale, const REAL *bias, const grid *g, long first,
                     long last, long activation, long second, REAL *y) {
    REAL nowhere[2 * MOST_CHANNELS];
    places m = {m_at, place, tile};
    for (long i = first; i < last; i++, m.at += m.tile)
        FOR_EACH_KIND(g->outputs, activation, {
            REAL *pixel[outputs * outputs];
            pixels_of(y, g, i, outputs, nowhere, pixel);
            OVER_CHANNELS(c, count, g->channels, output_tile(outputs, m, c, count, scale, bias, kind, second, pixel));
        });
}

INLINE void output_tile_adjoint(const int outputs, REAL *const *g, REAL *const *y, long c, const int count,
                                const int activation, long second, places gm) {
    vec in[16], half[24];
    UNROLL for (int i = 0; i < outputs * outputs; i++) in[i] = before(activation, g[i] + c, y[i] + c, second, count);
    UNROLL for (int j = 0; j < outputs; j++)
        output_matrix_transposed(outputs, in + j, outputs, half + j, outputs);
    UNROLL for (int i = 0; i < 6; i++) {
        vec out[6];
        output_matrix_transposed(outputs, half + outputs * i, 1, out, 1);
        UNROLL for (int j = 0; j < 6; j++) store(gm.at + (6 * i + j) * gm.place + c, out[j], count);
    }
}

/* gM = A gY A' of some tiles, gY brought back through the activation, whose output is y. */
void winograd_output_adjoint(REAL *gy, REAL *y, const grid *g, long first, long last, long activation, long second,
                             REAL *gm_at, long place, long tile) {
    places gm = {gm_at, place, tile};
    for (long i = first; i < last; i++, gm.at += gm.tile)
        FOR_EACH_KIND(g->outputs, activation, {
            REAL *slope[outputs * outputs];
            REAL *value[outputs * outputs];
            pixels_of(gy, g, i, outputs, zeros, slope);
            pixels_of(y, g, i, outputs, zeros, value);
            OVER_CHANNELS(c, count, g->channels, output_tile_adjoint(outputs, slope, value, c, count, kind, second, gm));
        });
}

/* The filters. */

/* G (6, taps): powers of the points 0, 1, -1, 2 and -2, scaled; and infinity, which sees the last tap alone. */
INLINE REAL filter_matrix(const int taps, int i, int j) {
    static const REAL point[] = {0, 1, -1, 2, -2}, scale[] = {6, -4, -4, 1, 1};
    if (i == 5) return j == taps - 1;
    REAL power = 1;
    for (int k = 0; k < j; k++) power *= point[i];
    return scale[i] / 24 * power;
}

/* U of one channel and LANES filters, whose taps begin at w, `step` apart. */
INLINE void filter_tile(const int taps, const REAL *w, long step, REAL *u, long place) {
    vec half[6 * 5];
    UNROLL for (int i = 0; i < 6; i++)
        UNROLL for (int j = 0; j < taps; j++) {
            half[taps * i + j] = (vec){0};
            UNROLL for (int k = 0; k < taps; k++)
                half[taps * i + j] += filter_matrix(taps, i, k) * load(w + (taps * k + j) * step, LANES);
        }
    UNROLL for (int i = 0; i < 6; i++)
        UNROLL for (int j = 0; j < 6; j++) {
            vec sum = {0};
            UNROLL for (int k = 0; k < taps; k++) sum += filter_matrix(taps, j, k) * half[taps * i + k];
            store(u + (6 * i + j) * place, sum, LANES);
        }
}

/* The step between places of U: its panels, and a little more, because powers of two compete for lines of the cache. */
static long u_step(long rows, long columns) { return (columns + WIDE - 1) / WIDE * rows * WIDE + WIDE; }

/* U of the filters w (taps, taps, C, F), as panels: (36, F / WIDE, C, WIDE), 0 beyond the last filter; if `transposed`
   that of the filters with C and F exchanged: (36, C / WIDE, F, WIDE).  Rows first .. last - 1 of every panel, LANES at a
   time, because to exchange C and F is to turn squares around. */
void winograd_filters(const REAL *w, long taps, long channels, long filters, long transposed, long first, long last,
                      REAL *u) {
    const long rows = transposed ? filters : channels, columns = transposed ? channels : filters;
    const long panel_count = (columns + WIDE - 1) / WIDE, place = u_step(rows, columns);
    for (long row = first; row < last; row += LANES)
        for (long column = 0; column < panel_count * WIDE; column += LANES) {
            const int down = (int)least(last - row, LANES), across = (int)least(columns - column, LANES);
            REAL square[25][LANES][LANES];
            memset(square, 0, sizeof square);
            for (int tap = 0; tap < taps * taps; tap++) {
                const REAL *from = w + tap * channels * filters;
                if (transposed)
                    for (int j = 0; j < across; j++)
                        for (int i = 0; i < down; i++) square[tap][i][j] = from[(column + j) * filters + row + i];
                else
                    for (int i = 0; i < down; i++)
                        for (int j = 0; j < across; j++) square[tap][i][j] = from[(row + i) * filters + column + j];
            }
            for (int r = 0; r < down; r++) {
                REAL *to = u + (column / WIDE * rows + row + r) * WIDE + column % WIDE;
                if (taps == 3)
                    filter_tile(3, square[0][r], LANES * LANES, to, place);
                else
                    filter_tile(5, square[0][r], LANES * LANES, to, place);
            }
        }
}

/* The products at the places first .. last - 1:  M (tiles, columns) = V (tiles, inner) U (inner, columns), where U, of
   panels one after the other, may be a part of one with more columns: its places are u_place apart. */
void winograd_products(long first, long last, long tiles, long inner, long columns, const REAL *v, long v_place,
                       long v_tile, const REAL *u, long u_place, REAL *m, long m_place, long m_tile) {
    for (long p = first; p < last; p++)
        multiply(tiles, columns, inner, (matrix){v + p * v_place, v_tile, 1}, (panels){u + p * u_place, inner * WIDE, WIDE},
                 (result){m + p * m_place, m_tile}, 0);
}

/* gU (36, C, F) = V' gM at some places; added to what is there if `add`. */
void winograd_filter_products(long first, long last, long tiles, long channels, long filters, const REAL *v,
                              long v_place, long v_tile, const REAL *gm, long gm_place, long gm_tile, long add,
                              REAL *gu) {
    for (long p = first; p < last; p++)
        multiply(channels, filters, tiles, (matrix){v + p * v_place, 1, v_tile},
                 (panels){gm + p * gm_place, WIDE, gm_tile}, (result){gu + p * channels * filters, filters}, (int)add);
}

/* All steps, some tiles at a time, in `memory` that stays in the cache: V (or gV), then M (or gM). */

#define BIAS 7 /* the place whose M a bias is added to, and whose gM add up to its gradient */

typedef struct {
    grid inputs, outputs;
    long activation;
    long tiles;                             /* of all images */
    long piece;                             /* tiles at a time */
    long v_place, v_tile, m_place, m_tile; /* steps in the memory */
} layer;

/* The forward pass, shared out: `tiles` of them and `filters` per item; filters begin with a panel. */
typedef struct {
    REAL *x;
    const REAL *u, *scale, *bias;
    const layer *l;
    long tiles, filters;
    REAL *memory;
    long memory_step; /* from that of a thread to that of the next */
    REAL *y;
} forward;

static void some_outputs(const void *context, long item, long thread) {
    const forward *f = context;
    const layer *l = f->l;
    const long channels = l->inputs.channels, all = l->outputs.channels, shares = (all + f->filters - 1) / f->filters;
    const long from = item % shares * f->filters, first = item / shares * f->tiles;
    const long last = least(first + f->tiles, l->tiles);
    REAL *v = f->memory + thread * f->memory_step, *m = v + 36 * l->v_place;
    grid outputs = l->outputs;
    outputs.channels = least(f->filters, all - from);
    for (long i = first; i < last; i += l->piece) {
        const long end = least(i + l->piece, last);
        winograd_input(f->x, &l->inputs, i, end, v, l->v_place, l->v_tile);
        winograd_products(0, 36, end - i, channels, outputs.channels, v, l->v_place, l->v_tile, f->u + from * channels,
                          u_step(channels, all), m, l->m_place, l->m_tile);
        winograd_output(m, l->m_place, l->m_tile, f->scale ? f->scale + from : 0, f->bias ? f->bias + from : 0, &outputs, i,
                        end, l->activation, all, f->y + from);
    }
}

/* y of all tiles and filters. */
void winograd_forward(REAL *x, const REAL *u, const REAL *scale, const REAL *bias, const layer *l, long threads,
                      long tiles, long filters, REAL *memory, long memory_step, REAL *y) {
    const forward all = {x, u, scale, bias, l, tiles, filters, memory, memory_step, y};
    const long shares = (l->outputs.channels + filters - 1) / filters;
    share_out(threads, (l->tiles + tiles - 1) / tiles * shares, some_outputs, &all);
}

/* The gradients of the images first .. last - 1: of the images, if there is a gx, where their tiles overlap; of U and the
   bias, if there is a gu: (36, C, F) and then (F).  u is that of the exchanged filters. */
void winograd_backward(REAL *g, REAL *y, REAL *x, const REAL *u, const layer *l, long first, long last, REAL *memory,
                       REAL *gx, REAL *gu) {
    const long channels = l->inputs.channels, filters = l->outputs.channels, tiles = l->inputs.rows * l->inputs.columns;
    const long image = l->inputs.height * l->inputs.width * l->inputs.pixel;
    REAL *v = memory, *m = memory + 36 * l->v_place, *gb = gu ? gu + 36 * channels * filters : 0;
    if (gx) memset(gx + first * image, 0, sizeof(REAL) * (size_t)((last - first) * image));
    if (gu) memset(gb, 0, sizeof(REAL) * (size_t)filters);
    for (long i = first * tiles; i < last * tiles; i += l->piece) {
        const long end = least(i + l->piece, last * tiles);
        winograd_output_adjoint(g, y, &l->outputs, i, end, l->activation, filters, m, l->m_place, l->m_tile);
        if (gu) {
            winograd_input(x, &l->inputs, i, end, v, l->v_place, l->v_tile);
            winograd_filter_products(0, 36, end - i, channels, filters, v, l->v_place, l->v_tile, m, l->m_place,
                                     l->m_tile, i > first * tiles, gu);
            for (long j = 0; j < end - i; j++) {
                const REAL *row = m + BIAS * l->m_place + j * l->m_tile;
                for (long f = 0; f < filters; f++) gb[f] += row[f];
            }
        }
        if (gx) {
            winograd_products(0, 36, end - i, filters, channels, m, l->m_place, l->m_tile, u,
                              u_step(filters, channels), v, l->v_place, l->v_tile);
            winograd_input_adjoint(v, l->v_place, l->v_tile, &l->inputs, i, end, gx);
        }
    }
}
