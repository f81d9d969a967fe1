"""Figures of the theory as PNG files: bounds, means, complexities and error curves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np

from experiments.figures.style import new_figure, save_figure
from experiments.statements.base import SLACK
from experiments.statements.cases import complexities, independent_cases, response_cases
from minicnn.random import Stream
from minicnn.theory.monte_carlo import MonteCarlo
from minicnn.theory.rademacher import ATTAINED, PROVED, differences, layer
from minicnn.theory.subspace import mean_ratio, root_ratio, simulated_ratio

CONSTANTS = (
    (PROVED, r"$\sqrt{3}$, proved", "-"),
    (ATTAINED, r"$\sqrt{2}$, attained", "--"),
    (1, "1, the paper", "-."),
    (sqrt(0.5), r"$1/\sqrt{2}$, proved", ":"),
)


def draw_statements(folder: Path, seed: int) -> None:
    """The three figures that belong to the checks of the statements."""
    _save(folder / "pooling_bounds.png", 9, 4.2, lambda figure: pooling_bounds(figure, seed))
    _save(folder / "subspace_means.png", 9, 4.2, lambda figure: subspace_means(figure, seed))
    _save(folder / "rademacher.png", 10, 4.6, lambda figure: rademacher(figure, seed))


def draw_error_curves(path: Path, curves: Mapping[str, Mapping[str, Sequence[float]]]) -> None:
    """The error of the picture over the steps of the iteration, one panel per set of filters."""
    _save(path, 4.6 * len(curves) + 0.4, 4.2, lambda figure: error_curves(figure, curves))


def _save(path: Path, width: float, height: float, draw: Callable[[Any], None]) -> None:
    """A figure with a grid and small titles, unless matplotlib is missing."""
    figure = new_figure(path, width, height)
    if figure is not None:
        draw(figure)
        for axes in figure.axes:
            axes.title.set_fontsize(10)
            axes.grid(alpha=0.3)
        save_figure(figure, path, dpi=150)


def pooling_bounds(figure: Any, seed: int) -> None:
    """The reconstruction ratio against our bound and against the paper's, over the random cases of the checks."""
    cases = independent_cases(seed) + response_cases(seed)
    ratio = np.array([case.ratio for case in cases])
    ours, paper = (np.array([getattr(case.bounds, name) for case in cases]) for name in ("tight", "paper"))
    left, right = figure.subplots(1, 2, sharey=True)
    left.plot(ours, ratio, ".", ms=4, alpha=0.4, color="C0")
    left.plot([0, 1], [0, 1], "k-", lw=1)
    left.set(xlabel=r"our bound  $\sqrt{1-\lambda_{min}/\tilde{\lambda}_{max}}$", ylabel=r"ratio  $||x-x'||\,/\,||x||$")
    left.set(xlim=(-0.02, 1.02), title="ours: always below 1")
    most = float(paper.max())
    right.axvspan(1, most * 1.3, color="0.9", zorder=0)
    right.plot(paper, ratio, ".", ms=4, alpha=0.4, color="C1")
    line = np.linspace(0, 1, 50)
    right.plot(line, line, "k-", lw=1)
    right.set_xscale("symlog", linthresh=1, linscale=1)
    right.set_xticks([0, 0.5, 1, 10, 100], ["0", "0.5", "1", "10", "100"])
    vacuous = (paper >= 1).mean()
    right.set(xlabel=r"the paper's bound  $\sqrt{(\tilde{\lambda}_{max}-\lambda_{min})/\lambda_{min}}$")
    right.set(xlim=(-0.02, most * 1.3), title=f"the paper's: says nothing from 1 on ({vacuous:.0%} of the cases)")
    figure.suptitle(f"Reconstruction after max pooling: {len(cases)} random cases, none above its bound", fontsize=11)


