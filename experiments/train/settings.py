"""Settings: everything that determines the result of a training, in one frozen record.

The fields and their OPTIONS are the only definition: the options of a command (`training_parser`), the options that
stand for given settings (`as_options`) and the JSON in config.json all follow from them.  The program works with
settings; a command line exists only where a process begins.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Self, get_args, get_type_hints

import numpy as np

from experiments.cli.app import UsageError, argument_parser, usage_errors
from experiments.cli.ranks import processes_option
from experiments.cli.values import check_numbers, restored, result_folder
from minicnn.data.augment import Normaliser
from minicnn.models.pretrained import BUILDERS, WIDEST
from minicnn.nn import Sequential
from minicnn.optim import Optimiser
from minicnn.precision import NAMES
from minicnn.random import Stream
from reference.paper import CORRECTIONS, Key


class Option:
    """A command-line option: its help text, and `how` for argparse: choices, metavar, type."""

    def __init__(self, help: str, **how: Any):
        self.help, self.how = help, how


@dataclass(frozen=True)
class Settings:
    """The fields and methods that both kinds of settings share.

    MODULE     the command that trains with them
    PHOTOGRAPHS    whether it trains on files of photographs, or on small images in memory
    OPTIONS    the options of that command, by group and by the field that each sets
    KEYS       the fields that the defaults of others depend on, in this order
    POSITIVE, NOT_NEGATIVE    fields that are numbers of this kind
    ADDED      fields that older runs do not have, and the values that they would have had
    """

    scale: float  # of every width
    logits_act: bool
    subset: int | None  # train on this many images only
    recipe: str
    epochs: int
    batch: int
    lr: float
    clip: float | None
    smoothing: float  # of labels
    flip: bool
    seed: int

    MODULE: ClassVar[str]
    PHOTOGRAPHS: ClassVar[bool]
    OPTIONS: ClassVar[dict[str, dict[str, Option]]]
    KEYS: ClassVar[tuple[str, ...]]
    POSITIVE: ClassVar[tuple[str, ...]]
    NOT_NEGATIVE: ClassVar[tuple[str, ...]]
    ADDED: ClassVar[dict[str, Any]] = {}

    @classmethod
    def of(cls, **given: Any) -> Self:
        """Settings with the given values (None means not given) and the rest from the recipe."""
        raise NotImplementedError(f"{cls.__name__} does not define of(**given)")

    def check(self, prefix: str = "--") -> None:
        """ValueError if these values make no network, or one that cannot learn.

        prefix    of the names in its message: "--" if they are options
        """
        check_numbers(vars(self), positive=self.POSITIVE, not_negative=self.NOT_NEGATIVE, prefix=prefix)
        if not 0 <= self.smoothing < 1:
            raise ValueError(f"{prefix}smoothing must be in [0, 1), got {self.smoothing}")
        if self.scale > WIDEST:
            raise ValueError(f"{prefix}scale must be at most {WIDEST}, got {self.scale:g}")
        for name, option in self.options().items():
            known, value = option.how.get("choices"), getattr(self, name)
            if known is not None and value not in known:
                raise ValueError(f"unknown {name} {value!r}; choose from {', '.join(known)}")
        replace(self, scale=0.01).build_model()  # small, only to see that it can be built

    @property
    def network(self) -> tuple[str, dict[str, Any]]:
        """What decides what its network computes: a function of minicnn.models, and arguments for it."""
        raise NotImplementedError(f"{type(self).__name__} does not define network")

    @property
    def start(self) -> dict[str, Any]:
        """More arguments, which decide only about the weights that it starts with."""
        return {"seed": self.seed}

    def build_model(self) -> Sequential:
        name, arguments = self.network
        return BUILDERS[name](**arguments, **self.start)

    @property
    def prepared(self) -> tuple[str, ...]:
        """The layers that `prepare` changes."""
        return ()

    def prepare(self, model: Sequential, images: np.ndarray, normalise: Normaliser) -> None:
        """Give a new network what it starts with from its training images."""

    def build_optimiser(self, model: Sequential, steps_per_epoch: int) -> Optimiser:
        raise NotImplementedError(f"{type(self).__name__} does not define build_optimiser(model, steps_per_epoch)")

    def chosen_images(self, count: int) -> np.ndarray:
        """Indices of the images that it trains on, out of `count`: all, or a random subset that depends on the seed."""
        if self.subset is None:
            return np.arange(count)
        if not 1 <= self.subset <= count:
            raise UsageError(f"--subset must be in 1 .. {count}, got {self.subset}")
        return np.sort(Stream(self.seed).child("subset").generator().permutation(count)[: self.subset])

    @property
    def parameters(self) -> int:
        """How many numbers the network learns."""
        return sum(p.data.size for p in self.build_model().parameters())

    @property
    def table(self) -> tuple[str, Key]:
        """Which network of the paper it is: the family, and its key there."""
        raise NotImplementedError(f"{type(self).__name__} does not define table")

    def corrections(self) -> str:
        """Where its network corrects an evident mistake in the paper's table: whole lines, "" if nowhere."""
        lines = [f"  {correction}\n" for correction in CORRECTIONS.get(self.table, ())]
        return "".join(["\ncorrections to the paper's printed table (docs/errata.md):\n", *lines]) if lines else ""

    # As JSON, in config.json.

    def as_json(self) -> dict[str, Any]:
        return json.loads(json.dumps(asdict(self)))  # tuples become lists, as in a file

    @classmethod
    def from_json(cls, stored: Any) -> Self:
        """The settings that `as_json` wrote; ValueError for anything else."""
        made = restored(cls, cls.ADDED | stored if isinstance(stored, dict) else stored)
        made.check(prefix="")
        return made

    # As options of a command line.

    @classmethod
    def options(cls) -> dict[str, Option]:
        """The options, by field."""
        return {name: option for group in cls.OPTIONS.values() for name, option in group.items()}

    def as_options(self) -> list[str]:
        """The options that stand for these settings: those that differ from what the others imply."""
        given: dict[str, Any] = {}
        for name in self.KEYS:
            if getattr(self.of(**given), name) != getattr(self, name):
                given[name] = getattr(self, name)
        implied = self.of(**given)
        for one in fields(self):
            value = getattr(self, one.name)
            if value != getattr(implied, one.name):
                if one.name not in self.options() or value is None:
                    raise ValueError(f"no option sets {one.name} to {value!r}")
                given[one.name] = value
        made: list[str] = []
        for name, value in given.items():
            made.append(("--no-" if value is False else "--") + name.replace("_", "-"))
            if not isinstance(value, bool):
                made.append(",".join(map(str, value)) if isinstance(value, tuple) else str(value))
        return made


