"""Files: verified when read, whole when written, whoever else writes and whatever happens."""

import errno
import hashlib
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minicnn.checkpoint import TEMPORARY
from minicnn.data.dataset import DataError
from minicnn.data.files import File, cache_folder, checksum, read_file, store, verify

ROOT = Path(__file__).parents[2]
CONTENT = b"0123456789"
FILE = File("digits", 5, 10, "sha256:" + hashlib.sha256(CONTENT).hexdigest())


def test_checksum_by_hand():
    assert checksum("md5", b"abc", 1) == "900150983cd24fb0d6963f7d28e17f72"  # RFC 1321
    assert checksum("sha256", b"abc", 1).startswith("ba7816bf8f01cfea")  # FIPS 180


def test_the_digest_of_records_is_a_sum():
    one = int(checksum("records", b"ab", 1), 16)
    other = int(checksum("records", b"cd", 1), 16)
    assert int.from_bytes(hashlib.blake2b(b"ab", digest_size=16).digest(), "little") == one
    assert int(checksum("records", b"abcd", 2), 16) == (one + other) % 2**128
    assert checksum("records", b"cdab", 2) == checksum("records", b"abcd", 2)  # in any order
    assert checksum("records", b"acbd", 2) != checksum("records", b"abcd", 2)
    assert checksum("records", b"", 2) == "0" * 32


@given(st.data())
def test_no_change_of_a_byte_goes_unnoticed(data):
    kind = data.draw(st.sampled_from(["sha256", "records"]))
    file = File("digits", 5, 10, f"{kind}:{checksum(kind, CONTENT, 5)}")
    verify(CONTENT, file, "here")
    content = bytearray(CONTENT)
    content[data.draw(st.integers(0, 9))] ^= data.draw(st.integers(1, 255))
    with pytest.raises(DataError, match=f"(?s)here is damaged.*expected {kind} .*found    {kind} .*Delete it"):
        verify(bytes(content), file, "here")
    with pytest.raises(DataError, match=r"here is cut short: . bytes, expected 10"):
        verify(CONTENT[: data.draw(st.integers(0, 9))], file, "here")


def test_read_file(tmp_path):
    path = tmp_path / "digits"
    path.write_bytes(CONTENT)
    assert read_file(path, FILE) == CONTENT
    path.write_bytes(CONTENT[:-1])
    with pytest.raises(DataError, match=r"digits is cut short: 9 bytes, expected 10.\nDelete it"):
        read_file(path, FILE)
    path.write_bytes(CONTENT + b"x")
    with pytest.raises(DataError, match="too long"):
        read_file(path, FILE)
    path.unlink()
    with pytest.raises(DataError, match=r"cannot read .*digits: No such file"):
        read_file(path, FILE)


def test_a_huge_file_is_not_read(tmp_path):
    with open(tmp_path / "digits", "wb") as stream:
        stream.truncate(2**40)  # sparse: it takes no space
    with pytest.raises(DataError, match="too long: 1,099,511,627,776 bytes"):
        read_file(tmp_path / "digits", FILE)


def test_cache_folder(monkeypatch):
    for name in ("MINICNN_DATA", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/home/ada")
    assert cache_folder() == Path("/home/ada/.cache/minicnn")
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    assert cache_folder() == Path("/x/minicnn")
    monkeypatch.setenv("MINICNN_DATA", "~/data")
    assert cache_folder() == Path("/home/ada/data")
    monkeypatch.setenv("MINICNN_DATA", "")
    assert cache_folder() == Path("/x/minicnn")


def test_store(tmp_path):
    store(tmp_path / "a" / "b", {"x": b"1", "y": b"2"})
    store(tmp_path / "a" / "b", {"y": b"3"})
    assert {path.name: path.read_bytes() for path in (tmp_path / "a" / "b").iterdir()} == {"x": b"1", "y": b"3"}


def fails(code):
    def function(*arguments, **keywords):
        raise OSError(code, os.strerror(code))

    return function


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_full_disk_leaves_nothing_and_says_what_to_do(tmp_path, monkeypatch, step):
    store(tmp_path, {"x": b"old"})
    monkeypatch.setattr(os, step, fails(errno.ENOSPC))
    with pytest.raises(DataError, match=rf"cannot store data in {tmp_path}: No space left.*\n.*MINICNN_DATA="):
        store(tmp_path, {"x": b"new"})
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"x": b"old"}


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(DataError, match=r"(?s)cannot store data in .*MINICNN_DATA=") as caught:
        store(tmp_path / "file" / "folder", {"x": b""})
    assert isinstance(caught.value.__cause__, NotADirectoryError)


def test_interrupted_writing_leaves_nothing(tmp_path, monkeypatch):
    def interrupt(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        store(tmp_path, {"x": b"1"})
    assert list(tmp_path.iterdir()) == []


def test_what_killed_processes_left_is_swept_away(tmp_path):
    old, new, folder = tmp_path / f"{TEMPORARY}x-1-0", tmp_path / f"{TEMPORARY}x-2-0", tmp_path / f"{TEMPORARY}npm"
    folder.mkdir()
    for path in (old, new, folder / "package"):
        path.write_bytes(b"half")
    yesterday = time.time() - 25 * 3600
    for path in (old, folder):
        os.utime(path, (yesterday, yesterday))
    store(tmp_path, {})
    assert list(tmp_path.iterdir()) == [new]  # which another process may be writing


WRITER = """
import sys
from pathlib import Path
from minicnn.data.files import store
while True:
    store(Path(sys.argv[1]), {"x": bytes(range(256)) * 8192})
    print("stored", flush=True)
"""


def test_no_half_file_is_seen_with_two_writers_and_after_kill(tmp_path):
    """Two processes write the same file again and again; we read it all the while, and kill both in the middle."""
    whole = bytes(range(256)) * 8192
    command = [sys.executable, "-c", WRITER, str(tmp_path)]
    writers = [subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) for _ in range(2)]
    try:
        for writer in writers:
            assert writer.stdout.readline() == b"stored\n"
        for _ in range(100):
            assert (tmp_path / "x").read_bytes() == whole
    finally:
        for writer in writers:
            writer.kill()
            writer.communicate()
    assert (tmp_path / "x").read_bytes() == whole


def test_a_clock_that_jumps_back_sweeps_nothing_away(tmp_path, monkeypatch):
    (tmp_path / f"{TEMPORARY}x").write_bytes(b"half")
    monkeypatch.setattr(time, "time", lambda: 0.0)
    store(tmp_path, {"y": b"1"})
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"{TEMPORARY}x", "y"]
