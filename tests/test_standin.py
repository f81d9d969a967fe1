"""The stand-in's module: names, signatures, arguments and synchronisation.

Where CuPy's own behaviour shows without a GPU (names, signatures, arguments refused before the device is
touched), it is the real cupy that the stand-in is compared with.
"""

import copy
import inspect

import cupy
import numpy as np
import pytest

from tests.standin import StandInArray, StandInUfunc, cupy_signature, reset_sync_count, sync_count, xp
from tests.test_standin_array import HOST, equal


@pytest.fixture
def x():
    return xp.asarray(HOST)


# --- the module ---


def test_names_exist_only_if_cupy_has_them():
    for module in (xp, xp.linalg, xp.fft, xp.lib.stride_tricks):
        host, real = module._modules
        for name in dir(host):
            if not name.startswith("_") and not hasattr(real, name):
                assert not hasattr(module, name), name
    for name in ("insert", "block", "vecdot", "errstate", "nanquantile", "unstack", "no_such_name"):
        with pytest.raises(AttributeError, match=f"module 'cupy' has no attribute '{name}'"):
            getattr(xp, name)
    assert not hasattr(xp.linalg, "svdvals")
    assert not hasattr(xp, "cuda")  # in cupy, but there is nothing to model it with


def test_a_copy_of_the_module_does_not_recurse():
    assert copy.copy(xp).float32 is np.float32


def test_random_numbers_are_drawn_on_the_host():
    with pytest.raises(AttributeError, match="draw random numbers on the host"):
        xp.random.default_rng(0)
    with pytest.raises(AttributeError, match="asnumpy first"):
        xp.save("file", None)


def test_dtypes_and_constants():
    for name in ("float32", "int64", "bool_", "dtype", "pi", "inf", "newaxis", "finfo", "issubdtype"):
        assert getattr(xp, name) is getattr(np, name)
    assert np.isnan(xp.nan)


CALLS = {
    "zeros": lambda m, x: m.zeros((2, 3), np.float32),
    "full_like": lambda m, x: m.full_like(x, 2),
    "arange": lambda m, x: m.arange(3),
    "eye": lambda m, x: m.eye(3),
    "exp": lambda m, x: m.exp(x),
    "maximum": lambda m, x: m.maximum(x, 0),
    "maximum of scalars": lambda m, x: m.maximum(1, 2),
    "where": lambda m, x: m.where(x > 0, x, 0.0),
    "concatenate": lambda m, x: m.concatenate([x, x], axis=1),
    "stack": lambda m, x: m.stack((x, x)),
    "pad": lambda m, x: m.pad(x, ((0, 0), (1, 2)), constant_values=3),
    "einsum": lambda m, x: m.einsum("ij,kj->ik", x, x),
    "tensordot": lambda m, x: m.tensordot(x, x, ((0, 1), (0, 1))),
    "sum": lambda m, x: m.sum(x),
    "mean": lambda m, x: m.mean(x, axis=(0, 1), keepdims=True),
    "var": lambda m, x: m.var(x, axis=0, ddof=1),
    "count_nonzero": lambda m, x: m.count_nonzero(x),
    "argmax": lambda m, x: m.argmax(x, axis=1),
    "argsort": lambda m, x: m.argsort(x, axis=0),
    "take_along_axis": lambda m, x: m.take_along_axis(x, m.argmax(x, axis=1, keepdims=True), axis=1),
    "clip": lambda m, x: m.clip(x, -1, 1),
    "isfinite": lambda m, x: m.isfinite(x).all(),
    "sign": lambda m, x: m.sign(x),
    "matmul": lambda m, x: m.matmul(x, m.transpose(x)),
    "flip": lambda m, x: m.flip(x, axis=1),
    "broadcast_to": lambda m, x: m.broadcast_to(x, (2, 3, 4)),
    "norm": lambda m, x: m.linalg.norm(x),
    "svd": lambda m, x: abs(m.linalg.svd(x, full_matrices=False)[1]),
    "solve": lambda m, x: m.linalg.solve(m.eye(3), m.ones(3)),
    "fft": lambda m, x: m.fft.irfft(m.fft.rfft(x)),
    "windows": lambda m, x: m.lib.stride_tricks.sliding_window_view(x, (2, 2), axis=(0, 1)),
    "as_strided": lambda m, x: m.lib.stride_tricks.as_strided(x, (2, 2), (4, 8)),
}