Groups = dict[str, Any]  # of options, by title


def training_parser(kind: type[Settings], description: str | None) -> tuple[argparse.ArgumentParser, Groups]:
    """A parser with the options of these settings, and those that all trainings share."""
    p = argument_parser(kind.MODULE, description)
    groups, hints = {title: p.add_argument_group(title) for title in kind.OPTIONS}, get_type_hints(kind)
    for title, options in kind.OPTIONS.items():
        for name, option in options.items():
            plain = next((part for part in get_args(hints[name]) if part in (int, float)), hints[name])  # int | None
            switch = {"action": argparse.BooleanOptionalAction, "default": None}  # --flip and --no-flip
            how: dict[str, Any] = switch if plain is bool else {"type": plain}
            groups[title].add_argument("--" + name.replace("_", "-"), help=option.help, **how | option.how)
    training = groups["training"]
    training.add_argument("--device", default="auto", help="auto (a GPU if one works), cpu, gpu or gpu:N")
    processes_option(training)
    training.add_argument(
        "--precision",
        choices=NAMES,
        help="bf16 (on processors with AVX512-BF16, and GPUs) and tf32 (GPUs) make products faster and less exact; "
        "default float32",
    )
    return p, groups


def output_options(p: argparse.ArgumentParser) -> Any:
    """Add the options for where a run goes; return their group, for more options."""
    out = p.add_argument_group("output")
    out.add_argument(
        "--out", type=result_folder, help="folder of the run (default runs/<a name made from the settings>)"
    )
    out.add_argument("--resume", action="store_true", help="continue an interrupted run")
    out.add_argument("--dry-run", action="store_true", help="print the network, memory and time estimates, and stop")
    return out


def note_resume(asked: bool, folder: Path) -> None:
    """Say so if there is nothing to continue, in case the folder is not the one that was meant."""
    if asked and not (folder / "config.json").exists() and not any(folder.glob("*/config.json")):
        print(f"--resume: there is no run in {folder} to continue; training begins from the start", file=sys.stderr)


def asked_settings(kind: type[Settings], args: argparse.Namespace) -> Any:
    """The settings that the options ask for; UsageError if they make no sense."""
    with usage_errors():
        asked = kind.of(**{one.name: getattr(args, one.name, None) for one in fields(kind)})
        asked.check()
        return asked
