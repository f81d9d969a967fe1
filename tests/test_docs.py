"""What the documents show is true: code runs, files exist, commands are those of the Makefile."""

import collections
import contextlib
import csv
import importlib
import itertools
import json
import re
import shlex
import statistics
import textwrap
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import t as student

import minicnn
from experiments.ablation import CHANGES
from experiments.reproduction.records import Records
from experiments.reproduction.scales import SCALES
from experiments.statements import STATEMENTS
from experiments.tables.table import file_name
from experiments.train.cifar import CifarSettings
from minicnn.analysis.statistics import holm, t_interval, t_test
from minicnn.autodiff import Pair, op
from minicnn.backend import Array
from minicnn.gradcheck import check_gradient
from minicnn.models.pretrained import find, read_card
from minicnn.models.pretrained import names as network_names
from reference.paper.results import cifar_result

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "docs").glob("*/README.md")])


def prose(name):
    """A document in one line, so that its sentences are found wherever they are broken."""
    return " ".join((ROOT / name).read_text().split())


def code(document, language="python"):
    return re.findall(rf"^```{language}\n(.*?)^```", document.read_text(), re.M | re.S)


def test_the_example_of_the_tour_runs_and_learns(capsys):
    (example,) = code(ROOT / "docs" / "tour.md")
    assert len([line for line in example.splitlines() if line.strip()]) <= 32
    exec(compile(example, "docs/tour.md", "exec"), {})
    *_, result, crelu_error, model_error = capsys.readouterr().out.splitlines()
    assert float(re.search(r"loss ([\d.]+)", result)[1]) < 0.2
    assert float(crelu_error) < 1e-6
    assert float(model_error) < 1e-6


def test_the_op_in_the_readme_is_the_op_in_the_code():
    (shown,) = code(ROOT / "README.md")
    assert shown in (ROOT / "minicnn" / "ops" / "activation.py").read_text()


RESULTS, HOURS = ROOT / "docs" / "results", ROOT / "docs" / "hours"
SPEED = ROOT / "docs" / "speed"  # what experiments.bench --tables wrote
BESIDE = ("ablation", "gpu", "imagenet", "speed/zen4", "speed/zen4-compiled", "speedrun")
TABLES = (RESULTS / "tables", SPEED, *(ROOT / "docs" / name for name in BESIDE))


def tables():
    """The tables below docs/ by the names that documents give them: rows as dicts.

    Those of docs/hours have "hours/" in front: some have the same captions as those of docs/results.
    """
    found = collections.defaultdict(list)
    for path in (path for folder in (*TABLES, HOURS / "tables") for path in folder.glob("*.csv")):
        with open(path, newline="") as file:
            for row in csv.DictReader(file):
                name = file_name(row.pop("table", path.stem))
                found[f"hours/{name}" if path.is_relative_to(HOURS) else name].append(row)
    return found


def shown(cell, row):
    """Whether a cell of a document is a number, mean ± half or range of a row of a table, rounded as it is written."""

    def rounded(text, value):
        digits, _, power = text.partition(".")[2].partition("e") if "." in text else ("", "", text.partition("e")[2])
        form = f".{len(digits)}{'e' if power else 'f'}"
        return value not in (None, "") and f"{float(value):{form}}" == text.replace(",", "").lstrip("+")

    if cell in {(value or "").strip(" *%") for value in row.values()}:  # words
        return True
    mean, _, half = cell.partition(" ± ")
    low, _, high = cell.partition(" to ")
    for head, value in row.items():
        with contextlib.suppress(ValueError):  # a column of words
            if half and rounded(mean, value) and rounded(half, row.get(f"{head} ±")):
                return True
            start = head.removesuffix(", low")
            if high and start != head and rounded(low, value) and rounded(high, row[f"{start}, high"]):
                return True
            if not half and not high and rounded(cell, value):
                return True
    return False


def test_tables_that_name_their_source_have_its_numbers():
    """<!-- from a b --> above a table: each number of a row, and a verdict, is in the row of that name in one of them.

    If there is one source, one of its rows has all of them: several rows may have the name.
    """
    checked, known = 0, tables()
    for document in DOCUMENTS:
        for names, table in re.findall(r"<!-- from (.+?) -->\n\n((?:\|.*\n)+)", document.read_text()):
            sources = [row for name in names.split() for row in known[name]]
            assert all(known[name] for name in names.split()), (document.name, names)
            _, *heads = (cell.strip() for cell in table.splitlines()[0].strip("|").split("|"))
            for line in table.splitlines()[2:]:
                key, *cells = (cell.strip(" *%") for cell in line.strip("|").split("|"))
                own = [row for row in sources if next(iter(row.values())) == key]
                claims = [
                    cell for head, cell in zip(heads, cells, strict=True) if head == "verdict" or re.search(r"\d", cell)
                ]
                for cell in claims:
                    assert any(shown(cell, row) for row in own), (names, key, cell)
                if " " not in names:
                    assert any(all(shown(cell, row) for cell in claims) for row in own), (names, key, cells)
                checked += len(claims)
    assert checked > 100


