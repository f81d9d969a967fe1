"""What documents say of recipes, of the speed run and of precision, from the trainings below docs/."""

import csv
import json
import re
import statistics

import pytest

from experiments.ablation import BY_ACT, CHANGES
from minicnn.analysis.statistics import t_interval
from tests.docs.documents import ROOT, prose, tables


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


MAIN_PAIR = ("crelu", "relu")


@pytest.mark.parametrize(
    ("table", "trainings", "acts", "names"),
    [
        ("ablation", "trainings", MAIN_PAIR, [name for name, change in CHANGES.items() if change.only != "avr"]),
        ("avr", "avr-trainings", ("avr",), ["hour", "he-gain"]),
    ],
)
def test_the_tables_of_the_ablation(table, trainings, acts, names):
    """They follow from the trainings: means over seeds, and differences from the recipe seed by seed."""
    with open(ROOT / "docs" / "ablation" / f"{trainings}.csv", newline="") as file:
        found = {(row["variant"], row["seed"]): float(row["hold_out_error"]) for row in csv.DictReader(file)}
    rows = tables()[table]
    assert [row["changed"] for row in rows] == [CHANGES[name].words for name in names]
    for row, name in zip(rows, names, strict=True):
        for network, act in ((BY_ACT[act], act) for act in acts):
            errors, usual = ([found.get((f"{one} {act}", seed)) for seed in "012"] for one in (name, "hour"))
            cells = [f"{network}, error %"] + [f"{network}, more by"] * (name != "hour")
            if None in errors:
                assert CHANGES[name].only not in ("", act)
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
