"""Learning curves and predictions."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np

from experiments.cli.files import read_json
from experiments.figures.style import new_figure, save_figure
from minicnn.data.dataset import Dataset


def draw_curves(
    path: Path, history: list[dict[str, Any]], result: dict[str, Any], *, title: str, smoothed: bool = False
) -> None:
    """Loss and error of one training by epoch, the final test error as a line.

    smoothed    whether the training loss is that of smoothed labels, which is higher than the plain one beside it
    """
    figure = new_figure(path, 9, 3.8)
    if figure is None:
        return
    epochs = [row["epoch"] for row in history]
    for axes, name in zip(figure.subplots(1, 2), ("loss", "error"), strict=True):
        how = ", labels smoothed" if smoothed and name == "loss" else ""
        axes.plot(epochs, [row[f"train_{name}"] for row in history], "o-", ms=3, label=f"training, as it went{how}")
        if history[0][f"hold_out_{name}"] is not None:
            axes.plot(epochs, [row[f"hold_out_{name}"] for row in history], "s-", ms=3, label="held out")
        test = result[f"test_{name}"]
        axes.axhline(test, color="black", ls="--", lw=1, label=f"test, after epoch {result['epoch']}: {test:.3g}")
        _finish(axes, name, epochs[-1])
    figure.suptitle(title, fontsize=10)
    save_figure(figure, path, dpi=120)


def draw_comparison(path: Path, runs: dict[str, Path]) -> None:
    """Training loss and error of several finished runs by epoch; their test errors at the end."""
    figure = new_figure(path, 9, 3.8)
    if figure is None:
        return
    for axes, name in zip(figure.subplots(1, 2), ("loss", "error"), strict=True):
        for i, (label, folder) in enumerate(runs.items()):
            with open(folder / "metrics.csv", newline="") as file:
                rows = list(csv.DictReader(file))
            epochs = [int(row["epoch"]) for row in rows]
            test = read_json(folder / "result.json")[f"test_{name}"]
            values = [float(row[f"train_{name}"]) for row in rows]
            axes.plot(epochs, values, "o-", ms=3, color=f"C{i}", label=f"{label}: training")
            axes.plot(epochs[-1], test, "*", ms=11, color=f"C{i}", label=f"{label}: test {test:.3g}")
        _finish(axes, name, epochs[-1])
    save_figure(figure, path, dpi=120)


def _finish(axes: Any, name: str, epochs: int) -> None:
    axes.set(xlabel="epoch", ylabel="mean cross-entropy" if name == "loss" else "error, %")
    axes.set(xlim=(0.5, epochs + 0.5), ylim=(0, None))
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)


def draw_predictions(path: Path, data: Dataset, p: np.ndarray, *, title: str) -> None:
    """The first test images with the class that the network gives them, and the right one where it errs."""
    figure = new_figure(path, 10, 6.2)
    if figure is None:
        return
    for i, axes in enumerate(figure.subplots(3, 8).ravel()):
        axes.imshow(data.test_images[i])
        axes.set_axis_off()
        guess, truth = int(p[i].argmax()), int(data.test_labels[i])
        text = f"{data.classes[guess]}\n{100 * p[i, guess]:.0f} %"
        axes.set_title(
            text if guess == truth else f"{text}, no:\n{data.classes[truth]}",
            fontsize=8,
            color="black" if guess == truth else "firebrick",
        )
    figure.suptitle(title, fontsize=10)
    save_figure(figure, path, dpi=120)
