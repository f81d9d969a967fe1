// Optimiser steps over all parameters at once.
//
// table (rows, tensors) describes them: row 0 where each ends if all are laid end to end, row 1 the addresses of the
// parameters, row 2 of their gradients, rows 3 and 4 of what the optimiser keeps for them.

// The parameter that element i of all belongs to, by bisection; *at becomes its place there.
__device__ INDEX tensor_of(const i64* table, INDEX tensors, INDEX i, INDEX* at) {
    INDEX low = 0, high = tensors - 1;
    while (low < high) {
        INDEX middle = (low + high) / 2;
        if (i < table[middle])
            high = middle;
        else
            low = middle + 1;
    }
    *at = low ? i - (INDEX)table[low - 1] : i;
    return low;
}

__device__ REAL* address(const i64* table, INDEX tensors, INDEX row, INDEX tensor) {
    return (REAL*)table[row * tensors + tensor];
}

// Thread j of `count` adds up the squares of gradients j, j + count, ... of `total`.
KERNEL squares(REAL* squares, const i64* table, INDEX tensors, INDEX total, INDEX count) {
    EACH(j, count) {
        REAL sum = 0;
        for (INDEX i = j; i < total; i += count) {
            INDEX at, t = tensor_of(table, tensors, i, &at);
            REAL g = address(table, tensors, 2, t)[at];
            sum += g * g;
        }
        squares[j] = sum;
    }
}

// g, scaled by *scale if there is one, with weight decay.
__device__ REAL gradient(const i64* table, INDEX tensors, INDEX t, INDEX at, const REAL* scale, REAL decay, REAL p) {
    REAL g = address(table, tensors, 2, t)[at];
    return (scale ? g * scale[0] : g) + decay * p;
}

// v = momentum v + (1 - dampening) g  (v = g at first),   p = p - lr v   (Nesterov: p - lr (g + momentum v)).
// table has no velocities if momentum is 0.
KERNEL sgd(const i64* table, const REAL* scale, INDEX tensors, REAL lr, REAL decay, REAL momentum, REAL undamped,
           INDEX nesterov, INDEX first, INDEX count) {
    EACH(i, count) {
        INDEX at, t = tensor_of(table, tensors, i, &at);
        REAL* p = address(table, tensors, 1, t) + at;
        REAL g = gradient(table, tensors, t, at, scale, decay, *p);
        if (momentum != 0) {
            REAL* v = address(table, tensors, 3, t) + at;
            *v = first ? g : momentum * *v + undamped * g;
            g = nesterov ? g + momentum * *v : *v;
        }
        *p -= lr * g;
    }
}

// m = b1 m + (1 - b1) g,   v = b2 v + (1 - b2) g^2,   p = p - rate m / (sqrt(v) / root + eps)
KERNEL adam(const i64* table, const REAL* scale, INDEX tensors, REAL rate, REAL decay, REAL b1, REAL rest1, REAL b2,
            REAL rest2, REAL root, REAL eps, INDEX count) {
    EACH(i, count) {
        INDEX at, t = tensor_of(table, tensors, i, &at);
        REAL *p = address(table, tensors, 1, t) + at, *m = address(table, tensors, 3, t) + at;
        REAL* v = address(table, tensors, 4, t) + at;
        REAL g = gradient(table, tensors, t, at, scale, decay, *p);
        *m = b1 * *m + rest1 * g;
        *v = b2 * *v + rest2 * g * g;
        *p -= rate * *m / (sqrt(*v) / root + eps);
    }
}
