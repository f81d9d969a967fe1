"""docs/errata.md: it agrees with the checks, and the slips that the paper's own tables and words show are there."""

import re
from math import pi, sqrt
from pathlib import Path

import numpy as np
import pytest

from experiments.statements import HOLDS, SEVERITIES, SOUND, STATEMENTS
from minicnn import ops
from minicnn.analysis.correlation import random_absolute_cosine
from reference import paper
from tests.outside import PAPER, needs
from tests.test_paper import parameter_count, source_text

ROOT = Path(__file__).parents[1]
ERRATA = (ROOT / "docs" / "errata.md").read_text()


# --- the document ---


def test_the_verdicts_are_those_of_the_checks():
    rows = re.findall(r"^\| `([\w-]+)` \| (.*?) \| (.*?) \| (.*?) \| (.*?) \|", ERRATA, re.M)
    assert rows == [(s.key, s.where, s.expected, s.severity, ", ".join(s.errata) or "-") for s in STATEMENTS]


def entries():
    """[(number, where, severity, text)] of the list."""
    return re.findall(r"^\*\*(E\d+)\*\* \((.+?)\): \*(.+?)\*\. (.+?)(?=\n\n|\Z)", ERRATA, re.M | re.S)


def test_every_erratum_has_an_argument_and_a_test():
    assert [number for number, *_ in entries()] == [f"E{i}" for i in range(1, 46)]
    assert {number for s in STATEMENTS for number in s.errata} <= {number for number, *_ in entries()}
    for number, _, _, text in entries():
        assert "::test_" in text or "No test" in text, number


def test_severities():
    """The table lists the entries; what does not hold is as severe as the worst of its errata, what holds is sound."""
    listed = {number: severity for number, _, severity, _ in entries()}
    table = re.findall(r"^\| (\w+) \| (.+?) \| (E\d.*?) \|$", ERRATA, re.M)
    assert [(severity, means) for severity, means, _ in table] == list(SEVERITIES.items())[:3]
    assert {n: severity for severity, _, numbers in table for n in numbers.split(", ")} == listed
    order = list(SEVERITIES)
    for s in STATEMENTS:
        worst = min((listed[number] for number in s.errata), key=order.index, default=SOUND)
        assert s.severity == (SOUND if s.expected == HOLDS else worst), s.key


# --- tables ---


def test_the_count_of_crelu_all_in_the_text():
    """E5: 4.68M weights are 4.7M, as in Table 5; the text says 4.6M."""
    assert paper.TABLE_5[4].model == "crelu-all"
    weights = parameter_count(paper.IMAGENET["crelu-all"].corrected, 1000, biases=False)
    assert round(weights / 1e6, 1) == paper.TABLE_5[4].params_millions == 4.7


def test_half_the_filters_not_half_the_layers():
    """E25: (all) and (conv1,4,7) have as many convolutions as the baseline, and half the filters before CReLU."""
    baseline = {row.name: row for row in paper.IMAGENET["baseline"].corrected if row.kind == "conv"}
    for key in ("crelu-all", "crelu-conv1,4,7"):
        convolutions = [row for row in paper.IMAGENET[key].corrected if row.kind == "conv"]
        assert [row.name for row in convolutions] == list(baseline)
        for row in convolutions:
            if row.activation == "crelu":
                assert 2 * row.kernel[-1] == baseline[row.name].kernel[-1]


def test_which_filters_are_kept_the_same():
    """E43: where filters "after" CReLU are kept, those before it are; where they are halved, those before it are."""
    baseline = {row.name: row.kernel[-1] for row in paper.IMAGENET["baseline"].corrected if row.kind == "conv"}
    for key, quotient in (("conv1-4", 1), ("conv1-7", 1), ("conv1-9", 1), ("all", 2), ("conv1,4,7", 2)):
        rows = [row for row in paper.IMAGENET[f"crelu-{key}"].corrected if row.kind == "conv"]
        before = {row.name: row.kernel[-1] for row in rows if row.activation == "crelu"}
        assert before
        assert all(quotient * count == baseline[name] for name, count in before.items())