@pytest.mark.parametrize("name", CALLS)
def test_functions_are_numpys(x, name):
    assert equal(CALLS[name](xp, x), CALLS[name](np, HOST))


def test_results_in_tuples_and_lists(x):
    assert all(equal(a, b) for a, b in zip(xp.split(x, 2, axis=1), np.split(HOST, 2, axis=1), strict=True))
    parts = xp.linalg.svd(x)
    assert type(parts) is tuple  # CuPy's has no fields .U, .S, .Vh
    assert all(type(a) is StandInArray for a in parts)
    assert (xp.size(x), xp.ndim(x), xp.shape(x)) == (12, 2, (3, 4))
    assert xp.result_type(x, np.float64) == np.float64
    assert type(xp.unique(x > 0, return_counts=True)) is tuple


def test_what_numpy_answers_with_a_bool_is_a_0d_array(x):
    for answer in (xp.allclose(x, x), xp.array_equal(x, x + 1), xp.any(x > 0), x.all()):
        assert type(answer) is StandInArray
        assert (answer.shape, answer.dtype) == ((), np.bool_)


@pytest.mark.parametrize("module", [xp, xp.linalg, xp.fft], ids=["top", "linalg", "fft"])
def test_every_function_refuses_host_arrays(module):
    real = module._modules[1]
    names = [n for n in dir(real) if n[0] != "_" and callable(getattr(real, n)) and hasattr(module, n)]
    assert len(names) > 10
    for name in names:
        function = getattr(module, name)
        if name in ("array", "asarray", "asanyarray", "asnumpy", "get_array_module", "ndarray"):
            continue
        if function is getattr(np, name, None) or function is getattr(np.linalg, name, None):
            continue  # CuPy itself takes it from NumPy: dtypes, promote_types, ...
        with pytest.raises(TypeError):
            function(HOST)
        with pytest.raises(TypeError):
            function(HOST, HOST)


@pytest.mark.parametrize(
    "call",
    [
        lambda m, x: m.add(x, HOST),
        lambda m, x: m.exp(x, out=HOST.copy()),
        lambda m, x: m.where(x > 0, x, HOST),
        lambda m, x: m.concatenate([x, HOST]),
        lambda m, x: m.stack([x, np.float32(1)]),
        lambda m, x: m.pad(x, np.array(1)),
        lambda m, x: m.add(x, [1, 2, 3, 4]),
        lambda m, x: m.where(x > 0, [1, 2, 3, 4], x),
        lambda m, x: m.dot(x, [1, 2, 3, 4]),
    ],
)
def test_host_arrays_and_lists_among_the_arguments_are_refused(x, call):
    with pytest.raises(TypeError):
        call(xp, x)


@pytest.mark.parametrize(
    "call",
    [
        lambda m: m.add(1, 2, where=True),
        lambda m: m.exp(1.0, order="C"),
        lambda m: m.maximum(1, 2, subok=True),
        lambda m: m.zeros(3, like=None),
        lambda m: m.zeros(3, device="cpu"),
        lambda m: m.sum([1.0, 2.0]),
        lambda m: m.max(3.0),
        lambda m: m.where(True, 1, 2),
        lambda m: m.stack([[1], [2]]),
        lambda m: m.broadcast_to(1.0, (2,)),
        lambda m: m.split([1, 2], 2),
        lambda m: m.reshape([1], (1,), shape=(1,)),
        lambda m: m.asarray([1], device="cpu"),
        lambda m: m.concatenate([], axis=0, where=True),
        lambda m: m.linalg.svd(1, hermitian=True),
        lambda m: m.add(1),
    ],
)
def test_the_real_cupy_refuses_it_before_it_needs_a_device(call):
    with pytest.raises((TypeError, AttributeError)):
        call(cupy)
    with pytest.raises(TypeError):
        call(xp)


