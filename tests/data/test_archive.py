"""Archives: the files that are expected in them, and no effect of anything else."""

import gzip
import io
import lzma
import tarfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minicnn.data.archive import limit, read_archive, read_members
from minicnn.data.dataset import DataError
from tests.data.mini import mini, tar_bytes

MINI = mini()
BIN = MINI.contents["mini-bin"]
MEMBERS = {f"mini-bin/{name}": content for name, content in BIN.items()}


def members(tar, compress=gzip.compress):
    return read_members(io.BytesIO(compress(tar)), MINI.source, "here")


def test_every_archive_gives_its_files(tmp_path):
    for name, content in MINI.archives.items():
        (tmp_path / name).write_bytes(content)
        version, contents = read_archive(tmp_path / name, MINI.source)
        assert name.startswith(version.folder)
        assert contents == MINI.contents[version.folder]


@pytest.mark.parametrize("prefix", ["", "./", "package/"])
def test_where_the_folder_may_be(prefix):
    version, contents = members(tar_bytes({prefix + name: content for name, content in MEMBERS.items()}))
    assert (version.folder, contents) == ("mini-bin", BIN)


def link(name, target, kind=tarfile.SYMTYPE):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def test_hostile_members_have_no_effect(tmp_path, monkeypatch):
    (tmp_path / "inside").mkdir()
    monkeypatch.chdir(tmp_path / "inside")
    hostile = {
        "../../evil": b"x",
        "../evil": b"x",
        str(tmp_path / "evil"): b"x",
        "mini-bin/../../evil": b"x",
        "a link": link("mini-bin", "/etc"),
        "a device": link("null", "", tarfile.CHRTYPE),
        "a hard link": link("passwd", "/etc/passwd", tarfile.LNKTYPE),
        "a pipe": link("pipe", "", tarfile.FIFOTYPE),
    }
    assert members(tar_bytes(hostile | MEMBERS)) == (MINI.source.versions[0], BIN)
    assert [path.name for path in tmp_path.rglob("*")] == ["inside"]


@pytest.mark.parametrize("name", ["../mini-bin/test.bin", "/mini-bin/test.bin", "mini-bin/x/../test.bin"])
def test_other_names_are_not_taken_for_the_expected(name):
    moved = {name if member == "mini-bin/test.bin" else member: content for member, content in MEMBERS.items()}
    with pytest.raises(DataError, match="no complete folder mini-bin or mini-py in it"):
        members(tar_bytes(moved))


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE])
def test_an_expected_name_must_be_an_ordinary_file(kind):
    with pytest.raises(DataError, match=r"here: mini-bin/test.bin is not an ordinary file"):
        members(tar_bytes(MEMBERS | {"mini-bin/test.bin": link("mini-bin/test.bin", "/etc/passwd", kind)}))


def claim(name, size):
    info = tarfile.TarInfo(name)
    info.size = size
    return info.tobuf()


def test_claimed_sizes_are_not_believed():
    with pytest.raises(DataError, match=r"mini-bin/test.bin is too long: 1,099,511,627,776 bytes"):
        members(claim("mini-bin/test.bin", 2**40))
    with pytest.raises(DataError, match=r"mini-bin/test.bin is cut short"):
        members(tar_bytes({"mini-bin/test.bin": b"x"}))
    for compress in (gzip.compress, lzma.compress):
        with pytest.raises(DataError, match="cut short"):  # says the size of the file, and ends
            members(claim("mini-bin/test.bin", len(BIN["test.bin"])), compress)
        with pytest.raises(DataError, match="far more than the data set"):  # a bomb: 5 MB of nothing in 5 kB
            members(claim("other", 2**40) + bytes(5_000_000), compress)


def test_a_huge_header_is_not_read():
    """A header of pax type can itself claim any size."""
    info = tarfile.TarInfo("x")
    info.type, info.size = tarfile.XHDTYPE, 2**32
    with pytest.raises(DataError, match="far more than the data set"):
        members(info.tobuf() + bytes(2 * limit(MINI.source)))


@pytest.mark.parametrize(
    "content", [b"", b"\x1f\x8b", b"<html>not found</html>", b"\xfd7zXZ\x00", gzip.compress(b"no tar", mtime=0)]
)
def test_what_is_no_archive(content):
    with pytest.raises(DataError, match=r"^here"):
        read_members(io.BytesIO(content), MINI.source, "here")


def test_an_official_archive_is_verified_first(tmp_path):
    content = MINI.archives["mini-bin.tar.gz"]
    path = tmp_path / "mini-bin.tar.gz"
    path.write_bytes(content[:-1000])
    with pytest.raises(DataError, match=rf"(?s){len(content) - 1000:,} bytes.*expected md5 .*found    md5 .*Delete it"):
        read_archive(path, MINI.source)


def test_files_of_any_other_archive_are_verified(tmp_path):
    wrong = MEMBERS | {"mini-bin/test.bin": MEMBERS["mini-bin/test.bin"][:-1] + b"x"}
    path = tmp_path / "some.tar.xz"
    path.write_bytes(lzma.compress(tar_bytes(wrong)))
    with pytest.raises(DataError, match=r"(?s)test.bin in .*some.tar.xz is damaged.*expected sha256"):
        read_archive(path, MINI.source)
    with pytest.raises(DataError, match="cannot read"):
        read_archive(tmp_path / "missing.tar.xz", MINI.source)


@given(st.data())
def test_damage_is_an_error_or_harmless(data):
    """Flipped bytes may be anywhere, in the tar file or in what it is compressed to, and it may be cut off."""
    compress = data.draw(st.sampled_from([lambda tar: gzip.compress(tar, 1), lambda tar: lzma.compress(tar, preset=0)]))
    tar = bytearray(tar_bytes(MEMBERS))
    headers = [start for start in range(0, len(tar), 512) if tar[start + 257 : start + 262] == b"ustar"]
    in_header = st.builds(int.__add__, st.sampled_from(headers), st.integers(0, 511))
    damage(tar, data.draw(st.lists(in_header, max_size=3)), data)
    packed = bytearray(compress(bytes(tar)))
    damage(packed, data.draw(st.lists(st.integers(0, len(packed) - 1), max_size=3)), data)
    end = data.draw(st.none() | st.integers(0, len(packed)))
    try:
        _, contents = read_members(io.BytesIO(bytes(packed[:end])), MINI.source, "here")
    except DataError:
        return
    assert contents == BIN


def damage(content, positions, data):
    for position in positions:
        content[position] ^= data.draw(st.integers(1, 255))
