"""Random subspaces, and the random column of Table S1: S3."""

from __future__ import annotations

from math import inf, pi, sqrt

from experiments.statements.base import FALSE, Evidence, statement
from minicnn.random import Stream
from minicnn.theory.monte_carlo import MonteCarlo
from minicnn.theory.subspace import mean_ratio, random_filter_ratio, root_ratio, simulated_ratio
from reference.paper import CONVPOOL, TABLE_S1

DIMENSIONS = ((1, 2), (2, 3), (3, 8), (6, 8))
SAMPLES = 4000
SURE = 1 - 1e-6  # coverage of the intervals: a check should not fail by bad luck


@statement(
    "random-subspace",
    where="Theorem S3.1",
    says="E ||x_s||/||x|| = sqrt(s/D) for the projection x_s of x in R^D on a random subspace of dimension s.",
    expected=FALSE,
    corrected="E ||x_s||^2/||x||^2 = s/D; E ||x_s||/||x|| = Gamma((s+1)/2) Gamma(D/2)/(Gamma(s/2) Gamma((D+1)/2)), "
    "less than sqrt(s/D) if 0 < s < D.",
    errata="E21 E22",
)
def random_subspace(seed: int) -> Evidence:
    within = []
    for s, D in DIMENSIONS:
        by = MonteCarlo(SAMPLES, Stream(seed).child(f"{s} of {D}"), SURE)
        for power, exact in ((1, mean_ratio(s, D)), (2, s / D)):
            low, high = simulated_ratio(s, D, by, power=power).interval
            within.append(low <= exact <= high)
    line, large = mean_ratio(1, 2), mean_ratio(1152, 1200)
    simulated = simulated_ratio(1, 2, MonteCarlo(SAMPLES, Stream(seed).child("1 of 2"), SURE))
    return Evidence(
        f"A line in the plane: 2/pi = {line:.4f}, not sqrt(1/2) = {root_ratio(1, 2):.4f}; simulated "
        f"{simulated.value:.4f} +- {simulated.half_width:.4f}.  s = 1152, D = 1200: {large:.6f}, not "
        f"{root_ratio(1152, 1200):.6f}.  Means, or means of squares, of {sum(within)} of {len(within)} simulations "
        "agree with the corrected formulas.",
        printed=abs(line - root_ratio(1, 2)) < 1e-9,
        repaired=all(within) and large < root_ratio(1152, 1200),
        by_hand={
            "1 of 2": (line, 2 / pi),
            "2 of 3": (mean_ratio(2, 3), pi / 4),
            "sqrt(1/2)": (root_ratio(1, 2), sqrt(0.5)),
        },
    )


def _into(name: str) -> tuple[int, int]:
    """Channels into, and filters of, a convolution of the CReLU (half) network."""
    (row,) = (row for row in CONVPOOL["crelu", "half"].corrected if row.name == name)
    channels, filters = row.sizes(10)[-2:]
    return channels, filters


@statement(
    "table-s1-dimension",
    where="S3, text above Table S1",
    says="D = 48 x 5 x 5, K = 48 at conv2 (96 for each 48 at conv5): the expected ratio is sqrt((D - K)/D), and the "
    "table has .99.",
    expected=FALSE,
    corrected="CReLU doubles the channels: D = 96 x 5 x 5 = 2400 (4800 at conv5) and sqrt(1 - K/D) = .990, the table's "
    "figure.  But up to 2K columns are selected, and they depend on x: .99 is what smooth features give.",
    errata="E23",
)
def dimension_of_table_s1(seed: int) -> Evidence:
    layers = {name: _into(name) for name in ("conv2", "conv5")}
    printed = {name: sqrt(1 - K / (25 * K)) for name, (_, K) in layers.items()}
    corrected = {name: sqrt(1 - K / (25 * channels)) for name, (channels, K) in layers.items()}
    table = {row.label: row.random for row in TABLE_S1}
    by = MonteCarlo(4, Stream(seed).child("table S1"))
    white, smooth = (random_filter_ratio(by, blur=blur, regions=3).value for blur in (None, inf))
    return Evidence(
        f"K/D = 48/1200: {printed['conv2']:.4f}, rounded .98; 48/2400: {corrected['conv2']:.4f}, rounded .99.  "
        f"Simulated random filters with CReLU and 3x3 pooling: {smooth:.3f} on features that are constant over the "
        f"patch, {white:.3f} on white noise.",
        printed=all(round(printed[name], 2) == table[name] for name in layers),
        repaired=all(round(corrected[name], 2) == table[name] for name in layers)
        and abs(smooth - corrected["conv2"]) < 0.005
        and white < smooth - 0.02,
        by_hand={
            "channels into conv2": (layers["conv2"][0], 96),
            "channels into conv5": (layers["conv5"][0], 192),
            "24/25": (printed["conv2"] ** 2, 0.96),
            "49/50": (corrected["conv2"] ** 2, 0.98),
        },
    )


@statement(
    "one-percent",
    where="S3, last sentence before Theorem S3.1",
    says="Random filters (ratio .99) only recover 1 % of the original input.",
    expected=FALSE,
    corrected="x' is a projection: ||x'||^2/||x||^2 = 1 - .99^2 = 2 % of the energy, ||x'||/||x|| = 14 %.  Learned, "
    ".92: 15 % of the energy.",
    errata="E24",
)
def one_percent(seed: int) -> Evidence:
    ratio, learned = TABLE_S1[0].random, TABLE_S1[0].learned
    energy, norm = 1 - ratio**2, sqrt(1 - ratio**2)
    return Evidence(
        f"Ratio {ratio}: {energy:.4f} of the energy, {norm:.3f} of the norm; 1 - {ratio} = {1 - ratio:.2f} is "
        f"neither.  Ratio {learned}: {1 - learned**2:.4f} of the energy.",
        printed=round(energy, 2) == 0.01 or round(norm, 2) == 0.01,
        repaired=round(energy, 2) == 0.02 and round(norm, 2) == 0.14,
        by_hand={"energy": (energy, 0.0199), "learned": (1 - learned**2, 0.1536)},
    )


SUBSPACE = (random_subspace, dimension_of_table_s1, one_percent)
