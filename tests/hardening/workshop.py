"""A folder of small things for the hardening scripts: finished and damaged runs, pictures, weights, odd files."""

import contextlib
import io
import json
import shlex
import shutil
from pathlib import Path
from unittest import mock

import numpy as np

from experiments import cifar
from experiments.reproduction.pictures import of_textures, write_pictures
from minicnn.checkpoint import save
from minicnn.data.textures import textures

TINY = shlex.split("--dataset textures --scale 0.02 --subset 32 --epochs 1 --batch 16 --device cpu")
DAMAGE = {  # damaged runs: the file, and what becomes of its text
    "config-text": ("config.json", lambda text: "hello"),
    "config-empty": ("config.json", lambda text: ""),
    "config-list": ("config.json", lambda text: "[1, 2]"),
    "config-null": ("config.json", lambda text: "null"),
    "config-number": ("config.json", lambda text: "1"),
    "config-no-settings": ("config.json", lambda text: '{"train": 1, "hold_out": 2}'),
    "config-settings-list": ("config.json", lambda text: changed(text, settings=[])),
    "config-unknown-act": ("config.json", lambda text: changed_setting(text, act="gelu")),
    "config-unknown-model": ("config.json", lambda text: changed_setting(text, model=7)),
    "config-dataset": ("config.json", lambda text: changed_setting(text, dataset="mnist")),
    "config-scale": ("config.json", lambda text: changed_setting(text, scale="wide")),
    "config-huge": ("config.json", lambda text: changed_setting(text, scale=1e9)),
    "config-nan": ("config.json", lambda text: changed_setting(text, scale=float("nan"))),
    "config-dropout": ("config.json", lambda text: changed_setting(text, dropout=3)),
    "config-seed": ("config.json", lambda text: changed_setting(text, seed=-1)),
    "config-hold-out": ("config.json", lambda text: changed(text, hold_out="none")),
    "config-train": ("config.json", lambda text: changed(text, train={"count": 5})),
    "config-nested": ("config.json", lambda text: "[" * 100_000),
    "config-imagenet": ("config.json", lambda text: changed(text, experiment="imagenet")),
    "result-text": ("result.json", lambda text: "{"),
    "result-list": ("result.json", lambda text: "[]"),
    "result-null": ("result.json", lambda text: "null"),
    "result-no-errors": ("result.json", lambda text: "{}"),
    "result-words": ("result.json", lambda text: changed(text, train_error="low", test_error=None)),
    "result-nan": ("result.json", lambda text: changed(text, train_error=float("nan"), test_error=1e400)),
    "metrics-text": ("metrics.csv", lambda text: "no,table\n"),
}


def changed(text, **values):
    return json.dumps({**json.loads(text), **values})


def changed_setting(text, **values):
    return changed(text, settings={**json.loads(text)["settings"], **values})


def make_workshop(folder: Path) -> Path:
    """Everything that nonsense arguments may name, by short names relative to `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    train(folder / "run", "--act", "crelu")
    train(folder / "held", "--act", "relu", "--hold-out", "8")
    for name, (file, damage) in DAMAGE.items():
        copy = shutil.copytree(folder / "run", folder / name)
        (copy / file).write_text(damage((copy / file).read_text()))
    for name, content in {"cut": b"PK\x03\x04", "empty": b"", "text": b"hello"}.items():
        copy = shutil.copytree(folder / "run", folder / f"checkpoint-{name}")
        for file in ("checkpoint.npz", "checkpoint.previous.npz"):
            (copy / file).write_bytes(content)
    shutil.copytree(folder / "run", folder / "no-weights", ignore=shutil.ignore_patterns("*.npz"))
    shutil.copytree(folder / "run", folder / "unfinished", ignore=shutil.ignore_patterns("result.json"))
    other = shutil.copytree(folder / "run", folder / "other-weights")
    save(other / "checkpoint.npz", {"model/conv1.weight": np.ones((2, 2))}, {"epoch": 1})
    folded = folder / "config-folder"
    shutil.copytree(folder / "run", folded)
    (folded / "config.json").unlink()
    (folded / "config.json").mkdir()
    write_pictures(folder / "pictures", of_textures(20, 10))
    (folder / "empty-folder").mkdir()
    for name, content in {"file": b"x", "file.npz": b"x", "file.pth": b"x", "file.svg": b"x", "file.py": b"x = (",
                          "file.jpg": b"x", "file.tar.gz": b"\x1f\x8bx", "ü ß": b"x"}.items():  # fmt: skip
        (folder / name).write_bytes(content)
    np.savez(folder / "weights.npz", conv1=np.random.default_rng(0).normal(size=(3, 3, 3, 4)), b=np.ones(3))
    np.savez(folder / "nan.npz", conv1=np.full((3, 3, 3, 4), np.nan))
    np.savez(folder / "matrix.npz", conv1=np.ones((3, 3)))
    np.savez(folder / "zero.npz", conv1=np.zeros((3, 3, 3, 0)))
    np.savez(folder / "words.npz", conv1=np.array(["a", "b"]))
    np.save(folder / "array.npy", np.ones(3))
    return folder


def few_textures():
    """Inside the block, textures has 64 and 24 images, so that a training takes a moment."""
    return mock.patch("minicnn.data.textures.textures", lambda seed=0: textures(64, 24, seed=seed))


def train(folder: Path, *arguments: str) -> None:
    """Train a network on a few textures, in a moment."""
    quiet = io.StringIO()
    with contextlib.redirect_stdout(quiet), contextlib.redirect_stderr(quiet):
        code = cifar.main([*TINY, *arguments, "--out", str(folder)])
    assert code == 0, quiet.getvalue()
