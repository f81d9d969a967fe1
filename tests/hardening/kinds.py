"""The kinds of files that the product reads, each with whole examples and the reader that a command would use."""

import gzip
import io
import json
import os
import pickle
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from PIL import Image

from experiments import export
from experiments.analyses.recovery import read_alexnet
from experiments.analyses.weights import read_filters
from experiments.report.context import Context
from experiments.report.page import write_report
from experiments.reproduction.records import Records, epochs_done
from experiments.reproduction.targets import TARGETS, Files
from experiments.train.archive import pack, unpack
from experiments.train.arrays import ArrayJob
from experiments.train.cifar import CifarSettings
from experiments.train.folder import write_predictions
from experiments.train.photographs import read_colours
from experiments.train.protocols import collect_folds
from experiments.train.run import Run, open_run, open_runs
from minicnn.backend import CPU
from minicnn.checkpoint import load, load_newest, save
from minicnn.cluster import ALONE
from minicnn.data.archive import read_archive
from minicnn.data.cifar import load_source
from minicnn.data.decode import View, decode, read_square
from minicnn.data.folders import picture_set
from minicnn.data.formats import Binary, Pickled
from minicnn.data.textures import textures
from minicnn.models import pretrained
from tests.data.mini import mini, write
from tests.data.photos import CLASSES, photo, write_odd_files, write_set
from tests.experiments.made_runs import tiny, write_run
from tests.hardening.mutate import damaged, damaged_json
from tests.hardening.workshop import train

CANARY = "/tmp/minicnn-fuzz-canary"


class Malice:
    """An object that writes a file when it is unpickled."""

    def __reduce__(self):
        return os.system, (f"touch {CANARY}",)


@dataclass
class Kind:
    """Examples (bytes) of a kind of file, how often to try it, and read(path), which reads it as a command would.

    file     where the damaged one is put, relative to the folder of the fuzzer
    change   what damages it
    """

    name: str
    examples: list[bytes]
    file: str
    read: Callable[[Path], object]
    share: float = 1.0
    change: Callable = damaged

    def prepare(self, rng, folder):
        path = folder / self.file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(self.change(rng.choice(self.examples), rng))
        return lambda: self.read(path)

    def keep(self, target, folder):
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(folder / self.file, target)


def json_change(content, rng):
    return damaged_json(content.decode(), rng).encode() if rng.random() < 0.7 else damaged(content, rng)


def all_kinds(folder: Path) -> list[Kind]:
    """All kinds of files, in a folder of their own."""
    makers = (cifar_kinds, picture_kinds, array_kinds, run_kinds, label_kinds, reproduction_kinds)
    return [kind for make in makers for kind in make(folder)]


def cifar_kinds(folder):
    small = mini()
    for name, contents in small.contents.items():
        write(folder / name, contents)
    binary, pickled = small.contents["mini-bin"]["batch_1.bin"], small.contents["mini-py"]["batch_1"]
    hostile = [pickle.dumps(Malice(), protocol) for protocol in range(pickle.HIGHEST_PROTOCOL + 1)]
    yield Kind("cifar binary, verified", [binary], "mini-bin/batch_1.bin",
               lambda path: load_source(small.source, path.parent), 0.5)  # fmt: skip
    yield Kind("cifar binary", [binary], "batch.bin", lambda path: Binary(1).parse(path.read_bytes()), 0.5)
    yield Kind("cifar pickle", [pickled, *hostile], "batch", lambda path: Pickled(b"labels").parse(path.read_bytes()))
    for ending in ("gz", "xz"):
        yield Kind(f"cifar tar.{ending}", [small.archives[f"mini-bin.tar.{ending}"]], f"some.tar.{ending}",
                   lambda path: read_archive(path, small.source))  # fmt: skip
    tar = gzip.decompress(small.archives["mini-py.tar.gz"])
    yield Kind("tar within gz", [tar], "packed.tar.gz", lambda path: read_archive(path, small.source),
               change=lambda content, rng: gzip.compress(damaged(content, rng), 1))  # fmt: skip


