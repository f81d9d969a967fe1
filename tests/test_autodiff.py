"""Tensor, Tape and @op: the chain rule, what it costs, and its errors."""

import contextvars
import copy
import gc
import itertools
import operator
import pickle
import threading
import weakref
from contextlib import contextmanager, nullcontext

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minicnn import Parameter, Tape, Tensor, autodiff, gradcheck, ops
from minicnn.autodiff import OPS
from minicnn.gradcheck import check_gradient
from minicnn.optim import SGD
from tests import draw
from tests.devices import STANDIN, changed_standin, on_devices


def leaf(*values, device=None):
    data = np.array(values, dtype=np.float64)
    return Tensor(data if device is None else device.put(data), requires_grad=True)


# the chain rule


@on_devices
def test_a_formula(device):
    """d/da (a b + a / b) = b + 1 / b,  d/db = a - a / b^2."""
    a, b = leaf(3.0, device=device), leaf(2.0, device=device)
    with Tape() as tape:
        loss = (a * b + a / b).sum()
    tape.backward(loss)
    np.testing.assert_allclose(device.get(a.grad), [2.5])
    np.testing.assert_allclose(device.get(b.grad), [2.25])


@on_devices
def test_a_reused_tensor_accumulates(device):
    x = leaf(1.0, 2.0, 3.0, device=device)
    with Tape() as tape:
        y = x + x
        loss = (y * y).sum()  # 4 x^2
    tape.backward(loss)
    np.testing.assert_array_equal(device.get(x.grad), [8, 16, 24])


def test_gradients_are_added_until_zeroed():
    x = leaf(1.0, 2.0)
    for _ in range(2):
        with Tape() as tape:
            loss = (3 * x).sum()
        tape.backward(loss)
    np.testing.assert_array_equal(x.grad, [6, 6])


def test_two_leaves_never_share_a_gradient():
    """add hands the same array to both, reshape a view of it; writing into one must not change the others."""
    a, b, c, d = leaf(1.0), leaf(2.0), leaf(3.0), leaf(4.0)
    with Tape() as tape:
        loss = ((a + b + c.reshape(1) + d.reshape(1)) * 1).sum()
    tape.backward(loss)
    leaves = (a, b, c, d)
    for i, t in enumerate(leaves):
        t.grad *= i + 2
    np.testing.assert_array_equal([t.grad for t in leaves], [[2], [3], [4], [5]])


def test_two_leaves_do_not_share_a_gradient_that_an_op_gives_twice():
    @autodiff.op
    def square_of_sum(a, b):
        def vjp(g):
            both = 2 * (a + b) * g
            return both, both

        return (a + b) * (a + b), vjp

    a, b = leaf(1.0), leaf(2.0)
    with Tape() as tape:
        loss = square_of_sum(a, b).sum()
    tape.backward(loss)
    a.grad *= 10
    np.testing.assert_array_equal([a.grad, b.grad], [[60], [6]])


def test_what_does_not_lead_to_the_loss_is_skipped():
    x, y = leaf(1.0), leaf(1.0)
    with Tape() as tape:
        loss = (x * 2).sum()
        y * 3
    tape.backward(loss)
    assert y.grad is None


def test_a_long_chain_needs_no_recursion():
    x = leaf(0.0)
    with Tape() as tape:
        y = x
        for _ in range(5000):
            y = y + 1
        loss = y.sum()
    tape.backward(loss)
    np.testing.assert_array_equal(x.grad, [1])


def test_an_unneeded_gradient_is_not_computed():
    asked = []

    @autodiff.op(selective=True)
    def product(a, b):
        def vjp(g, needs=(True, True)):
            asked.append(list(needs))
            return (g * b if needs[0] else None, g * a if needs[1] else None)

        return a * b, vjp

    a, b = Tensor(np.ones(2)), leaf(1.0, 2.0)
    with Tape() as tape:
        loss = product(a, b).sum()
    tape.backward(loss)
    assert asked == [[False, True]]
    np.testing.assert_array_equal(b.grad, [1, 1])


