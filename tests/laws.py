"""An algebraic identity for every op; each takes the op and drawn arguments, and asserts."""

import numpy as np

from minicnn import ops
from minicnn.gradcheck import check_adjoint


def close(a, b, tolerance=1e-12):
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


def add(op, a, b):
    close(op(a, b), op(b, a), 0)


def subtract(op, a, b):
    close(op(a, b), -op(b, a), 0)


def multiply(op, a, b):
    close(op(a, b) ** 2, op(a * a, b * b))


def divide(op, a, b):
    close(op(a, b) * b, np.broadcast_to(a, np.broadcast_shapes(a.shape, b.shape)))


def involution(op, a):
    close(op(op(a)), a, 0)


def matmul(op, a, b):
    """(a b)' = b' a'."""
    close(op(a, b).T, op(np.ascontiguousarray(b.T), np.ascontiguousarray(a.T)))


def linear(op, x, w, b=None):
    """x = 0 gives the bias, and differences do not see it."""
    zero = op(np.zeros_like(x), w, b)
    close(zero, np.zeros_like(zero) if b is None else np.broadcast_to(b, zero.shape), 0)
    close(op(2 * x, w, b) - op(x, w, b), op(x, w))


def reduce_sum(op, x, *, axis, keepdims):
    close(op(x, axis=axis, keepdims=keepdims).sum(), x.sum())


def reduce_mean(op, x, *, axis, keepdims):
    """The mean of a constant is the constant."""
    close(op(np.full(x.shape, 7.0), axis=axis, keepdims=keepdims), 7)


def keeps_values(op, x, *, shape):
    close(op(x, shape=shape).ravel(), x.ravel(), 0)


def exp(op, x):
    """e^x e^-x = 1, and e^2x = (e^x)^2."""
    close(op(x) * op(-x), 1)
    close(op(2 * x), op(x) ** 2)


def log(op, x):
    """ln x^3 = 3 ln x, and the inverse of exp."""
    close(op(x**3), 3 * op(x))
    close(op(np.exp(x)), x)


def sigmoid(op, x):
    """s(x) + s(-x) = 1, and ln(s / (1 - s)) = x."""
    y = op(x)
    close(y + op(-x), 1)
    close(np.log(y / (1 - y)), x, 1e-10)


def power(op, x, *, exponent):
    """(x^2)^p = (x^p)^2, and x^(p + 1) = x x^p."""
    y = op(x, exponent=exponent)
    close(op(x * x, exponent=exponent), y * y, 1e-10)
    close(op(x, exponent=exponent + 1), x * y, 1e-10)


def getitem(op, x, *, at):
    """Every element of x is taken once or never; what is taken goes back to its place."""
    y, vjp = op.pair(x, at=at)
    taken = vjp(np.ones_like(y))[0]
    assert set(taken.ravel()) <= {0.0, 1.0}
    close(taken.sum(), y.size, 0)
    close(vjp(y)[0], taken * x, 0)


def concat(op, *xs, axis):
    """Splitting gives the parts back; the pieces of the gradient are those parts."""
    y, vjp = op.pair(*xs, axis=axis)
    for part, x in zip(vjp(y), xs, strict=True):
        close(part, x, 0)


def dropout(op, x, *, rate, stream):
    """Each entry is 0 or x / q; a larger rate drops all that a smaller one drops."""
    y = op(x, rate=rate, stream=stream)
    close(y[y != 0], x[y != 0] / (1 - round(rate * 65536) / 65536))
    harder = op(x, rate=0.6, stream=stream)
    assert not (harder[y == 0] != 0).any()


def relu(op, x):
    """x = [x]+ - [-x]+."""
    close(op(x) - op(-x), x, 0)


def leaky_relu(op, x):
    """A mixture of the identity and ReLU."""
    close(op(x, slope=0.2), 0.2 * x + 0.8 * ops.relu(x))


def avr(op, x):
    """|x| = rho+ + rho-."""
    close(op(x), ops.crelu(x, axis=0).reshape(2, *x.shape).sum(0), 0)


def crelu(op, x, *, axis):
    """||rho(x)|| = ||x||, min(rho+, rho-) = 0, rho(-x) is rho(x) with its halves swapped, rho(a x) = a rho(x)."""
    y = op(x, axis=axis)
    positive, negative = np.split(y, 2, axis)
    close(np.linalg.norm(y), np.linalg.norm(x))
    assert not np.minimum(positive, negative).any()
    close(op(-x, axis=axis), np.concatenate((negative, positive), axis), 0)
    close(op(4 * x, axis=axis), 4 * y, 0)


def crelu_inverse(op, y, *, axis):
    close(op(ops.crelu(y, axis=axis), axis=axis), y, 0)


