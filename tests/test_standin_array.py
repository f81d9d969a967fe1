"""The stand-in's array is only worth what its strictness is: every rule has a test that fails without it."""

import copy
import gc
import operator
import pickle
import weakref

import cupy
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.standin import StandInArray, cupy_signature, xp

HOST = np.arange(12, dtype=np.float32).reshape(3, 4) - 5


@pytest.fixture
def x():
    return xp.asarray(HOST)


def equal(device_array, expected):
    """Is it on the device, and the same array in value, shape and dtype?"""
    assert type(device_array) is StandInArray
    np.testing.assert_array_equal(device_array.get(), expected)
    assert device_array.dtype == np.asarray(expected).dtype
    assert device_array.shape == np.shape(expected)
    return True


class Opted:
    """A class such as Tensor: no part in NumPy's ufuncs, operators of its own."""

    __array_ufunc__ = None

    def __add__(self, other):
        return "ours"

    __radd__ = __rmatmul__ = __rtruediv__ = __eq__ = __gt__ = __add__
    __hash__ = None


# --- nothing becomes a host array unless it is asked to ---


def test_is_not_an_ndarray(x):
    assert not isinstance(x, np.ndarray)
    assert xp.ndarray is StandInArray


@pytest.mark.parametrize("convert", [np.asarray, np.array, lambda x: np.array([x, x]), np.ascontiguousarray])
def test_conversion_is_refused_in_the_words_of_cupy(x, convert):
    with pytest.raises(TypeError, match=r"Implicit conversion to a NumPy array is not allowed.*\.get\(\)"):
        convert(x)


@pytest.mark.parametrize("call", [np.exp, np.sum, np.shape, lambda x: np.add(x, 1), lambda x: np.stack([x])])
def test_functions_of_numpy_are_refused(x, call):
    with pytest.raises(TypeError):
        call(x)


def test_a_host_array_cannot_be_filled_or_indexed(x):
    host = HOST.copy()
    with pytest.raises(TypeError):
        host[...] = x
    with pytest.raises(TypeError):
        host += x
    with pytest.raises((TypeError, IndexError)):
        HOST[xp.asarray([0])]


def test_upload_and_download_copy():
    host = HOST.copy()
    for x in (xp.asarray(host), xp.array(host), xp.asanyarray(host)):
        for back in (x.get(), xp.asnumpy(x)):
            assert type(back) is np.ndarray
            assert back.flags.owndata
            back[...] = 100
        host[...] = 0
        assert equal(x, HOST)
        host[...] = HOST


def test_asarray_of_a_device_array_is_that_array(x):
    assert xp.asarray(x) is x
    assert xp.ascontiguousarray(x) is x
    assert xp.array(x) is not x
    assert equal(xp.asarray(x, dtype=xp.float64), HOST.astype(np.float64))
    assert equal(xp.array(x, ndmin=3), HOST[None])
    with pytest.raises(ValueError, match="without a copy"):
        xp.asarray(HOST, copy=False)


def test_upload_of_lists_and_scalars(x):
    assert equal(xp.asarray([1, 2]), np.array([1, 2]))
    assert equal(xp.asarray(2.0), np.array(2.0))
    assert equal(xp.array([x, x]), np.array([HOST, HOST]))
    with pytest.raises(TypeError, match="Implicit conversion"):
        xp.array([x[0, 0], 1.0])


@pytest.mark.parametrize("upload", ["ascontiguousarray", "asfortranarray"])
def test_what_does_not_upload(upload):
    for module in (cupy, xp):
        with pytest.raises(TypeError):
            getattr(module, upload)(HOST)


@pytest.mark.parametrize("value", [["a"], [object()], np.ones(2, np.longdouble)])
def test_dtypes_without_a_kernel(value):
    with pytest.raises(ValueError, match="Unsupported dtype"):
        xp.asarray(value)


def test_set(x):
    x.set(HOST * 2)
    assert equal(x, HOST * 2)
    with pytest.raises(TypeError, match=r"Only numpy\.ndarray"):
        x.set(x)
    for wrong, error in ((HOST.astype(np.float64), TypeError), (HOST[0], ValueError)):
        with pytest.raises(error):
            x.set(wrong)
    with pytest.raises(RuntimeError, match="non-contiguous"):
        x[:, ::2].set(HOST[:, ::2])


def test_get_into_a_host_array(x):
    out = np.empty_like(HOST)
    assert x.get(out=out) is out
    np.testing.assert_array_equal(out, HOST)
    with pytest.raises(TypeError, match="float32"):
        x.get(out=np.empty(HOST.shape))


# --- operators ---

