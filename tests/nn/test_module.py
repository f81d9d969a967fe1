"""Trees of modules: names, states, moves, initial weights, traces."""

import numpy as np
import pytest

from minicnn import Buffer, Parameter, Stream, Tape, Tensor, nn, ops, to_host
from minicnn.nn import init
from minicnn.nn.state import FROM_PYTORCH
from tests.devices import STANDIN, on_devices


def network():
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, pad=1),
        nn.CReLU(),
        nn.Sequential(bn=nn.BatchNorm(8), act=nn.ReLU()),
        nn.GlobalAvgPool(),
        nn.Linear(8, 10, bias=False),
    ).initialise(seed=1)


def test_names_are_paths():
    assert [name for name, _ in network().named_state()] == [
        "0.weight", "0.bias", "2.bn.gamma", "2.bn.beta", "2.bn.running_mean", "2.bn.running_var", "4.weight",
    ]  # fmt: skip
    assert len(network().parameters()) == 5


def test_a_module_of_ones_own():
    class Residual(nn.Module):
        def __init__(self):
            self.conv = nn.Conv2d(3, 3, 3, pad=1)
            self.scale = Parameter(np.ones(1, np.float32))

        def forward(self, x, train, stream):
            return self.conv(x, train=train, stream=stream) * self.scale + x

    model = Residual().initialise(seed=0)
    assert [name for name, _ in model.named_state()] == ["scale", "conv.weight", "conv.bias"]
    assert model(np.ones((1, 4, 4, 3), np.float32)).shape == (1, 4, 4, 3)


def test_a_layer_used_twice_has_its_parameters_once():
    layer = nn.Linear(2, 2, bias=False)
    model = nn.Sequential(layer, nn.ReLU(), layer)
    assert model.parameters() == [layer.weight]
    assert nn.describe(model, (2,)).parameters == 4


def test_modules_in_a_list_are_found():
    class Branches(nn.Module):
        def __init__(self):
            self.parts = [nn.Linear(2, 3), nn.Linear(2, 3)]

        def forward(self, x, train, stream):
            return self.parts[0](x) + self.parts[1](x)

    assert [name for name, _ in Branches().named_state()] == [
        "parts.0.weight", "parts.0.bias", "parts.1.weight", "parts.1.bias",
    ]  # fmt: skip


def test_modules_in_a_dict_are_found():
    class Branches(nn.Module):
        def __init__(self):
            self.parts = {"left": nn.Linear(2, 3, bias=False), "right": nn.ReLU()}

    assert [name for name, _ in Branches().named_state()] == ["parts.left.weight"]


def test_parameters_and_modules_are_found_in_lists_tuples_and_dicts_however_deep():
    def number(value):
        return Parameter(np.full(1, value, np.float32))

    class Nested(nn.Module):
        def __init__(self):
            self.stages = [[nn.Linear(1, 1, bias=False), nn.ReLU()], (nn.Linear(1, 1, bias=False),)]
            self.scales = [number(1), number(2)]
            self.kept = {"mean": Buffer(np.zeros(1, np.float32)), "inner": {"gain": number(3)}}
            self.sizes = [3, (4, 5)]

    model = Nested().initialise(seed=0)
    assert list(model.state_dict()) == [
        "scales.0", "scales.1", "kept.mean", "kept.inner.gain", "stages.0.0.weight", "stages.1.0.weight",
    ]  # fmt: skip
    assert [name for name, _ in model.children()] == ["stages.0.0", "stages.0.1", "stages.1.0"]
    assert len(model.parameters()) == 5
    assert repr(model).startswith("Nested(scales.0 1, scales.1 1, kept.inner.gain 1\n  stages.0.0: Linear(1x1)")


def test_parameters_with_the_same_path_are_refused():
    class Twice(nn.Module):
        def __init__(self):
            self.gains = {0: Parameter(np.ones(1, np.float32)), "0": Parameter(np.zeros(1, np.float32))}

    with pytest.raises(ValueError, match=r"Twice: two of its parameters or buffers would be called gains\.0; give"):
        Twice().state_dict()


def test_a_layer_that_gives_an_array_gives_a_tensor():
    class Plain(nn.Module):
        def forward(self, x, train, stream):
            return x * 2

    model = nn.Sequential(Plain())
    assert isinstance(model(np.ones(3)), Tensor)
    ((name, y),) = model.trace(np.ones(3))
    assert name == "0"
    np.testing.assert_array_equal(y, [2, 2, 2])


