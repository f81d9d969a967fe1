"""What docs/findings.md says follows from the trainings below docs/."""

import collections
import csv
import re
import statistics

import numpy as np

from experiments.ablation import CHANGES
from experiments.reproduction.scales import BASE, HALF, SCALES
from experiments.train.cifar import RECIPES, CifarSettings
from minicnn.analysis.statistics import holm, t_interval, t_test
from minicnn.models.pretrained import find, read_card
from minicnn.models.vgg import dropout_rates
from reference.paper.results import cifar_result
from tests.docs.documents import HOURS, RESULTS, ROOT, cells, prose, runs_of, section, tables


def errors_of(*names):
    """The test errors of networks of docs/hours, each by what follows cifar10-convpool- in its name."""
    runs = runs_of(HOURS)
    return [runs[f"cifar10-convpool-{name}/result.json"]["test_error"] for name in names]


def by_seed(width):
    """The test errors of ReLU (base), ReLU (double) and a CReLU network, at a quarter of the width, for each seed."""
    runs = runs_of(RESULTS)
    names = ("base-relu", "double-relu", f"{width}-crelu")
    return [
        [runs[f"cifar10-convpool-{name}-x0.25-short10-seed{seed}/result.json"]["test_error"] for name in names]
        for seed in range(5)
    ]


def test_what_the_findings_say_of_parameters_and_the_recipe():
    """Prose of docs/findings.md: a line through the two ReLU networks, and differences of single trainings."""
    text = prose("docs/findings.md")
    rows = {row["network"]: row for row in tables()["table-1-cifar-10-widths-x0.25-recipe-short-10-epochs"]}
    small, large = ((float(rows[n]["parameters"]), float(rows[n]["ours: test %"]))
                    for n in ("ReLU (base x0.25)", "ReLU (double x0.25)"))  # fmt: skip
    slope = (large[1] - small[1]) / np.log(large[0] / small[0])
    assert f"ReLU gains {small[1] - large[1]:.2f} points" in text
    for name, has in (("base", "; CReLU (base) has"), ("half", ", where CReLU (half) has")):
        row = rows[f"CReLU ({name} x0.25)"]
        parameters, error, half = (float(row[key]) for key in ("parameters", "ours: test %", "ours: test % ±"))
        expected = small[1] + slope * np.log(parameters / small[0])
        assert f"would have about {expected:.1f} %{has} {error:.2f} ± {half:.2f} %" in text
        assert f"{parameters:,.0f}" in text
        share = np.log(parameters / small[0]) / np.log(large[0] / small[0])
        off = t_interval([crelu - (base + share * (double - base)) for base, double, crelu in by_seed(name)])
        assert {"base": f"{-off.mean:.2f} points below the line (95 % interval {-off.high:.2f} to {-off.low:.2f})",
                "half": f"{off.mean:.2f} above it ({off.low:.2f} to {off.high:.2f})"}[name] in text  # fmt: skip
    rows = {row["changed"]: row for row in tables()["ablation"]}
    start, sgd = rows["no looks-linear start"], rows["SGD as in `short`"]
    more, half = (float(start[f"CReLU (half), more by{end}"]) for end in ("", " ±"))
    assert f"without the looks-linear start is {more:.2f} ± {half:.2f} points worse" in text
    lost = sorted(float(sgd[f"{network}, more by"]) for network in ("CReLU (half)", "ReLU (base)"))
    assert "both networks are {:.0f} to {:.0f} points worse".format(*lost) in text


