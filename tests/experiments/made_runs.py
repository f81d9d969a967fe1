"""Folders of finished runs with numbers that a test chooses, and scales small enough for tests."""

import csv
import json
from dataclasses import replace

import numpy as np

from experiments import reproduce
from experiments.cli.app import run_main
from experiments.reproduction.scales import BASE, HALF, Pair, Scale
from experiments.reproduction.steps import convpool, photo
from experiments.train.folder import PREDICTIONS
from minicnn.checkpoint import load, save

CPU = ["--device", "cpu"]
BAD = '<script>alert("x")</script>'  # must never reach a page as it is
NONE = {"count": 0, "sha256": ""}


def tiny(seeds=2, *, epochs=1, analysed=1, **changes):
    """A scale of networks that train in a moment; the pairs of the first seeds are analysed."""
    common = {"dataset": "textures", "scale": 0.04, "subset": 64, "batch": 32, "epochs": epochs}
    pairs = [
        Pair(f"tiny-seed{seed}", *(convpool(*model, **common, seed=seed) for model in (BASE, HALF)))
        for seed in range(seeds)
    ]
    made = Scale(
        name="tiny",
        what="for tests",
        meaning="Nothing.",
        table1=tuple(training for pair in pairs for training in (pair.relu, pair.crelu)),
        table2=(),
        table4=(),
        pairs=tuple(pairs[:analysed]),
        photo_pair=Pair("imagenet", photo("baseline"), photo("crelu-conv1-7")),
        missing={},
        invariance=20,
        ratios=20,
        shown=1,
        generated=False,
    )
    return replace(made, **changes)


def write_run(root, training, *, train, test, wrong=None, epochs=3, part="", **config):
    """A finished run as experiments.cifar leaves it, with these errors; `wrong` marks the test images it gets wrong."""
    folder = root / "runs" / training.name / part
    folder.mkdir(parents=True)
    stored = {"settings": training.settings.as_json(), "train": {"count": 9, "sha256": "0"}, "hold_out": NONE}
    (folder / "config.json").write_text(
        json.dumps({**stored, "environment": {"device": "cpu"}, "command": "", **config})
    )
    result = {"epoch": epochs, "train_error": train, "test_error": test, "seconds": 65.0}
    (folder / "result.json").write_text(json.dumps(result))
    with open(folder / "metrics.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["epoch", "train_error"])
        writer.writerows([epoch, train + 10 * (epochs - epoch)] for epoch in range(1, epochs + 1))
    if wrong is not None:
        right = np.zeros(len(wrong), np.uint8)
        save(folder / PREDICTIONS, {"predicted": np.asarray(wrong, np.uint8), "right": right})
    return folder


def results(root):
    """The files and values that must not depend on how often a run was interrupted."""
    found = {}
    for path in sorted((root / "runs").glob("*/result.json")):
        values = {k: v for k, v in json.loads(path.read_text()).items() if k != "seconds"}
        arrays, _ = load(path.with_name("checkpoint.npz"))
        found[path.parent.name] = (values, {name: a.tobytes() for name, a in arrays.items()})
    return found


if __name__ == "__main__":  # experiments.reproduce with a tiny scale, as a program
    scales = {"tiny": lambda seeds: tiny(1, epochs=5, pairs=())}
    run_main(lambda arguments: reproduce.main(arguments, scales), "experiments.reproduce")
