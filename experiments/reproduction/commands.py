"""From a step to the command that does it: folders, data, device, threads."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from experiments.cli.app import command
from experiments.reproduction.records import Records
from experiments.reproduction.steps import PICTURES, Step, Training
from experiments.reproduction.targets import GENERATE, Files
from minicnn.backend import gpu_problem
from minicnn.parallel import threads

WITHOUT_DEVICE = ("experiments.theory", GENERATE.module)


@dataclass(frozen=True)
class Resources:
    """What steps may use: devices (one per worker, in turn), threads per step, data sets by name, the user's files."""

    devices: tuple[str, ...]
    threads: int
    data: Mapping[str, Path]
    files: Files

    def settings(self) -> dict[str, str]:
        """The environment variables that a step is given."""
        return {"MINICNN_THREADS": str(self.threads)}

    def environment(self) -> dict[str, str]:
        return {**os.environ, **self.settings()}

    def arguments(self, step: Step, records: Records, slot: int = 0) -> list[str]:
        """Everything after the name of the module."""
        made = list(step.options)
        if isinstance(step, Training):
            made += ["--resume"]
            if step.settings.PHOTOGRAPHS:
                made += ["--workers", str(self.threads)]
        else:
            for training in step.of:
                run = records.run(training)
                made += ["--run", str(run.folder if run else training.folder(records.root))]
            if step.file is not None:
                made += ["--weights", str(step.file)]
        if step.data == "imagenet":
            made += ["--data", str(self.files.imagenet or records.root / PICTURES)]
        elif step.data in self.data:
            made += ["--data", str(self.data[step.data])]
        if step.module not in WITHOUT_DEVICE:
            made += ["--device", self.devices[slot % len(self.devices)]]
        return [*made, "--out", str(step.folder(records.root))]

    def command(self, step: Step, records: Records) -> str:
        return command(step.module, self.arguments(step, records))


def resources(device: str, workers: int | None, data: Mapping[str, Path], files: Files) -> Resources:
    """Devices and threads for this many workers; "auto" deals out the GPUs, or is the CPU if there are none.

    None: the workers are ranks on other machines; each has all threads and finds its own GPU.
    """
    devices: tuple[str, ...] = (device,)
    if workers is None:
        return Resources(devices, threads(), data, files)
    if device == "auto":
        count = 0
        while count < workers and gpu_problem(count) is None:
            count += 1
        devices = tuple(f"gpu:{i}" for i in range(count)) or ("cpu",)
    return Resources(devices, max(1, threads() // workers), data, files)
