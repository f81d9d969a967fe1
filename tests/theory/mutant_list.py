"""The mutants: what is changed in which file.  tests/theory/mutants.py runs them."""

from typing import NamedTuple


class Mutant(NamedTuple):
    name: str
    path: str  # of the file that is changed
    old: str  # a text that occurs once in it
    new: str
    tests: tuple[str, ...]


def _of(module: str, *changes: tuple[str, str, str]) -> list[Mutant]:
    """Mutants of one file of minicnn/theory; its tests are those of the same name."""
    path, tests = f"minicnn/theory/{module}.py", (f"tests/theory/test_{module}.py",)
    return [Mutant(f"{module}: {name}", path, old, new, tests) for name, old, new in changes]


MUTANTS = [
    *_of(
        "monte_carlo",
        ("variance over n", "/ (self.samples - 1)", "/ self.samples"),
        ("one-sided quantile", "(1 + self.level) / 2", "self.level"),
        ("standard deviation, not error", "sqrt(variance / self.samples)", "sqrt(variance)"),
        ("width not scaled", "self.half_width * factor", "self.half_width"),
    ),
    *_of(
        "rademacher",
        ("proved constant too small", "PROVED = sqrt(3)", "PROVED = sqrt(2.05)"),
        ("lower bound too large", "plain / sqrt(2), (plain", "plain / 1.5, (plain"),
        ("two terms without the modulus", "(plain + modulus) / sqrt(2)", "(plain + plain) / sqrt(2)"),
        ("biased signs", "& 1).astype(np.int8)).astype(np.int8)", "< 34079).astype(np.int8)).astype(np.int8)"),
        (
            "the same sign twice",
            "return (1 - 2 * (here.uniform16(last - first, points) & 1)",
            "return (1 - 2 * (here.uniform16(last - first, points)[:, np.arange(points) // 2] & 1)",
        ),
        ("fewer points are enumerated", "MOST_EXACT_POINTS = 24", "MOST_EXACT_POINTS = 12"),
        ("more points are enumerated", "MOST_EXACT_POINTS = 24", "MOST_EXACT_POINTS = 25"),
        ("normalised by L", ".scaled(2 / points * bound * sqrt(d))", ".scaled(1 / points * bound * sqrt(d))"),
        ("d for sqrt(d)", "bound * sqrt(d))", "bound * d)"),
        ("crelu by the largest phase", "array_module(a).hypot(a, b)", "array_module(a).maximum(abs(a), abs(b))"),
        ("half of the cube is not half", "np.roll(bits, 1, axis=1)", "bits"),
        ("the l1 ball for the cube", "inf: lambda v: abs(v).sum(axis=1)", "inf: lambda v: abs(v).max(axis=1)"),
        (
            "differences without their sign",
            "np.eye(points)[i] - np.eye(points)[j]",
            "np.eye(points)[i] + np.eye(points)[j]",
        ),
    ),
    *_of(
        "sharp_constant",
        ("a cube in another order", "np.arange(points)[::-1]) & 1)", "np.arange(points)[::-1] // 1) % 2) * 0"),
        ("P is two-sided", "np.maximum(t.max(axis=1), 0), abs(t)", "abs(t).max(axis=1), abs(t)"),
        ("N without the half", "np.sqrt((s**2 + t**2) / 2)", "np.sqrt(s**2 + t**2)"),
        ("flips are doubled", "np.zeros_like(table)).ravel() / 2", "np.zeros_like(table)).ravel()"),
        ("K1 with the mean of squares", "float((P**2).mean() / mean**2)", "float((P**2).mean() / (M**2).mean())"),
        ("m is the larger side", "np.minimum(G, G[::-1])", "np.maximum(G, G[::-1])"),
    ),
    *_of(
        "frames",
        ("the shorter side decides the rank", "s > max(shape) * (np", "s > min(shape) * (np"),
        ("singular values not squared", "Bounds(least * least, largest", "Bounds(least, largest"),
        ("all singular values count", "least, largest = float(s[rank - 1])", "least, largest = float(s[-1])"),
        (
            "no error in the dense case",
            "LayerBounds(lower, upper, rank, error, error)",
            "LayerBounds(lower, upper, rank, 0.0, error)",
        ),
        ("the filters' rank is not reduced", "w = (u * s).reshape", "w = (u / s).reshape"),
        ("zero is not recognised", "if lower <= max(conv.shape)", "if lower <= 0 * max(conv.shape)"),
        ("projection on the wrong side", "return u @ (u.T @ x)", "return u @ (u.T @ x) * (1 + 1e-6)"),
        (
            "shifts without their stride",
            "W[j * stride : j * stride + length, :, j] = filters",
            "W[j : j + length, :, j] = filters",
        ),
        ("the norm for the lower bound", "return math.sqrt(lower) * norm, float", "return lower * norm, float"),
        (
            "the iteration forgets the residual",
            "float(np.linalg.norm(square @ vector - value * vector))",
            "float(np.linalg.norm(square @ vector - value * vector)) * 1e-6",
        ),
    ),
    *_of(
        "operators",
        ("tiles without damping", "little * largest) + self.damping)", "little * largest))"),
        ("tiles that do not overlap", "step = min(tile, max(unit, tile // 2 // unit * unit))", "step = tile"),
        (
            "an inverse that is not symmetric",
            "(0.5 * (inverse + inverse.T))",
            "(inverse + 1e-2 * inverse.max() * xp.tri(n))",
        ),
        ("windows at the border are left out", "if cut - k < start < cut + tile)", "if cut <= start < cut + tile)"),
        ("the adjoint of the first batch size", "if self._adjoint[0] != n:", "if self._adjoint[0] < 0:"),
        ("padding has pixels", "inside = pixels > 0", "inside = pixels > 1"),
    ),
    *_of(
        "pooling",
        ("the bound without a root", "return RatioBounds(math.sqrt(gap / high)", "return RatioBounds((gap / high)"),
        (
            "the paper's bound for ours",
            "RatioBounds(math.sqrt(gap / high), math.sqrt(gap / low))",
            "RatioBounds(math.sqrt(gap / low), math.sqrt(gap / low))",
        ),
        (
            "mu counts both signs",
            "return max(1, int((c > 0).sum(axis=1).max()), int((c < 0).sum(axis=1).max()))",
            "return max(1, int((c != 0).sum(axis=1).max()))",
        ),
        ("mu counts positive ones only", ", int((c < 0).sum(axis=1).max()))", ")"),
        ("mu is ignored", "low / (mu * high)", "low / high"),
        ("one positive, any negative", "and bool(((c < 0).sum(axis=1) <= 1).all())", ""),
        ("a negative phase counts as positive", "-pooled.q[xp.asarray(active[1])]", "pooled.q[xp.asarray(active[1])]"),
        (
            "the last maximum counts",
            "xp.where(p > 0, r.argmax(axis=1), -1)",
            "xp.where(p > 0, r.shape[1] - 1 - r[:, ::-1].argmax(axis=1), -1)",
        ),
        ("signs of c for those of the responses", 'sign = c if signs == "coefficients" else', "sign = c if True else"),
        (
            "noise by the squared gain",
            "return 1 / math.sqrt(frame_bounds(W_hat).lower)",
            "return 1 / frame_bounds(W_hat).lower",
        ),
        ("the box next to the tie", "c[0, n - 1 :] = 1, -1", "c[0, n - 1 :] = -1, 1"),
    ),
    *_of(
        "pooled_maps",
        ("the bias stays in", "values.astype(np.float64) - bias", "values.astype(np.float64)"),
        ("columns in another order", "* f + xp.arange(2 * f) % f", "* f + xp.arange(2 * f) // 2"),
        (
            "a square too few",
            "xp.linalg.cholesky(bordered)[:, m, :m] ** 2",
            "abs(xp.linalg.cholesky(bordered)[:, m, :m])",
        ),
        (
            "patches without the pooling stride",
            "stride = (pool.stride[0] * conv.stride[0],",
            "stride = (conv.stride[0],",
        ),
        ("every piece is the first", "enumerate(regions[piece], piece.start)", "enumerate(regions[piece])"),
        ("the ratio is squared", "result[piece] = xp.sqrt(xp.where(square > 0", "result[piece] = (xp.where(square > 0"),
    ),
    *_of(
        "reconstruction",
        ("overlaps are added", "return total / xp.maximum(count, 1)", "return total"),
        ("the bias is added", "return z if b is None else z - b", "return z if b is None else z + b"),
        ("damping has no gradient", "g = conv.synthesis(r) - damping * x", "g = conv.synthesis(r)"),
        ("convergence of NaN", "converged = gradients[-1] <= enough", "converged = ~(gradients[-1] > enough)"),
        (
            "layers in the order of the network",
            "zip(reversed(layers), reversed(sizes[:-1]), strict=True)",
            "zip(layers, sizes[:-1], strict=True)",
        ),
        ("10 for 20 in the decibels", "10 * xp.log10(positive(span) ** 2", "10 * xp.log10(positive(span)"),
        ("steps go on for ever", "active = gradients[-1] > enough", "active = gradients[-1] > 0"),
    ),
    *_of(
        "injectivity",
        ("the constant without sqrt 2", "float(s[-1]) / math.sqrt(2) if rank(W)", "float(s[-1]) if rank(W)"),
        ("half for sqrt 2", "float(s[-1]) / math.sqrt(2) if rank(W)", "float(s[-1]) / 2 if rank(W)"),
        (
            "rank in double precision",
            "numerical_rank(s, W.shape, float(np.finfo(W.dtype).eps))",
            "numerical_rank(s, W.shape)",
        ),
        (
            "only some hyperplanes",
            "for chosen in itertools.combinations(range(K), D - 1):",
            "for chosen in list(itertools.combinations(range(K), D - 1))[::2]:",
        ),
        ("a closed half space", "b_ub=-np.ones(W.shape[1])", "b_ub=0 * np.ones(W.shape[1])"),
        ("firing above 1", "(0 if b is None else b) >= 0", "(0 if b is None else b) >= 1"),
        ("the bias is forgotten", "x @ W + (0 if b is None else b)", "x @ W + (0 if b is None else 0 * b)"),
        ("filters for dimensions", "if on.sum() >= len(W):", "if on.sum() > len(W):"),
        ("walk towards the filters", "x -= radius * 0.5", "x += radius * 0.5"),
        ("opposites that are not opposite", "apart <= 8 * np.finfo(np.float64).eps", "apart <= 1e-6"),
        ("lengths matter", "host = host / np.maximum(np.linalg.norm(host, axis=0), 1e-300)", "host = host / 1.0"),
        ("scales matter", "<= 1e-9 * np.linalg.norm(y))", "<= 1e-9)"),
        ("one set instead of two", "for T in (S, ~S)))", "for T in (S,)))"),
        ("the square of kappa", "return math.sqrt(best) if best >", "return best if best >"),
        ("2 D filters for the modulus", "if K < 2 * D - 1:", "if K < 2 * D:"),
        ("any bias is solvable", "if not spans and (S.all() or", "if not spans and (True or"),
        ("a torus of another size", "s=size, axes=(0, 1)).reshape", "s=(size[0], size[0]), axes=(0, 1)).reshape"),
        ("as many filters as channels are too few", "if f >= c else 0.0", "if f > c else 0.0"),
        ("lower constants add up", "Constants(math.prod(c.lower", "Constants(sum(c.lower"),
    ),
    *_of(
        "class_search",
        ("down instead of up", "found = linprog(-np.append", "found = linprog(np.append"),
        ("signs are not kept", "(0, None) if sign > 0 else (None, 0)", "(0, None) if sign < 0 else (None, 0)"),
        ("a slope without its square", "weight = 2 * np.maximum", "weight = np.maximum"),
        ("half of the slope of N", "/ (2 * norms[at][:, None] + 1e-300)", "/ (norms[at][:, None] + 1e-300)"),
        ("complexity two", "most[-1] = 1", "most[-1] = 2"),
        ("orbits that are not closed", "for i in range(points)]", "for i in range(points - 1)]"),
    ),
    *_of(
        "piecewise",
        ("the negative phase with the wrong sign", "z * (self.slope - 1)), -1)", "z * (1 - self.slope)), -1)"),
        ("the modulus is ReLU", "return 2 * positive - 1 if activation", "return positive if activation"),
        ("overlaps overwrite", "return unpool(g, ", "return unpool(g / 2, "),
        ("switches do not tell signs", "slope = (given >= 0).astype(z.dtype)", "slope = (given >= -1).astype(z.dtype)"),
        ("the bias is forgotten", "z = z + stage.layer.b", "z = z + 0 * stage.layer.b"),
        ("rows and columns exchanged", "+ inside // over.k[1]", "+ inside % over.k[1]"),
        ("what is told goes back twice", "(1, -1) if self.told", "(2, -2) if self.told"),
    ),
    *_of(
        "joint",
        ("ReLU's zeros are values", "told = (y > 0) | (z > 0)", "told = (y > 0) | (z < 9e9)"),
        ("the box is left", "candidate = xp.clip(x + d, low, high)", "candidate = x + d"),
        ("worse steps are taken", "better = norm(tried) < error", "better = norm(tried) < 2 * error"),
        ("the sign of the modulus", "return abs(z) - y, sign", "return abs(z) - y, -sign"),
        ("a start of one colour", "_start(low, high) if start is None", "0.5 * (low + high) if start is None"),
        ("anything has converged", "residuals[-1] <= tolerance)", "residuals[-1] <= 1e9)"),
        ("uphill", "d = _cgls(network, slope, -gradient * free", "d = _cgls(network, slope, gradient * free"),
    ),
    *_of(
        "subspace",
        ("the paper's mean", "return exp(_log_step(s / 2) - _log_step(D / 2)) if s else 0.0", "return sqrt(s / D)"),
        ("the series from 10 on", "if x < 100:", "if x < 10:"),
        ("a term of the series is missing", "+ 1 / (192 * x**3)", "+ 0 / (192 * x**3)"),
        (
            "the same filters in every bank",
            '(by.stream.child(name).at(bank) for name in ("filters", "regions"))',
            '(by.stream.child(name).at(bank * (name == "regions")) for name in ("filters", "regions"))',
        ),
        ("an interval of width 0", "total_square + mean**2", "total_square + mean * total / max(bank + 1, 1) * 0"),
        ("features that are not normalised", "taps /= sqrt((taps**2).sum())", "taps /= taps.sum()"),
        ("projections of the wrong rank", "values > max(w.shape[-2:])", "values > -1 * max(w.shape[-2:])"),
    ),
]

EQUIVALENT: list[tuple[Mutant, str]] = []