BINARY = [operator.add, operator.sub, operator.mul, operator.truediv]
BINARY += [operator.floordiv, operator.mod, operator.pow]
COMPARE = [operator.lt, operator.le, operator.eq, operator.ne, operator.gt, operator.ge]
IN_PLACE = [operator.iadd, operator.isub, operator.imul, operator.itruediv, operator.ifloordiv, operator.ipow]


@pytest.mark.parametrize("function", BINARY + COMPARE)
@pytest.mark.parametrize("other", [2, 2.5, np.float32(2), np.float64(2), np.int8(3)])
def test_arithmetic_is_numpys(function, other):
    host = np.abs(HOST) + 1  # positive: no warnings from powers
    x = xp.asarray(host)
    assert equal(function(x, other), function(host, other))
    assert equal(function(other, x), function(other, host))
    assert equal(function(x, x), function(host, host))


@pytest.mark.parametrize("function", [operator.and_, operator.or_, operator.xor])
def test_logic(x, function):
    assert equal(function(x > 0, x < 3), function(HOST > 0, HOST < 3))
    assert equal(function(x > 0, True), function(HOST > 0, True))


def test_unary_and_matmul(x):
    assert equal(-x, -HOST)
    assert equal(+x, HOST)
    assert equal(abs(x), abs(HOST))
    assert equal(~(x > 0), ~(HOST > 0))
    assert equal(x @ x.T, HOST @ HOST.T)
    assert equal(x[0] @ x[0], HOST[0] @ HOST[0])


def test_promotion_follows_nep_50(x):
    assert (x + 1.5).dtype == np.float32  # Python scalars are weak
    assert (x + np.float64(1.5)).dtype == np.float64  # NumPy's are not
    assert (x + x.sum(dtype=xp.float64)).dtype == np.float64  # nor are 0-d arrays


@pytest.mark.parametrize("function", [*BINARY, *COMPARE, operator.and_, operator.matmul, *IN_PLACE])
@pytest.mark.parametrize("other", [HOST, HOST[0, 0:1], np.array(1.0, np.float32), [1, 2, 3, 4], "1", None])
def test_mixing_with_the_host_is_refused(x, function, other):
    with pytest.raises(TypeError, match="Unsupported type"):
        function(x, other)
    if function not in IN_PLACE and not isinstance(other, str):  # "..." % x is the business of str
        with pytest.raises(TypeError):
            function(other, x)


@pytest.mark.parametrize("function", IN_PLACE)
def test_in_place_writes_to_the_same_buffer(function):
    host = np.abs(HOST) + 1
    x = xp.asarray(host)
    view = x[1:]
    result = function(x, 2)
    function(host, 2)
    assert result is x
    assert equal(x, host)
    assert equal(view, host[1:])


def test_in_place_keeps_the_dtype(x):
    x += np.float64(1)
    assert x.dtype == np.float32
    counts = xp.asarray([1, 2])
    with pytest.raises(TypeError, match="Cannot cast"):
        counts += 0.5
    total = x.sum()
    total += 1
    assert equal(total, (HOST + np.float32(1)).sum() + np.float32(1))


def test_another_class_takes_over(x):
    other = Opted()
    assert [x + other, x @ other, x / other, other + x] == ["ours"] * 4
    assert [x == other, x < other] == ["ours", "ours"]
    assert x.__add__(other) is NotImplemented
    older = type("Older", (), {"__array_priority__": 1000, "__radd__": lambda self, x: "theirs"})()
    assert x + older == "theirs"
    with pytest.raises(TypeError, match="Unsupported type"):
        x += other
    with pytest.raises(TypeError, match="Unsupported type"):
        xp.maximum(x, other)
    with pytest.raises(TypeError):
        xp.sum(other)


def test_no_in_place_matmul():
    assert not hasattr(cupy.ndarray, "__imatmul__")
    assert not hasattr(StandInArray, "__imatmul__")


# --- indexing ---

KEYS = [0, -1, np.int64(1), slice(1, None), slice(None, None, -2), None, Ellipsis, (), (0, 1)]
KEYS += [(slice(None), 2), (None, 1), (Ellipsis, 1), (1, Ellipsis, None), (slice(0, 2), slice(1, 3))]


@pytest.mark.parametrize("key", KEYS)
def test_basic_indexing_gives_views(x, key):
    host = HOST.copy()
    view = x[key]
    assert equal(view, host[key])
    assert view.base is x
    view += 1  # also an element is a view: a 0-d array
    x[key] = view * 2
    host[key] = (host[key] + 1) * 2
    assert equal(x, host)