def test_numbers_in_documents_are_checked_with_all_their_digits():
    row = {"error %": "22.3041", "error % ±": "0.7961", "95 %, low": "-0.125", "95 %, high": "2.0", "words": "12"}
    row["rounding"] = "3.66e-07"
    assert shown("22.30 ± 0.80", row)
    assert shown("-0.12 to +2.0", row)
    assert shown("22.3", row)
    assert not shown("22.31 ± 0.80", row)
    assert not shown("22.30 ± 0.81", row)
    assert not shown("-0.12 to +2.1", row)
    assert not shown("22.4", row)
    assert shown("4e-07", row)
    assert shown("3.7e-07", row)
    assert not shown("3e-07", row)
    assert not shown("4e-06", row)


def test_results_do_not_drown_the_tree():
    """Few files, no long lines, and no paths of the machine that made them."""
    files = {folder: [path for path in folder.rglob("*") if path.is_file()] for folder in (RESULTS, HOURS)}
    assert max(map(len, files.values())) <= 60
    for path in itertools.chain(*files.values()):
        if path.suffix in (".json", ".csv", ".html", ".md"):
            text = path.read_text()
            assert max(map(len, text.splitlines())) <= 2000, path
            assert not re.search(r"(?<![\w.])/(root|home|tmp|work|mnt|Users)/", text), path


def test_the_plan_of_full_width_knows_what_is_trained():
    """docs/hours counts as done what the plan asks for, and has the errors of the card of the same network."""
    done = [run for training in SCALES["hours"](None).table1 if (run := Records(HOURS, [HOURS]).run(training))]
    cards = [card for card in map(read_card, map(find, network_names())) if card.settings["epochs"] == 8]
    assert done
    for card in cards:
        (run,) = (run for run in done if run.settings == CifarSettings.from_json(card.settings))
        assert (run.test_error, run.result["train_error"]) == (card.test_error, card.train_error)


def by_seed(width):
    """The test errors of ReLU (base), ReLU (double) and a CReLU network, at a quarter of the width, for each seed."""
    runs = json.loads((RESULTS / "runs.json").read_text())
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


def test_what_documents_say_of_full_width():
    """Prose of README.md, docs/findings.md and docs/hours, from the results of the pairs."""
    runs = json.loads((HOURS / "runs.json").read_text())
    pairs = sum(re.fullmatch(r"cifar10-convpool-base-relu-hour8-seed\d/result.json", name) is not None for name in runs)
    words = {4: "four", 5: "five"}[pairs]
    readme, findings, hours = map(prose, ("README.md", "docs/findings.md", "docs/hours/README.md"))

    def of(network, kind, seeds=range(pairs)):
        names = [f"cifar10-convpool-{network}-hour8-seed{seed}/result.json" for seed in seeds]
        return np.array([runs[name][kind] for name in names])

    def mean(values):
        return f"{abs(values.mean()):.2f} ± {student.ppf(0.975, pairs - 1) * values.std(ddof=1) / pairs**0.5:.2f}"

    def change(values):
        found = t_interval(values)
        assert found.mean > 0
        return f"{found.mean:.2f}", f"{found.low:.2f} to {found.high:.2f}"

    kinds = ("test_error", "train_error", "test_error_mirrored")
    (relu, relu_fit, relu_seen), (half, half_fit, half_seen) = (
        [of(network, kind) for kind in kinds] for network in ("base-relu", "half-crelu")
    )
    assert f"CReLU (half) makes {mean(half)} % errors, ReLU (base), with twice its parameters, {mean(relu)} %" in readme
    assert f"{words.capitalize()} pairs of networks with the paper's full widths" in readme
    assert (half > relu).all()
    assert f"all {words} pairs agree" in findings
    more, interval = change(half - relu)
    for text in (findings, hours):
        assert f"is {more} points worse than ReLU (base) (95 % interval {interval})" in text
    assert f"{mean(half_fit)} % errors on them, against {mean(relu_fit)} %" in hours
    assert f"the errors are {mean(half_seen)} and {mean(relu_seen)} %" in hours
    assert f"has {mean(half_fit)} % errors on the training images, ReLU (base) {mean(relu_fit)} %" in findings
    papers = [cifar_result(*network, "cifar10") for network in (("relu", "base"), ("crelu", "half"))]
    (single_relu, gap_relu), (single_half, gap_half) = ((row.single, row.single - row.train) for row in papers)
    assert f"is {half.mean() - single_half:.2f} points worse than the paper's CReLU (half)" in findings
    assert f"our ReLU (base) is {single_relu - relu.mean():.2f} points better than the paper's" in findings
    assert (
        f"gap is {(relu - relu_fit).mean():.2f} points, the paper's {gap_relu:.2f}; CReLU (half) has "
        f"{(half - half_fit).mean():.2f}, the paper's {gap_half:.2f}."
    ) in findings
    less, interval = change((relu - relu_fit) - (half - half_fit))
    cards = [read_card(find(name)) for name in ("relu-base", "crelu-half")]
    assert {card.settings["epochs"] for card in cards} == {17}
    gaps = [card.test_error - card.train_error for card in cards]
    later = f"{gaps[1] - gaps[0]:.2f} points larger"
    assert (
        f"After 17 epochs, one network of each kind, the difference is {cards[1].test_error - cards[0].test_error:.2f}"
        in findings
    )
    by_sgd = [runs[f"cifar10-convpool-{name}-short16-seed0/result.json"] for name in ("base-relu", "half-crelu")]
    relu_sgd, half_sgd = (one["test_error"] - one["train_error"] for one in by_sgd)
    assert f"by SGD (one pair, 16 epochs) it is {relu_sgd - half_sgd:.2f} points smaller" in findings
    smaller = (
        f"after eight epochs, {less} points ({interval}), but not after Holm's correction; after 17 (one pair) it is"
    )
    assert f"{smaller} {later}" in findings
    assert f"training and test error is {less} points smaller ({interval}) for CReLU (half)" in hours
    assert f"In [the pair of 17 epochs](../findings.md#errors) it is {later}" in hours
    for network, words in (
        ("base-crelu", "CReLU (base), with twice the parameters,"),
        ("base-avr", "AVR (base), with as many parameters,"),
    ):
        seeds = [seed for seed in range(pairs) if f"cifar10-convpool-{network}-hour8-seed{seed}/result.json" in runs]
        found = t_interval(of(network, "test_error", seeds) - relu[seeds])
        for text in (findings, hours):
            assert f"with which ReLU (base) has {relu[seeds].mean():.2f} %" in text
            assert f"{words} is {found.mean:.2f} points worse than that" in text
            assert f"({found.low:.2f} to {found.high:.2f}" in text
    phases = {
        row["layer"]: float(row["|pair|"])
        for row in tables()["hours/table-6-cosines-of-outgoing-weights-crelu-half-cifar-10-recipe-hour"]
    }
    assert f"|cosine| of {phases['conv1']:.2f} (the paper" in hours
    assert (
        f"({min(phases[f'conv{i}'] for i in (2, 3, 4, 5)):.2f} to {max(phases[f'conv{i}'] for i in (2, 3, 4, 5)):.2f})"
        in hours
    )
    assert f"({phases['conv6']:.2f}, {phases['conv7']:.2f})" in hours


