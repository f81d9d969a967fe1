"""Saving and loading arrays: files that are whole or not there.

A checkpoint is an .npz file of named arrays, with metadata as JSON and a SHA-256 over all of it.  It is written to a
temporary file, flushed to the disk and renamed, so that no crash leaves half a file; the one before it is kept beside
it as "<name>.previous.npz".  Nothing is ever unpickled.

    save("run/checkpoint.npz", model.state_dict(), {"epoch": 3})
    arrays, metadata = load("run/checkpoint.npz")
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import secrets
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

METADATA, CHECKSUM = "__metadata__", "__sha256__"
MOST_QUOTED = 200  # characters of NumPy's error, which may hold what a damaged file did
TEMPORARY = ".minicnn-tmp-"  # how the names of unfinished files begin


class CheckpointError(RuntimeError):
    """A checkpoint cannot be written or read; the message says which and what to do."""


class DamagedError(CheckpointError):
    """There is no checkpoint to read: it is missing, damaged or not of ours.  One that the system does not let us read
    may be whole, and gives a CheckpointError."""


def save(
    path: str | os.PathLike[str], arrays: Mapping[str, np.ndarray], metadata: Mapping[str, Any] | None = None
) -> None:
    """Write arrays and JSON metadata; the file at `path`, if there is one, becomes the previous one."""
    path = Path(path)
    content = dict(arrays) | {METADATA: np.frombuffer(json.dumps(dict(metadata or {})).encode(), np.uint8)}
    for name in arrays:
        if name in (METADATA, CHECKSUM) or name.endswith(".npy"):  # numpy would take "a.npy" for the file of "a"
            raise ValueError(f"save: {name} is a reserved name")
    content[CHECKSUM] = np.frombuffer(_digest(content), np.uint8)

    def write(file: BinaryIO) -> None:
        with zipfile.ZipFile(file, "w") as archive:  # as np.savez writes it, but never a pickle and any name
            for name, array in content.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)

    try:
        atomic_write(path, write, keep_previous=True)
    except OSError as error:
        if not path.parent.is_dir():
            raise CheckpointError(f"cannot write {path}: there is no folder {path.parent}; make it first") from error
        raise CheckpointError(
            f"cannot write the checkpoint {path}: {error.strerror or error}; "
            "free some space or choose another folder.  The file that was there is untouched"
        ) from error


def load(path: str | os.PathLike[str]) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The arrays and the metadata of a checkpoint, verified."""
    path = Path(path)
    try:
        content = _content(path)
        intact = content.pop(CHECKSUM).tobytes() == _digest(content)
        metadata = json.loads(content.pop(METADATA).tobytes()) if intact else {}
    except CheckpointError:
        raise
    except FileNotFoundError:
        raise DamagedError(f"there is no checkpoint {path}") from None
    except Exception as error:  # a damaged zip file can make NumPy raise almost anything, EINVAL included
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise CheckpointError(
                f"cannot read the checkpoint {path}: {error.strerror}; it may be whole, so keep it: "
                "see to it that it is a file that you may read, and try again"
            ) from error
        raise DamagedError(_damaged(path, f"{type(error).__name__}: {error}"[:MOST_QUOTED])) from error
    if not intact:
        raise DamagedError(_damaged(path, "its checksum is wrong"))
    return content, metadata


def _content(path: Path) -> dict[str, np.ndarray]:
    """All arrays of a file that `save` wrote."""
    with open(path, "rb") as raw:
        file = np.load(raw, allow_pickle=False)
        if not isinstance(file, np.lib.npyio.NpzFile) or CHECKSUM not in file.files:
            raise DamagedError(
                f"{path} was not written by minicnn.save: it has no checksum; numpy.load reads a file of NumPy's, and "
                "minicnn.save writes its arrays as a checkpoint"
            )
        with file:
            return {name: file[name] for name in file.files}


def load_newest(path: str | os.PathLike[str]) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """`load(path)`, or the previous checkpoint beside it where that one is damaged or missing.

    Not where that one may be whole: a training would go on from an older one, and write over this one.
    """
    try:
        return load(path)
    except DamagedError as error:
        try:
            return load(previous(path))
        except CheckpointError:
            raise error from None


def previous(path: str | os.PathLike[str]) -> Path:
    """Where the checkpoint before the one at `path` is kept."""
    path = Path(path)
    return path.with_name(path.name.removesuffix(".npz") + ".previous.npz")


def atomic_write(
    path: str | os.PathLike[str], write: Callable[[BinaryIO], object], *, keep_previous: bool = False
) -> None:
    """Call write(file) on a temporary file, flush it to the disk, and only then give it its name."""
    path = Path(path)
    try:
        _write_and_rename(path, write, keep_previous)
    except OSError as error:  # which may name the temporary file, or none
        raise OSError(error.errno or errno.EIO, error.strerror or str(error), str(path)) from error
    _flush_folder(path.parent)


def _write_and_rename(path: Path, write: Callable[[BinaryIO], object], keep_previous: bool) -> None:
    temporary = path.with_name(f"{TEMPORARY}{path.name}-{secrets.token_hex(8)}")  # tempfile's are for the owner only
    try:
        with open(temporary, "xb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        if keep_previous and path.exists():
            _keep(path)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def atomic_write_bytes(path: str | os.PathLike[str], content: bytes) -> None:
    atomic_write(path, lambda file: file.write(content))


def atomic_write_text(path: str | os.PathLike[str], text: str) -> None:
    atomic_write_bytes(path, text.encode())


def _keep(path: Path) -> None:
    """Make `path` the previous one, by a second name for the same file: at no moment is there none."""
    link = path.with_name(f"{TEMPORARY}{path.name}-{os.getpid()}-link")
    try:
        os.link(path, link)
        os.replace(link, previous(path))
    except OSError:  # a file system without hard links
        os.replace(path, previous(path))
    finally:
        with contextlib.suppress(OSError):  # still there if the two were one file already: a rename does nothing then
            os.unlink(link)


def _flush_folder(folder: Path) -> None:
    """The rename itself reaches the disk when the folder does; not every system can do this."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _digest(content: Mapping[str, np.ndarray]) -> bytes:
    sha = hashlib.sha256()
    for name in sorted(content):
        array = np.ascontiguousarray(content[name])
        sha.update(json.dumps([name, array.dtype.str, list(array.shape)]).encode())
        sha.update(array.tobytes())
    return sha.digest()


def _damaged(path: Path, why: str) -> str:
    return (
        f"the checkpoint {path} is damaged or not a checkpoint ({why}); "
        f"remove it to start anew, or put {previous(path).name} in its place if that exists"
    )
