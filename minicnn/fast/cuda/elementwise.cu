// Activations.  A NaN comes out as it went in: comparisons with it are false.

// ReLU and CReLU of x + bias, for x (rows, C) and bias (C,): the bias of a convolution is added here, if there is one.
__device__ REAL biased(const REAL* x, const REAL* bias, INDEX i, INDEX C) {
    return bias ? x[i] + bias[i % C] : x[i];
}

KERNEL relu(REAL* y, const REAL* x, const REAL* bias, INDEX C, INDEX count) {
    EACH(i, count) {
        REAL value = biased(x, bias, i, C);
        y[i] = value <= 0 ? 0 : value;
    }
}

KERNEL relu_grad(REAL* gx, const REAL* g, const REAL* y, INDEX count) {
    EACH(i, count) gx[i] = y[i] > 0 ? g[i] : 0;
}

KERNEL leaky_relu(REAL* y, const REAL* x, REAL slope, INDEX count) {
    EACH(i, count) y[i] = x[i] > 0 ? x[i] : slope * x[i];
}

KERNEL leaky_relu_grad(REAL* gx, const REAL* g, const REAL* x, REAL slope, INDEX count) {
    EACH(i, count) gx[i] = x[i] > 0 ? g[i] : slope * g[i];
}

KERNEL avr(REAL* y, const REAL* x, INDEX count) {
    EACH(i, count) y[i] = x[i] <= 0 ? 0 - x[i] : x[i];
}

KERNEL avr_grad(REAL* gx, const REAL* g, const REAL* x, INDEX count) {
    EACH(i, count) {
        REAL sign = x[i] > 0 ? 1 : x[i] < 0 ? -1 : x[i];
        gx[i] = g[i] * sign;
    }
}

// x (rows, C) -> y (rows, 2 C): a thread for each x.
KERNEL crelu(REAL* y, const REAL* x, const REAL* bias, INDEX C, INDEX count) {
    EACH(i, count) {
        INDEX at = i / C * 2 * C + i % C;
        REAL value = biased(x, bias, i, C);
        y[at] = value <= 0 ? 0 : value;
        y[at + C] = value >= 0 ? 0 : -value;
    }
}

KERNEL crelu_grad(REAL* gx, const REAL* g, const REAL* y, INDEX C, INDEX count) {
    EACH(i, count) {
        INDEX at = i / C * 2 * C + i % C;
        REAL positive = y[at] > 0 ? g[at] : 0, negative = y[at + C] > 0 ? g[at + C] : 0;
        gx[i] = positive - negative;
    }
}
