"""What a reproduction consists of: trainings and analyses, each a command line of ours in a folder of its own.

<root>/runs/<name>/        a training, exactly as `python -m experiments.cifar` (or imagenet) makes it
<root>/analyses/<name>/    an analysis of trainings, with stamp.json, which says of what it was made
<root>/pictures/           generated photographs, where there is no ImageNet
<root>/logs/<name>.err     what the command said, and .out what it printed
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from experiments.train import cifar_options as options
from experiments.train import imagenet_options
from experiments.train.cifar import Settings
from experiments.train.imagenet import ImagenetSettings

CIFAR, IMAGENET = "experiments.cifar", "experiments.imagenet"
RUNS, ANALYSES, PICTURES, LOGS, STAMP = "runs", "analyses", "pictures", "logs", "stamp.json"


@dataclass(frozen=True)
class Training:
    """One training as the command line that does it, without paths: a module of experiments and its options.

    generated    whether it is on generated pictures, which must not be taken for one on photographs
    """

    module: str
    options: tuple[str, ...]
    generated: bool = False

    @cached_property
    def _parsed(self) -> Any:
        parser = imagenet_options.parser if self.module == IMAGENET else options.parser
        return parser(self.module, "").parse_args(self.options)

    @cached_property
    def settings(self) -> Settings | ImagenetSettings:
        """What the command line stands for; the number of an ImageNet folder's classes is not known yet."""
        checked = imagenet_options.checked_settings if self.module == IMAGENET else options.checked_settings
        return checked(self._parsed)

    @property
    def protocol(self) -> str:
        return getattr(self._parsed, "protocol", "plain")

    @property
    def name(self) -> str:
        kind = "-generated" if self.generated else ""
        return self.settings.name + kind + ("" if self.protocol == "plain" else f"-{self.protocol}")

    @property
    def network(self) -> tuple[Any, str]:
        """The same for trainings that differ in the seed alone."""
        return replace(self.settings, seed=0), self.protocol

    def is_mine(self, stored: Any) -> bool:
        """Whether these are the settings in a config.json of this training."""
        own = self.settings.as_json()
        if self.module == IMAGENET and isinstance(stored, dict):
            own["classes"] = stored.get("classes")
        return bool(stored == own)

    @cached_property
    def parts(self) -> tuple[str, ...]:
        """Below its folder: where networks are whose results are reported."""
        if self.protocol == "folds":
            return tuple(f"fold{i}" for i in range(1, self._parsed.folds + 1))
        return ("final",) if self.protocol == "single" else ("",)

    @property
    def trainings(self) -> int:
        """How many networks it trains."""
        return {"plain": 1, "single": 2}.get(self.protocol, len(self.parts))


@dataclass(frozen=True)
class Step:
    """Something to do.

    options     say what is done, and are remembered with the result
    needs       names of steps that must be done before
    training    what it trains; None: it is an analysis, or makes the pictures
    of          the trainings that an analysis looks at: their folders become --run
    data        the data set that it reads: "cifar10", "cifar100", "textures", "imagenet" or ""
    file        of the user, that it reads as --weights: its content is remembered with the result
    makes       files by which its result is recognised, beside the stamp; pictures only where there is matplotlib
    """

    name: str
    module: str
    options: tuple[str, ...]
    needs: tuple[str, ...] = ()
    training: Training | None = None
    of: tuple[Training, ...] = ()
    data: str = ""
    file: Path | None = None
    makes: tuple[str, ...] = ()

    def folder(self, root: Path) -> Path:
        if self.name == PICTURES:
            return root / PICTURES
        return root / (RUNS if self.training else ANALYSES) / self.name


def training_step(training: Training, *, needs: Sequence[str] = ()) -> Step:
    data = training.settings.dataset
    return Step(training.name, training.module, training.options, tuple(needs), training=training, data=data)


def analysis_step(
    kind: str,
    what: str,
    of: Sequence[Training],
    arguments: Sequence[str] = (),
    *,
    data: str = "",
    makes: Sequence[str] = (),
    needs: Sequence[str] = (),
) -> Step:
    """experiments.<kind> on trainings, in analyses/<kind>-<what>."""
    name, module = f"{kind}-{what}", f"experiments.{kind}"
    before = (*(training.name for training in of), *needs)
    return Step(name, module, tuple(arguments), before, of=tuple(of), data=data, makes=tuple(makes))
