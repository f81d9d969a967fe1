"""Checkpoints: whole or not there, verified, never unpickled."""

import errno
import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minicnn import checkpoint
from minicnn.checkpoint import CheckpointError, DamagedError, load, load_newest, previous, save

ARRAYS = {
    "model/0.weight": np.arange(12, dtype=np.float32).reshape(3, 4),
    "steps": np.array(7),
    "empty": np.zeros((0, 3)),
    "file": np.array([True, False]),
    "fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
}


def same(a, b):
    assert set(a) == set(b)
    for name in a:
        assert a[name].dtype == b[name].dtype
        np.testing.assert_array_equal(a[name], b[name])


def test_what_is_saved_is_loaded(tmp_path):
    save(tmp_path / "c.npz", ARRAYS, {"epoch": 3, "history": [{"loss": 0.1}], "text": "ß\n"})
    arrays, metadata = load(tmp_path / "c.npz")
    same(arrays, ARRAYS)
    assert metadata == {"epoch": 3, "history": [{"loss": 0.1}], "text": "ß\n"}
    assert [p.name for p in tmp_path.iterdir()] == ["c.npz"]


def test_two_checkpoints_have_two_previous_ones(tmp_path):
    assert previous(tmp_path / "w.npz") == tmp_path / "w.previous.npz"
    for name in ("w.best", "w.last"):
        for epoch in (1, 2):
            save(tmp_path / name, {}, {"name": name, "epoch": epoch})
    (tmp_path / "w.best").write_bytes(b"damaged")
    assert load_newest(tmp_path / "w.best")[1] == {"name": "w.best", "epoch": 1}


@pytest.mark.skipif(os.name != "posix", reason="permissions of files")
def test_others_may_read_it_where_they_may_read_any_file(tmp_path):
    (tmp_path / "any").touch()
    save(tmp_path / "c.npz", ARRAYS)
    assert (tmp_path / "c.npz").stat().st_mode == (tmp_path / "any").stat().st_mode


def test_it_is_an_ordinary_npz_file(tmp_path):
    save(tmp_path / "c.npz", ARRAYS)
    with np.load(tmp_path / "c.npz", allow_pickle=False) as file:
        np.testing.assert_array_equal(file["model/0.weight"], ARRAYS["model/0.weight"])


def test_the_previous_one_is_kept_and_used_when_the_newest_is_damaged(tmp_path):
    path = tmp_path / "c.npz"
    for epoch in (1, 2, 3):
        save(path, {"x": np.array(epoch)}, {"epoch": epoch})
    assert load(previous(path))[1] == {"epoch": 2}
    assert load_newest(path)[1] == {"epoch": 3}
    path.write_bytes(path.read_bytes()[:-10])
    assert load_newest(path)[1] == {"epoch": 2}
    path.unlink()
    assert load_newest(path)[1] == {"epoch": 2}
    previous(path).unlink()
    with pytest.raises(CheckpointError, match="there is no checkpoint"):
        load_newest(path)


def test_after_a_rename_that_failed_nothing_is_left_over(tmp_path):
    """Then the newest and the previous one are the same file, which a rename to each other leaves as two."""
    path = tmp_path / "c.npz"
    save(path, {"x": np.array(1)})
    os.link(path, previous(path))
    save(path, {"x": np.array(2)})
    assert (load(path)[0]["x"], load(previous(path))[0]["x"]) == (2, 1)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["c.npz", "c.previous.npz"]


def test_without_hard_links_it_still_works(tmp_path, monkeypatch):
    def no_links(*_):
        raise OSError(errno.EPERM, "not here")

    monkeypatch.setattr(os, "link", no_links)
    for epoch in (1, 2):
        save(tmp_path / "c.npz", {"x": np.array(epoch)})
    assert load(tmp_path / "c.npz")[0]["x"] == 2
    assert load(previous(tmp_path / "c.npz"))[0]["x"] == 1


def test_a_full_disk_leaves_the_old_file_and_no_litter(tmp_path, monkeypatch):
    save(tmp_path / "c.npz", {"x": np.array(1)})

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(CheckpointError, match=r"cannot write .* No space left on device; free some space"):
        save(tmp_path / "c.npz", {"x": np.array(2)})
    monkeypatch.undo()
    assert load(tmp_path / "c.npz")[0]["x"] == 1
    assert [p.name for p in tmp_path.iterdir()] == ["c.npz"]


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(CheckpointError, match=r"cannot write .*c.npz: there is no folder .*nowhere; make it first"):
        save(tmp_path / "nowhere" / "c.npz", ARRAYS)
    with pytest.raises(CheckpointError, match="there is no checkpoint"):
        load(tmp_path / "nowhere" / "c.npz")


