/* Matrix products, a block of the result in registers at a time.

       C (m, n) = A (m, k) B (k, n),  or C += A B

   With BF16 defined, numbers of A and B are rounded to that before they are multiplied (bf16.h); products and sums are
   floats.

   A number of A meets a row of B: it is multiplied with the WIDE columns of a panel.  A and C may have any step between
   rows, and A between columns, so that a transposed matrix, or pixels that a convolution skips, need no copy.  B comes in
   panels of WIDE columns, one after the other in memory or side by side; the rows of the last one, which may have fewer
   columns, can still be read to the end of a vec. */

#ifndef GEMM_H
#define GEMM_H

#include "vector.h"

#define WIDE (2 * LANES)                /* columns of a panel */
#define TALL (REGISTER == 64 ? 12 : 6)  /* rows of a block: 2 TALL registers of sums leave some for A and B */

typedef struct {
    const REAL *at;
    long row, column; /* steps between rows and between columns, in numbers */
} matrix;

typedef struct {
    const REAL *at;
    long panel, row;
} panels;

typedef struct {
    REAL *at;
    long row;
} result;

void multiply(long m, long n, long k, matrix a, panels b, result c, int add);

#endif