def test_what_documents_say_of_the_layers_of_full_width():
    """Prose of docs/findings.md and docs/hours: phases, pairs of filters, what comes back after pooling."""
    findings, hours = map(prose, ("docs/findings.md", "docs/hours/README.md"))
    unmatched, positive = collections.defaultdict(list), collections.defaultdict(list)
    with open(HOURS / "analyses" / "correlation.csv", newline="") as file:
        for row in csv.DictReader(file):
            if re.fullmatch(r"cifar10-convpool-half-crelu-hour8-seed\d", row["run"]):
                unmatched[row["layer"]].append(float(row["non_pair_absolute"]))
                positive[row["layer"]].append(float(row["pair_positive_share"]))
    ends = [statistics.mean(unmatched[layer]) for layer in ("conv6", "conv7")]
    assert "(of unmatched weights {:.2f} and {:.2f})".format(*ends) in findings
    assert set(positive["conv6"]) == {1.0}
    assert "At conv6 the cosine is positive for every filter" in findings
    assert "at conv6 the cosine is positive for every filter of all networks" in hours
    low, high = (100 * end(positive["conv7"]) for end in (min, max))
    assert f"at conv7 it is for {low:.0f} to {high:.0f} % of them" in findings

    cosines, random = collections.defaultdict(list), collections.defaultdict(list)
    for name, value in json.loads((HOURS / "analyses.json").read_text()).items():
        if of := re.match(r"pairing-cifar10-seed\d/.*-(relu|crelu)-hour8-seed\d/summary.json", name):
            for layer, found in value.items():
                cosines[of[1], layer].append(found["mean"])
                random[of[1], layer].append(found["null_mean"])
    early = [f"conv{i}" for i in range(2, 7)]
    relu, null = ([statistics.mean(of["relu", layer]) for layer in early] for of in (cosines, random))
    assert f"the mean cosine is {max(relu):.2f} to {min(relu):.2f} from conv2 to conv6" in findings
    assert f"where random filters have {max(null):.2f} to {min(null):.2f}" in findings
    more = [np.subtract(cosines["crelu", layer], random["crelu", layer])
            - np.subtract(cosines["relu", layer], random["relu", layer]) for layer in early]  # fmt: skip
    for text in (findings, hours):
        assert f"by at most {max(abs(of_layer.mean()) for of_layer in more):.3f}" in text
    interval = t_interval(np.mean(more, axis=0))
    assert interval.low < 0 < interval.high  # "the difference in the mean comes from these two layers"
    rows = {row["layer"][:5]: row for row in tables()["hours/table-s1-reconstruction-ratios"] if "hour" in row["layer"]}
    kinds = ("learned", "random filters", "paper: learned")
    learned, random, paper = ([100 * (1 - float(rows[n][kind]) ** 2) for n in ("conv2", "conv5")] for kind in kinds)
    assert "learned filters recover {:.1f} and {:.1f} % of".format(*learned) in findings
    assert "random ones {:.1f} and {:.1f} %; the paper's".format(*random) in findings
    assert "learned filters recover {:.0f} and {:.0f} %. Deeper".format(*paper) in findings


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
    runs = json.loads((HOURS / "runs.json").read_text())
    relu, half = (runs[f"cifar100-convpool-{name}-hour8-seed0/result.json"] for name in ("base-relu", "half-crelu"))
    relu_paper, half_paper = (cifar_result(*of, "cifar100") for of in (("relu", "base"), ("crelu", "half")))
    assert f"here by {relu_paper.single - relu['test_error']:.2f} points" in text
    assert f"({relu_paper.train:.2f} and {half_paper.train:.2f} % there)" in text
    own = (relu["test_error"] - relu["train_error"]) - (half["test_error"] - half["train_error"])
    paper = (relu_paper.single - relu_paper.train) - (half_paper.single - half_paper.train)
    assert f"On CIFAR-100 (one pair) it is {own:.2f} points smaller, where the paper has {paper:.2f}." in text


