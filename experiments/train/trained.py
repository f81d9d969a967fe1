"""Trained networks for a command that uses them: of runs (--run), or those that come with minicnn (--weights).

One network to ask about pictures is a `Trained`; those to analyse are runs, and `open_networks` opens both kinds so.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from experiments.cli.app import UsageError, hint, usage_errors
from experiments.cli.parser import did_you_mean
from experiments.train.cifar import CifarSettings
from experiments.train.run import Run, check_weights, distinct, open_runs
from minicnn.backend import Device
from minicnn.data.augment import Normaliser
from minicnn.data.catalogue import CATALOGUE
from minicnn.data.dataset import DataError, Dataset
from minicnn.models import Classifier, pretrained
from minicnn.models.pretrained import FOLDER, Card, find, names, read_card
from minicnn.nn import Sequential

DEFAULT = "crelu-half"
OPTIONS = {  # of experiments.cifar, for the networks that have a name
    "relu-base": "--act relu --recipe hour",
    "crelu-half": "--act crelu --width half --recipe hour",
    "crelu-base": "--act crelu --recipe hour --epochs 8",
    "avr-base": "--act avr --recipe hour --epochs 8 --seed 1",
    "crelu-sprint": "--model sprint --act crelu --seed 1",
}
AGREEMENT = 0.1  # points: other machines round differently, and a few images lie on the edge


@dataclass(frozen=True)
class Trained:
    """A network, what it is called, and what is known of it: its run or its card.

    stated    its error on the test images in percent, as its run measured it or its card says
    """

    name: str
    label: str
    classifier: Classifier
    dataset: str
    stated: float
    origin: Run | Card

    @property
    def photographs(self) -> bool:
        return isinstance(self.origin, Run) and self.origin.settings.PHOTOGRAPHS

    def check_data(self, data: Dataset) -> None:
        """UsageError if these are not the classes that it knows."""
        if tuple(data.classes) != self.classifier.classes:
            raise UsageError(f"the classes of {data.name} are not those of {self.name}")


@dataclass(frozen=True)
class CardRun(Run):
    """The training that a card speaks of, as far as the card knows it.  Its folder is its files' path without .npz."""

    card: Card = field(kw_only=True)

    def model(self, device: str | Device, *, untrained: int | None = None, data: Dataset | None = None) -> Sequential:
        if untrained is not None:
            return super().model(device, untrained=untrained, data=data)
        return pretrained(self.folder.with_suffix(".npz"), device=device).model

    @property
    def has_weights(self) -> bool:
        return True

    def normaliser(self, data: Dataset) -> Normaliser:
        return Normaliser(tuple(self.card.mean), tuple(self.card.std))

    def training_images(self, data: Dataset) -> np.ndarray:
        chosen = self.settings.chosen_images(len(data.train_labels))
        if len(chosen) != self.card.train_images:
            raise UsageError(f"the card of {self.name} does not say which {self.card.train_images} images it saw")
        return chosen


def network_options(p: argparse.ArgumentParser) -> None:
    one = p.add_mutually_exclusive_group()
    one.add_argument("--run", type=Path, metavar="DIR", help="the folder of a finished run")
    one.add_argument(
        "--weights",
        metavar="NAME",
        help=f"a network that comes with minicnn ({', '.join(names()) or 'none is here yet'}; default {DEFAULT}), or a "
        "file NAME.npz that experiments.export made",
    )
    p.add_argument("--device", default="auto", help="auto (a GPU if one works), cpu, gpu or gpu:N")
    p.add_argument(
        "--data",
        type=Path,
        help="folder or archive with the data set of the network (default: the cache, else download)",
    )
    p.add_argument("--dry-run", action="store_true", help="say what would be read, done and written, then stop")


def source(args: argparse.Namespace) -> str:
    """What network_options name, in words."""
    return str(args.run) if args.run else f"the weights {args.weights or DEFAULT}"


def open_trained(args: argparse.Namespace, device: Device) -> Trained:
    """The network that the options name; an error says how to get one."""
    if args.run:
        check_weights([args.run])
        runs = open_runs([args.run])
        if len(runs) > 1:
            raise UsageError(f"{args.run} holds {len(runs)} networks; name one of them: --run {runs[0].folder}")
        (run,) = runs
        return Trained(
            run.name, run.label, run.classifier(device, args.data), run.settings.dataset, run.test_error, run
        )
    name = args.weights or DEFAULT
    path = located(name)
    with hint(how_to_get(name)):
        card = read_card(path)
        return Trained(path.stem, card.label, pretrained(path, device=device), card.dataset, card.test_error, card)


def open_networks(folders: Sequence[Path], weights: Sequence[str]) -> list[Run]:
    """The runs in these folders, and of the networks with these names or files; an error says how to get one."""
    return distinct([*open_runs(folders), *map(_run_of_card, weights)])


def _run_of_card(name: str) -> CardRun:
    path = located(name)
    with hint(how_to_get(name)):
        card = read_card(path)
    if not card.settings or card.dataset not in CATALOGUE:
        raise UsageError(f"{path}: its card does not say how we trained it on small images; name its run with --run")
    with usage_errors():
        settings = CifarSettings.from_json(card.settings)
    result = {"train_error": card.train_error, "test_error": card.test_error, "seconds": card.seconds}
    config = {"settings": card.settings, "command": card.command, "environment": card.computed}
    return CardRun(path.with_suffix(""), settings, config, result, card=card)


def has_card(name: str) -> bool:
    """Whether --weights NAME is a network with a card, by its name or its file, and not a file of another program."""
    path = Path(name)
    return path.with_suffix(".json").exists() if path.suffix == ".npz" else name in names()


def located(name: str) -> Path:
    """The file that --weights NAME stands for; a DataError names what was probably meant, and how to get it."""
    if name.endswith(".npz") and not Path(name).is_file():
        raise DataError(f"there is no file {name}")
    if name.endswith(".npz") or name in names():
        return find(name)
    meant = f"; did you mean {name}.npz?" if Path(f"{name}.npz").is_file() else did_you_mean(name, names())
    raise DataError(f"there is no trained network {name!r}{meant}\n{how_to_get(name)}")


def how_to_get(name: str) -> str:
    """What to do about weights that are not there."""
    if name not in OPTIONS:
        known = f"a name ({', '.join(names())}) or " if names() else ""
        lines = [f"--weights takes {known}a file NAME.npz; --run takes the folder of a run of your own"]
        others = {other: options for other, options in OPTIONS.items() if other not in names()}
        lines += [
            f"{other} is not here yet: python -m experiments.cifar {own} trains it" for other, own in others.items()
        ]
        return "\n".join(lines)
    train = f"python -m experiments.cifar {OPTIONS[name]} --out runs/{name}"
    keep = f"python -m experiments.export --run runs/{name} --to {FOLDER / name}.npz"
    return f"To train it, in an hour or more on two cores, and to keep it under this name:\n\n  {train}\n  {keep}"