@pytest.mark.parametrize("given", [None, (np.ones(1), np.ones(1)), 3.0])
def test_a_forward_that_gives_no_tensor_is_named(given):
    class Own(nn.Module):
        def forward(self, x, train, stream):
            return given

    match = f"Own: its forward must return one Tensor or array, it returned a {type(given).__name__}"
    with pytest.raises(TypeError, match=match):
        nn.Sequential(nn.ReLU(), Own())(np.ones((1, 1), np.float32))


@on_devices
def test_frozen_layers_stay_as_they_are_and_the_others_learn_as_before(device):
    x, labels = device.put(np.random.default_rng(0).normal(size=(4, 6, 6, 3)).astype(np.float32)), np.arange(4)
    gradients = []
    for frozen in (False, True):
        model = network().to(device)
        if frozen:
            assert model["0"].freeze() is model["0"]
        with Tape() as tape:
            loss = ops.softmax_cross_entropy(model(x, train=True), labels)
        tape.backward(loss)
        gradients.append({name: p.grad for name, p in model.named_state() if isinstance(p, Parameter)})
    assert gradients[1]["0.weight"] is None
    assert gradients[1]["0.bias"] is None
    for name in ("2.bn.gamma", "2.bn.beta", "4.weight"):
        np.testing.assert_array_equal(*(to_host(each[name]) for each in gradients))
    assert len(model.parameters()) == 3
    assert list(model.state_dict()) == list(network().state_dict())


@pytest.mark.parametrize("value", [np.zeros((2, 2), np.float32), Tensor(np.zeros((2, 2), np.float32)), 0.0])
def test_a_parameter_is_not_replaced_by_values(value):
    layer = nn.Linear(2, 2)
    weight, words = layer.weight, type(value).__name__
    match = rf"Linear: weight is a Parameter, and a {words} cannot take its place; assign to \.weight\.data to change"
    with pytest.raises(TypeError, match=match):
        layer.weight = value
    assert layer.weight is weight


def test_a_buffer_is_not_replaced_by_values():
    layer = nn.BatchNorm(2)
    with pytest.raises(TypeError, match=r"running_mean is a Buffer, .* assign to \.running_mean\.data"):
        layer.running_mean = np.zeros(2, np.float32)


def test_a_parameter_may_be_shared_replaced_or_taken_away():
    first, second = nn.Linear(2, 2), nn.Linear(2, 2)
    second.weight = first.weight
    second.bias = None
    assert nn.Sequential(first, second).parameters() == [first.weight, first.bias]
    second.bias = Parameter(np.ones(2, np.float32))
    np.testing.assert_array_equal(second(np.zeros((1, 2), np.float32)).numpy(), [[1, 1]])


def test_a_parameter_that_is_frozen_late_forgets_its_gradient():
    p = Parameter(np.ones(2))
    with Tape() as tape:
        loss = (p * p).sum()
    tape.backward(loss)
    assert p.grad is not None
    p.freeze()
    assert p.grad is None
    with Tape() as tape, pytest.raises(RuntimeError, match="depends on no "):
        tape.backward((p * p).sum())


def test_sequential_looks_like_a_container():
    model = network()
    assert len(model) == 5
    assert isinstance(model[0], nn.Conv2d)
    assert isinstance(model["4"], nn.Linear)
    assert list(model) == [model[i] for i in range(5)]
    assert model[-1] is model["4"]
    with pytest.raises(TypeError, match="layer 1 must be a Module, got function"):
        nn.Sequential(nn.ReLU(), lambda x: x)
    with pytest.raises(ValueError, match="name of a positional layer"):
        nn.Sequential(nn.ReLU(), **{"0": nn.ReLU()})


def test_named_layers_are_found_by_position_too():
    model = nn.Sequential(nn.ReLU(), conv=nn.Conv2d(1, 1, 1), act=nn.CReLU())
    assert [model[0], model[1], model[np.int64(-1)]] == [model["0"], model["conv"], model["act"]]
    with pytest.raises(KeyError, match="there is no layer 'con', there are 0, conv, act"):
        model["con"]
    with pytest.raises(IndexError, match="there is no layer 3, there are 3"):
        model[3]
    with pytest.raises(TypeError, match=r"one layer at a time; nn\.Sequential\(\*list\(model\)\[1:3\]\)"):
        model[1:]


