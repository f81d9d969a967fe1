"""What README.md, docs/findings.md and docs/hours say of networks of full width, from their results."""

import collections
import csv
import json
import re
import statistics

import numpy as np
from scipy.stats import t as student

from experiments.reproduction.records import Records
from experiments.reproduction.scales import SCALES
from experiments.train.cifar import CifarSettings
from minicnn.analysis.statistics import t_interval
from minicnn.models.pretrained import find, read_card
from minicnn.models.pretrained import names as network_names
from reference.paper.results import cifar_result
from tests.docs.documents import HOURS, prose, runs_of, tables


def test_the_plan_of_full_width_knows_what_is_trained():
    """docs/hours counts as done what the plan asks for, and has the errors of the card of the same network."""
    done = [run for training in SCALES["hours"](None).table1 if (run := Records(HOURS, [HOURS]).run(training))]
    cards = [card for card in map(read_card, map(find, network_names())) if card.settings["epochs"] == 8]
    assert done
    for card in cards:
        (run,) = (run for run in done if run.settings == CifarSettings.from_json(card.settings))
        assert (run.test_error, run.result["train_error"]) == (card.test_error, card.train_error)


def test_what_documents_say_of_full_width():
    """Prose of README.md, docs/findings.md and docs/hours, from the results of the pairs."""
    runs = runs_of(HOURS)
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
            assert f"ReLU (base) has {relu[seeds].mean():.2f} % with the same two" in text
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


def test_what_documents_say_of_avr():
    """With the norms that it starts with by `hour`, beside the two networks that had He's."""
    findings, hours = map(prose, ("docs/findings.md", "docs/hours/README.md"))
    runs = runs_of(HOURS)

    def of(network, kind, control="", seeds=(0, 1)):
        names = [f"cifar10-convpool-{network}-hour8-seed{seed}{control}/result.json" for seed in seeds]
        return np.array([runs[name][kind] for name in names])

    he = of("base-avr", "test_error", "-he-gain")
    errors = t_interval(he)
    for text in (findings, hours):
        assert f"{errors.mean:.2f} ± {errors.high - errors.mean:.2f} %" in text
    assert "two AVR networks of full width had been tested ({:.2f} and {:.2f} % errors)".format(*he) in findings
    better = t_interval(he - of("base-avr", "test_error"))
    assert (
        f"AVR is {better.mean:.2f} points better at full width (two pairs, {better.low:.2f} to {better.high:.2f})"
        in findings
    )
    worse = of("base-avr", "test_error") - of("base-relu", "test_error")
    assert "nearly equal ({:.2f} and {:.2f})".format(*worse) in findings
    (row,) = (row for row in tables()["avr"] if row["changed"] == "He's gain, as for ReLU")
    more = "{:.2f} ± {:.2f}".format(*(float(row[f"AVR (base), more by{end}"]) for end in ("", " ±")))
    assert f"and {more} on held-out images at a quarter of it" in findings
    seeds = [s for s in range(5) if f"cifar10-convpool-base-avr-hour8-seed{s}/result.json" in runs]
    avr, relu = (
        {kind: of(network, kind, seeds=seeds) for kind in ("test_error", "train_error")}
        for network in ("base-avr", "base-relu")
    )
    assert (avr["train_error"] > relu["train_error"]).all()
    larger = t_interval(avr["test_error"] - avr["train_error"] - relu["test_error"] + relu["train_error"])
    relu_paper, avr_paper = (cifar_result(*of, "cifar10") for of in (("relu", "base"), ("avr", "base")))
    smaller = (relu_paper.single - relu_paper.train) - (avr_paper.single - avr_paper.train)
    fit = (avr["train_error"] - relu["train_error"]).mean()
    assert (
        f"remains {fit + larger.mean:.2f} points worse than ReLU: of these, {fit:.2f} are training errors, and "
        f"{larger.mean:.2f} ({larger.low:.2f} to {larger.high:.2f}) a larger gap, where the paper's is "
        f"{smaller:.2f} smaller"
    ) in findings
    (row,) = (row for row in tables()["the-paper-s-questions-cifar-10-widths-x0.25-recipe-short-10-epochs"]
              if row["question"].startswith("Is AVR"))  # fmt: skip
    assert f"it does not explain the {float(row['ours']):.2f} points there" in findings


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