@pytest.mark.parametrize("name", ["sum", "mean", "max", "var", "any", "argmax", "zeros_like", "copy"])
def test_keywords_are_those_of_cupys_signature(x, name):
    ours, theirs = (set(cupy_signature(getattr(m, name)).parameters) for m in (cupy, np))
    assert equal(getattr(xp, name)(a=x), getattr(np, name)(HOST))
    for keyword in theirs - ours | {"nonsense"}:
        with pytest.raises(TypeError, match=rf"cupy\.{name}\(\): .*unexpected keyword argument '{keyword}'"):
            getattr(xp, name)(x, **{keyword: None})


def test_positions_on_which_numpy_and_cupy_disagree(x):
    assert list(cupy_signature(cupy.argmax).parameters)[2] == "dtype"
    with pytest.raises(TypeError, match="pass it by name"):
        xp.argmax(x, 1, xp.empty(3, np.int64))
    out = xp.empty(3, np.int64)
    assert xp.argmax(x, 1, out=out) is out


def test_ufuncs(x):
    out = xp.empty_like(x)
    assert xp.add(x, 1, out=out) is out
    assert xp.add(x, 1, out) is out
    assert equal(out, HOST + 1)
    assert equal(xp.add(x, 1, dtype=np.float64), np.add(HOST, 1, dtype=np.float64))
    fraction, whole = xp.modf(x)
    assert equal(whole, HOST)
    assert type(fraction) is StandInArray
    for name in ("reduce", "at", "accumulate"):
        assert not hasattr(xp.maximum, name)
    for name in dir(cupy):
        if isinstance(getattr(cupy, name), cupy.ufunc):
            assert type(getattr(xp, name)) is StandInUfunc


def test_get_array_module(x):
    assert xp.get_array_module(x) is xp
    assert xp.get_array_module(HOST) is np
    assert xp.asnumpy(HOST) is HOST


# --- synchronisation ---

SYNCS = {
    "get": lambda x: x.get(),
    "asnumpy": xp.asnumpy,
    "item": lambda x: x[0, 0].item(),
    "tolist": lambda x: x.tolist(),
    "float": lambda x: float(x[0, 0]),
    "int": lambda x: int(x.sum()),
    "bool": lambda x: bool((x > 0).all()),
    "if": lambda x: 1 if x[0, 0] > 0 else 0,
    "repr": repr,
    "format": lambda x: f"{x.mean():.3f}",
    "mask": lambda x: x[x > 0],
    "mask assignment": lambda x: x.__setitem__(x < 0, 0),
    "nonzero": lambda x: xp.nonzero(x),
    "nonzero method": lambda x: x.nonzero(),
    "where of one": lambda x: xp.where(x > 0),
    "unique": xp.unique,
    "synchronize": lambda x: x.device.synchronize(),
    # CuPy tests every entry of window_shape on the device; as_strided gives the same view for nothing
    "sliding_window_view": lambda x: xp.lib.stride_tricks.sliding_window_view(x, (2, 2)),
}


@pytest.mark.parametrize("name", SYNCS)
def test_what_waits_for_the_device_is_counted(x, name):
    reset_sync_count()
    SYNCS[name](x)
    assert sync_count() == 1
    SYNCS[name](x)
    assert sync_count() == 2
    reset_sync_count()
    assert sync_count() == 0


def test_windows_are_checked_on_the_device_by_cupy():
    source = inspect.getsource(cupy.lib.stride_tricks.sliding_window_view)
    assert "window_shape_array = _cupy.array(window_shape)" in source
    assert "for dim in window_shape_array" in source


def test_the_rest_does_not_wait(x):
    reset_sync_count()
    for name in CALLS:
        if name != "windows":
            CALLS[name](xp, x)
    x += x.sum() * 2
    x[1:] = x[:-1].copy()
    x[xp.asarray([0, 2])] = 1
    x.set(HOST)
    _ = (x.shape, x.T, x.base, len(x), list(x), xp.where(x > 0, x, 0), xp.asarray(x))
    assert sync_count() == 0


def test_sums_that_have_other_bits_each_time_are_refused():
    at, weights = (xp.asarray(values) for values in ([0, 1, 0], [0.5, 1.0, 2.0]))
    assert xp.bincount(at).get().tolist() == [2, 1]
    with pytest.raises(TypeError, match="in another order each time"):
        xp.bincount(at, weights=weights)