def test_what_the_findings_say_of_the_optimiser():
    """Seed by seed: how much worse CReLU (half) is than ReLU (base), with the recipe and with SGD."""
    text = prose("docs/findings.md")
    with open(ROOT / "docs" / "ablation" / "trainings.csv", newline="") as file:
        found = {(row["variant"], row["seed"]): float(row["hold_out_error"]) for row in csv.DictReader(file)}
    worse = {of: np.array([found[f"{of} crelu", s] - found[f"{of} relu", s] for s in "012"]) for of in ("hour", "sgd")}
    both = [name for name, change in CHANGES.items() if name != "hour" and not change.only]
    closer = {
        name: worse["hour"] - np.array([found[f"{name} crelu", s] - found[f"{name} relu", s] for s in "012"])
        for name in both
    }
    sgd, change, norms, shifts = (
        t_interval(values) for values in (worse["sgd"], *(closer[of] for of in ("sgd", "free-norms", "no-shifts")))
    )
    assert (
        f"{worse['hour'].mean():.2f} points worse than ReLU (base) with the recipe, and {sgd.mean:.2f} with SGD "
        f"({sgd.low:.2f} to {sgd.high:.2f}), a change of {change.mean:.2f} points (95 % interval {change.low:.2f} to "
        f"{change.high:.2f};"
    ) in text
    stand = holm([t_test(values) for values in closer.values()])
    assert [name for name, one in zip(both, stand, strict=True) if one] == ["free-norms"]
    assert f"The ablation makes {len(both)} changes to both networks, and one of them alters the difference" in text
    assert f"CReLU (half) is {norms.mean:.2f} points closer to ReLU ({norms.low:.2f} to {norms.high:.2f})" in text
    assert f"it may be closer, too ({shifts.mean:.2f}; {shifts.low:.2f} to {shifts.high:.2f})" in text


def test_what_the_findings_say_of_learning_curves():
    text = prose("docs/findings.md")
    found = collections.defaultdict(list)
    with open(HOURS / "runs" / "metrics.csv", newline="") as file:
        for row in csv.DictReader(file):
            if of := re.match(r"cifar10-convpool-([a-z]+-[a-z]+)-(hour8|short16)-seed\d/", row["file"]):
                name = of[1] if of[2] == "hour8" else f"{of[1]}, short"
                found[name, row["epoch"]].append(float(row["train_error"]))
    seen = {at: statistics.mean(errors) for at, errors in found.items()}
    assert all(
        min(found["half-crelu", str(epoch)]) > max(found["base-relu", str(epoch)]) for epoch in range(1, 9)
    )  # behind from the first epoch on
    assert (
        f"CReLU (half) has {seen['half-crelu', '1']:.2f} % errors on the training images that it sees and ReLU (base) "
        f"{seen['base-relu', '1']:.2f} %; in the last epoch it is {seen['half-crelu', '8']:.2f} against "
        f"{seen['base-relu', '8']:.2f} %."
    ) in text
    assert f"at first ({seen['base-crelu', '1']:.2f} %) and ends at {seen['base-crelu', '8']:.2f} %" in text
    assert all(abs(seen["half-crelu, short", e] - seen["base-relu, short", e]) < 1.5 for e in "123")
    assert (
        "With `short` (one pair) the two are level in the first three epochs; then CReLU (half) falls behind, and "
        f"ends at {seen['half-crelu, short', '16']:.2f} against {seen['base-relu, short', '16']:.2f} %."
    ) in text


def test_what_the_findings_say_of_average_and_vote():
    text = prose("docs/findings.md")
    rows = {
        row["network"]: row for row in tables()["hours/table-1-cifar-10-widths-x0.25-recipe-hour-5-epochs-10-folds"]
    }
    own, paper = (
        [[float(rows[name][f"{whose} %"]) for whose in kinds] for name in ("ReLU (base x0.25)", "CReLU (half x0.25)")]
        for kinds in (("ours: test", "ours: vote"), ("paper: Average", "paper: Vote"))
    )
    average, vote = (half - relu for relu, half in zip(*own, strict=True))
    assert f"is {average:.2f} points worse on average and {vote:.2f} after the vote" in text
    (relu, half), (relu_paper, half_paper) = ([average - vote for average, vote in of] for of in (own, paper))
    assert (
        f"by {half:.2f} points and ReLU by {relu:.2f} (in the paper by {half_paper:.2f} and {relu_paper:.2f})" in text
    )