class WithHead(nn.Sequential):
    """Its layers, and then a head that is an attribute."""

    def __init__(self, *layers, **named):
        super().__init__(*layers, **named)
        self.head = nn.Linear(2, 3, bias=False)

    def forward(self, x, train, stream):
        return self.head(super().forward(x, train, stream), train=train)


def test_attributes_of_a_derived_sequential_come_after_its_layers():
    model = WithHead(nn.Linear(2, 2, bias=False)).initialise(seed=0)
    assert list(model.state_dict()) == ["0.weight", "head.weight"]
    assert model.parameters() == [model[0].weight, model.head.weight]
    assert repr(model) == "WithHead(\n  0: Linear(2x2)\n  head: Linear(2x3)\n)"
    with pytest.raises(ValueError, match=r"WithHead: two of its .* would be called head\.weight; give"):
        WithHead(head=nn.Linear(2, 2)).state_dict()


def test_names_of_layers_have_no_dots():
    """Sequential(a=Sequential(b=x)) and Sequential(**{"a.b": y}) would have the same paths."""
    with pytest.raises(ValueError, match=r"Sequential: a layer cannot be called 'a\.b'; take a name without dots"):
        nn.Sequential(**{"a.b": nn.ReLU()})


@on_devices
def test_trace_gives_every_layer_in_order(device):
    model = network().to(device)
    x = device.put(np.random.default_rng(0).normal(size=(2, 5, 5, 3)).astype(np.float32))
    trace = list(model.trace(x))
    assert [name for name, _ in trace] == ["0", "1", "2.bn", "2.act", "3", "4"]
    assert all(type(y) is device.xp.ndarray for _, y in trace)
    np.testing.assert_array_equal(device.get(trace[-1][1]), model(x).numpy())


class Twice(nn.Sequential):
    """Its layers, and then its layers once more."""

    def forward(self, x, train, stream):
        return super().forward(super().forward(x, train, stream), train, stream)


def test_a_derived_sequential_is_traced_as_a_whole():
    x = np.array([[3.0]], np.float32)
    layer = nn.Activation(ops.negative)
    ((name, y),) = nn.Sequential(twice=Twice(layer)).trace(x)
    assert (name, y.item()) == ("twice", 3.0)  # its layer alone would give -3
    with pytest.raises(TypeError, match=r"Twice\.trace: its own forward decides"):
        next(Twice(layer).trace(x))


@on_devices
def test_state_goes_to_the_host_and_comes_back(device):
    model, other = network().to(device), network().initialise(seed=2)
    state = model.state_dict()
    assert all(type(value) is np.ndarray for value in state.values())
    other.load_state_dict(state)
    x = np.random.default_rng(0).normal(size=(2, 5, 5, 3)).astype(np.float32)
    np.testing.assert_allclose(other(x).numpy(), model(device.put(x)).numpy(), rtol=1e-5, atol=1e-6)


def test_a_state_is_a_copy():
    model = network()
    state = model.state_dict()
    state["0.weight"][:] = 0
    assert model.parameters()[0].data.any()
    model.load_state_dict(state)
    state["0.weight"][:] = 1
    assert not model.parameters()[0].data.any()


def test_loading_lists_all_problems_and_changes_nothing():
    model = network()
    before, state = model.state_dict(), {k: v + 1 for k, v in network().state_dict().items()}
    del state["0.bias"]
    state["4.weight"] = state["4.weight"].T
    state["5.weight"] = np.zeros(3)
    with pytest.raises(ValueError, match="does not fit the model") as caught:
        model.load_state_dict(state)
    assert str(caught.value).splitlines()[1:] == [
        "  missing: 0.bias (4,)",
        "  unexpected: 5.weight (3,)",
        "  misshapen: 4.weight is (10, 8), the model has (8, 10)",
        f"  {FROM_PYTORCH}",
    ]
    for name, value in model.state_dict().items():
        np.testing.assert_array_equal(value, before[name])


@pytest.mark.parametrize(
    ("state", "words"), [(({}, {}), r"a tuple; minicnn\.load gives .*: take \[0\]"), ([1], "a list; see state_dict")]
)
def test_a_state_that_is_no_dict_is_refused_with_the_remedy(state, words):
    with pytest.raises(TypeError, match=f"load_state_dict: expected a dict of arrays by name, got {words}"):
        network().load_state_dict(state)