@pytest.fixture(scope="module")
def intact(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fuzz")
    save(folder / "c.npz", ARRAYS, {"epoch": 1})
    return folder / "c.npz", (folder / "c.npz").read_bytes()


@pytest.mark.filterwarnings("ignore")  # zipfile and NumPy may warn about what they see
@given(data=st.data())
@settings(max_examples=200)
def test_no_damage_goes_unnoticed(intact, data):
    """Cut anywhere, or change any byte: our own error, or the very same content (padding does not matter)."""
    path, content = intact
    damaged = bytearray(content)
    if data.draw(st.booleans()):
        damaged = damaged[: data.draw(st.integers(0, len(content) - 1))]
    else:
        for at in data.draw(st.lists(st.integers(0, len(content) - 1), min_size=1, max_size=4)):
            damaged[at] ^= data.draw(st.integers(1, 255))
    path.with_name("d.npz").write_bytes(damaged)
    try:
        arrays, metadata = load(path.with_name("d.npz"))
    except CheckpointError as error:
        assert "damaged or not a checkpoint" in str(error) or "not written by minicnn.save" in str(error)
    else:
        same(arrays, ARRAYS)
        assert metadata == {"epoch": 1}


def test_other_files_are_refused(tmp_path):
    (tmp_path / "text.npz").write_text("hello")
    (tmp_path / "empty.npz").write_text("")
    for name in ("text", "empty"):
        with pytest.raises(CheckpointError, match="damaged or not a checkpoint"):
            load(tmp_path / f"{name}.npz")


def test_files_of_numpy_are_no_checkpoints_and_nobody_says_remove_them(tmp_path):
    np.savez(tmp_path / "foreign.npz", x=np.ones(3))
    np.savez(tmp_path / "pickled.npz", x=np.array([{"a": 1}], dtype=object))
    np.save(tmp_path / "array.npy", np.ones(3))
    for name in ("foreign.npz", "pickled.npz", "array.npy"):
        with pytest.raises(CheckpointError, match=r"was not written by minicnn\.save: .*; numpy\.load reads") as caught:
            load(tmp_path / name)
        assert "remove" not in str(caught.value)


@pytest.mark.parametrize("code", [errno.EACCES, errno.EMFILE, errno.EIO])
def test_a_file_that_cannot_be_opened_is_not_called_damaged(tmp_path, monkeypatch, code):
    """Nor is an older one taken in its place, over which a training would go on."""
    for epoch in (1, 2):
        save(tmp_path / "c.npz", {"x": np.array(epoch)})

    def refused(path, mode):
        if path.name == "c.npz":
            raise OSError(code, os.strerror(code))
        return open(path, mode)

    monkeypatch.setattr(checkpoint, "open", refused, raising=False)
    for read in (load, load_newest):
        with pytest.raises(CheckpointError, match=rf"cannot read .*c\.npz: {os.strerror(code)}; it may be whole") as e:
            read(tmp_path / "c.npz")
        assert not isinstance(e.value, DamagedError)


def test_a_folder_is_not_called_damaged(tmp_path):
    with pytest.raises(CheckpointError, match=r"cannot read .*keep it: see to it that it is a file") as e:
        load(tmp_path)
    assert not isinstance(e.value, DamagedError)


def test_pickles_are_never_written(tmp_path):
    with pytest.raises(ValueError, match="Object arrays"):
        save(tmp_path / "c.npz", {"x": np.array([{}], dtype=object)})
    with pytest.raises(ValueError, match="reserved"):
        save(tmp_path / "c.npz", {checkpoint.METADATA: np.ones(1)})
    with pytest.raises(ValueError, match="reserved"):
        save(tmp_path / "c.npz", {"a": np.ones(1), "a.npy": np.ones(1)})
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
def test_killed_while_writing_there_is_always_a_whole_file(tmp_path):
    """A process saves again and again; killed at some moment, what is there loads."""
    code = """
        import sys, numpy as np
        from minicnn.checkpoint import save
        for i in range(10**6):
            save(sys.argv[1], {"x": np.full(20000, i)}, {"i": i})
            print(i, flush=True)
    """
    for lines in (1, 3, 4):
        path = tmp_path / f"{lines}.npz"
        process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(code), str(path)], stdout=subprocess.PIPE, text=True
        )
        done = [int(process.stdout.readline()) for _ in range(lines)][-1]
        process.kill()
        process.communicate()
        arrays, metadata = load_newest(path)
        assert metadata["i"] >= done
        assert (arrays["x"] == metadata["i"]).all()


def test_an_error_names_the_file_that_was_asked_for(tmp_path):
    """Not the temporary one, and a name even where the system gives none."""

    def full(file):
        raise OSError(errno.ENOSPC, "No space left on device")

    def half(file):
        raise OSError("16 requested and 0 written")  # as NumPy says it

    for write, message in ((full, "No space left on device"), (half, "16 requested and 0 written")):
        with pytest.raises(OSError, match=message) as caught:
            checkpoint.atomic_write(tmp_path / "x.npy", write)
        assert caught.value.filename == str(tmp_path / "x.npy")
    with pytest.raises(FileNotFoundError) as caught:
        checkpoint.atomic_write(tmp_path / "nowhere" / "x.npy", half)
    assert caught.value.filename == str(tmp_path / "nowhere" / "x.npy")
    assert not list(tmp_path.iterdir())