def test_what_the_findings_say_of_cifar_100():
    text = prose("docs/findings.md")
    runs = runs_of(HOURS)
    names = [f"cifar100-convpool-{{}}-hour8-seed{seed}/result.json" for seed in range(3)]
    names = [name for name in names if name.format("base-relu") in runs and name.format("half-crelu") in runs]
    relu, half = (
        {kind: np.array([runs[name.format(network)][kind] for name in names]) for kind in ("test_error", "train_error")}
        for network in ("base-relu", "half-crelu")
    )
    pairs = {2: "two pairs", 3: "three pairs"}[len(names)]
    assert f"eight epochs of `hour`, {pairs}" in text
    relu_paper, half_paper = (cifar_result(*of, "cifar100") for of in (("relu", "base"), ("crelu", "half")))
    assert f"here by {relu_paper.single - relu['test_error'].mean():.2f} points" in text
    assert f"({relu_paper.train:.2f} and {half_paper.train:.2f} % there)" in text
    worse = t_interval(half["test_error"] - relu["test_error"])
    assert (
        f"CReLU (half) is {worse.mean:.2f} points worse than ReLU (base) ({worse.low:.2f} to {worse.high:.2f})" in text
    )
    own = t_interval((relu["test_error"] - relu["train_error"]) - (half["test_error"] - half["train_error"]))
    paper = (relu_paper.single - relu_paper.train) - (half_paper.single - half_paper.train)
    assert (
        f"On CIFAR-100 ({pairs}) it is {own.mean:.2f} points smaller ({own.low:.2f} to {own.high:.2f}: not shown), "
        f"where the paper has {paper:.2f}."
    ) in text


def test_what_the_findings_say_of_vgg():
    text = prose("docs/findings.md")
    runs = runs_of(HOURS)

    def errors(network):
        names = [f"cifar10-vgg-{network}-x0.5-hour8-seed{seed}/result.json" for seed in range(3)]
        return [runs[name]["test_error"] for name in names if name in runs]

    (relu,), (crelu,) = errors("relu"), errors("crelu-at-1-3-5")  # one pair
    assert f"The network with CReLU is {relu - crelu:.2f} points better." in text
    usual, less = dropout_rates(()), dropout_rates((1, 3, 5))
    assert [usual[layer] for layer in (1, 3, 5)] == [0.3, 0.4, 0.4]
    assert [less[layer] for layer in (1, 3, 5)] == [0.1, 0.2, 0.2]


def test_what_the_findings_say_of_equal_size():
    text = prose("docs/findings.md")
    equal, half, base = errors_of(
        "base-relu-x0.7071-hour8-seed0-equal-size", "half-crelu-hour8-seed0", "base-relu-hour8-seed0"
    )
    (row,) = (row for row in tables()["hours/controls-cifar-10-full-width-recipe-hour-8-epochs"]
              if row["network"] == "ReLU, as large as CReLU (half)")  # fmt: skip
    assert (
        f"({int(row['parameters']):,} parameters, and as many multiplications) has {equal:.2f} %, which is "
        f"{half - equal:.2f} points better than CReLU (half) and {equal - base:.2f} worse than ReLU (base)"
    ) in text


def test_what_the_findings_say_of_equal_time():
    text = prose("docs/findings.md")
    five, half = errors_of("base-relu-hour5-seed0-equal-time", "half-crelu-hour8-seed0")
    assert f"ReLU (base) has {five:.2f} % (seed 0), still {half - five:.2f} points less than CReLU (half)" in text


def test_what_the_findings_say_of_the_start():
    text = prose("docs/findings.md")
    usual, half = errors_of("half-crelu-hour8-seed0-usual-start", "half-crelu-hour8-seed0")
    more = "more" if usual > half else "fewer"
    assert (
        f"without it has {usual:.2f} % after eight epochs, {abs(usual - half):.2f} points {more} than with it" in text
    )


def test_what_the_findings_say_of_theory():
    text = prose("docs/findings.md")
    of_paper = [
        row for row in cells(section(ROOT / "docs" / "errata.md", "The statements")) if not row[1].startswith("ours")
    ]
    false = collections.Counter(row[3] for row in of_paper if row[2] == "false")
    assert (
        f"Of the {len(of_paper)} statements of the theory that we check, {false.total()} are false as printed: "
        f"{false['false']} need another statement in their place, {false['gap']} a condition, and "
        f"{false['misprint']} are misprints."
    ) in text
    assert f"of {len(of_paper)} statements, steps of proofs among them, {false['false']} need another statement" in text