def subspace_means(figure: Any, seed: int) -> None:
    """The mean of ||x_s|| / ||x||: claimed, exact and simulated; and by how much the claim is too large."""
    left, right = figure.subplots(1, 2)
    D = 10
    dense = np.linspace(0, D, 200)
    left.plot(dense, np.sqrt(dense / D), "--", color="C1", label=r"claimed: $\sqrt{s/D}$")
    exact = [mean_ratio(s, D) for s in range(D + 1)]
    left.plot(range(D + 1), exact, "o", mfc="none", color="C0", label="exact: ratio of Gamma functions")
    for s in range(1, D):
        found = simulated_ratio(s, D, MonteCarlo(500, Stream(seed).child(f"figure {s}"), 0.999))
        label = "500 random subspaces, 99.9 %" if s == 1 else None
        left.errorbar(s, found.value, found.half_width, color="k", lw=1, capsize=2, label=label)
    left.set(xlabel="dimension s of the subspace", ylabel=r"mean of $||x_s||\,/\,||x||$", title=f"D = {D}")
    for D, mark in ((10, "o"), (100, "s"), (1200, "^")):
        dimensions = np.unique(np.round(np.geomspace(1, D - 1, 40)).astype(int))
        gap = [root_ratio(int(s), D) / mean_ratio(int(s), D) - 1 for s in dimensions]
        right.loglog(dimensions, gap, mark, ms=4, mfc="none", label=f"D = {D}")
        right.loglog(dimensions, 0.25 * (1 / dimensions - 1 / D), "k:", lw=1)
    right.plot([], [], "k:", lw=1, label="(1/s - 1/D) / 4")
    right.set(xlabel="dimension s of the subspace", ylabel="claimed / exact - 1", title="how far the claim is off")
    left.legend(fontsize=8)
    right.legend(fontsize=8)
    figure.suptitle("How much of a vector a random subspace holds (Theorem S3.1)", fontsize=11)


def rademacher(figure: Any, seed: int) -> None:
    """The two sides of Theorem 4.1 over random classes, with the constants that are claimed, attained and proved."""
    plain, crelu = (complexities(seed)[name] for name in ("identity", "crelu"))
    fails = crelu > plain * SLACK
    most = float(np.quantile(plain, 0.99))
    left, right = figure.subplots(1, 2, width_ratios=(1.1, 1))
    left.plot(plain[~fails], crelu[~fails], ".", ms=3, alpha=0.5, label=f"the claim holds: {(~fails).sum()} classes")
    left.plot(plain[fails], crelu[fails], ".", ms=3, alpha=0.5, color="C3", label=f"it fails: {fails.sum()} classes")
    many = [differences(points) for points in (3, 4, 5, 6, 8)]
    sides = np.array([[layer(v, activation=a).value for a in ("identity", "crelu")] for v in many])
    left.plot(*sides.T, "^", ms=5, color="C2", label="all $e_i-e_j$ on 3 to 8 points")
    left.plot(1, ATTAINED, "*", ms=12, color="k", label=r"$F=\{(1,-1)\}$")
    for constant, name, style in CONSTANTS:
        left.plot([0, most], [0, constant * most], style, color="k", lw=1)
        at = {"xytext": (4, 0), "textcoords": "offset points", "va": "center", "fontsize": 8}
        left.annotate(name.replace(", ", ",\n"), (most, constant * most), **at)
        right.axvline(constant, ls=style, color="k", lw=1, label=name)
    left.set(xlim=(0, most), ylim=(0, PROVED * most), xlabel=r"right side:  $\sqrt{d}\,B\,R(F)$  for d = B = 1")
    left.set(ylabel=r"left side:  $R(H\circ\rho_c\circ G)$")
    right.hist((crelu / np.where(plain > 0, plain, np.nan)), bins=np.arange(0.69, 1.76, 0.02), color="C0", alpha=0.7)
    right.set(xlabel="left side / right side", ylabel="classes", yscale="log")
    left.legend(fontsize=8, loc="upper left")
    right.legend(fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 1), ncols=2)  # above: sqrt 3 is at the right end
    figure.suptitle(f"Theorem 4.1 over {len(plain)} random classes of functions", fontsize=11)


def error_curves(figure: Any, curves: Mapping[str, Mapping[str, Sequence[float]]]) -> None:
    titles = {"gaussian": "96 Gaussian filters, 11x11, stride 4", "alexnet": "conv1 of AlexNet, 11x11, stride 4"}
    for axes, (name, lines) in zip(figure.subplots(1, len(curves), squeeze=False)[0], curves.items(), strict=True):
        for style, (label, errors) in zip(("-", "--", "-."), lines.items(), strict=False):
            axes.semilogy(errors, style, label=label)
        axes.set(xlabel="step", ylabel=r"error  $||x-x'||\,/\,||x||$", title=titles[name])
        axes.legend(fontsize=8)
    figure.suptitle("A picture from its CReLU features: least squares over all windows", fontsize=10)
