"""EMA: its numbers by hand, on every device, and in a training that is stopped and resumed."""

import numpy as np
import pytest

from minicnn import Buffer, nn
from tests.devices import on_devices


@on_devices
def test_by_hand(device):
    """Weights 8, 4, 0 with decay 1/2: the average is 8, then 6, then 3; buffers are averaged alike."""
    model = nn.Sequential(nn.BatchNorm(1)).to(device)
    average = nn.EMA(model, 0.5)
    values = dict(model.named_state())
    found = []
    for weight in (8.0, 4.0, 0.0):
        values["0.gamma"].data[...] = weight
        values["0.running_mean"].data = device.put(np.array([weight], np.float32))
        average.update()
        with average.applied():
            found.append([float(device.get(values[name].data)[0]) for name in ("0.gamma", "0.running_mean")])
    assert found == [[8, 8], [6, 6], [3, 3]]
    assert float(device.get(values["0.gamma"].data)[0]) == 0  # the model has its own weights again


@on_devices
def test_buffers_of_integers_are_copied(device):
    class Counting(nn.Module):
        def __init__(self):
            self.count = Buffer(np.array([3]))

    model = Counting()
    model.count.data = device.put(model.count.data)
    average = nn.EMA(model, 0.5)
    for count in (4, 9):
        model.count.data = device.put(np.array([count]))
        average.update()
    model.count.data = device.put(np.array([11]))
    assert average.state_dict()["count"].tolist() == [9]


def test_an_error_inside_gives_the_weights_back():
    model = nn.Sequential(nn.Linear(2, 2))
    average = nn.EMA(model)
    average.update()
    weights = model["0"].weight.data
    with pytest.raises(ZeroDivisionError), average.applied():
        assert model["0"].weight.data is not weights
        raise ZeroDivisionError
    assert model["0"].weight.data is weights


def test_a_state_goes_on_exactly():
    model, other = nn.Sequential(nn.Linear(2, 2)), nn.Sequential(nn.Linear(2, 2))
    first, second = nn.EMA(model, 0.9), nn.EMA(other, 0.9)
    for _ in range(3):
        model["0"].weight.data += 1
        first.update()
    second.load_state_dict(first.state_dict())
    for each in (model, other):
        each["0"].weight.data[...] = 7
        each["0"].bias.data[...] = 1
    for average in (first, second):
        average.update()
    for name, value in first.state_dict().items():
        np.testing.assert_array_equal(second.state_dict()[name], value)
    untouched = nn.EMA(model)
    untouched.load_state_dict(nn.EMA(model).state_dict())  # before the first step
    assert untouched.steps == 0


def test_nonsense_is_refused():
    model = nn.Sequential(nn.Linear(2, 2))
    with pytest.raises(ValueError, match=r"decay must be in \[0, 1\), got 1"):
        nn.EMA(model, 1)
    with pytest.raises(RuntimeError, match="no average yet"), nn.EMA(model).applied():
        pass
    with pytest.raises(ValueError, match="does not fit the model"):
        nn.EMA(model).load_state_dict({"steps": np.array(1), "0.weight": np.ones((2, 2))})
