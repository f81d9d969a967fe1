"""Rademacher complexity, and what CReLU does to it (the paper's Theorem 4.1 and section S2).

A class F of functions is seen on a sample x_1 .. x_L only: it is a matrix, `values[f, i] = f(x_i)`.  With
independent fair signs sigma and the paper's normalisation (its sum over f is a slip for sup, its sum over i is
missing),

    R(F) = E_sigma sup_f |2/L sum_i sigma_i f(x_i)|.

Write, for one f,  a = 2/L sum_i sigma_i [f(x_i)]+  and  b = 2/L sum_i sigma_i [-f(x_i)]+.  Then

    f:  a - b      |f|:  a + b      ReLU f:  a      a^2 + b^2 = ((a - b)^2 + (a + b)^2) / 2.

**Layer.**  Let G = [F]^d (d inputs, each an f^j from F, chosen freely), let rho act on each of them and let h be
linear, h(z) = <W, z> with ||W||_2 <= B.  With n(f) = ||2/L sum_i sigma_i rho(f(x_i))||_2,

    R(H o rho o G) = E sup_g sup_W |<W, 2/L sum_i sigma_i rho(g(x_i))>| = B E sup_g sqrt(sum_j n(f^j)^2)
                   = B sqrt(d) E sup_f n(f),

because Cauchy-Schwarz is attained and each f^j may be the best one.  For CReLU n(f) = sqrt(a^2 + b^2).

**The paper's theorem**, R(H o CReLU o G) <= sqrt(d) B R(F), is false: it takes sqrt(a^2 + b^2) for |a - b|.  In
units of sqrt(d) B, and with M = sup_f |a - b|, X = sup_f |a + b| (so E M = R(F), E X = R(|F|)), what holds is

    R(F) / sqrt 2  <=  E sup_f sqrt(a^2 + b^2)  <=  (R(F) + R(|F|)) / sqrt 2  <=  3 / sqrt 2  R(F)
                       E sup_f sqrt(a^2 + b^2)  <=  sqrt 3  R(F).

*Proof.*  sqrt((s^2 + t^2) / 2) lies between |s| / sqrt 2 and (|s| + |t|) / sqrt 2: the first two.  For the others:

1. Contraction.  Add 0 to F (which changes nothing); let P = sup_f (a + b) >= 0 and G = sup_f (a - b) <= M.  Then
   E psi(P) <= E psi(G) for every nondecreasing psi.  One point i at a time: let U_f be the sum over the other points,
   f and g the best functions at sigma_i = 1 and -1.  If f_i >= 0, then U_f + |f_i| = U_f + f_i, which is at most the
   new sup at sigma_i = 1, and U_g - |g_i| <= U_g - g_i, at most that at -1.  If f_i < 0, then U_f + |f_i| = U_f - f_i
   and U_g - |g_i| <= U_g + g_i: the same with the two signs exchanged.
2. X = max(P, Q) where Q = sup_f (-a - b) >= 0 has the law of P (sigma -> -sigma).  So E X <= 2 E P <= 2 E M, which is
   the third inequality, and E X^2 <= E P^2 + E Q^2 <= 2 E M^2.
3. Kahane's inequality with its sharp constant (Latala and Oleszkiewicz 1994): E M^2 <= 2 (E M)^2.  M(sigma) is even and
   a seminorm of sigma.  Let D M = 1/2 sum_i (M(sigma) - M(sigma with sign i flipped)).  The flipped vectors add up to
   (L - 2) sigma, so D M <= M by the triangle inequality.  D multiplies a Walsh function of degree k by k, and an even
   function has degrees 0, 2, 4, ...: E[M D M] >= 2 (E M^2 - (E M)^2).  Hence 2 (E M^2 - (E M)^2) <= E M^2.
4. (E sup sqrt(a^2 + b^2))^2 <= E (M^2 + X^2) / 2 <= 3/2 E M^2 <= 3 (E M)^2.   QED

The constant sqrt 2 is attained (F = {(1, -1)}), 1 / sqrt 2 is approached (`differences`).  Whether sqrt 2 is also the
largest possible is open: minicnn/theory/sharp_constant.py, and docs/proofs.md for the cases that are proved.

**Composition lemma.**  R(rho o F) <= 2 Lip(rho) R(F) if rho(0) = 0 (Ledoux and Talagrand).  The paper has an
equality and no factor 2; `COUNTEREXAMPLES` has classes for which R(|F|) = 4/3 R(F) and R(ReLU o F) = 7/6 R(F).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, sqrt

import numpy as np

from minicnn.backend import Array, array_module, device_of, where_its_arrays_are
from minicnn.parallel import pieces
from minicnn.theory.monte_carlo import Estimate, MonteCarlo

MOST_EXACT_POINTS = 24  # 2^23 sign vectors up to sign: some seconds for a small class

ATTAINED = sqrt(2)  # R(H o CReLU o G) = ATTAINED sqrt(d) B R(F) for F = {(1, -1)}
PROVED = sqrt(3)  # and never more than this: see above
TRIANGLE = 3 / sqrt(2)  # what the triangle inequality and the composition lemma give


def all_signs(first: int, last: int, points: int) -> np.ndarray:
    """Rows first .. last - 1 of the 2^(points - 1) sign vectors that begin with +1: all, up to sigma -> -sigma."""
    bits = (np.arange(first, last, dtype=np.int64)[:, None] >> np.arange(points)) & 1
    return (1 - 2 * np.roll(bits, 1, axis=1)).astype(np.int8)  # bit number points - 1, always 0, goes to the front


def random_signs(by: MonteCarlo, first: int, last: int, points: int) -> np.ndarray:
    """Random sign vectors number first .. last - 1, (last - first, points) int8, whatever is drawn with them."""
    here = by.stream.at(by.stream.step, by.stream.first + first)
    return (1 - 2 * (here.uniform16(last - first, points) & 1).astype(np.int8)).astype(np.int8)


def _expectation(sup: Callable[[Array], Array], like: Array, points: int, row: int, by: MonteCarlo | None) -> Estimate:
    """E sup(sigma), exact if `by` is None.

    sup    takes sign vectors (n, points), arrays like `like`, to (n,); sup(-sigma) = sup(sigma)
    row    how many numbers `sup` keeps in memory for one sign vector
    """
    if by is None and points > MOST_EXACT_POINTS:
        raise ValueError(
            f"rademacher: 2^{points - 1} sign vectors are too many to enumerate (at most {MOST_EXACT_POINTS} points); "
            "pass by=MonteCarlo(samples, stream) for an estimate"
        )
    n = 2 ** (points - 1) if by is None else by.samples
    device, total, total_square = device_of(like), 0.0, 0.0
    for piece in pieces(n, row * like.dtype.itemsize, like):
        which = piece.start, piece.stop, points
        signs = all_signs(*which) if by is None else random_signs(by, *which)
        value = sup(device.put(signs.astype(like.dtype))).astype(np.float64)
        total, total_square = total + value.sum(), total_square + (value * value).sum()
    return Estimate(float(total) / n) if by is None else by.estimate(float(total), float(total_square))


# --- complexities ---

NORMS: dict[str, Callable[[Array, Array], Array]] = {  # by activation: n(f) as a function of a and b
    "identity": lambda a, b: abs(a - b),
    "relu": lambda a, b: abs(a),
    "avr": lambda a, b: abs(a + b),
    "crelu": lambda a, b: array_module(a).hypot(a, b),
}


@where_its_arrays_are
def layer(values: Array, *, activation: str, bound: float = 1.0, d: int = 1, by: MonteCarlo | None = None) -> Estimate:
    """R(H o rho o G) = B sqrt(d) E sup_f n(f) of a layer: G = [F]^d, the activation rho, then ||W||_2 <= B = bound.

    values       (functions, points), float: the class F on the sample
    activation   "identity", "relu", "avr" or "crelu"
    by           None: exact, over all signs; or MonteCarlo(samples, stream)

    With d = bound = 1 this is R(rho o F); for CReLU, whose values are pairs, R of the class {<u, rho o f>, ||u|| <= 1}.
    """
    xp = array_module(values)
    if activation not in NORMS or bound < 0 or d < 1:
        raise ValueError(
            f"layer: needs bound >= 0, d >= 1 and an activation of {', '.join(NORMS)}; "
            f"got bound={bound}, d={d}, activation={activation!r}"
        )
    _check("layer", values, "(functions, points)")
    functions, points = values.shape
    positive, negative = xp.maximum(values, 0).T, xp.maximum(-values, 0).T  # (points, functions)

    def sup(signs: Array) -> Array:
        return NORMS[activation](signs @ positive, signs @ negative).max(axis=1)  # (n, functions) -> (n,)

    return _expectation(sup, values, points, points + 4 * functions, by).scaled(2 / points * bound * sqrt(d))


def rademacher(values: Array, *, by: MonteCarlo | None = None) -> Estimate:
    """R(F) = E sup_f |2/L sum_i sigma_i f(x_i)| of the finite class `values`, (functions, points)."""
    return layer(values, activation="identity", by=by)


@where_its_arrays_are
def rademacher_linear(x: Array, *, bound: float = 1.0, norm: float = 2, by: MonteCarlo | None = None) -> Estimate:
    """R of the linear functions {x -> <w, x>, ||w||_norm <= bound} on the points x, (points, D); norm 1, 2 or inf.

    The sup is a dual norm:  sup_w |2/L sum_i sigma_i <w, x_i>| = bound ||2/L sum_i sigma_i x_i||_*.  For norm 2,
    R is between sqrt(1/2) and 1 times 2 bound / L sqrt(sum_i ||x_i||^2)   (Kahane, step 3 above; Jensen).
    """
    xp = array_module(x)
    duals: dict[float, Callable[[Array], Array]] = {
        1: lambda v: abs(v).max(axis=1),
        2: lambda v: xp.sqrt((v * v).sum(axis=1)),
        inf: lambda v: abs(v).sum(axis=1),
    }
    if norm not in duals or bound < 0:
        raise ValueError(f"rademacher_linear: needs norm 1, 2 or inf and bound >= 0, got norm={norm}, bound={bound}")
    _check("rademacher_linear", x, "(points, dimensions)")
    points, dimensions = x.shape
    expectation = _expectation(lambda signs: duals[norm](signs @ x), x, points, points + 3 * dimensions, by)
    return expectation.scaled(2 / points * bound)


@dataclass(frozen=True)
class ComplexityBounds:
    """What the complexity of a CReLU layer is compared with: these times sqrt(d) B (see the top of this file)."""

    paper: float  # R(F): the paper's upper bound, false
    lower: float  # R(F) / sqrt 2
    two_terms: float  # (R(F) + R(|F|)) / sqrt 2
    proved: float  # sqrt 3 R(F)
    triangle: float  # 3 / sqrt 2 R(F)


def crelu_bounds(values: Array, *, bound: float = 1.0, d: int = 1, by: MonteCarlo | None = None) -> ComplexityBounds:
    """The bounds on layer(values, activation="crelu", bound=bound, d=d); point estimates if `by` is given."""
    plain, modulus = (layer(values, activation=a, bound=bound, d=d, by=by).value for a in ("identity", "avr"))
    return ComplexityBounds(plain, plain / sqrt(2), (plain + modulus) / sqrt(2), PROVED * plain, TRIANGLE * plain)


# --- classes to try a statement on ---


def differences(points: int) -> np.ndarray:
    """All e_i - e_j, i < j: R(|F|) / R(F) is 4/3 at 3 points; for CReLU the ratio tends to 1/sqrt 2 with more."""
    i, j = np.triu_indices(points, 1)
    return np.eye(points)[i] - np.eye(points)[j]


@dataclass(frozen=True)
class Counterexample:
    """A class for which `statement` fails: left is R(rho o F) (CReLU: of the layer with d = B = 1), right is R(F)."""

    statement: str
    activation: str
    values: tuple[tuple[int, ...], ...]
    left: float
    right: float


COUNTEREXAMPLES = {
    "theorem": Counterexample("R(H o CReLU o G) <= sqrt(d) B R(F)", "crelu", ((1, -1),), sqrt(2), 1),
    "lemma, equality": Counterexample("R(ReLU o F) = R(F)", "relu", ((-1, -1),), 0, 1),
    "lemma, ReLU, 2 functions": Counterexample("R(ReLU o F) <= R(F)", "relu", ((-1, 2, 1), (1, 0, 1)), 3 / 2, 4 / 3),
    "lemma, ReLU": Counterexample("R(ReLU o F) <= R(F)", "relu", ((0, 1, 1), (1, -1, 0), (1, 0, 1)), 7 / 6, 1),
    "lemma, |f|, 2 functions": Counterexample("R(|F|) <= R(F)", "avr", ((-1, 1, 0), (-1, -1, 2)), 5 / 3, 4 / 3),
    "lemma, |f|": Counterexample("R(|F|) <= R(F)", "avr", ((1, -1, 0), (1, 0, -1), (0, 1, -1)), 4 / 3, 1),
}


def _check(where: str, x: Array, shape: str) -> None:
    xp = array_module(x)
    if x.dtype not in (np.float32, np.float64):
        raise TypeError(f"{where}: needs float32 or float64, got {x.dtype}; use .astype('float64')")
    if x.ndim != 2 or 0 in x.shape:
        raise ValueError(f"{where}: needs an array {shape} with at least one of each, got shape {x.shape}")
    if not bool(xp.isfinite(x).all()):
        raise ValueError(f"{where}: the values must be finite")