def test_indexing_by_device_arrays(x):
    rows, columns, mask = np.array([2, 0]), np.array([[1], [3]], np.uint8), HOST > 0
    at = xp.asarray
    assert equal(x[at(rows)], HOST[rows])
    assert equal(x[:, at(columns)], HOST[:, columns])
    assert equal(x[at(rows), at(columns)], HOST[rows, columns])
    assert equal(x[..., None, at(rows)], HOST[..., None, rows])
    assert equal(x[at(mask)], HOST[mask])
    assert equal(x[at(mask[:, 0]), 1:], HOST[mask[:, 0], 1:])
    assert equal(x[xp.argmax(x[:, 0])], HOST[np.argmax(HOST[:, 0])])  # a 0-d array is an array
    chosen = x[at(rows)]
    assert chosen.base is None
    chosen[...] = 0
    x[xp.asarray(0)][...] = 0  # a copy, where an int would give a view
    assert equal(x, HOST)
    x[at(rows)] = 7
    x[at(mask)] = at(HOST[mask])
    expected = HOST.copy()
    expected[rows] = 7
    expected[mask] = HOST[mask]
    assert equal(x, expected)


@given(st.lists(st.integers(-30, 30), min_size=1, max_size=5))
def test_index_arrays_out_of_range_wrap_silently(indices):
    x, at, wrapped = xp.asarray(HOST), xp.asarray(indices), np.array(indices) % 4
    for chosen in (x[:, at], x.take(at, 1), xp.take(x, at, axis=1)):
        assert equal(chosen, HOST[:, wrapped])
    x[..., at] = 9
    expected = HOST.copy()
    expected[:, wrapped] = 9
    assert equal(x, expected)


def test_ints_out_of_range_do_not_wrap(x):
    for key in (3, -4, (0, 4)):
        with pytest.raises(IndexError):
            x[key]
    with pytest.raises(IndexError):
        x[0, 0, 0]
    with pytest.raises(IndexError):
        x[0, 0, xp.asarray([0])]


@pytest.mark.parametrize("key", [np.array([0]), (0, np.array([1])), np.array(0), HOST > 0, [0, 1], True, 1.0])
def test_indices_on_the_host_are_refused(x, key):
    with pytest.raises(TypeError, match="Unsupported index type"):
        x[key]
    with pytest.raises(TypeError, match="Unsupported index type"):
        x[key] = 0


def test_index_arrays_must_be_integers_and_are_not_ints(x):
    with pytest.raises(IndexError, match="integer or boolean"):
        x[xp.asarray([0.0])]
    one = xp.asarray(1)
    assert not hasattr(cupy.ndarray, "__index__")
    for call in (lambda: range(one), lambda: [0, 1][one], lambda: x[:one], lambda: operator.index(one)):
        with pytest.raises(TypeError):
            call()


@pytest.mark.parametrize("value", [HOST, HOST[0], np.array(1.0), [1, 2, 3, 4]])
def test_values_on_the_host_are_refused(x, value):
    words = r"Unsupported type" if isinstance(value, list) else r"numpy\.ndarray cannot be used for setting"
    with pytest.raises(TypeError, match=words):
        x[...] = value
    with pytest.raises(TypeError):
        x.fill(value)


def test_duplicate_indices_that_write_different_values(x):
    twice = xp.asarray([0, 3])  # 3 is 0 again
    x[twice] = 1  # well defined
    with pytest.raises(ValueError, match="duplicate indices"):
        x[twice] = x[:2]


def test_length_and_iteration(x):
    assert len(x) == 3
    assert all(equal(row, host) for row, host in zip(x, HOST, strict=True))
    for call in (len, iter):
        with pytest.raises(TypeError, match="unsized"):
            call(x.sum())


# --- attributes and methods ---

METHODS = {
    "reshape": [(2, 6), ((2, -1),)],
    "transpose": [(), (1, 0), ((1, 0),)],
    "astype": [(np.float64,), ("int32",)],
    "copy": [()],
    "ravel": [()],
    "squeeze": [()],
    "swapaxes": [(0, 1)],
    "repeat": [(2,), (2, 1)],
    "clip": [(-1, 2)],
    "cumsum": [(), (1,)],
    "view": [(np.int32,)],
}
for name in ("sum", "mean", "max", "min", "prod", "std", "var", "any", "all", "argmax", "argmin"):
    METHODS[name] = [(), (0,), (-1,)]


@pytest.mark.parametrize(("name", "arguments"), [(name, a) for name, cases in METHODS.items() for a in cases])
def test_methods_are_numpys(x, name, arguments):
    assert equal(getattr(x, name)(*arguments), getattr(HOST, name)(*arguments))


def test_attributes(x):
    for name in ("shape", "dtype", "ndim", "size", "nbytes", "itemsize", "strides"):
        assert getattr(x, name) == getattr(HOST, name)
    assert equal(x.T, HOST.T)
    assert x.T.base is x
    assert x.device.id == 0
    assert x.data.ptr != x[1:].data.ptr
    assert equal(x.dot(x.T), HOST.dot(HOST.T))
    x.fill(x.max())
    assert equal(x, np.full_like(HOST, 6))
    with pytest.raises(ValueError, match="non-scalar"):
        x.fill(x)