@pytest.mark.parametrize("name", ["conv2d", "linear"])
def test_selective_ops_leave_out_what_is_not_needed(name):
    x, w, b = (np.ones((1, 2, 2, 1)), np.ones((1, 1, 1, 3)), np.ones(3)) if name == "conv2d" else (
        np.ones((2, 2)), np.ones((2, 3)), np.ones(3))  # fmt: skip
    y, vjp = autodiff.OPS[name].textbook(x, w, b)
    everything = vjp(np.ones_like(y))
    for needs in itertools.product([False, True], repeat=3):
        found = vjp(np.ones_like(y), needs)
        assert [gradient is not None for gradient in found] == list(needs)
        for gradient, expected in zip(found, everything, strict=True):
            assert gradient is None or (gradient == expected).all()
    y, vjp = autodiff.OPS[name].textbook(x, w)
    assert vjp(np.ones_like(y))[2] is None


def test_the_arguments_of_an_op_are_put_in_order_once(monkeypatch):
    calls = []
    real = ops.linear._positional
    monkeypatch.setattr(ops.linear, "_positional", lambda *a: calls.append(1) or real(*a))
    ops.linear(np.ones((1, 2)), w=Parameter(np.ones((2, 3))))
    ops.linear.pair(np.ones((1, 2)), np.ones((2, 3)))
    assert len(calls) == 2


# operators


@given(st.data())
def test_operators_broadcast_with_the_right_gradients(data):
    (a, b), _ = data.draw(st.composite(draw.broadcastable)())
    check_gradient(lambda x, y: (x + y) * (x - y) / (2 + y * y) - 1.5 * x + (3 - y) / 4, a, b)


def test_operators_with_numbers_and_arrays_on_either_side():
    t, a = Tensor(np.array([1.0, 2.0])), np.array([10.0, 20.0])
    for ours, expected in [
        (t + 1, [2, 3]), (1 + t, [2, 3]), (t - 1, [0, 1]), (1 - t, [0, -1]), (t * 2, [2, 4]), (2 * t, [2, 4]),
        (t / 2, [0.5, 1]), (2 / t, [2, 1]), (-t, [-1, -2]), (t + a, [11, 22]), (a + t, [11, 22]), (a - t, [9, 18]),
        (a / t, [10, 10]), (a * t, [10, 40]), (t * np.float32(2), [2, 4]), (np.float64(2) * t, [2, 4]),
    ]:  # fmt: skip
        assert isinstance(ours, Tensor)
        assert ours.dtype == np.float64
        np.testing.assert_allclose(ours.data, expected)


def test_numbers_take_the_precision_of_the_tensor():
    t = Tensor(np.ones(2, np.float32))
    assert (1.5 * t + np.float64(2)).dtype == np.float32


def test_matmul_and_shapes():
    a, b = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(3, 4)
    np.testing.assert_array_equal((Tensor(a) @ b).data, a @ b)
    np.testing.assert_array_equal((a @ Tensor(b)).data, a @ b)
    t = Tensor(a)
    assert (t.shape, t.ndim, len(t)) == ((2, 3), 2, 2)
    assert t.reshape(3, -1).shape == (3, 2)
    assert t.sum().item() == 15
    np.testing.assert_array_equal(t.mean(axis=1, keepdims=True).data, [[1], [4]])
    assert t.numpy() is a
    assert repr(t) == "Tensor(shape=(2, 3), dtype=float64, device=cpu)"


def test_powers_and_parts():
    """d/dx of x0^3 + x1 x2 at (2, 3, 5)."""
    x = leaf(2.0, 3.0, 5.0)
    with Tape() as tape:
        loss = x[0] ** 3 + (x[1:2] * x[-1]).sum()
    tape.backward(loss)
    np.testing.assert_allclose(x.grad, [12, 5, 3])
    rows = list(Tensor(np.arange(6.0).reshape(2, 3)))
    assert [row.shape for row in rows] == [(3,), (3,)]
    np.testing.assert_array_equal(rows[1].numpy(), [3, 4, 5])
    with pytest.raises(TypeError, match="unsized"):
        iter(Tensor(np.ones(())))
    with pytest.raises(TypeError, match="unsupported operand"):
        x ** "2"


@pytest.mark.parametrize("change", [operator.iadd, operator.isub, operator.imul, operator.itruediv])
def test_a_parameter_is_not_changed_in_place_by_an_operator(change):
    """`p -= 1` would give the name p another Tensor, and leave the parameter of the model as it is."""
    p = Parameter(np.ones(2))
    for context in (nullcontext(), Tape()):
        with context, pytest.raises(TypeError, match=r"write p\.data -= \.\.\. to change it"):
            change(p, 1.0)
    tensor = change(p * 1, 2.0)  # a Tensor is no one's but the formula's
    assert tensor.data.tolist() == [change(1.0, 2.0)] * 2


