"""Trained networks by name: weights in files that cannot execute anything, each with a card that says what it is.

    network = pretrained("crelu-half")          a Classifier: network.predict("cat.jpg"), network.model

A network NAME is three files:

    NAME.npz     the weights, by minicnn.checkpoint: arrays without pickles, and a SHA-256 over them
    NAME.json    the card: which network, what it was trained on and how, its error, its limits, the SHA-256 of NAME.npz
    NAME.md      the card to read

`write_pretrained` writes all three.  Those that come with minicnn are in the folder weights beside this file.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, get_origin, get_type_hints

import numpy as np

from minicnn.backend import CPU, Device
from minicnn.checkpoint import MOST_QUOTED, TEMPORARY, CheckpointError, atomic_write_text, load, save
from minicnn.data.augment import Normaliser
from minicnn.data.dataset import DataError
from minicnn.models.allcnn import allcnn_b
from minicnn.models.classifier import Classifier
from minicnn.models.convpool import convpool
from minicnn.models.sprint import sprint
from minicnn.models.vgg import vgg
from minicnn.nn import Sequential

FOLDER = Path(__file__).parent / "weights"
BUILDERS: dict[str, Callable[..., Sequential]] = {
    "convpool": convpool,
    "vgg": vgg,
    "sprint": sprint,
    "allcnn_b": allcnn_b,
}
LARGEST = 8192  # side of a square: 200 MB per picture
WIDEST = 16  # times the paper's numbers of filters
Where = str | os.PathLike[str]


@dataclass(frozen=True)
class Card:
    """What a file of weights holds, and what it is worth.

    label, parameters            the network in words, and how many numbers it learned
    builder, arguments           the function of minicnn.models that makes it, and what it is called with
    dataset, classes             what it was trained on
    train_images, test_images    how many of these
    mean, std                    of the training set, per channel, for values 0 .. 1
    side, crop                   as in Classifier
    settings, command            how it was trained: all settings (none if another program did), and the command
    seconds, computed            how long that took, and what computed it
    train_error, test_error      in percent, measured when the file was written
    limits                       sentences about what it cannot do
    sha256                       of the file with the weights
    """

    label: str
    parameters: int
    builder: str
    arguments: dict[str, Any]
    dataset: str
    classes: list[str]
    train_images: int
    test_images: int
    mean: list[float]
    std: list[float]
    side: int
    crop: int
    settings: dict[str, Any]
    command: str
    seconds: float
    computed: dict[str, Any]
    train_error: float
    test_error: float
    limits: list[str]
    sha256: str = ""

    def build(self) -> Sequential:
        return BUILDERS[self.builder](**self.arguments)

    def classifier(self, model: Sequential) -> Classifier:
        return Classifier(
            model, Normaliser(tuple(self.mean), tuple(self.std)), tuple(self.classes), self.side, self.crop
        )

    @staticmethod
    def from_json(stored: Any) -> Card:
        """What `as_json` wrote; ValueError for anything else."""
        hints = get_type_hints(Card)
        if not isinstance(stored, dict) or set(stored) != set(hints):
            raise ValueError("it does not have the entries of a card")
        for name, hint in hints.items():
            kind = get_origin(hint) or hint  # dict of dict[str, Any]
            if not isinstance(stored[name], int | float if kind is float else kind) or isinstance(stored[name], bool):
                raise ValueError(f"{name} is {stored[name]!r}")
        card = Card(**stored)
        colours = [*card.mean, *card.std]
        if len(card.mean) != 3 or len(card.std) != 3 or not all(isinstance(c, float) for c in colours):
            raise ValueError("mean and std are not those of three colours")
        Normaliser(tuple(card.mean), tuple(card.std))  # raises if nothing can be normalised by them
        if not all(isinstance(word, str) for word in (*card.classes, *card.limits)):
            raise ValueError("classes and limits are not words")
        if not 1 <= card.crop <= card.side <= LARGEST:
            raise ValueError(f"side and crop are {card.side} and {card.crop}")
        if card.builder not in BUILDERS:
            raise ValueError(f"builder is {card.builder!r}")
        if card.arguments.get("classes") != len(card.classes):
            raise ValueError(f"it has {len(card.classes)} classes, its network {card.arguments.get('classes')!r}")
        if not 0 < card.arguments.get("scale", 1) <= WIDEST:  # else building it might take all memory
            raise ValueError(f"scale is {card.arguments['scale']!r}")
        return card

    def as_json(self) -> dict[str, Any]:
        return json.loads(json.dumps(asdict(self)))  # tuples become lists, as in a file

    def markdown(self, name: str) -> str:
        """The card to read."""
        how = ", ".join(f"{key} {value}" for key, value in self.settings.items() if value not in (None, False, [], ""))
        parts = {"device": "{}", "processor": "{}", "cores": "{} cores", "commit": "commit {}"}
        where = ", ".join(form.format(self.computed[key]) for key, form in parts.items() if key in self.computed)
        rows = {
            "test error": f"{self.test_error:.2f} % of {self.test_images:,} images",
            "training error": f"{self.train_error:.2f} % of {self.train_images:,} images",
            "data": f"{self.dataset}, {len(self.classes)} classes",
            "command": f"`{self.command}`",
            "recipe": how,
            "computed": f"{self.seconds / 60:.0f} min on {where}" if where else "",
            f"SHA-256 of {name}.npz": f"`{self.sha256}`",
        }
        return "\n".join(
            [
                f"# {name}",
                "",
                f"{self.label}, {self.parameters:,} parameters; written by `experiments.export`.",
                "",
                "| | |",
                "| --- | --- |",
                *(f"| {head} | {cell} |" for head, cell in rows.items() if cell),
                "",
                "Limits:",
                "",
                *(f"- {limit}" for limit in self.limits),
                "",
            ]
        )


def pretrained(name: Where, *, folder: Where | None = None, device: str | Device = CPU) -> Classifier:
    """The trained network of this name, or in the file of this name (with .npz).

    folder    where it is looked for by name (default: the networks that come with minicnn)
    device    where its weights are put
    """
    path = find(name, folder)
    card = read_card(path)
    if _sha256(path) != card.sha256:
        raise DataError(f"{path} is not the file that its card {_card(path).name} describes; get a new copy of both")
    try:
        model = card.build()
        model.load_state_dict(load(path)[0])
        model(np.zeros((1, card.crop, card.crop, 3), np.float32))  # it takes such images
    except (ArithmeticError, AttributeError, CheckpointError, KeyError, TypeError, ValueError) as error:
        raise DataError(f"{path} does not hold the weights of its card: {str(error)[:MOST_QUOTED]}") from None
    return card.classifier(model.to(device))


def names(folder: Where | None = None) -> list[str]:
    """The networks that are there."""
    return sorted(path.stem for path in Path(folder or FOLDER).glob("*.npz") if _card(path).exists())


def find(name: Where, folder: Where | None = None) -> Path:
    """The file of a network; DataError if there is none."""
    if str(name).endswith(".npz"):
        path, known = Path(name), names(Path(name).parent)
    else:
        path, known = Path(folder or FOLDER) / f"{name}.npz", names(folder)
    if path.is_file():
        return path
    there = f"there are {', '.join(known)}" if known else "there are none yet"
    raise DataError(
        f"there is no trained network {path.stem!r} in {path.parent}: {there}.  experiments.export makes one of a run"
    )


def read_card(path: Path) -> Card:
    """The card of a file of weights; DataError if it is missing or damaged."""
    try:
        return Card.from_json(json.loads(_card(path).read_text()))
    except FileNotFoundError:
        raise DataError(f"{path} has no card {_card(path).name} beside it, which says what it is") from None
    except (OSError, TypeError, ValueError, RecursionError) as error:
        raise DataError(f"the card {_card(path)} is damaged ({error}); get a new copy of it") from None


def write_pretrained(path: Where, state: Mapping[str, np.ndarray], card: Card) -> Card:
    """Write NAME.npz, NAME.json and NAME.md for the path NAME.npz; return the card with the SHA-256 of the file."""
    path = Path(path)
    if path.suffix != ".npz":
        raise ValueError(f"write_pretrained: weights are written to .npz files, got {path}")
    unfinished = path.with_name(f"{TEMPORARY}{path.name}")  # it gets its name last: where it is, its card is, too
    try:
        save(unfinished, state)
        card = replace(card, sha256=_sha256(unfinished))
        atomic_write_text(_card(path), json.dumps(card.as_json(), indent=2) + "\n")
        atomic_write_text(path.with_suffix(".md"), card.markdown(path.stem))
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)
    return card


def _card(path: Path) -> Path:
    return path.with_suffix(".json")


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
