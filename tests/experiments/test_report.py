"""The report: what it says about numbers that a test chose, what it does not say, and how it looks in a browser."""

import csv
import io
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from experiments.report import page
from experiments.report.board import Question
from experiments.report.context import Context
from experiments.reproduction.records import Records
from experiments.reproduction.scales import SCALES, Control
from experiments.reproduction.steps import Analysis, convpool
from experiments.reproduction.targets import TARGETS, Files, steps_of
from experiments.tables.html import escape
from tests.experiments.browser import CHROMIUM, look_at
from tests.experiments.made_runs import BAD, tiny, write_run


def report(root, scale, names=("table1", "gap"), imported=()):
    context = Context(root, scale, Records(root, imported), Files())
    return page.write_report(context, [TARGETS[name] for name in names], "python -m x <y>")


class Reader(HTMLParser):
    """Checks that elements are closed in order, and collects them with the text that is shown."""

    def __init__(self):
        super().__init__()
        self.open, self.elements, self.text = [], [], []

    def handle_starttag(self, name, attributes):
        self.elements.append((name, dict(attributes)))
        if name not in ("meta", "img", "br", "link"):
            self.open.append(name)

    def handle_endtag(self, name):
        assert self.open.pop() == name

    def handle_data(self, text):
        self.text.append(text)


def read(path):
    reader = Reader()
    reader.feed(Path(path).read_text())
    reader.close()
    assert not reader.open
    return reader, re.sub(r"\s+", " ", " ".join(reader.text))


def write_analyses(root, scale, target, *texts):
    """The finished analyses of a target, one after the other, with these files; their other outputs are empty."""
    steps = [step for step in steps_of([TARGETS[target]], scale, Files()) if isinstance(step, Analysis)]
    for step, files in zip(steps, texts, strict=True):
        for name in (*step.makes, *files):
            path = step.folder(root) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(files.get(name, ""))
        (step.folder(root) / "stamp.json").write_text(json.dumps(Records(root).stamp(step)))


# What it says.


@pytest.fixture
def paired(tmp_path):
    """Three seeds: CReLU is 1, 2 and 3 points better; each network errs on the first images of 100."""
    scale = tiny(3)
    for training in scale.table1:
        seed, relu = training.settings.seed, training.settings.act == "relu"
        test = 30.0 + 5 * seed - (0 if relu else seed + 1)
        wrong = np.arange(100) < test
        write_run(tmp_path, training, train=test - 4 - seed, test=test, wrong=wrong, command=BAD)
    return tmp_path, scale


def test_a_claim_has_the_interval_worked_out_by_hand(paired):
    """Differences -1, -2, -3: mean -2, half width t(0.975, 2) / sqrt 3 = 2.48: no claim.  Gaps 4, 5, 6: 5 ± 2.48.

    Over images: six of the 100 have -1/3 each, so a sample has -X/3 with X binomial (100, 0.06), whose quantiles are 2
    and 11.
    """
    _, text = read(report(*paired))
    assert "No difference shown between CReLU (half x0.04) and ReLU (base x0.04): -2.00 points" in text
    assert "(95 % interval -4.48 to +0.48, 3 paired seeds)" in text
    assert "5.00 ± 2.48" in text
    assert "35.00 ± 12.42" in text  # ReLU's 30, 35, 40: s = 5
    assert "-3.67 to -0.67" in text


def test_equal_differences_allow_no_claim(tmp_path):
    """Both seeds differ by 0.11, up to rounding: no spread, which is not certainty."""
    scale = tiny(2, pairs=())
    errors = {("relu", 0): 9.30, ("crelu", 0): 9.41, ("relu", 1): 9.11, ("crelu", 1): 9.22}
    for training in scale.table1:
        write_run(tmp_path, training, train=2.0, test=errors[training.settings.act, training.settings.seed])
    path = report(tmp_path, scale)
    _, text = read(path)
    assert "No claim: 2 pairs of networks that differ alike (CReLU (half x0.04) 0.11 points above" in text
    assert "is worse than" not in text
    row = board(path)[QUESTION]
    assert (row["verdict"], row["how sure"]) == ("undecided", "2 pairs, all alike: no interval")
    assert float(row["ours"]) == pytest.approx(0.11)