def test_operators_refuse_what_is_neither_number_nor_array():
    with pytest.raises(TypeError, match="unsupported operand"):
        Tensor(np.ones(2)) + {1: 2}


def test_standin_plus_tensor():
    t, a = Tensor(STANDIN.put(np.ones(2))), STANDIN.put(np.full(2, 3.0))
    np.testing.assert_array_equal((a - t).numpy(), [2, 2])


# what it costs


def test_without_a_tape_nothing_is_recorded():
    p = Parameter(np.ones(3))
    y = p * 2
    assert isinstance(y, Tensor)
    assert not y.tracked


def test_a_tensor_that_needs_no_gradient_is_not_recorded():
    with Tape() as tape:
        y = Tensor(np.ones(3)) * 2 + 1
    assert len(tape) == 0
    assert not y.tracked


def test_arrays_in_array_out():
    assert isinstance(ops.relu(np.ones(3)), np.ndarray)
    assert isinstance(ops.reduce_sum(np.ones(3)), np.ndarray)


def test_memory_is_released_while_backward_runs():
    """When the derivative of the first op runs, the arrays of the later ones are gone already."""
    alive = []
    saved = {}

    @autodiff.op
    def keep(x, *, name):
        workspace = np.ones(1000)
        saved[name] = weakref.ref(workspace)

        def vjp(g):
            alive.append({n for n, ref in saved.items() if ref() is not None})
            return (g * workspace[0],)

        return x * 1, vjp

    x = leaf(1.0)
    gc.disable()  # no cycle collector: references alone must do
    try:
        with Tape() as tape:
            loss = keep(keep(keep(x, name="a"), name="b"), name="c").sum()
        tape.backward(loss)
    finally:
        gc.enable()
    assert alive[0] >= {"a", "b", "c"}
    assert "c" not in alive[2]
    assert all(ref() is None for name, ref in saved.items() if name != "a")


def test_an_activation_that_no_derivative_mentions_dies_at_once():
    """The input of relu: its derivative needs only its own output, which it keeps until backward."""
    x = leaf(1.0, -1.0)
    gc.disable()
    try:
        with Tape() as tape:
            y = x * 2
            before = weakref.ref(y.data)
            z = ops.relu(y)
            after = weakref.ref(z.data)
            del y
            assert before() is None
            loss = (z + 1).sum()
            del z
            assert after() is not None
        tape.backward(loss)
        assert after() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("f", [lambda t: t + 1, lambda t: t.reshape(4), lambda t: t.sum(axis=0), lambda t: -t])
def test_a_derivative_that_needs_a_shape_keeps_no_array(f):
    x = leaf([1.0, -1.0], [2.0, 3.0])
    gc.disable()
    try:
        with Tape():
            y = x * 2
            seen = weakref.ref(y.data)
            f(y)
            del y
            assert seen() is None
    finally:
        gc.enable()


# errors


def test_backward_twice():
    x = leaf(1.0)
    with Tape() as tape:
        loss = (x * 2).sum()
    tape.backward(loss)
    with pytest.raises(RuntimeError, match="consumed by an earlier backward"):
        tape.backward(loss)


def test_backward_of_something_else():
    x = leaf(1.0, 2.0)
    outside = (x * 2).sum()
    with Tape() as tape:
        y = x * 2
        y.sum()
    with pytest.raises(ValueError, match=r"must be a scalar, got shape \(2,\); take a mean or a sum"):
        tape.backward(y)
    with pytest.raises(RuntimeError, match="not on this tape: it was computed outside"):
        tape.backward(outside)
    with pytest.raises(TypeError, match="must be a Tensor, got ndarray"):
        tape.backward(np.ones(1))


def test_tapes_do_not_nest():
    with Tape(), pytest.raises(RuntimeError, match="tapes do not nest"), Tape():
        pass
    with Tape():  # the failure left nothing behind
        pass


def test_an_error_inside_a_tape_ends_the_recording():
    with pytest.raises(ZeroDivisionError), Tape():
        raise ZeroDivisionError
    assert autodiff._recording.get() is None