def picture_kinds(folder):
    odd = folder / "odd"
    odd.mkdir()
    write_odd_files(odd)
    picture = Image.fromarray(photo(np.random.default_rng(0)))
    examples = {"odd pictures": [path.read_bytes() for path in sorted(odd.iterdir())]}
    modes = {"jpeg": ("RGB", "CMYK", "L"), "png": ("RGB", "P", "RGBA", "LA", "1"), "webp": ("RGB", "RGBA"),
             "bmp": ("RGB", "P"), "gif": ("P",), "tiff": ("RGB", "CMYK", "L", "F"), "ppm": ("RGB", "L")}  # fmt: skip
    for form, kinds in modes.items():
        examples[form] = [_saved(picture.convert(mode), form) for mode in kinds]
    for compression in ("tiff_lzw", "tiff_deflate", "jpeg", "packbits"):
        examples["tiff"].append(_saved(picture, "tiff", compression=compression))
    examples["jpeg"].append(_saved(picture, "jpeg", progressive=True, exif=_exif()))

    def read(path):
        decode(View(str(path), 24, 4, 4), 32)
        read_square(path, 32)

    for name, contents in examples.items():
        yield Kind(name, contents, "some.jpg", read)


def _exif():
    exif = Image.Exif()
    exif[0x0112] = 6
    return exif.tobytes()


def _saved(picture, form, **options):
    out = io.BytesIO()
    picture.save(out, format=form, **options)
    return out.getvalue()


def array_kinds(folder):
    arrays = {"conv1.weight": np.random.default_rng(0).normal(size=(3, 3, 3, 4)).astype(np.float32), "b": np.ones(4)}
    save(folder / "whole.npz", arrays, {"epoch": 1})
    whole = (folder / "whole.npz").read_bytes()
    yield Kind("checkpoint", [whole], "some.npz", load, 2)
    yield Kind("checkpoint, previous", [whole], "pair.npz", lambda path: load_newest(path), 0.3)
    plain, packed, objects, alexnet = (io.BytesIO() for _ in range(4))
    np.savez(plain, **arrays)
    np.savez_compressed(packed, **arrays)
    np.savez(objects, conv1=np.array([Malice()], dtype=object))
    np.savez(alexnet, conv1_w=np.ones((4, 3, 5, 5), np.float32))
    npz = [plain.getvalue(), packed.getvalue(), objects.getvalue()]
    yield Kind("npz weights", npz, "weights.npz", read_filters, 2)
    yield Kind("npz of an AlexNet", [alexnet.getvalue()], "alexnet.npz", read_alexnet, 0.5)
    if find_spec("torch"):
        import torch

        state = {name: torch.tensor(array) for name, array in arrays.items()}
        values = [{"state_dict": state}, state, Malice(), [1, 2], torch.ones(3)]
        files = [*map(_torch, values), _torch(state, old=True), pickle.dumps(Malice(), 2)]
        yield Kind("pth weights", files, "weights.pth", read_filters, 2)
    if find_spec("safetensors"):
        from safetensors.numpy import save as dump

        yield Kind("safetensors weights", [dump(arrays)], "weights.safetensors", read_filters)


def _torch(value, old=False):
    import torch

    out = io.BytesIO()
    torch.save(value, out, _use_new_zipfile_serialization=not old)
    return out.getvalue()


def run_kinds(folder):
    train(folder / "run", "--act", "crelu", "--hold-out", "8")
    data = textures(64, 24)
    settings = CifarSettings.of(dataset="textures", scale=0.02, subset=32, batch=16, epochs=1)
    job = ArrayJob(settings, folder / "going", data, np.arange(32))
    (folder / "going").mkdir()
    session = job.begin(CPU, ALONE)
    session.save()
    arrays, metadata = load(folder / "going" / "checkpoint.npz")

    def use(path):
        (run,) = open_runs([path.parent])
        run.classifier(CPU)
        return run.name, run.label, run.reduced, run.has_weights

    for file, share in (("config.json", 2), ("result.json", 1)):
        yield Kind(f"{file} of a run", [(folder / "run" / file).read_bytes()], f"copy-{file}/{file}", use, share,
                   json_change)  # fmt: skip
        shutil.copytree(folder / "run", folder / f"copy-{file}")

    export.main(["--run", str(folder / "run"), "--to", str(folder / "tiny.npz"), "--device", "cpu"])
    for name, change in (("tiny.json", json_change), ("tiny.npz", damaged)):
        shutil.copytree(folder, folder / f"card-{name}", ignore=lambda _, names: [n for n in names if "tiny" not in n])
        yield Kind(f"{name[4:]} of a card", [(folder / name).read_bytes()], f"card-{name}/{name}",
                   lambda path: pretrained(path.with_suffix(".npz")).probabilities(data.test_images[:1]), 1,
                   change)  # fmt: skip

    def whole_but_wrong(content, rng):
        """A checkpoint with the right checksum and wrong values."""
        values = dict(arrays)
        if rng.random() < 0.5:
            name = rng.choice(sorted(values))
            values[name] = rng.choice((np.zeros((0, 2)), np.ones(3), np.array("x"), values[name].T, np.array([1j])))
        save(folder / "made.npz", values, json.loads(damaged_json(content.decode(), rng)))
        return (folder / "made.npz").read_bytes()

    def resume(path):
        session.trainer.epoch = session.trainer.step = 0
        session.resume()

    yield Kind("checkpoint, whole", [json.dumps(metadata).encode()], "going/checkpoint.npz", resume, 1, whole_but_wrong)


