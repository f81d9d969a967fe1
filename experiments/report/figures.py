"""Figures 1 to 5: the pictures that the analyses drew, embedded, each with words and numbers beside it."""

from __future__ import annotations

import base64
from pathlib import Path

from experiments.report.context import Context, absent, number, read_results, read_rows
from experiments.report.html import Html, link, note, table, tag
from experiments.reproduction.steps import Step
from experiments.reproduction.targets import TARGETS

ALEXNET = "pairing-alexnet"


def picture(path: Path, words: str, *, caption: str | None = None) -> Html:
    """A PNG file in the page itself."""
    try:
        content = base64.b64encode(path.read_bytes()).decode()
    except OSError:
        why = f"no picture ({path.name}): it is drawn where matplotlib is installed (pip install 'minicnn[figures]')."
        return absent(why)
    image = tag("img", src=f"data:image/png;base64,{content}", alt=words, loading="lazy")
    return tag("figure", tag("div", image, class_="paper"), tag("figcaption", caption or words))


def _steps(context: Context, target: str) -> list[Step]:
    return [step for step in TARGETS[target].steps(context.scale, context.files) if step.makes]


def figure1(context: Context) -> list[Html]:
    return _alexnet(context, "filters.png", "conv1 filters, each beside its pairing filter, the most opposed first")


def figure2(context: Context) -> list[Html]:
    words = "histograms of the cosine of each filter with its pairing filter (blue) and of random filters (red)"
    return _alexnet(context, "histograms.png", words)


def _alexnet(context: Context, name: str, words: str) -> list[Html]:
    """AlexNet, where its filters were given; and our ReLU networks."""
    found: list[Html] = []
    if context.files.alexnet is None:
        found.append(absent("AlexNet's filters were not given (--alexnet FILE). Our own ReLU networks instead."))
    for step in _steps(context, "figure1"):
        folder = context.folder(step)
        if folder is None:
            found.append(absent(f"the analysis {step.name} is not done."))
            continue
        title = "AlexNet" if step.name == ALEXNET else context.title(step.of[0])
        inside = folder / Path(step.makes[0]).parent
        found += [tag("h3", title), picture(inside / name, f"{title}: {words}")]
        if name == "histograms.png":
            found.append(_mu(inside, title))
    return found


def _mu(folder: Path, label: str) -> Html:
    """The means behind the histograms."""
    layers = read_results(folder / "summary.json")
    head = ["layer", "mean cosine", "of random filters", "KS test: p"]
    lines = [
        [name, number(of["mean"]), number(of["null_mean"]), _p(of["p_value"])]
        for name, of in layers.items()
        if isinstance(of, dict) and isinstance(of.get("p_value"), float)
    ]
    return table(f"Cosines of pairs, {label}", head, lines)


def _p(value: float) -> str:
    return "< 1e-300" if value < 1e-300 else f"{value:.1g}"


def figure3(context: Context) -> list[Html]:
    found: list[Html] = []
    words = "histograms of the cosine of each filter with its pairing filter (blue) and of random filters (red)"
    for step in _steps(context, "figure3"):
        crelu, folder = step.of[1], context.folder(step)
        found.append(tag("h3", context.title(crelu)))
        if folder is None:
            found.append(absent(f"the analysis {step.name} is not done."))
            continue
        inside = folder / Path(step.makes[1]).parent
        found += [
            picture(inside / "histograms.png", f"{context.title(crelu)}: {words}"),
            _mu(inside, context.title(crelu)),
        ]
    return [
        *found,
        note("The paper shows conv1 to conv4 of an ImageNet network: no more pairs than random filters have."),
    ]


def figure4(context: Context) -> list[Html]:
    found: list[Html] = []
    for step in _steps(context, "figure4"):
        found.append(tag("h3", f"{context.title(step.of[0])}, and {step.of[1].settings.label}"))
        folder = context.folder(step)
        if folder is None:
            found.append(absent(f"the analysis {step.name} is not done."))
            continue
        words = "Invariance scores by layer, of trained and untrained networks, measured three ways"
        found.append(picture(folder / "invariance.png", words))
        head = ["network, layer", "one side", "two sides", "untrained, one side", "untrained, two sides"]
        found.append(table(f"Invariance scores, {step.name}", head, _scores(folder)))
        found.append(note(link("all numbers", context.href(folder)), "; 1 is chance, 100 never changes."))
    words = "The paper compares one side of ReLU networks with two sides of CReLU networks, and prints no numbers."
    return [*found, note(words)]


def _scores(folder: Path) -> list[list[str]]:
    """A line for each network and layer: trained and untrained, by both sides."""
    found: dict[tuple[str, str], dict[tuple[bool, str], str]] = {}
    for row in read_rows(folder / "invariance.csv"):
        cells = found.setdefault((row["run"], row["layer"]), {})
        cells.setdefault((row["weights"] == "trained", row["sides"]), number(row["score"], 1))
    columns = [(True, "one"), (True, "two"), (False, "one"), (False, "two")]
    return [
        [f"{layer}, {run}", *(cells.get(column, "-") for column in columns)] for (run, layer), cells in found.items()
    ]


def figure5(context: Context) -> list[Html]:
    found: list[Html] = []
    for step in _steps(context, "figure5"):
        folder = context.folder(step)
        found.append(tag("h3", context.title(step.of[0])))
        if folder is None:
            found.append(absent(f"the analysis {step.name} is not done."))
            continue
        words = "Images and their reconstructions from the features of conv1 to conv4, with relative errors and PSNR"
        found.append(picture(folder / step.makes[0], words))
    return found