def test_what_the_findings_say_of_equal_size():
    text = prose("docs/findings.md")
    runs = json.loads((HOURS / "runs.json").read_text())
    names = ("base-relu-x0.7071-hour8-seed0-equal-size", "half-crelu-hour8-seed0", "base-relu-hour8-seed0")
    equal, half, base = (runs[f"cifar10-convpool-{name}/result.json"]["test_error"] for name in names)
    (row,) = (row for row in tables()["hours/controls-cifar-10-full-width-recipe-hour-8-epochs"]
              if row["network"] == "ReLU, as large as CReLU (half)")  # fmt: skip
    assert (
        f"({int(row['parameters']):,} parameters, and as many multiplications) has {equal:.2f} %, which is "
        f"{half - equal:.2f} points better than CReLU (half) and {equal - base:.2f} worse than ReLU (base)"
    ) in text


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


def test_what_16_bits_do_to_the_recipe():
    """The table follows from the trainings."""
    folder = ROOT / "docs" / "ablation"
    found = {}
    for name in ("trainings", "bf16-trainings"):
        with open(folder / f"{name}.csv", newline="") as file:
            found[name] = {(row["variant"], row["seed"]): float(row["hold_out_error"]) for row in csv.DictReader(file)}
    for row, variant in zip(tables()["bf16"], ("hour crelu", "hour relu"), strict=True):
        exact, rounded = ([found[name][variant, seed] for seed in "012"] for name in found)
        more = [b - a for a, b in zip(exact, rounded, strict=True)]
        for head, values in (("float32, error %", exact), ("bf16, error %", rounded), ("more by", more)):
            interval = t_interval(values)
            half = (interval.high - interval.low) / 2
            assert [float(row[head]), float(row[f"{head} ±"])] == pytest.approx([interval.mean, half])


def test_the_table_of_the_ablation():
    """It follows from the trainings: means over seeds, and differences from the recipe seed by seed."""
    with open(ROOT / "docs" / "ablation" / "trainings.csv", newline="") as file:
        found = {(row["variant"], row["seed"]): float(row["hold_out_error"]) for row in csv.DictReader(file)}
    rows = tables()["ablation"]
    assert len(rows) == len(CHANGES)
    for row, (name, change) in zip(rows, CHANGES.items(), strict=True):
        assert row["changed"] == change.words
        for network, act in (("CReLU (half)", "crelu"), ("ReLU (base)", "relu")):
            errors, usual = ([found.get((f"{one} {act}", seed)) for seed in "012"] for one in (name, "hour"))
            cells = [f"{network}, error %"] + [f"{network}, more by"] * (name != "hour")
            if None in errors:
                assert change.only not in ("", act)
                assert not any(row[cell] for cell in cells)
                continue
            more = [a - b for a, b in zip(errors, usual, strict=True)]
            for cell, values in zip(cells, (errors, more), strict=False):
                half = 4.3027 * statistics.stdev(values) / 3**0.5  # Student's t, 2 degrees of freedom
                expected = pytest.approx([statistics.mean(values), half], rel=1e-4, abs=1e-9)
                assert [float(row[cell]), float(row[f"{cell} ±"])] == expected