def test_public_names_are_those_of_cupy(x):
    ours = {name for name in dir(StandInArray) if not name.startswith("_")}
    assert ours <= set(dir(cupy.ndarray))
    assert len(ours) > 50
    for name in ("ctypes", "itemset", "setflags", "tostring", "scatter_add", "flat", "nonsense"):
        assert not hasattr(x, name)
    with pytest.raises(AttributeError, match=r"nor has cupy\.ndarray"):
        x.setflags(write=False)
    with pytest.raises(AttributeError, match="does not model"):
        x.toDlpack()


@pytest.mark.parametrize(("name", "wrong"), [("sum", "where"), ("max", "initial"), ("item", "args")])
def test_methods_take_the_keywords_of_cupy(x, name, wrong):
    with pytest.raises(TypeError, match=rf"cupy\.{name}\(\): .*'{wrong}'"):
        getattr(x, name)(**{wrong: 0})


def test_methods_refuse_host_arrays(x):
    for call in (
        lambda: x.dot(HOST.T),
        lambda: x.clip(HOST, None),
        lambda: x.take(np.array([0])),
        lambda: x.sum(axis=0, out=np.empty(4, np.float32)),
        lambda: x.reshape(np.array([4, 3])),
    ):
        with pytest.raises(TypeError):
            call()


def test_shapes_and_axes_are_not_on_the_device(x):
    two, zero = xp.asarray(2), xp.asarray(0)
    for call in (
        lambda: x.reshape(two, -1),
        lambda: xp.zeros((two, 3)),
        lambda: x.sum(axis=zero),
        lambda: x.transpose(two, zero),
    ):
        with pytest.raises(TypeError, match="cannot be taken as an integer"):
            call()


def test_compiled_signatures_are_read_from_the_docstring():
    names = list(cupy_signature(cupy.ndarray.sum).parameters)
    assert names == ["self", "axis", "dtype", "out", "keepdims"]
    shape = cupy_signature(cupy.ndarray.reshape).parameters
    first, *others = [p.kind.name for p in shape.values()][1:]
    assert (first, set(others)) == ("VAR_POSITIONAL", {"KEYWORD_ONLY"})  # CuPy 14.0 has one of these, 14.2 two
    assert list(cupy_signature(cupy.ndarray.sort).parameters) == ["self", "axis", "kind"]  # without C types


def test_casting_is_not_supported(x):
    with pytest.raises(TypeError, match="casting"):
        x.astype(np.float64, casting="safe")
    assert x.astype(np.float32, copy=False) is x


def test_flags_are_cupys(x):
    assert (x.flags.c_contiguous, x.T.flags.f_contiguous) == (True, True)
    assert (x.flags.owndata, x.T.flags.owndata) == (True, False)
    assert not hasattr(x.flags, "writeable")


def test_base_is_none_for_what_owns_its_data(x):
    for owner in (x, x.copy(), x + 1, x.sum(axis=0), xp.zeros(3), x[xp.asarray([0])], x.T.ravel()):
        assert owner.base is None
    for view in (x.reshape(-1), x[1:], x.T, x[1:].T, x[0, 0], xp.split(x, 2, axis=1)[0]):
        assert view.base is x


def test_fresh_results_are_in_c_order(x):
    columns = x.T
    assert not (HOST.T + 1).flags.c_contiguous  # NumPy keeps the order of the input
    for fresh in (columns + 1, xp.exp(columns), xp.where(columns > 0, columns, 0), columns.clip(0, 1)):
        assert fresh.flags.c_contiguous
    assert columns.astype(np.float64).flags.f_contiguous  # order="K": CuPy's default as well


def test_conversions_go_through_get(x):
    one = x[1, 3]
    assert (float(one), int(one), bool(one), complex(one), one.item()) == (2.0, 2, True, 2 + 0j, 2.0)
    assert repr(x) == repr(HOST)
    assert f"{one:.2f}" == "2.00"
    assert x.tolist() == HOST.tolist()
    for call in (float, int, bool):
        with pytest.raises((TypeError, ValueError)):
            call(x)


def test_an_object_among_objects(x):
    assert cupy.ndarray.__hash__ is None
    with pytest.raises(TypeError, match="unhashable"):
        hash(x)
    with pytest.raises(AttributeError):
        x.note = 1
    assert x.__array_priority__ == cupy.ndarray.__array_priority__
    for twin in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert twin is not x
        assert equal(twin, HOST)
        assert not np.may_share_memory(twin._host, x._host)
    reference = weakref.ref(x + 1)
    gc.collect()
    assert reference() is None
