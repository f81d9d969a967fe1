/* Matrix products; gemm.h says what is computed. */

#include "gemm.h"

/* A block of `tall` rows and `vectors` (1 or 2) vectors, of which `columns` numbers are written. */
INLINE void block(const int tall, const int vectors, long k, matrix a, const REAL *b, long b_row, result c,
                  int columns, int add) {
    vec sum[TALL][2];
    UNROLL for (int i = 0; i < tall; i++)
        UNROLL for (int j = 0; j < vectors; j++) sum[i][j] = (vec){0};
    for (long l = 0; l < k; l++) {
        vec right[2];
        UNROLL for (int j = 0; j < vectors; j++) right[j] = load(b + l * b_row + j * LANES, LANES);
        UNROLL for (int i = 0; i < tall; i++) {
            const REAL left = a.at[i * a.row + l * a.column];
            UNROLL for (int j = 0; j < vectors; j++) sum[i][j] += left * right[j];
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
INLINE void rows_of_panel(const int vectors, long m, long k, matrix a, const REAL *b, long b_row, result c, int columns,
                  int add) {
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

static void strip(long m, long k, matrix a, const REAL *b, long b_row, result c, int columns, int add) {
    if (columns > LANES)
        rows_of_panel(2, m, k, a, b, b_row, c, columns, add);
    else
        rows_of_panel(1, m, k, a, b, b_row, c, columns, add);
}

/* Some rows of A stay in the second cache while all panels meet them, and a part of a panel in the first while all of
   these rows meet it.  Where a step between rows of B, or between columns of A, would touch too many lines of the cache,
   they are copied first: B as in a panel, A as its blocks read it.  For few rows that is not worth it, and reading B from
   memory is all the work: then some whole rows of B at a time, and those after them are fetched meanwhile. */
#define MOST_A (128 << 10) /* bytes */
#define MOST_B (16 << 10)
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