def test_a_claim_where_the_interval_allows_one(tmp_path):
    """-1.5 and -1.52: mean -1.51, half 12.706 x 0.01."""
    scale = tiny(2)
    for training in scale.table1:
        seed = training.settings.seed
        write_run(tmp_path, training, train=20.0, test=30.0 - (1.5 + seed / 50) * (training.settings.act == "crelu"))
    _, text = read(report(tmp_path, scale))
    assert "CReLU (half x0.04) is better than ReLU (base x0.04) by 1.51 points (95 % interval -1.64 to -1.38" in text


def test_one_seed_is_no_claim(tmp_path):
    scale = tiny(1)
    for training in scale.table1:
        write_run(tmp_path, training, train=20.0, test=30.0 - 9 * (training.settings.act == "crelu"))
    _, text = read(report(tmp_path, scale))
    assert "No claim: one pair of networks" in text
    assert "is better than" not in text


def board(path):
    """The rows of the board, by question."""
    with open(path.parent / "tables" / "board.csv", newline="") as file:
        return {row["question"]: row for row in csv.DictReader(file)}


QUESTION = "Is CReLU (half) better than ReLU (base), with half of its parameters?"


@pytest.mark.parametrize(
    ("differences", "verdict", "low"),
    [
        ((-1.0, -2.0, -3.0), "not shown", -4.484),  # half an interval: t(0.975, 2) / sqrt 3 = 2.484
        ((-3.0, -4.0, -5.0), "shown", -6.484),
        ((3.0, 4.0, 5.0), "the opposite", 1.516),
        ((-4.0,), "undecided", None),
        ((), "not measured yet", None),
    ],
)
def test_the_board_answers_a_question_by_its_interval(tmp_path, differences, verdict, low):
    scale = tiny(max(1, len(differences)), pairs=())
    for training in scale.table1:
        seed, relu = training.settings.seed, training.settings.act == "relu"
        if differences:
            write_run(tmp_path, training, train=20.0, test=30.0 + (0.0 if relu else differences[seed]))
    row = board(report(tmp_path, scale))[QUESTION]
    assert row["verdict"] == verdict
    assert row["the paper"] == "yes: 8.37 % against 9.17 %"
    assert (float(row["95 % interval, low"]) if low is not None else None) == (low and pytest.approx(low, abs=1e-3))


@pytest.mark.parametrize(
    ("smaller", "allowed", "tally"), [(1.0, "also", "2 shown"), (0.0, "not", "1 shown 1 not shown")]
)
def test_the_board_allows_for_the_number_of_questions(tmp_path, smaller, allowed, tally):
    """The error has p = 0.038 (t = 5, two degrees of freedom).  Beside a gap with p = 0.0003 (t = 100 / sqrt 3) Holm's
    method compares it with 0.05, beside one with p = 1 with 0.025."""
    scale, shift = tiny(3, pairs=()), 5 / 3**0.5
    for training in scale.table1:
        seed, relu = training.settings.seed, training.settings.act == "relu"
        test = 30.0 + (0.0 if relu else seed - 1 - shift)
        gap = 5.0 - (0.0 if relu else smaller + (seed - 1) / 100)
        write_run(tmp_path, training, train=test - gap, test=test)
    path = report(tmp_path, scale)
    rows = board(path)
    assert rows[QUESTION]["verdict"] == "shown"
    assert f"2 questions of the paper: {tally} the board" in " ".join(read(path)[1].split())  # on the first screen
    assert rows[QUESTION]["how sure"] == f"3 pairs, p = 0.038; {allowed} for all 2 at once"