class Square(nn.Module):
    """Shapes that are the same in PyTorch."""

    def __init__(self):
        self.linear, self.conv = nn.Linear(3, 3), nn.Conv2d(3, 3, 3)


class Foreign:
    """What a tensor of PyTorch looks like from here (the real one: tests/torch_parity/test_state.py)."""

    __module__ = "torch"

    def __init__(self, values):
        self._values, self.shape, self.__array_interface__ = values, values.shape, values.__array_interface__

    def numpy(self):
        return np.asarray(self)  # in the same memory


def test_square_matrices_and_filters_from_pytorch_are_not_loaded_the_wrong_way_round():
    model = Square()
    before = model.state_dict()
    tensors = {name: Foreign(value) for name, value in Square().initialise(1).state_dict().items()}
    for state in (tensors, {name: value.numpy() for name, value in tensors.items()}):
        match = r"linear.weight \(3, 3\), conv.weight \(3, 3, 3, 3\) fits either way round.*give w.numpy\(\).T"
        with pytest.raises(TypeError, match=match):
            model.load_state_dict(state)
    for name, value in model.state_dict().items():
        np.testing.assert_array_equal(value, before[name])


def test_square_matrices_of_ours_are_loaded():
    model, other = Square().initialise(0), Square().initialise(1)
    model.load_state_dict(other.state_dict())
    np.testing.assert_array_equal(model.linear.weight.data, other.linear.weight.data)


def test_moving_changes_all_and_keeps_the_parameters():
    model = network()
    parameters = model.parameters()
    parameters[0].grad = np.ones(3)
    assert model.to(STANDIN, dtype=np.float64) is model
    assert all(p is q for p, q in zip(model.parameters(), parameters, strict=True))
    assert all(type(v.data) is STANDIN.xp.ndarray and v.data.dtype == np.float64 for _, v in model.named_state())
    assert parameters[0].grad is None
    assert all(type(v.data) is np.ndarray for _, v in model.to("cpu").named_state())
    with pytest.raises(TypeError, match="dtype must be float32 or float64"):
        model.to(dtype=int)


def test_initial_weights_depend_on_seed_and_path_alone():
    small = nn.Sequential(a=nn.Linear(3, 3), b=nn.Linear(3, 3)).initialise(seed=0)
    large = nn.Sequential(b=nn.Linear(3, 3), c=nn.Linear(3, 3), a=nn.Linear(3, 3)).initialise(seed=0)
    np.testing.assert_array_equal(small["a"].weight.data, large["a"].weight.data)
    assert (small["a"].weight.data != small["b"].weight.data).all()
    other = nn.Sequential(a=nn.Linear(3, 3)).initialise(seed=1)
    assert (small["a"].weight.data != other["a"].weight.data).all()


@on_devices
def test_initialise_starts_anew(device):
    model = network().to(device)
    first = model.state_dict()
    model(device.put(np.ones((2, 5, 5, 3), np.float32)), train=True)
    model.parameters()[0].data += 1
    for name, value in model.initialise(seed=1).state_dict().items():
        np.testing.assert_array_equal(value, first[name])
        assert type(dict(model.named_state())[name].data) is device.xp.ndarray


@pytest.mark.parametrize(
    ("scheme", "mean", "variance"),
    [
        (init.he_normal, 0, 2 / (9 * 64)),
        (init.he_centred, 0, 2 / (9 * 64)),
        (init.with_gain(init.he_normal, 1.0), 0, 1 / (9 * 64)),
        (init.msr_normal, 0, 2 / (9 * 128)),
        (init.glorot_uniform, 0, 2 / (9 * (64 + 128))),
        (init.unit_uniform, 0.5, 1 / 12),
        (init.zeros, 0, 0),
        (init.ones, 1, 0),
    ],
)
def test_schemes_have_their_mean_and_variance(scheme, mean, variance):
    w = scheme((3, 3, 64, 128), Stream(0).generator())
    assert w.shape == (3, 3, 64, 128)
    np.testing.assert_allclose(w.mean(), mean, atol=0.01)
    np.testing.assert_allclose(w.var(), variance, rtol=0.02)


def test_centred_filters_do_not_see_what_all_inputs_have_in_common():
    for shape in ((3, 3, 4, 5), (6, 7)):
        w = init.he_centred(shape, Stream(0).generator())
        np.testing.assert_allclose(w.reshape(-1, shape[-1]).sum(axis=0), 0, atol=1e-12)
        assert (w.reshape(-1, shape[-1]).std(axis=0) > 0).all()


