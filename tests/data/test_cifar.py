"""Loading: every published form, wherever it is, gives the same arrays; the real thing where it is at hand."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minicnn.data.archive import read_archive
from minicnn.data.cifar import find, load, load_source
from minicnn.data.cifar_files import CIFAR10, CIFAR100
from minicnn.data.dataset import DataError
from minicnn.data.files import cache_folder, verify
from minicnn.data.pickled import loads
from tests.data.mini import check, mini, write
from tests.outside import CIFAR100 as ARCHIVE
from tests.outside import needs

ROOT = Path(__file__).parents[2]
MINI = mini()


@pytest.mark.parametrize("folder", ["mini-bin", "mini-py"])
@pytest.mark.parametrize("sub", [True, False])
def test_from_a_folder(tmp_path, folder, sub):
    write(tmp_path / folder if sub else tmp_path, MINI.contents[folder])
    check(load_source(MINI.source, tmp_path), MINI)
    check(load_source(MINI.source, str(tmp_path)), MINI)


@pytest.mark.parametrize("name", MINI.archives)
def test_from_an_archive(tmp_path, name):
    write(tmp_path, {name: MINI.archives[name]})
    check(load_source(MINI.source, tmp_path), MINI)
    check(load_source(MINI.source, tmp_path / name), MINI)
    assert [path.name for path in tmp_path.iterdir()] == [name]  # the user's folder is not written to
    (tmp_path / name).rename(tmp_path / "renamed")
    check(load_source(MINI.source, tmp_path / "renamed"), MINI)


@pytest.mark.parametrize("checksum", ["sha256", "records"])
def test_two_labels(tmp_path, checksum):
    """The form of CIFAR-100, whose binary files are known by a digest of their records."""
    small = mini(label_bytes=2, checksum=checksum)
    for folder in ("mini-bin", "mini-py"):
        write(tmp_path / folder / folder, small.contents[folder])
        check(load_source(small.source, tmp_path / folder), small)


def test_an_archive_in_the_cache_is_unpacked_there(tmp_path, monkeypatch):
    monkeypatch.setenv("MINICNN_DATA", str(tmp_path))
    write(tmp_path, {"mini-py.tar.xz": MINI.archives["mini-py.tar.xz"]})
    check(load_source(MINI.source), MINI)
    (tmp_path / "mini-py.tar.xz").unlink()
    check(load_source(MINI.source, download=False), MINI)


def test_nothing_there(tmp_path):
    with pytest.raises(DataError, match=r"^/.*nowhere: there is no such file or folder"):
        load_source(MINI.source, tmp_path / "nowhere")
    with pytest.raises(DataError) as caught:
        load_source(MINI.source, tmp_path)
    for part in (str(tmp_path), "mini-bin/ with batch_1.bin", "mini-py/ with batch_1", "mini-py.tar.xz"):
        assert part in str(caught.value)


def test_a_part_is_missing(tmp_path):
    write(tmp_path / "mini-bin", {"test.bin": MINI.contents["mini-bin"]["test.bin"]})
    with pytest.raises(DataError, match=r"mini-bin is incomplete: batch_1.bin, batch_2.bin missing"):
        load_source(MINI.source, tmp_path)


def test_unknown_name():
    with pytest.raises(ValueError, match="there is no 'mnist'; choose from cifar10, cifar100"):
        load("mnist")


@settings(max_examples=15)
@given(st.data())
def test_any_damage_is_refused(tmp_path_factory, data):
    """Any byte of any file or archive changed, or its end cut off."""
    tmp_path = tmp_path_factory.mktemp("damage")
    forms = {folder: dict(contents) for folder, contents in MINI.contents.items()}
    forms |= {name: {name: content} for name, content in MINI.archives.items() if name.endswith(".gz")}
    contents = forms[data.draw(st.sampled_from(sorted(forms)))]
    name = data.draw(st.sampled_from(sorted(contents)))
    content = bytearray(contents[name])
    if data.draw(st.booleans()):
        content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    else:
        del content[data.draw(st.integers(0, len(content) - 1)) :]
    write(tmp_path, contents | {name: bytes(content)})
    with pytest.raises(DataError, match=f"(?s){name}.*(checksum is wrong|is cut short)"):
        load_source(MINI.source, tmp_path)


def test_labels_and_counts_are_checked(tmp_path):
    write(tmp_path, MINI.contents["mini-bin"])
    largest = max(MINI.arrays[1])
    with pytest.raises(DataError, match=rf"expected 3 images with labels below {largest}, got 3 .* to {largest}"):
        load_source(replace(MINI.source, classes=MINI.source.classes[:largest]), tmp_path)
    version = MINI.source.versions[0]
    more = replace(version, train=tuple(replace(file, images=4) for file in version.train))
    with pytest.raises(DataError, match="expected 4 images"):
        load_source(replace(MINI.source, versions=(more,)), tmp_path)
    wrong = replace(version, format=MINI.source.versions[1].format)
    with pytest.raises(DataError, match=r"mini-bin/batch_1.bin: not a pickle"):
        load_source(replace(MINI.source, versions=(wrong,)), tmp_path)


LOADER = """
import hashlib, pathlib, sys
from dataclasses import replace
from minicnn.data.cifar import load_source
from tests.data.mini import mini
dataset = load_source(replace(mini().source, url=pathlib.Path(sys.argv[1]).as_uri()))
print(hashlib.sha256(dataset.train_images.tobytes()).hexdigest())
"""


def test_two_processes_at_once(tmp_path):
    write(tmp_path, {"mini-bin.tar.gz": MINI.archives["mini-bin.tar.gz"]})
    command = [sys.executable, "-c", LOADER, str(tmp_path / "mini-bin.tar.gz")]
    env = os.environ | {"MINICNN_DATA": str(tmp_path / "cache")}
    pipe = subprocess.PIPE
    both = [subprocess.Popen(command, cwd=ROOT, env=env, stdout=pipe, stderr=pipe, text=True) for _ in range(2)]
    outputs = [process.communicate(timeout=60) for process in both]
    assert [process.returncode for process in both] == [0, 0], outputs
    assert outputs[0][0] == outputs[1][0]
    assert {p.name: p.read_bytes() for p in (tmp_path / "cache" / "mini-bin").iterdir()} == MINI.contents["mini-bin"]


# The real thing


def test_the_tables_agree_with_the_formats():
    for source, labels in ((CIFAR10, 1), (CIFAR100, 2)):
        binary = next(version for version in source.versions if version.files[0].name.endswith(".bin"))
        for version in source.versions:
            assert [sum(file.images for file in part) for part in (version.train, version.test)] == [50_000, 10_000]
        assert all(file.size == file.images * (3072 + labels) for file in binary.files)
        assert source.url.rpartition("/")[2] in [a.name for v in source.versions for a in v.archives if a.md5]
    assert (len(CIFAR10.classes), len(set(CIFAR100.classes))) == (10, 100)


@needs(ARCHIVE)
def test_real_cifar100_test_set():
    """The test set only, the first file of that archive: decompressing it all takes ten seconds."""
    python, binary = CIFAR100.versions
    source = replace(CIFAR100, versions=(replace(python, train=()),))
    _, contents = read_archive(ARCHIVE, source)
    batch = loads(contents["test"])
    pixels = np.frombuffer(batch[b"data"].values, np.uint8).reshape(10_000, 3072)
    columns = [np.array(batch[key], np.uint8)[:, None] for key in (b"coarse_labels", b"fine_labels")]
    records = np.concatenate([*columns, pixels], axis=1).tobytes()  # what the binary version must hold
    verify(records, binary.test[0], "test.bin")
    one, other = python.format.parse(contents["test"]), binary.format.parse(records)
    for ours, theirs in zip(one, other, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert (np.bincount(one[1]) == 100).all()  # of each class
    # file names begin with a kind of the class: "volcano_s_000012.png" is a mountain
    assert batch[b"filenames"][0].startswith(b"volcano")
    assert CIFAR100.classes[one[1][0]] == "mountain"


@pytest.mark.parametrize(
    ("source", "mean"),
    [(CIFAR10, (125.307, 122.950, 113.865)), (CIFAR100, (129.304, 124.070, 112.434))],
    ids=["cifar10", "cifar100"],
)
def test_real_data_in_the_cache(source, mean):
    """If a user of this machine has it.  The means are those that everybody's programs contain."""
    if find(replace(source, versions=tuple(replace(v, train=()) for v in source.versions)), cache_folder()) is None:
        pytest.skip(f"no {source.name} in {cache_folder()}")
    dataset = load(source.name, download=False)
    assert (dataset.train_images.shape, dataset.test_images.shape) == ((50_000, 32, 32, 3), (10_000, 32, 32, 3))
    assert set(np.bincount(dataset.train_labels)) == {50_000 // len(source.classes)}
    assert set(np.bincount(dataset.test_labels)) == {10_000 // len(source.classes)}
    np.testing.assert_allclose(dataset.train_images.mean((0, 1, 2)), mean, atol=0.001)


@pytest.mark.skipif(os.environ.get("MINICNN_TEST_DOWNLOAD") != "1", reason="MINICNN_TEST_DOWNLOAD=1 downloads 170 MB")
def test_real_download(tmp_path, monkeypatch):
    monkeypatch.setenv("MINICNN_DATA", str(tmp_path))
    assert load("cifar10").train_images.shape == (50_000, 32, 32, 3)
    assert load("cifar10", download=False).classes[3] == "cat"