def test_an_unfinished_plan_is_interim_and_allows_for_all_that_it_asks(tmp_path):
    """Three of five pairs with p = 0.038; the other question, about the gap, has p = 1, so 0.025 counts."""
    scale, shift = tiny(5, pairs=()), 5 / 3**0.5
    for training in scale.table1:
        seed, relu = training.settings.seed, training.settings.act == "relu"
        if seed < 3:
            test = 30.0 + (0.0 if relu else seed - 1 - shift)
            write_run(tmp_path, training, train=test - 5.0 - (0 if relu else seed - 1), test=test)
    path = report(tmp_path, scale)
    row = board(path)[QUESTION]
    assert (row["verdict"], row["how sure"]) == ("shown", "3 of 5 pairs, interim, p = 0.038; not for all 2 at once")
    assert "Interim: some of the planned pairs are not trained or not analysed yet." in read(path)[1]
    write_run(tmp_path, scale.table1[-1], train=1.0, test=2.0)  # a CReLU network alone is no pair
    assert board(report(tmp_path, scale))[QUESTION]["how sure"].startswith("3 of 5 pairs")


def test_questions_that_are_open_count_among_those_that_are_asked(tmp_path):
    """p = 0.038 of the error and p = 0.0003 of the gap would do for two; eight more are asked, and not measured."""
    scale, shift = tiny(3, analysed=3), 5 / 3**0.5
    for training in scale.table1:
        seed, relu = training.settings.seed, training.settings.act == "relu"
        test = 30.0 + (0.0 if relu else seed - 1 - shift)
        write_run(tmp_path, training, train=test - 5.0 + (0.0 if relu else 1 + (seed - 1) / 100), test=test)
    rows = board(report(tmp_path, scale))
    assert len(rows) == 10
    assert rows[QUESTION]["how sure"] == "3 pairs, p = 0.038; not for all 10 at once"


@pytest.mark.parametrize(
    ("values", "sign", "expected"),
    [
        ((0.040, 0.045, 0.050), 0, "not contradicted"),  # less opposed is no more opposed
        ((-0.040, -0.045, -0.050), 0, "contradicted"),
        ((-0.1, 0.1, 0.0), 0, "not contradicted"),
        ((0.040, 0.045, 0.050), 1, "shown"),
        ((0.040, 0.045, 0.050), -1, "the opposite"),
    ],
)
def test_verdicts_by_the_side_on_which_the_claim_is(values, sign, expected):
    assert Question("?", "", "", sign, values, 3).verdict == expected


def test_a_seed_that_lacks_a_layer_does_not_lend_its_numbers_to_another(paired):
    """Seed 0 has conv0 and conv1, seed 1 conv0 alone, seed 2 conv1 alone: only the first has a mean over layers."""
    root, _ = paired
    scale = tiny(3, analysed=3)
    cells = [{0: 0.1, 1: 0.3}, {0: 0.2}, {1: 0.4}]
    tables = [csv_of(CORRELATION, *((f"conv{n}", x, 0.1, 0.1, 0.3) for n, x in own.items())) for own in cells]
    write_analyses(root, scale, "table6", *({"correlation.csv": made} for made in tables))
    row = board(report(root, scale))["Are the two phases of a filter used differently?"]
    assert (float(row["ours"]), row["verdict"]) == (pytest.approx(0.2), "undecided")


def test_the_board_takes_the_mean_over_layers(paired):
    """Two seeds whose layers have |cosines| 0.1, 0.3 and 0.2, 0.4: 0.25 ± 0.64 on average."""
    root, _ = paired
    scale = tiny(3, analysed=2)
    tables = [csv_of(CORRELATION, *((f"conv{n}", x + n / 5, 0.1, 0.1, 0.3) for n in (0, 1))) for x in (0.1, 0.2)]
    write_analyses(root, scale, "table6", *({"correlation.csv": made} for made in tables))
    row = board(report(root, scale))["Are the two phases of a filter used differently?"]
    assert float(row["ours"]) == pytest.approx(0.25)
    assert float(row["95 % interval, high"]) == pytest.approx(0.25 + 12.706 * 0.05, abs=1e-3)
    assert row["verdict"] == "not shown"


def test_the_board_counts_the_layers_on_either_side(paired):
    """|cosines| near 0.6 and 0.1 are by themselves above and below 0.5, 0.3 to 0.7 are neither; their mean is below."""
    root, _ = paired
    scale = tiny(3, analysed=3)
    cells = [(0.60, 0.10, 0.3, 0.20), (0.61, 0.11, 0.5, 0.21), (0.62, 0.12, 0.7, 0.22)]
    tables = [csv_of(CORRELATION, *((f"conv{n}", x, 0.1, 0.1, 0.3) for n, x in enumerate(own))) for own in cells]
    write_analyses(root, scale, "table6", *({"correlation.csv": made} for made in tables))
    rows = board(report(root, scale))
    row = rows["Are the two phases of a filter used differently?"]
    assert (float(row["ours"]), row["layers"]) == (pytest.approx(0.3575), "1 above 0.5, 2 below, of 4")
    assert rows[QUESTION]["layers"] == ""


