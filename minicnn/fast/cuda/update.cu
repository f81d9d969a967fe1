// Optimiser steps over all parameters at once.
//
// table (rows, tensors) describes them: row 0 where each ends if all are laid end to end, row 1 the addresses of the
// parameters, row 2 of their gradients, rows 3 and 4 of what the optimiser keeps for them.  Muon has its own row 4 and 5.

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

// Muon.  Row 3 of its table has the velocities, row 4 the number of columns F of each matrix, row 5 whether it is turned.
// A stack (tensors, R, C) holds all matrices, those that are taller than wide turned, the rest filled up with zeros.

__device__ INDEX size_of(const i64* table, INDEX t) {
    return (INDEX)(t ? table[t] - table[t - 1] : table[t]);
}

// Where the stack has element `at` of matrix t.
__device__ INDEX in_stack(const i64* table, INDEX tensors, INDEX t, INDEX at, INDEX R, INDEX C) {
    INDEX columns = (INDEX)table[4 * tensors + t], row = at / columns, column = at % columns;
    return table[5 * tensors + t] ? (t * R + column) * C + row : (t * R + row) * C + column;
}

// v = momentum v + g,   stack = g + momentum v
KERNEL muon_gather(REAL* stack, const i64* table, const REAL* scale, INDEX tensors, INDEX R, INDEX C, REAL momentum,
                   INDEX count) {
    EACH(i, count) {
        INDEX at, t = tensor_of(table, tensors, i, &at);
        REAL* v = address(table, tensors, 3, t) + at;
        REAL g = gradient(table, tensors, t, at, scale, 0, 0);
        *v = momentum * *v + g;
        stack[in_stack(table, tensors, t, at, R, C)] = g + momentum * *v;
    }
}

// sums (tensors, F, shares): what a share of the rows adds to column f of matrix t.
KERNEL muon_column_sums(REAL* sums, const REAL* stack, const i64* table, INDEX tensors, INDEX R, INDEX C, INDEX F,
                        INDEX shares, INDEX count) {
    EACH(i, count) {
        INDEX share = i % shares, f = i / shares % F, t = i / shares / F;
        INDEX columns = (INDEX)table[4 * tensors + t], size = size_of(table, t);
        REAL sum = 0;
        if (f < columns)
            for (INDEX at = share * columns + f; at < size; at += shares * columns)
                sum += stack[in_stack(table, tensors, t, at, R, C)];
        sums[i] = sum;
    }
}

// Take the mean of each column out: sums (tensors, F).
KERNEL muon_centre(REAL* stack, const REAL* sums, const i64* table, INDEX tensors, INDEX R, INDEX C, INDEX F,
                   INDEX count) {
    EACH(i, count) {
        INDEX at, t = tensor_of(table, tensors, i, &at), columns = (INDEX)table[4 * tensors + t];
        stack[in_stack(table, tensors, t, at, R, C)] -= sums[t * F + at % columns] / (size_of(table, t) / columns);
    }
}

// y = a x + b z; y may be x or z.
KERNEL combine(REAL* y, const REAL* x, const REAL* z, REAL a, REAL b, INDEX count) {
    EACH(i, count) y[i] = a * x[i] + b * z[i];
}

// p = shrink p - lr s q, with q from the stack and s[t]
KERNEL muon_descend(const i64* table, const REAL* stack, const REAL* s, INDEX tensors, INDEX R, INDEX C, REAL shrink,
                    REAL lr, INDEX count) {
    EACH(i, count) {
        INDEX at, t = tensor_of(table, tensors, i, &at);
        REAL* p = address(table, tensors, 1, t) + at;
        *p = shrink * *p - lr * s[t] * stack[in_stack(table, tensors, t, at, R, C)];
    }
}

// squares (tensors, shares): what a share of the numbers of parameter t adds to the square of its norm.
KERNEL parameter_squares(REAL* squares, const i64* table, INDEX tensors, INDEX shares, INDEX count) {
    EACH(i, count) {
        INDEX t = i / shares, size = size_of(table, t);
        const REAL* p = address(table, tensors, 1, t);
        REAL sum = 0;
        for (INDEX at = i % shares; at < size; at += shares) sum += p[at] * p[at];
        squares[i] = sum;
    }
}

// Each parameter back to the norm that it had; before and after (tensors,) are squares of norms.
KERNEL restore_norms(const i64* table, const REAL* before, const REAL* after, INDEX tensors, INDEX count) {
    EACH(i, count) {
        INDEX at, t = tensor_of(table, tensors, i, &at);
        if (before[t] != 0 && after[t] != 0) address(table, tensors, 1, t)[at] *= sqrt(before[t] / after[t]);
    }
}