def label_kinds(folder):
    root = write_set(folder / "photos", each=2, validation=1)
    for name in CLASSES:
        for path in sorted((root / "val" / name).iterdir()):
            path.rename(root / "val" / path.name)
        (root / "val" / name).rmdir()
    names = sorted(path.name for path in (root / "val").iterdir())
    lines = {
        "val.txt": "".join(f"{name} {name[:9]}\n" for name in names),
        "LOC_val_solution.csv": "ImageId,PredictionString\n" + "".join(f"{n[:-5]},{n[:9]} 1 2 3 4\n" for n in names),
        "synset_words.txt": "".join(f"{name} a word, more\n" for name in CLASSES),
    }
    (root / "val.txt").write_text(lines["val.txt"])
    for name, text in lines.items():

        def read(path):
            picture_set(root, None if "words" in path.name else path)

        place = f"photos/{name}" if "words" in name else f"labels/{name}"
        yield Kind(name, [text.encode()], place, read, 0.5)

    colours = {"images": 3, "mean": [0.5] * 3, "std": [0.2] * 3, "eigenvalues": [0.2, 0.1, 0.05],
               "components": np.eye(3).tolist()}  # fmt: skip
    run = Run(folder / "photo-run", None, {}, {})
    yield Kind("colours.json", [json.dumps(colours).encode()], "photo-run/colours.json",
               lambda path: read_colours(path.parent).normaliser(np.zeros((1, 2, 2, 3), np.uint8)), 0.5,
               json_change)  # fmt: skip
    yield Kind("classes.json", [json.dumps([[n, n] for n in CLASSES]).encode()], "photo-run/classes.json",
               lambda path: run.classes, 0.5, json_change)  # fmt: skip


def reproduction_kinds(folder):
    root, scale = folder / "reproduce", tiny(seeds=1)
    made = [write_run(root, training, train=1.0, test=2.0, wrong=np.zeros(1000)) for training in scale.table1]
    first = made[0]
    targets = [TARGETS["table1"], TARGETS["figure4"]]

    def report(path):
        write_report(Context(root, scale, Records(root), Files()), targets, "command")

    def record(path):
        records = Records(root)
        found = records.run(scale.table1[0])
        epochs_done(first)
        assert found or records.problems
        return found and open_run(first).predictions()

    for name, share in (("config.json", 1), ("result.json", 1), ("metrics.csv", 0.3), ("predictions.npz", 0.3)):
        change = json_change if name.endswith(".json") else damaged
        whole, place = (first / name).read_bytes(), str((first / name).relative_to(folder))

        def fresh(path, whole=whole, read=record):
            try:
                read(path)
            finally:
                path.write_bytes(whole)

        yield Kind(f"record: {name}", [whole], place, fresh, share, change)
        yield Kind(f"report: {name}", [whole], place, lambda path, fresh=fresh: fresh(path, read=report), 0.05, change)
    archive = folder / "archive"
    pack(root, archive)

    def unpacked(path, whole):
        try:
            with tempfile.TemporaryDirectory() as tree:
                unpack(archive, Path(tree))
        finally:
            path.write_bytes(whole)

    for name in ("runs.json", "runs/metrics.csv", "runs/predictions.npz"):
        whole, change = (archive / name).read_bytes(), json_change if name.endswith(".json") else damaged
        yield Kind(f"archive: {name}", [whole], f"archive/{name}", partial(unpacked, whole=whole), 0.3, change)
    folds = folder / "folds"
    for i in (1, 2):
        (folds / f"fold{i}").mkdir(parents=True)
        (folds / f"fold{i}" / "result.json").write_text(
            json.dumps({"test_error": 1.0, "train_error": 2.0, "seconds": 3})
        )
        write_predictions(folds / f"fold{i}", np.full((24, 10), 0.1, np.float32), textures(64, 24).test_labels)
    for name in ("result.json", "predictions.npz"):
        whole = (folds / "fold1" / name).read_bytes()
        change = json_change if name.endswith(".json") else damaged

        def collect(path, whole=whole):
            try:
                collect_folds(folds, 2)
            finally:
                path.write_bytes(whole)

        yield Kind(f"fold: {name}", [whole], f"folds/fold1/{name}", collect, 0.3, change)