def test_networks_that_were_trained_in_two_ways_are_told_apart(paired):
    """The recipe is named where a network like it has another, or other numbers; and only there."""
    root, scale = paired

    def names(scale):
        with open(
            report(root, scale).parent / "tables" / "section-4.1-training-and-test-error.csv", newline=""
        ) as file:
            return [row["network"] for row in csv.DictReader(file)]

    assert not any("recipe" in name for name in names(scale))
    other = tuple(replace(one, settings=replace(one.settings, shift=1), control="shifts") for one in scale.table1)
    found = names(replace(scale, table1=(*scale.table1, *other)))
    usual, changed = scale.table1[0].settings.how_trained, other[0].settings.how_trained
    assert (len(found), len(set(found))) == (4, 4)
    assert [name.endswith(f", {how}") for name, how in zip(found, [usual] * 2 + [changed] * 2, strict=True)] == [
        True
    ] * 4
    assert (usual, changed) == ("recipe short with batch 32", "recipe short with shift 1, batch 32")


def test_reduced_runs_are_not_compared_with_the_paper(paired):
    _, text = read(report(*paired))
    assert "Not comparable with the paper: textures is not CIFAR, width x0.04, 64 images, recipe short, 1 epoch" in text
    assert "8.37" in text  # the paper's, beside ours
    assert "difference to the paper" not in text.lower()


def test_a_seed_without_its_partner_does_not_count(paired):
    root, scale = paired
    (root / "runs" / scale.table1[-1].name / "result.json").unlink()
    _, text = read(report(root, scale))
    assert "2 paired seeds" in text
    assert "(1 missing)" in text
    with open(root / "tables" / "against-the-baseline.csv", newline="") as file:
        assert [row["pairs"] for row in csv.DictReader(file)] == ["2"]


def test_single_and_folds_are_reported_as_the_paper_does(tmp_path):
    """Three folds each, paired by fold: CReLU is better by 1 on every one; the vote is that of result.json."""
    folds = [convpool(act, width, "folds", 3, recipe="paper") for act, width in (("relu", "base"), ("crelu", "half"))]
    single = convpool("relu", "base", "single", recipe="paper")
    for training, less in zip(folds, (0, 1), strict=True):
        for i, part in enumerate(training.parts):
            write_run(tmp_path, training, train=2.0, test=9.0 + i - less, part=part)
        result = {"train_error": 2.0, "average": 10.0 - less, "vote": 7.25 - less, "seconds": 9.0}
        (tmp_path / "runs" / training.name / "result.json").write_text(json.dumps(result))
    write_run(tmp_path, single, train=1.0, test=9.5, part="final")
    result = {"train_error": 1.0, "test_error": 9.5, "seconds": 9.0}
    (tmp_path / "runs" / single.name / "result.json").write_text(json.dumps(result))
    path = report(tmp_path, tiny(table1=(single, *folds), pairs=()), ("table1", "gap"))
    assert "3 folds" not in (path.parent / "tables" / "board.csv").read_text()  # no interval over seeds
    _, text = read(path)
    assert "ReLU (base) 10.00 ± 2.48 2.00 (3) 7.25" in text  # 9, 10, 11
    assert "CReLU (half) 9.00 ± 2.48 2.00 (3) 6.25" in text
    said = "No claim from folds, which share most of their images (CReLU (half) minus ReLU (base): -1.00 points over 3"
    assert said in text
    assert "is better than" not in text
    assert "recipe paper, 350 epochs, 3 folds" in text
    assert "CReLU (half), CIFAR-10, 3 folds 2.00 (3) 9.00 ± 2.48 7.00 ± 2.48 -1.00 (3) " in text  # section 4.1
    assert "Folds share most of their images" in text
    assert "9.50 (1)" in text
    assert "Not comparable" not in text  # the paper's settings