def test_only_conv1_has_as_many_filters_as_dimensions():
    """E45: K >= D = kh kw C, in the CReLU networks for CIFAR."""
    for width in ("base", "half"):
        rows = [row for row in paper.CONVPOOL["crelu", width].corrected if row.activation == "crelu"]
        assert len(rows) >= 7
        enough = [row.name for row in rows if row.sizes(10)[-1] >= np.prod(row.sizes(10)[:-1])]
        assert enough == ["conv1"]


def test_single_networks_would_still_lead_table_3():
    """E26: with single networks VGG + CReLU is still the best of the table, but VGG alone no longer is the second."""
    others = [row for row in paper.TABLE_3 if not row.model.startswith("vgg")]
    for dataset, ours, plain in (("cifar10", 5.94, 6.35), ("cifar100", 26.16, 28.99)):
        rows = [row for row in paper.TABLE_2 if row.dataset == dataset]
        assert min(row.single for row in rows if row.at) == ours < min(getattr(row, dataset) for row in others)
        assert [row.single for row in rows if not row.at] == [plain]
        assert plain > min(getattr(row, dataset) for row in others)


def test_pair_correlations_are_not_marginally_higher():
    """E27: 1.15 to 3.85 times as high, and all far from 1; conv1 has the same number twice."""
    quotients = [row.pair / row.non_pair for row in paper.TABLE_6]
    np.testing.assert_allclose(quotients, [2.25, 1.15, 3.85, 1.47, 1.96, 2.98, 1.64], atol=0.005)
    assert max(row.pair for row in paper.TABLE_6) < 0.5
    assert paper.TABLE_6[0].pair == paper.TABLE_6[0].pair_error


def test_correlations_of_random_outgoing_weights():
    """E27: E |cos| = Gamma(d/2) / (sqrt(pi) Gamma((d+1)/2)), about sqrt(2/(pi d)), below every entry of the table."""
    convolutions = [row for row in paper.IMAGENET["crelu-conv1-7"].corrected if row.kind == "conv"]
    sizes = [row.kernel[0] * row.kernel[1] * row.kernel[3] for row in convolutions[1:8]]  # of one channel's weights
    assert sizes == [96, 864, 6400, 256, 2304, 3456, 384]
    random = [random_absolute_cosine(size) for size in sizes]
    np.testing.assert_allclose(random, [0.082, 0.027, 0.010, 0.050, 0.017, 0.014, 0.041], atol=5e-4)
    np.testing.assert_allclose(random, [sqrt(2 / (pi * size)) for size in sizes], rtol=0.01)
    assert all(value < row.non_pair < row.pair for value, row in zip(random, paper.TABLE_6, strict=True))


def test_outgoing_weights_that_are_negations_make_a_linear_unit():
    """E28: w- = -w+ gives w+ x; AVR is w- = +w+."""
    x = np.random.default_rng(0).normal(size=(5, 1))
    np.testing.assert_array_equal(ops.crelu(x) @ [2.0, -2.0], 2 * x[:, 0])
    np.testing.assert_array_equal(ops.crelu(x) @ [2.0, 2.0], 2 * ops.avr(x)[:, 0])


def test_more_than_dropout_was_changed_on_imagenet():
    """E29: Adam and 100 epochs for the two networks with half the filters, SGD and 45 for the rest; dropout besides."""
    halved, no_dropout = {"crelu-all", "crelu-conv1,4,7"}, {"baseline", "crelu-conv1-4", "avr-conv1-4"}
    for key, network in paper.IMAGENET.items():
        recipe = paper.imagenet_recipe(key)
        assert (recipe.optimizer, recipe.epochs) == (("adam", 100) if key in halved else ("sgd", 45))
        rates = {row.rate for row in network.corrected if row.kind == "dropout"}
        assert rates == ({0} if key in no_dropout else {0.25})


