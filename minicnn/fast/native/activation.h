/* The activation that follows a convolution, while its input is in a register.

   CReLU writes two halves, the second of which begins `second` channels after the first. */

#ifndef ACTIVATION_H
#define ACTIVATION_H

#include "vector.h"

enum { NOTHING, RELU, CRELU };

INLINE void activate(const int activation, vec x, REAL *y, long second, const int count) {
    store(y, activation == NOTHING ? x : positive_part(x), count);
    if (activation == CRELU) store(y + second, positive_part(-x), count);
}

/* The gradient of what enters the activation, from the gradient at g of what leaves it, and what left it, at y. */
INLINE vec before(const int activation, const REAL *g, const REAL *y, long second, const int count) {
    if (activation == NOTHING) return load(g, count);
    const vec up = keep(load(g, count), load(y, count) > 0);
    return activation == RELU ? up : up - keep(load(g + second, count), load(y + second, count) > 0);
}

#endif
