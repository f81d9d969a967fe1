"""Trainings that differ in a few settings, each with several seeds: for comparisons that one command makes."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from experiments.cli.app import interruptible
from experiments.train.cifar import CifarSettings
from experiments.train.protocols import follow, plain
from experiments.train.session import run_job
from minicnn.backend import Device
from minicnn.data.dataset import Dataset


def train_variants(
    wanted: Mapping[str, Sequence[CifarSettings]],
    out: Path,
    data: Dataset,
    *,
    hold_out: int = 0,
    device: Device,
    line: str,
) -> dict[str, list[dict[str, Any]]]:
    """The results of all trainings, by the name of the variant and in the order of its seeds.

    Seed by seed, so that an interruption leaves variants that can be compared.  Each training has the folder
    out/variant/name; what is finished there is not done again, and what was interrupted continues.  `line` is the
    command that does so.
    """
    results: dict[str, list[dict[str, Any]]] = {name: [] for name in wanted}
    total, done = sum(map(len, wanted.values())), 0
    for i in range(max(map(len, wanted.values()))):
        for name, own in wanted.items():
            done += 1
            print(f"\n{name}, seed {own[i].seed} (training {done} of {total})", file=sys.stderr)
            folder = out / name.replace(" ", "-") / own[i].name
            with interruptible(line, folder) as stop:
                run = partial(run_job, device=device, resume=True, command=line, stop=stop)
                result = follow(plain(own[i], folder, data, hold_out), run)
            assert result is not None
            results[name].append(result)
    return results
