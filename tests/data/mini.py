"""A miniature CIFAR: a few random images in every published form, with checksums of its own.

Nothing here uses the code under test: images are turned into bytes, where minicnn turns bytes into images.
"""

import gzip
import hashlib
import io
import lzma
import struct
import tarfile
from dataclasses import dataclass, replace

import numpy as np

from minicnn.data.files import Archive, File, Source, Version
from minicnn.data.formats import Binary, Pickled

IMAGES = 3  # in a file
CLASSES = ("a", "b", "c", "d")


@dataclass
class Mini:
    """The data set, the content of its files by folder, and the arrays that must come out."""

    source: Source
    contents: dict[str, dict[str, bytes]]
    arrays: tuple[np.ndarray, ...]  # train images, train labels, test images, test labels
    archives: dict[str, bytes]


def mini(label_bytes=1, checksum="sha256", seed=0):
    rng = np.random.default_rng(seed)
    images = rng.integers(0, 256, (3, IMAGES, 32, 32, 3), np.uint8)  # two training files and a test file
    labels = rng.integers(0, len(CLASSES), (3, IMAGES))
    key = b"labels" if label_bytes == 1 else b"fine_labels"
    binary, pickled = {}, {}
    for name, x, y in zip(("batch_1", "batch_2", "test"), images, labels, strict=True):
        records = [bytes([9] * (label_bytes - 1)) + bytes([b]) + planes(a) for a, b in zip(x, y, strict=True)]
        binary[name + ".bin"] = b"".join(records)
        pickled[name] = dumps({b"batch_label": b"a mini", key: y.tolist(), b"data": np.array([*map(pixels, x)])})
    versions = (
        version("mini-bin", Binary(label_bytes), binary, checksum),
        version("mini-py", Pickled(key), pickled, "sha256"),
    )
    archives, contents = {}, {"mini-bin": binary, "mini-py": pickled}
    for i, each in enumerate(versions):
        tar = tar_bytes({f"{each.folder}/{name}": content for name, content in contents[each.folder].items()})
        archives[f"{each.folder}.tar.gz"] = gzip.compress(tar, mtime=0)
        archives[f"{each.folder}.tar.xz"] = lzma.compress(tar, preset=0)
        md5 = hashlib.md5(archives[f"{each.folder}.tar.gz"]).hexdigest()
        official = (Archive(f"{each.folder}.tar.gz", md5), Archive(f"{each.folder}.tar.xz"))
        versions = (*versions[:i], replace(each, archives=official), *versions[i + 1 :])
    source = Source("mini", CLASSES, versions, url="file:///nowhere/mini-bin.tar.gz")
    arrays = (images[:2].reshape(-1, 32, 32, 3), labels[:2].ravel(), images[2], labels[2])
    return Mini(source, contents, arrays, archives)


def check(dataset, small):
    """A Dataset has the arrays and classes of a Mini."""
    arrays = dataset.train_images, dataset.train_labels, dataset.test_images, dataset.test_labels
    for ours, expected in zip(arrays, small.arrays, strict=True):
        np.testing.assert_array_equal(ours, expected)
        assert ours.flags.c_contiguous
        assert ours.dtype == (np.uint8 if ours.ndim == 4 else np.int64)
    assert dataset.classes == small.source.classes


def planes(image):
    return b"".join(image[:, :, channel].tobytes() for channel in range(3))


def pixels(image):
    return np.frombuffer(planes(image), np.uint8)


def version(folder, form, contents, kind):
    files = tuple(File(name, IMAGES, len(c), f"{kind}:{digest(kind, c)}") for name, c in contents.items())
    return Version(folder, form, files[:2], files[2:], ())


def digest(kind, content):
    if kind == "sha256":
        return hashlib.sha256(content).hexdigest()
    record = len(content) // IMAGES
    parts = [hashlib.blake2b(content[i : i + record], digest_size=16) for i in range(0, len(content), record)]
    return f"{sum(int.from_bytes(part.digest(), 'little') for part in parts) % 2**128:032x}"


def tar_bytes(members):
    """A tar file.  `members`: name -> content, or a TarInfo for what is not an ordinary file."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, content in members.items():
            if isinstance(content, tarfile.TarInfo):
                tar.addfile(content)
            else:
                info = tarfile.TarInfo(name)
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
    return out.getvalue()


def write(folder, contents):
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        (folder / name).write_bytes(content)


def dumps(value):
    """Pickles as Python 2 did in 2009: protocol 2, byte strings, NumPy's old names."""
    return b"\x80\x02" + b"".join(_dump(value)) + b"."


def _dump(value):
    memo = b"r\x00\x01\x00\x00"  # LONG_BINPUT 256: the files note everything and read nothing back
    if isinstance(value, dict):
        yield b"}q\x01"
        if value:
            yield from (b"(", *(part for pair in value.items() for item in pair for part in _dump(item)), b"u")
    elif isinstance(value, list):
        yield b"]" + memo
        for start in range(0, len(value), 1000):
            yield from (b"(", *(part for item in value[start : start + 1000] for part in _dump(item)), b"e")
    elif isinstance(value, tuple):
        end = {1: b"\x85", 2: b"\x86", 3: b"\x87"}.get(len(value))
        yield from (b"" if end else b"(", *(part for item in value for part in _dump(item)), end or b"t")
    elif isinstance(value, bytes):
        short = len(value) < 256
        yield (b"U" + bytes([len(value)]) if short else b"T" + struct.pack("<i", len(value))) + value + memo
    elif value is None:
        yield b"N"
    elif value is False:
        yield b"\x89"
    elif isinstance(value, np.ndarray):
        yield b"cnumpy.core.multiarray\n_reconstruct\n" + memo + b"cnumpy\nndarray\n" + memo
        yield b"K\x00\x85U\x01b\x87R" + memo + b"(K\x01"
        yield from _dump(value.shape)
        yield b"cnumpy\ndtype\n" + memo + b"U\x02u1K\x00K\x01\x87R" + memo
        yield b"(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89"
        yield from _dump(value.tobytes())
        yield b"tb"
    elif 0 <= value < 256:
        yield b"K" + bytes([value])
    elif 0 <= value < 65536:
        yield b"M" + struct.pack("<H", value)
    else:
        yield b"J" + struct.pack("<i", value)
