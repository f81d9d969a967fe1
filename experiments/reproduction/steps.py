"""What a reproduction consists of: steps, each one of our commands in its own folder.  A step trains or analyses.

<root>/runs/<name>/        a training, exactly as `python -m experiments.cifar` (or imagenet) makes it
<root>/analyses/<name>/    an analysis of trainings, with stamp.json, which says what it was made from
<root>/pictures/           generated photographs, where there is no ImageNet
<root>/logs/<name>.err     the messages of the command; its output is in .out
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from experiments.train.archive import ANALYSES, RUNS
from experiments.train.cifar import CifarSettings
from experiments.train.imagenet import ImagenetSettings

PICTURES, LOGS, STAMP = "pictures", "logs", "stamp.json"


@dataclass(frozen=True)
class Training:
    """A training that follows a protocol.

    generated    whether it is on generated pictures: it must not be mistaken for one on photographs
    control      what sets it apart from the training that it is a control of, as the end of its name
    """

    settings: Any  # CifarSettings or ImagenetSettings
    protocol: str = "plain"
    folds: int = 10
    generated: bool = False
    control: str = ""

    @property
    def module(self) -> str:
        return self.settings.MODULE

    @property
    def options(self) -> tuple[str, ...]:
        """The options of its command line, without paths."""
        how = () if self.protocol == "plain" else ("--protocol", self.protocol)
        return (*self.settings.as_options(), *how, *(("--folds", str(self.folds)) if self.folds != 10 else ()))

    @property
    def name(self) -> str:
        kind = ("-generated" if self.generated else "") + (f"-{self.control}" if self.control else "")
        return self.settings.name + kind + ("" if self.protocol == "plain" else f"-{self.protocol}")

    @property
    def network(self) -> Training:
        """Equal for trainings that differ only in the seed."""
        return replace(self, settings=replace(self.settings, seed=0))

    @property
    def data(self) -> str:
        return self.settings.dataset

    @property
    def needs(self) -> tuple[str, ...]:
        """Names of the steps that must be done first."""
        return (PICTURES,) if self.generated else ()

    @property
    def parts(self) -> tuple[str, ...]:
        """Below its folder: the folders of the networks whose results are reported."""
        if self.protocol == "folds":
            return tuple(f"fold{i}" for i in range(1, self.folds + 1))
        return ("final",) if self.protocol == "single" else ("",)

    @property
    def trainings(self) -> int:
        """How many networks it trains."""
        return 2 if self.protocol == "single" else len(self.parts)

    def is_mine(self, stored: Any) -> bool:
        """Whether the settings stored in a config.json are those of this training."""
        try:
            there = type(self.settings).from_json(stored)
        except ValueError:
            return False
        if there.PHOTOGRAPHS:  # its classes come from the user's folder, which is not known here
            there = replace(there, classes=self.settings.classes)
        return bool(there == self.settings)

    def folder(self, root: Path) -> Path:
        return root / RUNS / self.name


@dataclass(frozen=True)
class Analysis:
    """Something that is computed, from trainings or without any.

    options     what it does; kept with the result
    of          the trainings that it looks at: their folders become --run
    data        the data set that it reads: "cifar10", "cifar100", "textures", "imagenet" or ""
    file        a file of the user's, passed as --weights; its digest is kept with the result
    makes       files that must exist once it is done, besides the stamp; pictures only with matplotlib
    pictures    whether it needs the generated pictures
    """

    name: str
    module: str
    options: tuple[str, ...] = ()
    of: tuple[Training, ...] = ()
    data: str = ""
    file: Path | None = None
    makes: tuple[str, ...] = ()
    pictures: bool = False

    @property
    def needs(self) -> tuple[str, ...]:
        return (*(training.name for training in self.of), *((PICTURES,) if self.pictures else ()))

    def folder(self, root: Path) -> Path:
        return root / PICTURES if self.name == PICTURES else root / ANALYSES / self.name


Step = Training | Analysis


def convpool(
    act: str, width: str, protocol: str = "plain", folds: int = 10, control: str = "", **settings: Any
) -> Training:
    return Training(CifarSettings.of(act=act, width=width, **settings), protocol, folds, control=control)


def vgg(at: tuple[int, ...], protocol: str = "plain", **settings: Any) -> Training:
    act = {"act": "crelu", "at": at} if at else {}
    return Training(CifarSettings.of(model="vgg", **act, **settings), protocol)


def photo(variant: str, *, generated: bool = False, **settings: Any) -> Training:
    return Training(ImagenetSettings.of(variant=variant, **settings), generated=generated)
