"""What documents say of measurements on trained networks, and of the theory, from the files below docs/."""

import collections
import csv
import json
import re
import statistics

import pytest

from tests.docs.documents import RESULTS, ROOT, cells, section


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