def test_what_documents_say_of_the_speed_run():
    """Prose of README.md and docs/recipes.md, and the means in the table, from the trainings."""
    readme, recipes = map(prose, ("README.md", "docs/recipes.md"))
    with open(ROOT / "docs" / "speedrun" / "trainings.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    views = {v: [float(r["test_error_six_views"]) for r in rows if r["variant"] == v] for v in ("plus-minus", "crelu")}
    plain = {v: [float(r["test_error"]) for r in rows if r["variant"] == v] for v in views}

    def mean(errors):
        return f"{100 - statistics.mean(errors):.2f} ± {4.3027 * statistics.stdev(errors) / 3**0.5:.2f}"

    assert (
        f"reaches {mean(plain['crelu'])} % test accuracy after 10 epochs, and {mean(views['crelu'])} % with" in readme
    )
    assert f"it has {mean(plain['plus-minus'])} and {mean(views['plus-minus'])} %" in readme
    for row in tables()["speedrun"]:
        for cell, errors in (("accuracy %", plain), ("six views %", views)):
            assert mean(errors[row["variant"]]) == f"{float(row[cell]):.2f} ± {float(row[f'{cell} ±']):.2f}"
    better = [a - b for a, b in zip(views["plus-minus"], views["crelu"], strict=True)]
    off, half = statistics.mean(better), 4.3027 * statistics.stdev(better) / 3**0.5
    assert f"{off:.2f} points higher, seed by seed (95 % interval {off - half:.2f} to {off + half:+.2f})" in recipes
    every = sorted(100 - error for errors in views.values() for error in errors)
    assert f"the six trainings have {every[0]:.2f} to {every[-1]:.2f} %" in recipes
    for words, minutes in (("avx512f", 9), ("(avx2)", 30)):
        own = [float(r["seconds"]) / 60 for r in rows if words in r["machine"] and r["variant"] == "crelu"]
        assert round(statistics.mean(own)) == minutes
        assert re.search(rf"in {minutes}( minutes on two cores)? of Zen", readme)


def test_what_the_page_on_gpus_says_of_precision():
    """Prose of docs/gpu.md, from the table above it."""
    text = prose("docs/gpu.md")
    rows = {tuple(row["network"].split(", ")): row for row in tables()["precision"]}
    networks = ("ReLU (base)", "CReLU (half)")
    assert len(rows) == len(networks) * 7

    def gradients(*what):
        """Of both networks, trained and at the start."""
        kinds = ("gradient", "gradient, start")
        return [float(rows[network, *what][kind]) for network in networks for kind in kinds]

    def worst(precision):
        return max(gradients("Winograd", precision) + gradients("im2col", precision))

    assert f"Even in float32, gradients are up to {worst('float32'):.0e} off" in text
    assert f"its gradients are at most {100 * worst('tf32'):.1f} % off" in text
    assert f"those of other images are {100 * min(gradients('other images')):.0f} % or more away" in text
    assert f"With bf16 they are up to {100 * worst('bf16'):.1f} % off" in text
    more = max(
        float(rows[network, "Winograd", precision][kind]) / float(rows[network, "im2col", precision][kind])
        for network in networks
        for precision in ("tf32", "bf16")
        for kind in ("outputs", "probabilities", "gradient", "gradient, start")
    )
    assert f"Winograd's errors are at most {more:.1f} times those of im2col" in text


def test_what_the_choice_of_sides_changes():
    """Prose of docs/figures.md, from the scores of the five seeds: two sides minus one, the mean ± a 95 % interval."""
    changes = collections.defaultdict(list)
    with open(RESULTS / "analyses" / "invariance.csv", newline="") as file:
        every = list(csv.DictReader(file))
    for seed in range(5):
        rows = [row for row in every if row["file"] == f"invariance-cifar10-quarter-seed{seed}/invariance.csv"]
        scores = {(row["run"], row["weights"][:9], row["layer"], row["sides"]): float(row["score"]) for row in rows}
        for run, weights, layer, sides in scores:
            if sides == "two":
                change = scores[run, weights, layer, "two"] - scores[run, weights, layer, "one"]
                changes["crelu" in run, weights, layer].append(change)
    for key, stated in {
        (False, "untrained", "conv2"): "+8.2 ± 3.1 (ReLU)",
        (True, "untrained", "conv2"): "+4.3 ± 2.6 points (CReLU)",
        (True, "trained", "conv3"): "-5.1 ± 1.7 (CReLU, conv3)",
    }.items():
        assert stated in (ROOT / "docs" / "figures.md").read_text()
        half = 2.7764 * statistics.stdev(changes[key]) / 5**0.5  # Student's t, 4 degrees of freedom
        assert stated.startswith(f"{statistics.mean(changes[key]):+.1f} ± {half:.1f} ")
    trained = {key: statistics.mean(values) for key, values in changes.items() if key[1] == "trained"}
    assert max(trained, key=lambda key: abs(trained[key])) == (True, "trained", "conv3")  # "up to"


def section(document, title):
    (found,) = re.findall(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", document.read_text(), re.M | re.S)
    return found


def cells(text):
    """The rows of the tables of a text, without their heads."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [
        [cell.strip(" *") for cell in line.strip("|").split("|")] for line in lines if not line.startswith("| ---")
    ][1:]


INJECTIVITY = "Which layers lose nothing, and how stable is the way back?"
QUARTER = "cifar10-convpool-{}-x0.25-short10-seed0"
SPECTRA = {  # the networks of the two tables of injectivity, from left to right
    "full width": ("relu-base", "crelu-half"),
    "a quarter of the width": (QUARTER.format("base-relu"), "avr", QUARTER.format("half-crelu")),
}
INVERTED = {  # the networks of the table of joint inversion
    "CReLU (half)": "crelu-half",
    "ReLU (base)": "relu-base",
    "CReLU (half x0.25)": QUARTER.format("half-crelu"),
    "ReLU (base x0.25)": QUARTER.format("base-relu"),
    "AVR (base x0.25)": "avr",
}


def rows_of(name):
    with open(ROOT / "docs" / "theory" / name, newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("which", SPECTRA)
def test_the_tables_of_injectivity(which):
    """Their numbers are those of docs/theory/injectivity.csv, which the command above them wrote."""
    rows = {(row["run"], row["filters"], row["layer"]): row for row in rows_of("injectivity.csv")}
    text = section(ROOT / "docs" / "reconstruction.md", INJECTIVITY)
    shown_rows = cells("| layer |" + text.split("| layer |")[1 + list(SPECTRA).index(which)])
    assert [row[0] for row in shown_rows] == [f"conv{i}" for i in range(1, 8)]
    for layer, *numbers in shown_rows:
        expected = []
        for run in SPECTRA[which]:
            own, random = (rows[run, kind, layer] for kind in ("trained", "random"))
            own_stretch, of_random = (f"{float(row['largest']) / float(row['least']):.2f}" for row in (own, random))
            known = [f"{float(own[key]):.2f}" for key in ("known_per_number", "known_per_pixel")]
            expected += [f"{own['D']} x {own['K']}", f"{own_stretch} ({of_random})", *known]
        assert numbers == expected


def test_what_is_said_of_injective_layers():
    """One layer of all, conv1 of CReLU (half) at full width, tells each of its windows; and the constants beside it."""
    rows = {(row["run"], row["layer"]): row for row in rows_of("injectivity.csv") if row["filters"] == "trained"}
    assert {run for run, _ in rows} == {run for runs in SPECTRA.values() for run in runs}
    assert [key for key, row in rows.items() if row["injective"] != "no"] == [("crelu-half", "conv1")]
    text = " ".join(
        section(
            ROOT / "docs" / "reconstruction.md", "Which layers lose nothing, and how stable is the way back?"
        ).split()
    )
    assert f"kappa is {float(rows['crelu-half', 'conv1']['kappa']):.2f}" in text
    assert f"kappa of the whole map is {float(rows[QUARTER.format('half-crelu'), 'conv1']['torus']):.2f}" in text
    fire = re.search(r"a point where (\d+) filters fire", rows["relu-base", "conv1"]["why"])[1]
    assert f"a point where {fire} of its 96 filters fire" in text


def test_the_table_of_bounds():
    """Its numbers, and those below it, are of the regions in docs/theory/bounds.csv; the bounds hold for each."""
    title = "The bounds, on a trained network of full width"
    text = (ROOT / "docs" / "reconstruction.md").read_text().partition(f"### {title}")[2].partition("\n## ")[0]
    rows = [{name: float(row[name]) for name in row if name not in ("run", "layer")} | {"layer": row["layer"]}
            for row in rows_of("bounds.csv")]  # fmt: skip
    assert len(rows) == 80
    assert all(row["ratio"] <= row["shared"] <= row["unconditional"] < 1 for row in rows)
    assert {row["mu"] for row in rows} == {8, 9}
    said = " ".join(text.split())
    shown_rows = cells(text)
    assert [row[0] for row in shown_rows] == ["conv2", "conv5"]
    for layer, *shown_cells in shown_rows:
        own = [row for row in rows if row["layer"] == layer]
        *ratios, share = (statistics.mean(row[k] for row in own) for k in ("ratio", "shared", "unconditional", "share"))
        assert shown_cells == [*(f"{ratio:.4f}" for ratio in ratios), f"{share:.2f}"]
        times = [(1 - row["ratio"] ** 2) / (1 - row["shared"] ** 2) for row in own]
        assert f"{min(times):.0f} to {max(times):.0f} times" in said
    kept = [100 * statistics.mean(1 - row["ratio"] ** 2 for row in rows if row["layer"] == layer)
            for layer in ("conv2", "conv5")]  # fmt: skip
    assert "pooling leaves {:.0f} and {:.0f} %".format(*kept) in said


def test_the_table_of_joint_reconstruction():
    """Its numbers are means over the pictures of docs/theory/joint.csv."""
    pictures = rows_of("joint.csv")
    text, _, by_width = section(ROOT / "docs" / "reconstruction.md", "Images from deep features").partition("###")
    shown_rows = cells(text)
    assert [tuple(row[:2]) for row in shown_rows] == [(name, f"conv{i}") for name in INVERTED for i in range(1, 5)]
    for network, layer, *shown_cells in shown_rows:
        own = [p for p in pictures if p["run"] == INVERTED[network] and p["layer"] == layer]
        expected, seconds = [], []
        for method in ("region", "global", "joint", "joint, no switches"):
            by = [p for p in own if p["method"] == method]
            ratio, psnr, time = (
                statistics.mean(float(p[key]) for p in by) if by else None
                for key in ("ratio", "psnr", "processor_seconds")
            )
            expected.append(f"{ratio:.3f}, {f'{psnr:.1f} dB' if psnr < 200 else 'exact'}" if by else "-")
            seconds += [f"{time:.1f}" if by else "-"] if method.startswith("joint") else []
        assert shown_cells == expected + seconds, (network, layer)
    said = " ".join(text.split())
    short = {(p["layer"], p["method"]): f"{float(p['ratio']):.2f}".lstrip("0") for p in rows_of("joint-deep.csv")}
    with_switches, without = ([short[f"conv{i}", method] for i in (5, 6)] for method in ("joint", "joint, no switches"))
    assert f"with switches ({with_switches[0]}) and hardly without ({without[0]})" in said
    assert f"noise ({with_switches[1]} and {without[1]})" in said
    for method in ("joint", "joint, no switches"):
        at_conv4 = [p for p in pictures if (p["layer"], p["method"]) == ("conv4", method)]
        relu, crelu = (
            sum(float(p["ratio"]) for p in at_conv4 if p["run"] == run) for run in ("relu-base", "crelu-half")
        )
        assert f"factor of {relu / crelu:.1f} in the error" in said
    measured = json.loads((ROOT / "docs" / "theory" / "joint-widths.json").read_text())
    assert len(cells(by_width)) == 9
    for width, layer, *shown_cells in cells(by_width):
        for activation, (known, *errors) in (("crelu", shown_cells[:3]), ("relu", shown_cells[3:])):
            one = measured[f"{activation}, {width}, {layer}"]
            assert known == f"{one['known per number']:.2f}"
            assert errors == [f"{one[k]:.1e}" if k in one else "-" for k in ("switches", "no switches")]


@pytest.mark.parametrize("title", re.findall(r"^## (\d+\. .*)$", (ROOT / "docs" / "proofs.md").read_text(), re.M))
def test_every_proof_has_all_its_parts(title):
    """Statement, idea, steps, where each hypothesis is used, what breaks without it, and a test; in this order."""
    text = section(ROOT / "docs" / "proofs.md", title)
    assert "tests/theory/" in text or title.startswith("14.")
    parts = re.findall(r"^\*\*(Statement|Idea|Steps|Where the hypotheses are used|What breaks)\b", text, re.M)
    every = ["Statement", "Idea", "Steps", "Where the hypotheses are used", "What breaks"]
    assert parts == ([] if title.startswith("14.") else every)


def test_what_is_said_of_the_search():
    """docs/proofs.md: as many tries as docs/theory/search.json has, none above its conjecture."""
    saved = json.loads((ROOT / "docs" / "theory" / "search.json").read_text())["searches"]
    climbs = sum(one["tries"] for name, one in saved.items() if name.startswith("climb"))
    others = sum(100 * one["tries"] for name, one in saved.items() if not name.startswith("climb"))
    said = " ".join(section(ROOT / "docs" / "proofs.md", "14. What is missing for signs").split())
    assert f"{climbs:,} climbs and {others:,} classes" in said
    for name, one in saved.items():
        most = 1 if "k1" in name else 2**0.5
        assert one["largest"] < most + 1e-7
        assert one["largest"] > most - 1e-9 or not name.startswith("climb")


def test_the_hour_on_two_cores():
    """Its numbers are those of the run, its command the run's."""
    folder = ROOT / "docs" / "results" / "hour"
    result, config = (json.loads((folder / name).read_text()) for name in ("result.json", "config.json"))
    error, minutes = f"{result['test_error']:.2f} %", f"in {result['seconds'] / 60:.0f} minutes"
    readme, recipes = (re.sub(r"[\s*]+", " ", (ROOT / name).read_text()) for name in ("README.md", "docs/recipes.md"))
    assert f"{error} {minutes}" in readme
    assert f"{error} {minutes}, training error {result['train_error']:.2f} %" in recipes
    command = config["command"].partition(" --tta")[0]
    assert f"\n{command}\n" in (ROOT / "README.md").read_text()


def test_what_is_bold_is_bold_in_the_report():
    """There it means: shown not to be 0, allowing for the number of layers."""
    strong = re.findall(r"<strong>([^<]* ± [^<]*)</strong>", (ROOT / "docs" / "results" / "report.html").read_text())
    bold = re.findall(r"\*\*([^*|]* ± [^*|]*)\*\* \|", (ROOT / "docs" / "figures.md").read_text())
    assert bold
    assert set(bold) <= set(strong)


def test_what_documents_say_about_errors_is_in_the_results():
    rows = [row for table in tables().values() for row in table]
    for document in (ROOT / "docs" / "findings.md", RESULTS / "README.md"):
        said = set(re.findall(r"[\d.]+ ± [\d.]+", document.read_text()))
        assert said
        assert all(any(shown(cell, row) for row in rows) for cell in said)


def test_the_networks_of_the_results_can_be_analysed(tmp_path, monkeypatch):
    """The commands that need nothing but what is in the repository run."""
    monkeypatch.chdir(ROOT)
    text = (ROOT / "docs" / "figures.md").read_text()
    lines = re.findall(r"^python -m (experiments\.\w+) (--run docs/results/cifar.*)$", text, re.M)
    assert len(lines) == 3
    for module, options in lines:
        out = tmp_path / module
        assert importlib.import_module(module).main([*shlex.split(options), "--out", str(out), "--device", "cpu"]) == 0
        assert list(out.rglob("*.png"))


def test_the_readme_counts_the_statements():
    ours = sum(one.where.startswith("ours") for one in STATEMENTS)
    said = f"{len(STATEMENTS) - ours} statements of the paper, and {ours} of ours"
    assert said in (ROOT / "README.md").read_text()


def test_the_op_in_contributing_is_right():
    (shown,) = re.findall(r"^   ```python\n(.*?)^   ```", (ROOT / "CONTRIBUTING.md").read_text(), re.M | re.S)
    scope = {"Array": Array, "Pair": Pair, "op": op}
    exec(textwrap.dedent(shown), scope)
    check_gradient(scope["square"], np.array([1.0, -2.0]))


def commands():
    """Every `python -m ...` of ours in the documents and in the docstrings of the experiments and of the exercises."""
    sources = [*DOCUMENTS, *(ROOT / "experiments").glob("*.py"), ROOT / "exercises" / "check.py"]
    found = set()
    for source in sources:
        for line in re.findall(r"python -m ((?:experiments|exercises)\.(?:[^`\n\"']|'[^'\n]*')*)", source.read_text()):
            found.add(re.split(r"\s{2,}|\s\|", line.strip())[0])
        for block in code(source, ""):
            found |= {f"experiments.{line}" for line in re.findall(r"^minicnn (\w.*)$", block, re.M)}
    return sorted(found)


@pytest.mark.parametrize("line", commands())
def test_commands_are_understood(line, monkeypatch, capsys):
    """Each is parsed, with --dry-run, which builds the network; on the CPU, since a GPU may not be there."""
    module, *arguments = shlex.split(line)
    monkeypatch.setattr("experiments.train.estimate.estimate", lambda *_: "")
    monkeypatch.setattr("experiments.reproduction.plan.Estimator.network", lambda *_: (0.001, 1_000_000))
    monkeypatch.setattr("experiments.reproduce.check_paths", lambda args: None)  # of files that are the reader's
    monkeypatch.setattr("minicnn.fast.native.library.bf16_problem", lambda: None)  # there may be no compiler here
    monkeypatch.setattr("minicnn.fast.native.library.bf16_is_fast", lambda: True)
    main = importlib.import_module(module).main
    arguments = [a if a.startswith("--") else a.replace("gpu", "cpu") for a in arguments]
    if "--help" in arguments:
        with pytest.raises(SystemExit) as caught:
            main(arguments)
        assert caught.value.code == 0
    else:
        assert main([*arguments, "--dry-run"]) == 0


def test_what_the_map_names_exists():
    """Each `file.py` `name` `name` ... in docs/paper_map.md."""
    text = (ROOT / "docs" / "paper_map.md").read_text()
    cells = re.findall(r"`([\w/]+)\.py`((?: `\w+`)+)", text)
    assert len(cells) > 10
    for path, names in cells:
        module = importlib.import_module(path.replace("/", "."))
        for name in re.findall(r"`(\w+)`", names):
            assert hasattr(module, name), f"{path}.py has no {name}"


def test_the_map_is_complete():
    """Every section with content, table, figure, algorithm and statement of the paper is named in a first column."""
    text = (ROOT / "docs" / "paper_map.md").read_text()
    first = "\n".join(row.split("|")[1] for row in re.findall(r"^\|.*\|$", text, re.M))
    for kind, prefix, start, end in re.findall(r"(Table|Figure)s (S?)(\d+) to S?(\d+)", first):
        first += "".join(f"\n{kind} {prefix}{n}" for n in range(int(start), int(end) + 1))
    for kind, one, other in re.findall(r"(Table|section|Definition)s (\S+?)(?:,| and) (\S+)", first):
        first += f"\n{kind} {one}\n{kind} {other}"
    sections = ["2.1", "2.2", "3.1", "3.2", "4.1", "4.2", "4.3", *(f"S{n}" for n in (*range(2, 8), "1.1", "1.2"))]
    needed = [f"section {n}" for n in sections]
    needed += [f"Table {n}" for n in (*range(1, 7), *(f"S{n}" for n in range(1, 14)))]
    needed += [f"Figure {n}" for n in (1, 2, 3, 4, 5, "S1")] + ["Algorithm 1", "Algorithm 2", "equation (S1)"]
    needed += [f"Definition {n}" for n in ("2.1", "S1.1", "S1.2", "S2.1")]
    needed += ["Proposition 2.1 = S1.1", "Proposition S1.2", "Theorem S1.3", "Lemma S1.4", "Theorem S1.5"]
    needed += ["Lemma S2.1", "Proposition S2.2", "Corollary S2.3", "Theorem 4.1 = S2.4", "Theorem S3.1"]
    missing = [name for name in needed if not re.search(rf"{re.escape(name)}(?![\d.])", first)]
    assert not missing


def test_the_citation_is_of_this_version_and_this_paper():
    text = (ROOT / "CITATION.cff").read_text()
    assert f"\nversion: {minicnn.__version__}\n" in text
    readme = prose("README.md")
    title = re.search(r"type: conference-paper\n    title: \"(.*)\"", text)[1]
    assert f"*{title}*" in readme
    assert re.findall(r"family-names: (\w+)", text) == ["Shang", "Sohn", "Almeida", "Lee"]


def variables(pattern, *paths):
    return {name for path in paths for name in re.findall(pattern, path.read_text())}


def test_environment_variables_are_described():
    """Those of the product in docs/conventions.md, those of the tests in CONTRIBUTING.md."""
    sources = [path for top in ("minicnn", "experiments", "exercises") for path in (ROOT / top).rglob("*.py")]
    product = variables(r"`(MINICNN_\w+)", ROOT / "docs" / "conventions.md")
    for_tests = variables(r"`(MINICNN_\w+)", ROOT / "CONTRIBUTING.md")
    assert variables(r'"(MINICNN_\w+)"', *sources) == product
    assert variables(r'"(MINICNN_\w+)"', *(ROOT / "tests").rglob("*.py")) - product == for_tests


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_files_and_links_exist(document):
    text = document.read_text()
    for target in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (document.parent / target).exists(), target
    for path in re.findall(r"`((?:minicnn|reference|experiments|exercises|tests|docs|\.ci)/[\w./]*)`", text):
        assert (ROOT / path).exists(), path


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_named_tests_exist(document):
    """Each tests/...py::name."""
    named = re.findall(r"(tests/[\w/]+\.py)::(\w+)", document.read_text())
    assert named or document.name != "errata.md"
    for path, name in named:
        assert re.search(rf"^def {name}\(", (ROOT / path).read_text(), re.M), f"{path} has no {name}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_make_targets_exist(document):
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    for target in re.findall(r"`make ([a-z-]+)", document.read_text()) + [
        line.removeprefix("make ").split()[0]
        for block in code(document, "")
        for line in block.splitlines()
        if line.startswith("make ")
    ]:
        assert target in targets