def test_values_from_files_are_escaped(paired):
    root, scale = paired
    path = report(root, scale)
    assert "<script" not in path.read_text()
    assert escape(BAD) in path.read_text()  # the command in config.json


def test_a_folder_with_an_evil_name_is_linked_and_harmless(tmp_path):
    root, scale = tmp_path / "<script>alert(1)<" / "x", tiny(1)
    for training in scale.table1:
        write_run(root, training, train=1.0, test=2.0)
    reader, _ = read(report(tmp_path, scale, imported=(root,)))
    links = [a["href"] for name, a in reader.elements if name == "a" and "runs/" in a.get("href", "")]
    assert links
    assert all(link.startswith("%3Cscript%3Ealert%281%29%3C/x/runs/") for link in links)


def test_cells_link_to_folders_that_exist(paired):
    root, scale = paired
    reader, _ = read(report(root, scale))
    links = {a["href"] for name, a in reader.elements if name == "a" and "runs/" in a.get("href", "")}
    assert links == {f"runs/{training.name}/" for training in scale.table1}


def test_the_theory_is_shown_with_its_verdicts_and_escaped(tmp_path):
    one = {"key": "k", "where": "Theorem 4.1", "says": BAD, "verdict": "false", "witness": "w", "errata": ["E7"]}
    old = {"where": "Lemma 2", "verdict": "holds"}  # older files have no severity
    sound = {"severity": "sound", "where": "Lemma 1", "verdict": "holds"}
    misprint = one | {"severity": "misprint", "where": "Definition 3"}
    found = [old, misprint, sound, one | {"severity": "false"}]
    write_analyses(tmp_path, tiny(), "theory", {"results.json": json.dumps({"statements": found})})
    path = report(tmp_path, tiny(), ("theory",))
    _, text = read(path)
    assert "4 statements were checked. As they are printed, holds: 2; false: 2." in text
    places = [text.index(where) for where in ("Theorem 4.1", "Definition 3", "Lemma 1", "Lemma 2")]
    assert places == sorted(places)  # the worst first
    made = path.read_text()
    assert '<span class="verdict bad">false</span><strong> Theorem 4.1: ' in made
    assert '<span class="verdict so-so">false as printed</span><strong> Definition 3: ' in made  # no false theorem
    assert "False: no condition repairs it" in text
    assert BAD in text
    assert "<script" not in path.read_text()


def csv_of(head, *rows):
    file = io.StringIO()
    csv.writer(file).writerows([head.split(","), *rows])
    return file.getvalue()


CORRELATION = "layer,pair_absolute,non_pair_absolute,random_absolute,pair_signed"


def test_numbers_of_an_analysis_stand_beside_the_papers(paired):
    """Table 6 of the paper has conv1: 0.372 +- 0.372 and 0.165 +- 0.154."""
    root, scale = paired
    made = csv_of(CORRELATION, ("conv1", 0.5, 0.125, 0.1, 0.3))
    write_analyses(root, scale, "table6", {"correlation.csv": made})
    _, text = read(report(root, scale, ("table6",)))
    assert "conv1 0.500 (1) 0.125 (1) +0.375 (1) 0.100 +0.300 (1) 0.372 ± 0.372 0.165 ± 0.154" in text


def test_analyses_of_several_seeds_have_intervals(paired):
    """0.4, 0.5 and 0.6: 0.5 ± 4.303 x 0.1 / sqrt 3 = 0.248.  Differences from the others: 0.3 ± a hundredth of that."""
    root, _ = paired
    scale = tiny(3, analysed=3)
    tables = [csv_of(CORRELATION, ("conv1", 0.5 + x, 0.2 + 0.99 * x, 0.1, x)) for x in (-0.1, 0.0, 0.1)]
    write_analyses(root, scale, "table6", *({"correlation.csv": made} for made in tables))
    path = report(root, scale, ("table6",))
    _, text = read(path)
    assert "conv1 0.500 ± 0.248 0.200 ± 0.246 +0.300 ± 0.002 0.100 +0.000 ± 0.248 0.372" in text
    assert "<strong>+0.300 ± 0.002</strong>" in path.read_text()
    assert "<strong>+0.000" not in path.read_text()
    assert "All numbers: seed 0 , seed 1 , seed 2" in text
    assert '<a href="analyses/correlation-tiny-seed1/">' in path.read_text()