def test_what_the_findings_say_of_differences_from_the_paper():
    """The table of what differs: its numbers are those of the recipes, the plans and the networks."""
    rows = {
        name: here for name, _, here in cells(section(ROOT / "docs" / "findings.md", "What differs from the paper"))
    }
    short, hour = (RECIPES[name]["convpool"] for name in ("short", "hour"))
    plans = [SCALES[name](None) for name in ("cpu", "hours")]
    trained = [one for plan in plans for one in plan.trainings if not one.settings.PHOTOGRAPHS]
    epochs = {one.settings.epochs for one in trained} | {
        read_card(find(name)).settings["epochs"] for name in ("relu-base", "crelu-half")
    }
    assert rows["epochs"] == f"{min(epochs)} to {max(epochs)}"
    assert (short.shift, hour.alternate, hour.shift) == (0, True, 2)
    assert "flips every other epoch, shifts by up to 2 pixels" in rows["augmentation"]
    assert rows["labels"] == f"`hour`: smoothed by {hour.smoothing}"
    assert rows["weight decay"] == f"`short`: {short.weight_decay}; `hour`: none"
    assert hour.weight_decay == short.smoothing == 0
    assert short.dropout == (0, 0.1, 0.1)
    assert rows["dropout"].startswith("`short`: 0.1 after each pool; `hour`: none")
    assert hour.dropout == (0, 0, 0)
    millions = [CifarSettings.of(act=act, width=width).parameters / 1e6 for act, width in (BASE, HALF)]
    assert "{:.2f} and {:.2f} million".format(*millions) in rows["networks"]
    assert {(plan.invariance, plan.ratios) for plan in plans} == {(1000, 300)}
    assert rows["invariance"].startswith("1,000 test images")
    assert "300 images" in rows["reconstruction ratios"]


FULL = "hours/the-paper-s-questions-cifar-10-full-width-recipe-hour-8-epochs"
QUARTER = "the-paper-s-questions-cifar-10-widths-x0.25-recipe-short-10-epochs"


def verdicts(name):
    """Of a board: the verdict on each question, and whether it stands for all questions at once."""
    return {row["question"]: (row["verdict"], "also for all" in row["how sure"]) for row in tables()[name]}


def test_what_the_summary_of_the_findings_says_is_on_the_boards():
    said = dict(cells(section(ROOT / "docs" / "findings.md", "Summary")))
    full, quarter = verdicts(FULL), verdicts(QUARTER)

    def about(start):
        (words,) = (text for claim, text in said.items() if claim.startswith(start))
        return words

    def both(question):
        (key,) = (key for key in full if key.startswith(question))
        return full[key][0], quarter[key][0]

    assert both("Is CReLU (half) better") == ("the opposite", "the opposite")
    assert about("CReLU with half of the").startswith("the opposite in both sets of five pairs")
    assert both("Is CReLU (base) better") == ("not shown", "shown")
    assert about("CReLU with as many filters").startswith(
        "shown at a quarter of the width (`short`); not shown at full"
    )
    assert both("Is AVR") == ("the opposite", "the opposite")
    assert about("AVR makes fewer").startswith(
        "the opposite, at a quarter of the width and, in two pairs, at full width"
    )
    assert both("Are the filters of ReLU") == ("shown", "shown")
    assert "in the mean filters are more opposed than random ones" in about("ReLU networks learn pairs")
    assert both("Are those of CReLU networks no more") == ("contradicted", "contradicted")
    assert about("CReLU networks do not").startswith("contradicted in most layers")
    assert both("Are the two phases") == ("shown", "shown")
    assert about("CReLU networks use the two phases").startswith("shown in the mean")
    assert both("Is CReLU more invariant, as the paper") == ("the opposite", "not shown")
    assert about("CReLU networks are more invariant").startswith("by `hour` the opposite in the mean")
    assert "by `short` not shown" in about("CReLU networks are more invariant")
    assert both("Do learned filters") == ("shown", "shown")
    assert about("learned filters recover") == "shown"


def test_what_the_findings_say_of_many_questions_at_once():
    """Which verdicts do not stand after Holm's correction."""
    text = prose("docs/findings.md")

    def fail(board):
        decided = {key: found for key, found in board.items() if found[0] not in ("not shown", "not contradicted")}
        return [key for key, (_, stands) in decided.items() if not stands]

    (gap,) = fail(verdicts(FULL))
    assert gap == "Is the gap between training and test error smaller with CReLU (half)?"
    assert (
        "After Holm's correction for these 13 questions every verdict stands except that on the gap of CReLU (half)."
        in text
    )
    (invariance,) = fail(verdicts(QUARTER))
    assert invariance == "Is CReLU more invariant, with both sides of both networks?"
    assert "After Holm's correction for these 13 questions, every verdict stands except that on invariance." in text
    assert len(verdicts(FULL)) == len(verdicts(QUARTER)) == 13