def test_other_threads_do_not_record_here():
    x = leaf(1.0)
    with Tape() as tape:
        # a fresh context is what threads get by default; some builds of Python let them inherit the creator's
        thread = threading.Thread(target=lambda: contextvars.Context().run(lambda: x * 2))
        thread.start()
        thread.join()
    assert len(tape) == 0


def test_a_thread_in_a_copy_of_the_context_records():
    x, found = leaf(3.0), []
    with Tape() as tape:
        context = contextvars.copy_context()
        thread = threading.Thread(target=lambda: found.append(context.run(lambda: (x * x).sum())))
        thread.start()
        thread.join()
    tape.backward(found[0])
    assert x.grad.tolist() == [6.0]


@pytest.mark.parametrize("compare", [operator.eq, operator.ne])
@on_devices
def test_the_values_of_a_tensor_are_not_compared_silently(device, compare):
    x = leaf(0, 1, device=device)
    for other in (0, 1.0, True, np.float32(0), np.bool_(False), np.zeros(2), device.put(np.zeros(2))):
        for left, right in ((x, other), (other, x)):
            with pytest.raises(TypeError, match=r"compare tensor\.numpy\(\)"):
                compare(left, right)


def test_a_tensor_equals_itself_alone():
    x, y = leaf(0), Parameter(np.zeros(1))
    assert x == x
    assert x != y
    assert x != None  # noqa: E711
    assert x != "x"
    assert [y, x].index(x) == 1
    assert {x: "x", y: "y"}[y] == "y"


def test_a_tensor_is_not_converted_silently():
    with pytest.raises(TypeError, match=r"use tensor\.numpy\(\)"):
        np.asarray(Tensor(np.ones(2)))
    with pytest.raises(TypeError, match="data must be an array, got list"):
        Tensor([1.0, 2.0])


@pytest.mark.parametrize("shape", [(2, 3), (2,), (3, 2)])
def test_an_op_without_a_vjp_is_refused(shape):
    """An array of two rows must not be taken for a pair of the result and the vjp."""

    @autodiff.op
    def square(x):
        return x * x

    with pytest.raises(TypeError, match=r"square: an op returns \(y, vjp\), .* this one returns ndarray"):
        square(np.ones(shape))


def test_a_vjp_must_give_one_gradient_per_argument():
    @autodiff.op
    def wrong(a, b):
        return a + b, lambda g: (g,)

    with Tape() as tape:
        loss = wrong(leaf(1.0), leaf(2.0)).sum()
    with pytest.raises(RuntimeError, match="wrong: its vjp gives 1 gradients for 2 arguments"):
        tape.backward(loss)


def test_a_gradient_must_have_the_shape_and_dtype_of_its_argument():
    for bad, message in (
        (lambda g: g.sum(), r"gradient of shape \(\) and dtype float64; the argument has \(2,\) and float64"),
        (lambda g: g.astype(np.float32), "dtype float32; the argument has"),
    ):

        @autodiff.op
        def wrong(a, *, bad=bad):
            return a * 1, lambda g: (bad(g),)

        wrong._names, wrong._optional = ["a"], set()
        with Tape() as tape:
            loss = wrong(leaf(1.0, 2.0)).sum()
        with pytest.raises(RuntimeError, match=message):
            tape.backward(loss)


def test_what_another_tape_recorded_is_not_lost_silently():
    x = leaf(1.0)
    with Tape():
        h = x * 2
    with Tape() as tape:
        loss = (h * 3 + x).sum()
    with pytest.raises(RuntimeError, match="Tensors that another tape recorded"):
        tape.backward(loss)
    assert x.grad is None, "half of a gradient"


def test_what_another_tape_recorded_may_be_there_if_it_does_not_matter():
    x = leaf(1.0)
    with Tape():
        h = x * 2
    with Tape() as tape:
        _ = h * 3
        loss = (x * 5).sum()
    tape.backward(loss)
    np.testing.assert_array_equal(x.grad, [5])


def test_an_op_of_ones_own_does_not_replace_an_operator():
    @autodiff.op
    def multiply(a, b):
        return a * b, lambda g: (g * a, g * b)  # the wrong way round

    x = leaf(3.0)
    with Tape() as tape:
        loss = (x * np.array([5.0])).sum()
    tape.backward(loss)
    np.testing.assert_array_equal(x.grad, [5])
    with pytest.raises(gradcheck.GradientError):
        check_gradient(multiply, np.array([1.0, 2.0]), np.array([3.0, 5.0]))