def test_bold_allows_for_the_number_of_layers(paired):
    """t = 5 with two degrees of freedom is p = 0.038: enough alone, not for one of two layers."""
    root, _ = paired
    scale = tiny(3, analysed=3)
    shift = 5 / 3**0.5 * 0.1  # of -0.1, 0, 0.1, whose standard error is 0.1 / sqrt 3
    for layers, bold in ((1, True), (2, False)):
        tables = [
            csv_of(
                CORRELATION, *((f"conv{n}", 0.5, 0.5, 0.1, x + shift if n == 1 else x) for n in range(1, layers + 1))
            )
            for x in (-0.1, 0.0, 0.1)
        ]
        write_analyses(root, scale, "table6", *({"correlation.csv": made} for made in tables))
        assert ("<strong>+0.289 ± 0.248</strong>" in report(root, scale, ("table6",)).read_text()) == bold


def test_the_gap_is_compared_with_that_of_the_baseline_by_seeds(tmp_path):
    """Gaps of ReLU 4 and 6, of CReLU 3 and 4: 1.5 points less, ± 12.706 x 0.5."""
    scale = tiny(2)
    gaps = {("relu", 0): 4.0, ("relu", 1): 6.0, ("crelu", 0): 3.0, ("crelu", 1): 4.0}
    for training in scale.table1:
        gap = gaps[training.settings.act, training.settings.seed]
        write_run(tmp_path, training, train=20.0, test=20.0 + gap)
    _, text = read(report(tmp_path, scale, ("gap",)))
    assert "CReLU (half x0.04), Textures 20.00 (2) 23.50 ± 6.35 3.50 ± 6.35 -1.50 ± 6.35 " in text
    assert "Not comparable with the paper: textures is not CIFAR" in text


def test_controls_are_compared_with_the_main_network_by_seeds(tmp_path):
    """Two seeds of the main network, 30 and 31, and of a control, 29 and 30.5: less by 1 and 0.5, ± 12.706 x 0.25."""
    scale = tiny(2, pairs=())
    relu, crelu = ([t for t in scale.table1 if t.settings.act == act] for act in ("relu", "crelu"))
    for own, errors in ((crelu, (30.0, 31.0)), (relu, (29.0, 30.5))):
        for training, error in zip(own, errors, strict=True):
            write_run(tmp_path, training, train=20.0, test=error)
    scale = replace(scale, controls=(Control("ours", tuple(crelu)), Control("smaller", tuple(relu), "ours")))
    path = report(tmp_path, scale, ("controls",))
    _, text = read(path)
    assert "compared with difference, points" in text
    assert "2 seeds seed 0 , seed 1 1 (2) 20.00 (2) 29.75 ± 9.53 ours -0.75 ± 3.18" in text
    assert "no control is trained" in read(report(tmp_path, tiny(2), ("controls",)))[1]


def test_a_seed_that_is_not_analysed_is_named_and_the_others_count(paired):
    root, _ = paired
    scale = tiny(3, analysed=2)
    ratios = csv_of("layer,dataset,learned,random,simulated", ("conv2", "cifar10", 0.95, 0.975, 0.99))
    write_analyses(root, scale, "tableS1", {"ratios.csv": ratios}, {"ratios.csv": ratios})
    (root / "analyses" / "reconstruction-tiny-seed1" / "stamp.json").unlink()
    _, text = read(report(root, scale, ("tableS1",)))
    assert "CIFAR-10 0.9500 (1) 0.9750 (1) -0.0250 (1) 0.990 0.92 0.99" in text
    assert "not analysed: seed 1." in text


