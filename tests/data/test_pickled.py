"""The reader of CIFAR's pickles: what those files hold, and nothing else."""

import contextlib
import os
import pickle
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minicnn.data.dataset import DataError
from minicnn.data.pickled import Bytes, loads
from tests.data.mini import dumps

leaves = st.none() | st.just(False) | st.integers(-(2**31), 2**31 - 1) | st.binary(max_size=300)
trees = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.lists(inner, max_size=5).map(tuple)
        | st.dictionaries(st.binary(max_size=9), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(trees)
def test_reads_what_the_pickle_module_reads(tree):
    content = dumps(tree)
    assert pickle.loads(content, encoding="bytes") == tree
    assert loads(content) == tree


def test_reads_the_array_that_numpy_reads():
    array = np.arange(6, dtype=np.uint8).reshape(2, 3)
    content = dumps({b"data": array, b"labels": [*range(2100)]})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy's old module names
        np.testing.assert_array_equal(pickle.loads(content, encoding="bytes")[b"data"], array)
    batch = loads(content)
    assert isinstance(batch[b"data"], Bytes)
    assert (batch[b"data"].rows, batch[b"data"].columns, batch[b"data"].values) == (2, 3, bytes(range(6)))
    assert batch[b"labels"] == [*range(2100)]


class Runs:
    """Pickled, it is a request to run a command."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize(
    "function", [os.system, eval, exec, getattr, __import__, np.load, np.dtype], ids=lambda f: f.__name__
)
def test_nothing_that_a_file_names_is_run(function, protocol, tmp_path):
    proof = tmp_path / "proof"
    content = pickle.dumps({b"data": Runs(function, f"__import__('os').system('touch {proof}')")}, protocol)
    with pytest.raises(DataError):
        loads(content)
    with pytest.raises(DataError):
        loads(b"\x80\x02" + content[2:])  # whatever protocol it claims
    assert not proof.exists()


RECONSTRUCT = b"cnumpy.core.multiarray\n_reconstruct\n"


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (b"cos\nsystem\nU\x04true\x85R.", r"names b'os\\nsystem"),
        (b"cbuiltins\ngetattr\n.", "names"),
        (b"cnumpy\nload\n.", "names"),
        (b"cnumpy\n", "names"),
        (b"cnumpy dtype\n.", "names"),
        (b"(S'true'\nios\nsystem\n.", "instruction b'S'"),  # INST
        (b"(cnumpy\ndtype\no.", "instruction b'o'"),  # OBJ
        (b"cnumpy\ndtype\n)\x81.", r"instruction b'\)'"),  # NEWOBJ
        (b"\x82\x01.", "instruction"),  # the extension registry
        (b"]q\x01h\x01.", "instruction b'h'"),  # reads the memo: a list could hold itself
        (b"U\x02os\x93.", "instruction"),  # STACK_GLOBAL
        (b"Pfile\n.", "instruction b'P'"),  # a persistent id
        (b"cnumpy\ndtype\n(U\x02O8K\x00K\x01tR.", "a call that"),  # arrays of objects
        (RECONSTRUCT + b"K\x01K\x02\x86R.", "a call that"),
        (b"U\x04trueU\x02rm\x85R.", "a call that"),
        (b"]NR.", "a call that"),
        (b"cnumpy\ndtype\n}b.", "builds"),  # state for a name
        (b"]}b.", "builds"),
        (b"K\x01(K\x01e.", "not a list"),
        (b"](K\x01K\x02u.", "dictionary"),
        (b"}(K\x01K\x02u.", "dictionary"),  # a key that is not a byte string
        (b"}(U\x01au.", "dictionary"),  # a key without a value
        (b".", "cut short"),
        (b"", "cut short"),
        (b"K", "cut short"),
        (b"U\x05abc.", "cut short"),
        (b"T\xff\xff\xff\xffabc.", "cut short"),
        (b"T\xff\xff\xff\x7fabc.", "cut short"),
        (b"J\x01", "cut short"),
        (b"\x86.", "cut short"),
        (b"e.", "cut short"),
        (b"(e.", "cut short"),
        (b"N" * 9, "cut short"),
    ],
)
def test_what_the_files_do_not_hold_is_refused(program, message):
    with pytest.raises(DataError, match=message):
        loads(b"\x80\x02" + program)


@pytest.mark.parametrize("content", [b"", b"\x80", b"\x80\x04N.", b"<html>", b"(dp0\n."])
def test_other_files_are_refused(content):
    with pytest.raises(DataError, match="protocol 2"):
        loads(content)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"K\x02K\x03\x86", b"K\x02K\x04\x86"),  # a shape that is not that of the content
        (b"K\x02K\x03\x86", b"J\xfe\xff\xff\xffJ\xfd\xff\xff\xff\x86"),  # -2 x -3 = 6
        (b"U\x02u1", b"U\x02f8"),
        (b"U\x01|", b"U\x01>"),
        (b"\x89U\x06", b"K\x01U\x06"),  # Fortran's order
    ],
)
def test_an_array_of_another_kind_is_refused(old, new):
    content = dumps(np.zeros((2, 3), np.uint8))
    assert content.count(old) == 1
    with pytest.raises(DataError):
        loads(content.replace(old, new))


def test_bombs_for_the_pickle_module_are_harmless():
    """The first crashes CPython's own unpickler, however restricted; the second makes it ask for 32 GB."""
    deep = b"\x80\x02}(U\x00" + b"\x85" * 200_000 + b"Nu."
    with pytest.raises(DataError, match="dictionary"):
        loads(deep)
    assert loads(b"\x80\x02Nr\xff\xff\xff\x7f.") is None
    nested = loads(b"\x80\x02" + b"](" * 20_000 + b"e" * 20_000 + b".")
    assert type(nested) is list


SMALL = dumps({b"batch_label": b"x" * 5, b"labels": [1, 2], b"data": np.zeros((2, 3), np.uint8)})


@given(st.integers(0, len(SMALL) - 1), st.lists(st.tuples(st.integers(0, len(SMALL) - 1), st.integers(0, 255))))
def test_damage_is_an_error_or_harmless(end, flips):
    content = bytearray(SMALL)
    for position, value in flips:
        content[position] = value
    for damaged in (bytes(content), bytes(content[:end])):
        with contextlib.suppress(DataError):
            loads(damaged)
    with pytest.raises(DataError):
        loads(SMALL[:end])
