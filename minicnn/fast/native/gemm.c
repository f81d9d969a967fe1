/* Matrix products; gemm.h says what is computed. */

#include "gemm.h"

/* What blocks are made of: numbers or, in the library for bf16, pairs of them.  Of such, k is half as many. */
#ifdef BF16
#include "bf16.h"
typedef pair factor;
typedef pairs factors;
typedef struct {
    const pair *at;
    long row, column;
} left_matrix;
#else
typedef REAL factor;
typedef vec factors;
typedef matrix left_matrix;
INLINE vec add_products(vec sum, factor left, factors right) { return sum + left * right; }
#endif

INLINE factors load_factors(const factor *p) {
    factors v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* A block of `tall` rows and `vectors` (1 or 2) vectors, of which `columns` numbers are written. */
INLINE void block(const int tall, const int vectors, long k, left_matrix a, const factor *b, long b_row, result c,
                  int columns, int add) {
    vec sum[TALL][2];
    UNROLL for (int i = 0; i < tall; i++)
        UNROLL for (int j = 0; j < vectors; j++) sum[i][j] = (vec){0};
    for (long l = 0; l < k; l++) {
        factors right[2];
        UNROLL for (int j = 0; j < vectors; j++) right[j] = load_factors(b + l * b_row + j * LANES);
        UNROLL for (int i = 0; i < tall; i++) {
            const factor left = a.at[i * a.row + l * a.column];
            UNROLL for (int j = 0; j < vectors; j++) sum[i][j] = add_products(sum[i][j], left, right[j]);
        }
    }
    UNROLL for (int i = 0; i < tall; i++) {
        REAL *row = c.at + i * c.row;
        if (columns == vectors * LANES) {
            UNROLL for (int j = 0; j < vectors; j++) {
                REAL *at = row + j * LANES;
                store(at, add ? load(at, LANES) + sum[i][j] : sum[i][j], LANES);
            }
        } else {
            REAL numbers[WIDE] = {0};
            UNROLL for (int j = 0; j < vectors; j++) store(numbers + j * LANES, sum[i][j], LANES);
            for (int j = 0; j < columns; j++) row[j] = add ? row[j] + numbers[j] : numbers[j];
        }
    }
}

/* All rows of C within one panel. */
INLINE void rows_of_panel(const int vectors, long m, long k, left_matrix a, const factor *b, long b_row, result c,
                          int columns, int add) {
    for (; m >= TALL; m -= TALL) {
        block(TALL, vectors, k, a, b, b_row, c, columns, add);
        a.at += TALL * a.row;
        c.at += TALL * c.row;
    }
    switch (m) {
#define LAST(rows) \
    case rows: block(rows, vectors, k, a, b, b_row, c, columns, add); break;
        LAST(1) LAST(2) LAST(3) LAST(4) LAST(5)
#if REGISTER == 64
        LAST(6) LAST(7) LAST(8) LAST(9) LAST(10) LAST(11)
#endif
#undef LAST
    }
}

static void strip(long m, long k, left_matrix a, const factor *b, long b_row, result c, int columns, int add) {
    if (columns > LANES)
        rows_of_panel(2, m, k, a, b, b_row, c, columns, add);
    else
        rows_of_panel(1, m, k, a, b, b_row, c, columns, add);
}

#define MOST_A (128 << 10) /* bytes of A that stay in the second cache */
#define MOST_B (16 << 10)  /* and of B that stay in the first */

#ifndef BF16
/* Some rows of A stay in the second cache while all panels meet them, and a part of a panel in the first while all of
   these rows meet it.  Where a step between rows of B, or between columns of A, would touch too many lines of the cache,
   they are copied first: B as in a panel, A as its blocks read it.  For few rows that is not worth it, and reading B from
   memory is all the work: then some whole rows of B at a time, and those after them are fetched meanwhile. */
#define MANY 96            /* rows of B */
#define FEW (4 * TALL)     /* rows of A */
#define WHOLE_ROWS 32      /* of B */

void multiply(long m, long n, long k, matrix a, panels b, result c, int add) {
    REAL copied_a[MOST_A / sizeof(REAL)], copied_b[MOST_B / sizeof(REAL)];
    const int side_by_side = b.row != WIDE && k > MANY, whole_rows = side_by_side && m <= FEW;
    const long most_k = whole_rows ? WHOLE_ROWS : MOST_B / (WIDE * (long)sizeof(REAL));
    const long most_m = MOST_A / (least(k, most_k) * (long)sizeof(REAL)) / TALL * TALL;
    const int copy = side_by_side && !whole_rows;
    for (long first_k = 0; first_k < k; first_k += most_k) {
        const long some_k = least(k - first_k, most_k);
        const int more = add || first_k;
        for (long i = 0; i < m; i += most_m) {
            const long some_m = least(m - i, most_m), whole = some_m / TALL * TALL;
            const REAL *left = a.at + i * a.row + first_k * a.column;
            if (copy)
                for (long r = 0; r < whole; r += TALL)
                    for (long l = 0; l < some_k; l++)
                        UNROLL for (int s = 0; s < TALL; s++)
                            copied_a[r * some_k + l * TALL + s] = left[(r + s) * a.row + l * a.column];
            for (long j = 0; j < n; j += WIDE) {
                const int columns = (int)least(n - j, WIDE);
                const REAL *right = b.at + j / WIDE * b.panel + first_k * b.row;
                const result to = {c.at + i * c.row + j, c.row};
                if (whole_rows)
                    for (long l = some_k; l < least(2 * some_k, k - first_k); l++) __builtin_prefetch(right + l * b.row);
                if (!copy) {
                    strip(some_m, some_k, (matrix){left, a.row, a.column}, right, b.row, to, columns, more);
                    continue;
                }
                for (long l = 0; l < some_k; l++) {
                    for (int v = 0; v < (columns > LANES ? 2 : 1); v++)
                        store(copied_b + l * WIDE + v * LANES, load(right + l * b.row + v * LANES, LANES), LANES);
                    if (columns == WIDE) __builtin_prefetch(right + b.panel + l * b.row);
                }
                for (long r = 0; r < whole; r += TALL)
                    strip(TALL, some_k, (matrix){copied_a + r * some_k, 1, TALL}, copied_b, WIDE,
                          (result){to.at + r * to.row, to.row}, columns, more);
                strip(some_m - whole, some_k, (matrix){left + whole * a.row, a.row, a.column}, copied_b, WIDE,
                      (result){to.at + whole * to.row, to.row}, columns, more);
            }
        }
    }
}

#else
/* Rows of A, each one's numbers side by side, as pairs: `row` of them for each. */
static void pair_rows(long m, long k, matrix a, pair *out, long row) {
    for (long i = 0; i < m; i++)
        for (long l = 0; l < k; l += 2 * LANES) {
            const REAL *from = a.at + i * a.row + l;
            if (k - l >= 2 * LANES) {
                const pairs all = neighbours(load(from, LANES), load(from + LANES, LANES));
                memcpy(out + i * row + l / 2, &all, sizeof all);
            } else {
                REAL numbers[2 * LANES] = {0};
                memcpy(numbers, from, sizeof(REAL) * (size_t)(k - l));
                const pairs some = neighbours(load(numbers, LANES), load(numbers + LANES, LANES));
                memcpy(out + i * row + l / 2, &some, sizeof(pair) * (size_t)((k - l + 1) / 2));
            }
        }
}

/* Rows of numbers, the first with the second, the third with the fourth, and so on; the last may be alone. */
static void pair_columns(long columns, long rows, const REAL *from, long step, pair *out, long row) {
    for (long l = 0; l < rows; l += 2, from += 2 * step, out += row)
        OVER_CHANNELS(c, count, columns, {
            const pairs some = paired(load(from + c, count), l + 1 < rows ? load(from + step + c, count) : (vec){0});
            memcpy(out + c, &some, sizeof(pair) * (size_t)count);
        });
}

/* All factors are rounded and copied before they meet: some rows of A, and then one panel after the other. */
void multiply(long m, long n, long k, matrix a, panels b, result c, int add) {
    pair copied_a[MOST_A / sizeof(pair)], copied_b[MOST_B / sizeof(pair)];
    const long most_k = 2 * MOST_B / (WIDE * (long)sizeof(pair));
    const long most_m = MOST_A / ((least(k, most_k) + 1) / 2 * (long)sizeof(pair)) / TALL * TALL;
    for (long first_k = 0; first_k < k; first_k += most_k) {
        const long some_k = least(k - first_k, most_k), half = (some_k + 1) / 2;
        for (long i = 0; i < m; i += most_m) {
            const long some_m = least(m - i, most_m);
            const matrix some = {a.at + i * a.row + first_k * a.column, a.row, a.column};
            if (a.column == 1)
                pair_rows(some_m, some_k, some, copied_a, half);
            else
                pair_columns(some_m, some_k, some.at, some.column, copied_a, some_m);
            const left_matrix left = a.column == 1 ? (left_matrix){copied_a, half, 1} : (left_matrix){copied_a, 1, some_m};
            for (long j = 0; j < n; j += WIDE) {
                const int columns = (int)least(n - j, WIDE);
                const REAL *right = b.at + j / WIDE * b.panel + first_k * b.row;
                pair_columns(columns > LANES ? WIDE : LANES, some_k, right, b.row, copied_b, WIDE);
                strip(some_m, half, left, copied_b, WIDE, (result){c.at + i * c.row + j, c.row}, columns, add || first_k);
            }
        }
    }
}
#endif