def test_histograms_of_several_seeds(paired):
    root, _ = paired
    scale = tiny(2, analysed=2)
    made = []
    for seed, mean in ((0, -0.3), (1, -0.5)):
        numbers = {"mean": mean, "null_mean": -0.2, "p_value": 0.25 + seed}
        name = "textures-convpool-{}-x0.04-short1-seed{}/summary.json"
        relu = {"mean": -0.4 - seed, "null_mean": -0.2}
        files = {"half-crelu": {"conv1": numbers, "damaged": 3, "empty": {}}, "base-relu": {"conv1": relu}}
        made.append({name.format(network, seed): json.dumps(found) for network, found in files.items()})
    write_analyses(root, scale, "figure3", *made)
    reader, text = read(report(root, scale, ("figure3",)))
    words = [a["alt"] for name, a in reader.elements if name == "img"]
    assert any("By depth, ReLU (base x0.04) and CReLU (half x0.04): the mean cosine" in one for one in words)
    assert "KS test: p, seed 0" in text
    # t(0.975, 1) = 12.706, s / sqrt 2 = 0.1; minus ReLU's -0.2 and -1.2: 0.1 and 0.9, half of 0.8 times 12.706
    assert "conv1 -0.400 ± 1.271 -0.200 -0.200 ± 1.271 +0.500 ± 5.082 0.2" in text
    assert "empty – – – – –" in text  # noqa: RUF001


def test_layers_that_start_with_pairs_show_nothing_about_learning(paired):
    """conv1 started as patterns: of the two layers, conv2 alone counts, -0.1 and -0.3."""
    root, _ = paired
    scale = tiny(2, analysed=2)
    made = []
    for seed, excess in ((0, -0.1), (1, -0.3)):
        name = "textures-convpool-{}-x0.04-short1-seed{}/summary.json"
        layers = {
            "conv1": {"mean": -0.9, "null_mean": -0.2, "start": "patterns"},
            "conv2": {"mean": -0.2 + excess, "null_mean": -0.2, "start": "opposites"},
        }
        made.append({name.format(network, seed): json.dumps(layers) for network in ("half-crelu", "base-relu")})
    write_analyses(root, scale, "figure3", *made)
    path = report(root, scale, ("table1", "figure3"))
    assert float(board(path)["Are the filters of ReLU networks more opposed than random ones?"]["ours"]) == -0.2
    _, text = read(path)
    assert "conv1 -0.900 (2) -0.200 – – –" in text  # noqa: RUF001
    assert "By the recipe, layers behind CReLU start with minus the weights" in text
    assert "conv1 starts as patterns of the images" in text


def test_invariance_is_compared_as_in_the_paper_and_like_with_like(paired):
    """Two seeds with differences d and d + 2 have the mean d + 1, ± t(0.975, 1) = 12.7."""
    root, _ = paired
    scale = tiny(2, analysed=2)
    head = "run,weights,layer,sides,score,as_in_paper"

    def scores(relu, crelu, untrained_relu, untrained_crelu):
        """Scores by one side and by both."""
        rows = []
        for run, weights, both in (
            ("r", "trained", relu),
            ("r", "untrained, seed 0", untrained_relu),
            ("c", "trained", crelu),
            ("c", "untrained, seed 0", untrained_crelu),
        ):
            papers = (run == "r", run == "c")
            rows += [(run, weights, "conv1", *of) for of in zip(("one", "two"), both, papers, strict=True)]
        return {"invariance.csv": csv_of(head, *rows)}

    two_seeds = (
        scores(relu=(20, 22), crelu=(21, 30), untrained_relu=(40, 45), untrained_crelu=(41, 50)),
        scores(relu=(22, 22), crelu=(23, 34), untrained_relu=(40, 45), untrained_crelu=(41, 50)),
    )
    write_analyses(root, scale, "figure4", *two_seeds)
    reader, text = read(report(root, scale, ("figure4",)))
    shown = ["21.0 ± 12.7", "32.0 ± 25.4", "+11.0 ± 12.7", "+1.0 (2)", "+10.0 ± 25.4", "+10.0 (2)"]
    assert f"conv1 {' '.join(shown)}" in text
    words = [a["alt"] for name, a in reader.elements if name == "img"]
    assert any("By depth, ReLU (base x0.04) and CReLU (half x0.04): invariance scores" in one for one in words)
    assert any("minus that of" in one for one in words)


