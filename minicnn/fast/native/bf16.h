/* Numbers in bf16: the upper half of a float, which leaves 8 bits of precision.

   The processor multiplies two of them with two others, and adds both products to a float.  So numbers that are neighbours
   along the inner dimension of a product are stored as a pair, the first in the lower half. */

#ifndef BF16_H
#define BF16_H

#include "vector.h"

typedef uint32_t pair;
typedef pair pairs __attribute__((vector_size(REGISTER)));

#if defined(__AVX512BF16__) && defined(__AVX512BW__) && REGISTER == 64
#include <immintrin.h>
#define INSTRUCTIONS 1 /* for bf16 */

/* Pairs of a number of `low` and the one at its place in `high`. */
INLINE pairs paired(vec low, vec high) {
    static const uint16_t order[] = {0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                                     8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
    const __m512i both = (__m512i)_mm512_cvtne2ps_pbh((__m512)high, (__m512)low);
    return (pairs)_mm512_permutexvar_epi16(_mm512_loadu_si512(order), both);
}

/* Pairs of neighbours among the numbers of `first`, and then of `second`. */
INLINE pairs neighbours(vec first, vec second) { return (pairs)_mm512_cvtne2ps_pbh((__m512)second, (__m512)first); }

INLINE vec add_products(vec sum, pair left, pairs right) {
    return (vec)_mm512_dpbf16_ps((__m512)sum, (__m512bh)_mm512_set1_epi32((int)left), (__m512bh)right);
}

#else /* the same with what every processor has; slower than products of floats */
#define INSTRUCTIONS 0

/* The nearest number of bf16, in the upper half; to even where two are as near.  A NaN stays one. */
INLINE pairs rounded(vec v) {
    const pairs bits = (pairs)v, nearest = bits + 0x7FFF + (bits >> 16 & 1), is_nan = (pairs)(v != v);
    return (nearest & ~is_nan) | ((bits | 0x400000) & is_nan);
}

INLINE pairs paired(vec low, vec high) { return rounded(low) >> 16 | (rounded(high) & 0xFFFF0000); }

INLINE pairs neighbours(vec first, vec second) {
    REAL numbers[2 * LANES];
    vec even, odd;
    store(numbers, first, LANES);
    store(numbers + LANES, second, LANES);
    UNROLL for (int i = 0; i < LANES; i++) {
        even[i] = numbers[2 * i];
        odd[i] = numbers[2 * i + 1];
    }
    return paired(even, odd);
}

INLINE vec add_products(vec sum, pair left, pairs right) {
    const pairs both = (pairs){0} + left;
    return sum + (vec)(both << 16) * (vec)(right << 16) + (vec)(both & 0xFFFF0000) * (vec)(right & 0xFFFF0000);
}
#endif

#endif