def test_which_imagenet_network_is_best():
    """E30: conv1-4 with one crop, conv1,4,7 with ten."""
    for field, best in (("top1", "1-4"), ("top5", "1-4"), ("top1_ten", "1,4,7"), ("top5_ten", "1,4,7")):
        assert min(paper.TABLE_4, key=lambda row: getattr(row, field)).model == f"crelu-conv{best}"


def test_vgg_is_hardly_reduced():
    """E33: by 0.007 %, 0.25 % and 1.2 %."""
    counts = {p.key: p.corrected for p in paper.PARAMETERS if (p.family, p.dataset) == ("vgg", "cifar10")}
    reductions = [100 * (1 - counts[key] / counts[()]) for key in ((1,), (1, 3), (1, 3, 5))]
    np.testing.assert_allclose(reductions, [0.0068, 0.255, 1.243], rtol=0.01)


# --- words, in the paper's source ---


@needs(PAPER)
@pytest.mark.parametrize(
    "words",
    [
        "10$\\times$10 (100 for CIFAR-100)",  # E3
        "our model with only $4.6$M parameters ($\\cat$ + all)",  # E5
        "we utilize all 50k testing images",  # E7
        "$50,000$ training and $10,000$ testing examples",  # E7
        "x-x' \\in \\mathrm{ker}(W)",  # E8
        "singular value of $V$",  # E9
        "\\mathbf{1}\\{c_{i}^{j} > 0\\} \\leq 1",  # E10
        "{\\tilde{\\lambda}_{\\min} }\\|\\tilde{x}\\|^2_2",  # E11
        "\\lambda_{\\min} \\|x\\|^2_2 \\leq\\|W^T_x x\\|_2 &",  # E12
        "\\sum_{f\\in\\F}|\\frac{2}{L} \\sigma_i f(x_i)|",  # E17
        "\\eR(\\rho\\circ\\F) = L_\\rho \\eR(\\F)",  # E18
        "\\sigma^j_i  f^j(x_i)",  # E20
        "a random subspace of dimension $D_2$",  # E22
        "$D=48(96)\\times 5\\times 5$ and $K = 48(96)$",  # E23
        "random filters only recover $1\\%$ of the original input",  # E24
        "reduce the number of convolution layers before $\\cat$ by half",  # E25
        "The pair correlations are marginally higher than the non-pair ones",  # E27
        "are not merely negations of each other",  # E28
        "in most of our experiments, we only tune dropout rate",  # E29
        "integrating $\\cat$ to conv1-4 achieves the best results",  # E30
        "attain local maximum at conv1, conv4 and conv7 layers",  # E31
        "real functions $\\R^{\\din}\\to \\R$ with input dimension $\\F$",  # E36
        "\\sum^K_{k=1} |\\langle v, \\f_i\\rangle|^2",  # E37
        "comes from $\\widehat{W}^{+}_x$ if $c_i^j\\geq 0$ or",  # E38
        "selecting the maximum value in each of the $K$ block",  # E39
        "compute the Morre Penrose pseudoinverse of $\\widetilde{W}_x$ and",  # E40
        "$\\eR(\\relu \\circ\\mathcal{G}) =  \\eR(\\mathcal{G})$",  # E41
        "\\sup_{ f\\in\\F}\\|\\left[ \\frac{2}{L}",  # E42
        "the number of convolution filters after $\\cat$ are kept the same",  # E43
        "zero out all the negative negative responses when calculating the threshold",  # E44
        "significantly outnumbers the input dimension, which is not realistic",  # E45
    ],
)
def test_the_paper_says_so(words):
    assert words in source_text()


@needs(PAPER)
def test_steps_of_the_complexity_proof_are_misnumbered():
    """E35: assumption (S1) is the first equation of the supplement, so the proof's lines are (S2) to (S7)."""
    supplement = source_text().split("\\part*{Appendix}")[1]
    before, proof = supplement.split("\\begin{align}")
    assert before.count("\\begin{equation}") == 1
    lines, text = proof.split("\\end{align}")
    assert lines.count("\\\\\n") + 1 == 6
    assert [int(n) for n in re.findall(r"From \(S(\d)\) to", text)] == [1, 2, 3, 4, 5]