def test_a_leaf_is_a_leaf_for_good():
    with pytest.raises(AttributeError):
        Tensor(np.ones(1)).requires_grad = True
    with pytest.raises(TypeError, match="truth of a Tensor"):
        bool(Tensor(np.ones(1)))


def test_0_d_leaves_have_arrays_as_gradients():
    x = Tensor(np.array(2.0), requires_grad=True)
    with Tape() as tape:
        loss = x * x + x
    tape.backward(loss)
    assert type(x.grad) is np.ndarray
    assert x.grad == 5


def test_ops_run_on_the_device_of_their_arguments():
    """CuPy computes on the current device, so an op makes that of its arguments current."""
    entered = []

    @contextmanager
    def active():
        entered.append(1)
        yield

    with changed_standin(active=active) as device:
        p = Parameter(device.put(np.ones(2)))
        with Tape() as tape:
            loss = (p * p).sum()
        assert len(entered) == 2
        tape.backward(loss)
        assert len(entered) == 3
        SGD([p], lr=0.1).step()
        assert len(entered) == 4


def test_arguments_by_keyword():
    x, w, b = np.ones((1, 2)), np.ones((2, 3)), Parameter(np.ones(3))
    with Tape() as tape:
        loss = ops.linear(x, w=w, b=b).sum()
    tape.backward(loss)
    np.testing.assert_array_equal(b.grad, [1, 1, 1])
    with pytest.raises(TypeError, match="linear: the argument w is missing"):
        ops.linear(x)


@pytest.mark.parametrize("dtype", ["float16", "int64", "complex128", "bool"])
def test_other_dtypes_are_refused(dtype):
    with pytest.raises(TypeError, match=rf"relu: x has dtype {dtype}; only float32 and float64 .* x\.astype"):
        ops.relu(np.ones(3, dtype))


def test_mixed_precision_is_refused():
    with pytest.raises(TypeError, match="linear: arguments of different dtypes: x float32, w float64; convert one"):
        ops.linear(np.ones((1, 2), np.float32), np.ones((2, 3)))


def test_two_devices_are_refused():
    with pytest.raises(TypeError, match=r"linear: arguments of different devices: x cpu, w standin; .* model\.to"):
        ops.linear(np.ones((1, 2)), STANDIN.put(np.ones((2, 3))))


def test_what_is_not_an_array_is_refused():
    with pytest.raises(TypeError, match="conv2d: x must be an array, got list"):
        ops.conv2d([[1.0]], np.ones((1, 1, 1, 1)))
    with pytest.raises(TypeError, match="add: b must be an array, got NoneType"):
        ops.add(np.ones(1), None)


@pytest.mark.parametrize("name", OPS)
def test_a_copy_of_an_op_is_the_op(name):
    each = OPS[name]
    assert copy.copy(each) is each
    assert copy.deepcopy(each) is each
    assert pickle.loads(pickle.dumps(each)) is each


def test_an_op_of_ones_own_is_copied_too_and_pickled_only_where_it_can_be_found():
    @autodiff.op
    def inner(x):
        return x, lambda g: (g,)

    assert copy.deepcopy([inner])[0] is inner
    with pytest.raises((pickle.PicklingError, AttributeError), match="inner"):
        pickle.dumps(inner)


def test_options_of_an_op_are_keyword_only():
    def f(x, factor=2.0):
        return factor * x, lambda g: (factor * g,)

    with pytest.raises(
        TypeError, match=r"f: factor=2\.0 is an option, .* put \* before it, def f\(\.\.\., \*, factor="
    ):
        autodiff.op(f)

    @autodiff.op
    def g(x, bias=None, *, factor=2.0):
        return factor * x, lambda g: (factor * g, None)

    assert g(np.ones(1)).tolist() == [2.0]


def test_arrays_in_a_list_are_refused_with_the_remedy():
    x = np.ones(2)
    for arrays, kind in (([x, x], "list"), ((x, x), "tuple")):
        with pytest.raises(TypeError, match=rf"concat: takes arrays one by one, concat\(a, b\), not in a {kind}"):
            ops.concat(arrays)


def test_an_op_introduces_itself():
    assert repr(ops.crelu) == "<op crelu>"
    assert ops.crelu.__doc__.startswith("rho(x) = [max(x, 0), max(-x, 0)]")