def concatenated(op, x, *, activation, axis, slope):
    """Around ReLU it is CReLU; around the identity (slope 1) it is [x, -x]."""
    close(op(x, activation=ops.relu, axis=axis), ops.crelu(x, axis=axis), 0)
    close(op(x, activation=activation, axis=axis, slope=1.0), np.concatenate((x, -x), axis), 0)


def soft_threshold(op, x, *, threshold, axis):
    """No threshold, no difference to CReLU; otherwise entries move towards zero by it."""
    close(op(x, threshold=0.0, axis=axis), ops.crelu(x, axis=axis), 0)
    shrunk = ops.crelu_inverse(op(x, threshold=threshold, axis=axis), axis=axis)
    close(shrunk, np.sign(x) * np.maximum(np.abs(x) - threshold, 0))


def antirectifier(op, x):
    """Blind to the mean and the scale of each vector; unit norm."""
    y = op(x)
    close(op(3 * x + 5), y, 1e-9)
    close(np.linalg.norm(y, axis=-1), 1)


def conv2d(op, x, w, b=None, *, stride=1, pad=0):
    """Linear in x and in w; the data gradient is the adjoint of the forward pass."""
    y, vjp = op.pair(x, w, stride=stride, pad=pad)
    close(op(2 * x, w, stride=stride, pad=pad), 2 * y)
    close(op(x, -w, stride=stride, pad=pad), -y)
    if b is not None:
        close(op(x, w, b, stride=stride, pad=pad), y + b)
    check_adjoint(lambda a: op(a, w, stride=stride, pad=pad), lambda r: vjp(r)[0], x)
    check_adjoint(lambda a: op(x, a, stride=stride, pad=pad), lambda r: vjp(r)[1], w)


def conv2d_activated(op, x, w, b, *, activation, **static):
    """The positive part minus that of the opposite is the convolution."""
    y, opposite = op(x, w, b, activation=activation, **static), op(x, -w, -b, activation=activation, **static)
    f = w.shape[3]
    close((y - opposite)[..., :f], ops.conv2d(x, w, b, **static))
    if activation == "crelu":
        close(y[..., f:], opposite[..., :f], 0)


def conv2d_normalised(op, x, w, scale, shift, *, activation, **static):
    """To scale the output is to scale the filters."""
    y = ops.conv2d(x, w * scale, shift, **static)
    close(op(x, w, scale, shift, activation=activation, **static), getattr(ops, activation)(y) if activation else y)


def max_pool2d(op, x, **static):
    """Commutes with monotone functions; the gradient of the sum counts every window once."""
    y, vjp = op.pair(x, **static)
    close(op(np.exp(x), **static), np.exp(y), 0)
    close(vjp(np.ones_like(y))[0].sum(), y.size)


def avg_pool2d(op, x, **static):
    """Between the smallest and the largest value; a constant stays itself unless padding counts."""
    y = op(x, **static)
    assert (np.abs(y) <= np.abs(x).max() + 1e-12).all()
    close(op(np.full(x.shape, 3.0), **{**static, "count_include_pad": False}), 3)


def global_avg_pool(op, x):
    close(op(x), ops.avg_pool2d(x, k=x.shape[1:3]).reshape(x.shape[0], -1))


def batch_norm(op, x, gamma, beta, *, eps, moments=None, fixed=False):
    """Training: the output has mean beta; a shift of x changes nothing.  Evaluation: affine in x."""
    y = op(x, gamma, beta, eps=eps, moments=moments, fixed=fixed)
    if fixed:
        middle = op(np.zeros_like(x), gamma, beta, eps=eps, moments=moments, fixed=True)
        close(op(2 * x, gamma, beta, eps=eps, moments=moments, fixed=True) - middle, 2 * (y - middle))
    else:
        close(y.reshape(-1, y.shape[-1]).mean(0), beta)
        close(op(x + 5, gamma, beta, eps=eps), y, 1e-9)


def softmax(op, x):
    """Sums to 1; blind to a shift."""
    close(op(x).sum(-1), 1)
    close(op(x + 3), op(x))


def log_softmax(op, x):
    close(np.exp(op(x)), ops.softmax(x))


def softmax_cross_entropy(op, logits, labels, **static):
    """Never below 0; blind to a shift; each row of the gradient sums to 0; linear in the smoothing."""
    y, vjp = op.pair(logits, labels, **static)
    assert y >= 0
    close(op(logits + 3, labels, **static), y)
    close(vjp(np.ones(()))[0].sum(-1), 0)
    sharp, half = op(logits, labels), op(logits, labels, smoothing=0.5)
    close(y, sharp + 2 * static.get("smoothing", 0) * (half - sharp))
