"""From a reproduction to an archive: whatever is finished and small."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from experiments.reproduction.records import Records
from experiments.reproduction.steps import Step, Training
from experiments.train.archive import is_archive, pack, unpack
from experiments.train.folder import PREDICTIONS
from experiments.train.run import WEIGHTS, Run
from minicnn.backend import CPU
from minicnn.checkpoint import save

COPIED = ("config.json", "metrics.csv", "result.json", "classes.json", "colours.json")
LARGEST_WEIGHTS, LARGEST_FILE = 1_000_000, 200_000  # bytes, per network and per file of an analysis


def export(records: Records, steps: Sequence[Step], archive: Path) -> tuple[int, int]:
    """Add the finished steps to an archive; return the numbers of (trainings, analyses).

    Weights are exported only for networks that an analysis looks at, one seed each: enough to look at them again.
    Pictures are exported for one seed, too: the report shows those of the first.
    """
    trainings = analyses = 0
    looked_at = {one.name for step in steps if not isinstance(step, Training) for one in step.of}
    with tempfile.TemporaryDirectory() as temporary:
        tree = Path(temporary)
        if is_archive(archive):
            unpack(archive, tree)
        for step in steps:
            folder = step.folder(tree)
            if isinstance(step, Training):
                run = records.run(step)
                if run is not None:
                    _copy_run(run, folder, weights=step.name in looked_at and step.settings.seed == 0)
                    trainings += 1
            elif (source := records.analysis(step) if step.makes else None) is not None:
                shutil.rmtree(folder, ignore_errors=True)
                _copy_analysis(source, folder, pictures=all(one.settings.seed == 0 for one in step.of))
                analyses += 1
        pack(tree, archive)
    return trainings, analyses


def _copy_run(run: Run, folder: Path, *, weights: bool) -> None:
    for network in run.networks:
        place = folder / network.folder.relative_to(run.folder)
        _copy(network.folder, place, COPIED)
        for name in (PREDICTIONS, *((WEIGHTS,) if weights else ())):  # of the network that the archive had
            (place / name).unlink(missing_ok=True)
        if (found := network.predictions()) is not None:
            kind = "u1" if network.settings.classes <= 256 else "<u2"
            save(place / PREDICTIONS, dict(zip(("predicted", "right"), (x.astype(kind) for x in found), strict=True)))
        arrays = network.model(CPU).state_dict() if weights and network.has_weights else {}
        if arrays and sum(array.nbytes for array in arrays.values()) <= LARGEST_WEIGHTS:
            save(place / WEIGHTS, arrays)
    if run.parts:
        _copy(run.folder, folder, ("result.json",))


def _copy_analysis(source: Path, folder: Path, *, pictures: bool) -> None:
    files = [path for path in source.rglob("*") if path.is_file() and path.stat().st_size <= LARGEST_FILE]
    kinds = (".json", ".csv", *((".png",) if pictures else ()))
    for path in files:
        if path.suffix in kinds:
            _copy(path.parent, folder / path.parent.relative_to(source), (path.name,))


def _copy(source: Path, folder: Path, names: Sequence[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        if (source / name).exists():
            shutil.copyfile(source / name, folder / name)
