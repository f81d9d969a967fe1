"""Typical mistakes: each changes one place of a right answer (tests/exercises/right) and must be refused.

`says` is what the verdict must tell the student: a part of the message.
"""

from __future__ import annotations

from typing import NamedTuple


class Mistake(NamedTuple):
    task: str
    name: str
    old: str
    new: str
    says: str


MISTAKES = [
    Mistake("write_an_op", "halves swapped", "a, b = xp.split", "b, a = xp.split", "expected  y[0, 0] = 1.5"),
    Mistake("write_an_op", "no factor a", "g * a * s * (1 - s)", "g * s * (1 - s)", "gx is wrong for axis=-1, x = ["),
    Mistake("write_an_op", "exp overflows", "(1 + xp.tanh(b / 2)) / 2", "1 / (1 + xp.exp(-b))", "overflow"),
    Mistake(
        "write_an_op",
        "exp overflows in float32",
        "(1 + xp.tanh(b / 2)) / 2",
        "1 / (1 + xp.exp(-xp.clip(b, -500, 500)))",
        "overflow",
    ),
    Mistake("write_an_op", "float64", "return a * s, vjp", "return a.astype(float) * s, vjp", "dtype float64"),
    Mistake("write_an_op", "gradient in float64", "(1 - s)), axis)", "(1 - s)), axis) * xp.ones(1)", "gx has dtype"),
    Mistake("write_an_op", "no axis", "(x, 2, axis)", "(x, 2, -1)", "axis=0"),
    Mistake("write_an_op", "odd size", "if x.shape[axis] % 2:", "if False:", "has no halves"),
    Mistake("write_an_op", "error of the wrong kind", "raise ValueError(f", "raise KeyError(f", "not KeyError"),
    Mistake("write_an_op", "error without a shape", '(f"glu: axis {axis} of x {x.shape}', '(f"axis', "name glu"),
    Mistake("write_an_op", "not an op", "@op\n", "", "put @op"),
    Mistake("write_an_op", "writes into x", "return a * s, vjp", "a *= s\n    return a.copy(), vjp", "gx is wrong"),
    Mistake("write_an_op", "an array for a tuple", "axis),)", "axis))", "tuple with one gradient"),
    Mistake("break_a_gradient", "not broken", "np.roll(g, 1, axis=1)", "g", "nothing is broken"),
    Mistake(
        "break_a_gradient", "broken for ones", "np.where(x > 0, g_pos, -g_neg)", "g_pos", "where it should be right"
    ),
    Mistake("break_a_gradient", "wrong value", "np.maximum(-x, 0)), 1)", "np.minimum(x, 0)), 1)", "y is wrong"),
    Mistake("break_a_gradient", "cotangent of ones", "g = rng.normal(size=y.shape)", "g = np.ones(y.shape)", "centred"),
    Mistake(
        "break_a_gradient",
        "absolute tolerance",
        "1e-6 * max(float(abs(ga * v).sum()), abs(numeric))",
        "1e-4",
        "use relative errors",
    ),
    Mistake("break_a_gradient", "too tolerant", "> 1e-6 *", "> 0.01 *", "One entry of forty"),
    Mistake(
        "break_a_gradient",
        "one entry",
        "v = rng.normal(size=a.shape)",
        "v = 1.0 * (np.arange(a.size) == 0).reshape(a.shape)",
        "expected",
    ),
    Mistake("break_a_gradient", "says True", "            return i\n", "            return True\n", "expected"),
    Mistake(
        "faster_layer",
        "flipped",
        "matrix = w.reshape",
        "matrix = w[::-1, ::-1].reshape",
        "y is wrong for x (1, 3, 3, 1)",
    ),
    Mistake("faster_layer", "windows overwrite", "+= blocks", "= blocks", "gx is wrong"),
    Mistake(
        "faster_layer",
        "padding kept",
        "image[:, pad : pad + height, pad : pad + width], gw",
        "image, gw",
        "gx has the wrong shape",
    ),
    Mistake("faster_layer", "stride of the gradient", "j : j + ow * stride : stride] +=", "j : j + ow] +=", "stride=2"),
    Mistake(
        "faster_layer",
        "a library",
        "import numpy as np\n",
        "import numpy as np\nimport minicnn.ops\n",
        "line 2 uses minicnn",
    ),
    Mistake(
        "faster_layer",
        "a library by its name",
        "import numpy as np\n",
        "import importlib\nimport numpy as np\n",
        "line 1 uses importlib",
    ),
    Mistake(
        "reconstruct",
        "ours",
        "import numpy as np\n",
        "import numpy as np\nfrom minicnn.theory import reconstruction\n",
        "line 2 uses minicnn",
    ),
    Mistake(
        "sqrt_two",
        "by the back door",
        "import numpy as np\n",
        "import numpy as np\n__import__('minicnn')\n",
        "uses __im",
    ),
    Mistake("pairing_null", "modulus", "cosines = phi @ phi.T", "cosines = -abs(phi @ phi.T)", "mu is wrong"),
    Mistake("pairing_null", "lengths", "rows / np.linalg.norm(rows, axis=1, keepdims=True)", "rows", "mu is wrong"),
    Mistake("pairing_null", "uniform entries", "rng.normal(size=shape)", "rng.random(shape)", "distribution is off"),
    Mistake(
        "pairing_null",
        "corners of a cube",
        "rng.normal(size=shape)",
        "rng.choice([-1.0, 1.0], shape)",
        "distribution is off",
    ),
    Mistake("pairing_null", "its own generator", "mu(rng.normal", "mu(np.random.default_rng().normal", "same rng"),
    Mistake(
        "pairing_null",
        "one draw",
        "mu(rng.normal(size=shape)) for _",
        "bank for bank in [mu(rng.normal(size=shape))] for _",
        "repeats",
    ),
    Mistake("pairing_null", "p of 0", "(1 + lower.sum()) / (1 + draws)", "lower.sum() / draws", "no p-value is 0"),
    Mistake("pairing_null", "the mean against single filters", ".mean(axis=1) <= mu(w)", "[:, 0] <= mu(w)", "uniform"),
    Mistake(
        "pairing_null",
        "the mean against all filters",
        "(1 + lower.sum()) / (1 + draws)",
        "max(1 / 50, (random_mu(w.shape, draws, rng) <= mu(w).mean()).mean())",
        "uniform",
    ),
    Mistake("pairing_null", "least mu", ".mean(axis=1) <= mu(w).mean()", ".min(axis=1) <= mu(w).min()", "orthogonal"),
    Mistake("pairing_null", "first filter", ".mean(axis=1) <= mu(w).mean()", "[:, 0] <= mu(w)[0]", "orthogonal"),
    Mistake("pairing_null", "wrong side", "<= mu(w)", ">= mu(w)", "1 / 50"),
    Mistake(
        "pairing_null",
        "two sides",
        "return (1 + lower.sum()) / (1 + draws)",
        "return (1 + min(lower.sum(), (~lower).sum())) / (1 + draws)",
        "about 1",
    ),
    Mistake("sqrt_two", "sum over f, as printed", "lengths.max(axis=1)", "lengths.sum(axis=1)", "complexity is wrong"),
    Mistake("sqrt_two", "no factor 2", "a = 2 / points", "a = 1 / points", "complexity is wrong"),
    Mistake(
        "sqrt_two", "sup after mean", "lengths.max(axis=1).mean()", "lengths.mean(axis=0).max()", "complexity is wrong"
    ),
    Mistake("sqrt_two", "norm of one", "np.hypot(a, b)", "abs(a) + abs(b)", '"crelu"'),
    Mistake(
        "sqrt_two",
        "one sign",
        "values[0, :2] = 1, -1\n    return",
        "values[0, :2] = 1, 1\n    return",
        "counterexample(2)",
    ),
    Mistake("sqrt_two", "one point too few", "np.zeros((1, points))", "np.zeros((1, 2))", "should have 3 columns"),
    Mistake("sqrt_two", "zero class", "values[0, :2] = 1, -1\n    return", "return", "are 0"),
    Mistake("sqrt_two", "not robust", "1e-3 * np.ones", "0.5 * np.ones", "above 1.4"),
    Mistake("sqrt_two", "multiples", "    values[1, 0] = -1e-3\n", "", "multiple of function 1"),
    Mistake("sqrt_two", "zeros in the robust one", "1e-3 * np.ones", "np.zeros", "no value may be 0"),
    Mistake(
        "prove_or_refute",
        "believes the paper",
        '"relu": nearly([(0, 1, 1), (1, -1, 0), (1, 0, 1)])',
        '"relu": "holds"',
        "does not hold",
    ),
    Mistake(
        "prove_or_refute",
        "copied from the errata",
        "return np.where(values == 0, SMALL, values)",
        "return values",
        "no value 0",
    ),
    Mistake(
        "prove_or_refute",
        "three points",
        "values = np.concatenate((values, np.zeros((len(values), 1))), axis=1)",
        "",
        "4 points",
    ),
    Mistake("prove_or_refute", "too far from it", "SMALL = 1e-3", "SMALL = 1.0", "is not broken by"),
    Mistake(
        "prove_or_refute",
        "breaks what holds",
        '"modulus_twice": "holds"',
        '"modulus_twice": nearly([(1, -1, 0), (1, 0, -1), (0, 1, -1)])',
        "modulus_twice",
    ),
    Mistake("prove_or_refute", "forgets one", '        "crelu_lower": "holds",', "", "says nothing about crelu_lower"),
    Mistake(
        "prove_or_refute",
        "another word",
        '"relu_single": "holds"',
        '"relu_single": True',
        "relu_single should be a matrix",
    ),
    Mistake("max_pool_bound", "positive shifts", "-np.ones((1, 3))", "np.ones((1, 3))", "(S1) does not hold"),
    Mistake("max_pool_bound", "one shift", "-np.ones((1, 3))", "-np.ones((1, 1))", "bound 0"),
    Mistake(
        "max_pool_bound",
        "shifts that overlap",
        "[1.0]]), -np.ones((1, 3)), 2",
        "[1.0]]), -np.ones((1, 2)), 1",
        "got       ratio",
    ),
    Mistake("max_pool_bound", "copied from the errata", "[[1.0], [1.0]]", "[[1.0]]", "at least 2 entries"),
    Mistake(
        "max_pool_bound",
        "dependent shifts",
        "[[1.0], [1.0]]), -np.ones((1, 3))",
        "[[1.0, 1.0], [1.0, 1.0]]), -np.ones((2, 3))",
        "dependent",
    ),
    Mistake("max_pool_bound", "no stride", "np.ones((1, 3)), 2", "np.ones((1, 3))", "tuple of 3"),
    Mistake("reconstruct", "bias forgotten", "[..., filters:] - b", "[..., filters:]", "x' is wrong"),
    Mistake("reconstruct", "one phase", "y[..., :filters] - y[..., filters:]", "y[..., :filters]", "x' is wrong"),
    Mistake("reconstruct", "order of the axes", "w.transpose(3, 0, 1, 2)", "w.transpose(3, 1, 0, 2)", "x' is wrong"),
    Mistake("reconstruct", "damped", "rcond=None", "rcond=0.3", "x' is wrong"),
    Mistake("reconstruct", "flat", "x.T.reshape(len(z), *size, channels)", "x.T", "wrong shape"),
]
