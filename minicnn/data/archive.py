"""Reading a data set's files out of a tar file, without unpacking it.

Nothing is ever extracted: the members with the expected names are read into memory, all others are passed over, so a
name such as ../../x, a link or a device has no effect.  What is read is bounded by what the data set holds.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import lzma
import os
import tarfile
from pathlib import Path
from typing import BinaryIO

from minicnn.data.dataset import DataError
from minicnn.data.files import REMEDY, Contents, Source, Version, check_size, reading, verify

BLOCK = 2**18  # bytes read at a time
PREFIXES = ("", "./", "package/")  # before the folder's name: none, as `tar -c ./folder` writes, as npm writes


def read_archive(path: Path, source: Source) -> tuple[Version, Contents]:
    """The version that an archive holds, and its files, verified."""
    with reading(path):
        check_md5(path, source)
        with open(path, "rb") as stream:
            return read_members(stream, source, str(path))


def check_md5(path: Path, source: Source) -> None:
    """An archive with an official name must be the official one."""
    expected = source.md5_of(path.name)
    if expected is None:
        return
    with open(path, "rb") as stream:
        found = hashlib.file_digest(stream, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
    if found != expected:
        raise DataError(
            f"{path} ({os.path.getsize(path):,} bytes) is cut short, damaged or not the official archive: "
            f"its checksum is wrong.\n  expected md5 {expected}\n  found    md5 {found}\n{REMEDY}\n"
            "If you packed it yourself, unpack it: its files are verified one by one."
        )


def limit(source: Source) -> int:
    """More bytes than an archive of any version of this data set holds: some room for headers and small files."""
    return 2**20 + sum(file.size for version in source.versions for file in version.files) * 11 // 10


def read_members(stream: BinaryIO, source: Source, where: str) -> tuple[Version, Contents]:
    """The first version that is complete in a .tar.gz or .tar.xz, and its files, verified; `where` is its name."""
    try:
        with _decompress(stream) as plain:
            bounded = _Bounded(plain, limit(source))
            with tarfile.open(fileobj=bounded, mode="r|", bufsize=BLOCK) as tar:
                version, contents = _collect(tar, source)
    except DataError as error:
        raise DataError(f"{where}: {error}") from None
    except Exception as error:  # tarfile, gzip and lzma raise many kinds on damaged input
        raise DataError(f"{where} is cut short, damaged or not a tar archive ({error}).\n{REMEDY}") from error
    for file in version.files:
        verify(contents[file.name], file, f"{file.name} in {where}")
    return version, contents


def _collect(tar: tarfile.TarFile, source: Source) -> tuple[Version, Contents]:
    wanted = {
        f"{prefix}{version.folder}/{file.name}": (version, file)
        for prefix in PREFIXES
        for version in source.versions
        for file in version.files
    }
    found: dict[str, Contents] = {version.folder: {} for version in source.versions}
    for member in tar:
        if member.name not in wanted:
            continue
        version, file = wanted[member.name]
        if not member.isreg() or member.issparse():
            raise DataError(f"{member.name} is not an ordinary file.\n{REMEDY}")
        check_size(member.size, file, member.name)
        content = tar.extractfile(member)
        assert content is not None  # it is for ordinary files
        found[version.folder][file.name] = content.read(file.size)
        if len(found[version.folder]) == len(version.files):
            return version, found[version.folder]
    folders = " or ".join(version.folder for version in source.versions)
    raise DataError(f"it is not a complete archive of {source.name}: there is no complete folder {folders} in it")


def _decompress(stream: BinaryIO) -> gzip.GzipFile | lzma.LZMAFile:
    magic = stream.read(6)
    stream.seek(0)
    if magic.startswith(b"\x1f\x8b"):
        return gzip.GzipFile(fileobj=stream)
    if magic == b"\xfd7zXZ\x00":
        return lzma.LZMAFile(stream)
    raise DataError("it is neither a .tar.gz nor a .tar.xz file; name such an archive, or a folder")


class _Bounded(io.RawIOBase):
    """A stream that does not go on forever: a small archive can claim, and decompress to, any size."""

    def __init__(self, stream: gzip.GzipFile | lzma.LZMAFile, left: int) -> None:
        self.stream, self.left = stream, left

    def read(self, size: int = -1, /) -> bytes:
        content = self.stream.read(size)
        self.left -= len(content)
        if self.left < 0:
            raise DataError(f"it holds far more than the data set does.\n{REMEDY}")
        return content
