/* Vectors as wide as the processor's registers, by the extension of C that GCC and Clang share.

   A vec holds LANES numbers of the precision REAL, float or double; INTEGER is an integer of the same size.  Arithmetic on it is element by element, and a
   number beside it stands for a vec of copies.  Vectors run along the channels, which lie side by side in memory. */

#ifndef VECTOR_H
#define VECTOR_H

#include <stdint.h>
#include <string.h>

#if defined(REGISTER)
/* as a test would have it: the compiler makes of a vec what the processor has */
#elif defined(__AVX512F__)
#define REGISTER 64 /* bytes */
#elif defined(__AVX__)
#define REGISTER 32
#else
#define REGISTER 16
#endif
#define LANES ((int)(REGISTER / sizeof(REAL)))

typedef REAL vec __attribute__((vector_size(REGISTER)));
typedef INTEGER mask __attribute__((vector_size(REGISTER))); /* what a comparison gives: all bits or none in each lane */

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 36")

/* The first `count` lanes from memory, 0 in the others.  Where the compiler knows that it is LANES, this is one load. */
INLINE vec load(const REAL *p, const int count) {
    vec v = {0};
    memcpy(&v, p, sizeof(REAL) * (size_t)count);
    return v;
}

INLINE void store(REAL *p, vec v, const int count) { memcpy(p, &v, sizeof(REAL) * (size_t)count); }

/* v where the mask is set, 0 elsewhere, also for inf and NaN. */
INLINE vec keep(vec v, mask m) { return (vec)((mask)v & m); }

INLINE vec positive_part(vec v) { return keep(v, ~(v <= 0)); } /* a NaN stays NaN */

INLINE long least(long a, long b) { return a < b ? a : b; }

/* `step`, in which c is a channel and count a number of lanes, for all channels: LANES at a time, then what is left. */
#define OVER_CHANNELS(c, count, channels, step)       \
    do {                                              \
        long c = 0;                                   \
        for (; c + LANES <= (channels); c += LANES) { \
            enum { count = LANES };                   \
            step;                                     \
        }                                             \
        if (c < (channels)) {                         \
            const int count = (int)((channels) - c);  \
            step;                                     \
        }                                             \
    } while (0)

#endif