def test_other_peoples_methods_have_names(tmp_path):
    path = report(tmp_path, tiny(), ("table2", "table3", "table5"))
    _, text = read(path)
    for words in ("Highway network (Srivastava et al., 2015) 7.60", "All-CNN-B (Springenberg et al., 2014) 9.4 M"):
        assert words in text
    assert "VGG + CReLU (conv1,3) " in text
    assert " CReLU (conv1,4,7) 8.6 M" in text
    assert not re.search(r"[a-z]+2015[a-z]+", text)  # a citation key


def test_corrections_are_in_words(tmp_path, monkeypatch):
    monkeypatch.setattr("experiments.report.networks._count", lambda *_: 0)
    _, text = read(report(tmp_path, tiny(), ("networks",)))
    assert "E1 CReLU (half) conv3 3x3x96x48 3x3x96x96 half of 192 filters is 96" in text
    assert "E4 CReLU (all) conv12 CReLU ReLU" in text


def test_damaged_tables_leave_gaps(paired):
    root, scale = paired
    write_analyses(root, scale, "table6", {"correlation.csv": "layer,nothing\nconv1,3\n"})
    write_analyses(root, scale, "figure4", {"invariance.csv": "run,layer,sides,score\na,conv1,one,x\nb,conv1\n"})
    metrics = root / "runs" / scale.table1[0].name / "metrics.csv"
    metrics.write_text("epoch,train_error\n1,nan\n2,inf\nx,3\n4\n")
    _, text = read(report(root, scale, ("table6", "figure4")))
    assert "conv1 – – – – – 0.372" in text  # noqa: RUF001
    assert "conv1 – – – – – –" in text  # noqa: RUF001
    assert "Learning curves" in text


@pytest.mark.parametrize("scale", SCALES)
def test_an_empty_reproduction_has_all_sections_and_says_what_is_missing(tmp_path, scale, monkeypatch):
    monkeypatch.setattr("experiments.report.networks._count", lambda *_: 0)  # building all takes seconds
    reader, text = read(report(tmp_path, SCALES[scale](None), tuple(TARGETS)))
    ids = {a["id"] for _, a in reader.elements if "id" in a}
    assert ids >= set(TARGETS) == set(page.SECTIONS)
    assert "not run yet" in text
    assert "Not here:" in text
    assert "is better than" not in text


def test_headings_are_in_order_and_pictures_have_words(paired):
    reader, _ = read(report(*paired))
    levels = [int(name[1]) for name, _ in reader.elements if re.fullmatch("h[1-6]", name)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert ("html", {"lang": "en"}) in reader.elements
    assert all(a.get("aria-label") for name, a in reader.elements if name == "svg" and a.get("role") == "img")
    assert not [a for name, a in reader.elements if name in ("script", "link", "iframe")]


# In a browser.


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here (apt-get install chromium)")
@pytest.mark.parametrize("width", [390, 1280])
def test_it_looks_right_in_a_browser(paired, width, monkeypatch):
    from PIL import Image

    root, scale = paired
    Image.new("RGB", (1200, 300), "white").save(root / "wide.png")
    monkeypatch.setitem(page.SECTIONS, "theory", ("Wide", lambda context: [context.picture(root / "wide.png", "wide")]))
    found = look_at(report(root, scale, ("table1", "table2", "table4", "gap", "theory")), width)
    assert found["width"] == width
    assert found["scroll"] <= found["client"] <= width, found["beyond"]
    assert not found["beyond"]
    assert not found["errors"]
    assert not found["outside"]
    assert not found["broken"]
    for kind, least in (("tables", 5), ("pictures", 1), ("charts", 2)):
        assert len(found[kind]) >= least, kind
        assert all(w > 50 and h > 20 for w, h in found[kind]), kind


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here (apt-get install chromium)")
def test_the_browser_test_sees_what_is_wrong(tmp_path):
    """A page that is too wide, has an error and a broken picture."""
    (tmp_path / "bad.html").write_text(
        "<html><head></head><body><div style='width: 700px'>x</div><img src='data:image/png;base64,AAAA'>"
        "<script>throw new Error('oh')</script></body></html>"
    )
    found = look_at(tmp_path / "bad.html", 390)
    assert found["scroll"] > found["client"] == 390
    assert found["beyond"]
    assert found["broken"] == 1
    assert "oh" in " ".join(found["errors"])