def test_the_first_filters_pass_their_inputs_on():
    """More inputs than filters, and fewer: each passed channel comes out as it went in; all filters have length 1."""
    x = np.random.default_rng(0).normal(size=(2, 5, 6, 4))
    for filters in (3, 7):
        w = init.identity_first((3, 3, 4, filters), Stream(0).generator())
        np.testing.assert_allclose((w * w).sum(axis=(0, 1, 2)), 1)
        passed = min(4, filters)
        np.testing.assert_array_equal(ops.conv2d(x, w, pad=1)[..., :passed], x[..., :passed])
        assert np.count_nonzero(w) == passed + 36 * (filters - passed)
    assert len({tuple(column) for column in w.reshape(36, 7).T}) == 7
    np.testing.assert_array_equal(init.identity_first((3, 2), Stream(0).generator()), np.eye(3, 2))


def test_behind_crelu_the_first_filters_pass_on_what_entered_it():
    x = np.random.default_rng(0).normal(size=(2, 5, 6, 4))
    w = init.identity_behind_crelu((3, 3, 8, 6), Stream(0).generator())
    np.testing.assert_allclose((w * w).sum(axis=(0, 1, 2)), 1)
    np.testing.assert_allclose(ops.conv2d(ops.crelu(x), w, pad=1)[..., :4], x / 2**0.5)
    np.testing.assert_array_equal(w[:, :, 4:], -w[:, :, :4])
    with pytest.raises(ValueError, match="even number of channels, this layer has 5"):
        init.identity_behind_crelu((3, 3, 5, 6), Stream(0).generator())


def test_schemes_fit_linear_layers():
    np.testing.assert_allclose(init.msr_normal((300, 500), Stream(0).generator()).var(), 2 / 500, rtol=0.02)
    assert np.abs(init.glorot_uniform((300, 500), Stream(0).generator())).max() <= (6 / 800) ** 0.5


def test_a_model_is_printed_as_a_tree():
    class Own(nn.Module):
        def __init__(self):
            self.scale, self.parts = Parameter(np.ones((2, 3), np.float32)), [nn.ReLU(), nn.Dropout(0.5)]

    model = nn.Sequential(nn.Conv2d(3, 4, 3, stride=2, pad=1), nn.BatchNorm(4), own=Own())
    assert (
        repr(model)
        == """Sequential(
  0: Conv2d(3x3x3x4 /2 pad 1)
  1: BatchNorm(gamma 4, beta 4)
  own: Own(scale 2x3
    parts.0: ReLU()
    parts.1: Dropout(rate 0.5)
  )
)"""
    )


@on_devices
def test_a_skip_connection_adds(device):
    x = device.put(np.random.default_rng(0).normal(size=(2, 4, 4, 3)).astype(np.float32))
    plain = nn.Residual(nn.Conv2d(3, 3, 3, pad=1)).to(device)
    np.testing.assert_allclose(plain(x).numpy(), plain.body(x).numpy() + device.get(x), rtol=1e-6)
    both = nn.Residual(nn.Conv2d(3, 5, 3, pad=1, stride=2), shortcut=nn.Conv2d(3, 5, 1, stride=2)).to(device)
    np.testing.assert_allclose(both(x).numpy(), both.body(x).numpy() + both.shortcut(x).numpy(), rtol=1e-6)
    assert [name for name, _ in both.named_state()] == ["body.weight", "body.bias", "shortcut.weight", "shortcut.bias"]
    with pytest.raises(ValueError, match=r"the body makes \(2, 2, 2, 5\) of x \(2, 4, 4, 3\).*give a shortcut"):
        nn.Residual(nn.Conv2d(3, 5, 3, pad=1, stride=2).to(device))(x)


def test_dropout_beside_a_skip_connection_has_bits_of_its_own():
    """As in a Sequential: the stream of each part has its name."""
    x, stream = np.ones((4, 50), np.float32), Stream(0).child("dropout")
    y = nn.Residual(nn.Dropout(0.5), shortcut=nn.Dropout(0.5))(x, train=True, stream=stream).numpy()
    expected = sum(ops.dropout(x, rate=0.5, stream=stream.child(name)) for name in ("body", "shortcut"))
    np.testing.assert_array_equal(y, expected)
    assert set(np.unique(y)) == {0, 2, 4}
