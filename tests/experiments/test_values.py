"""Values from command lines and JSON files."""

import json
from dataclasses import asdict, dataclass

import pytest

from experiments.cli.values import check_numbers, is_number, restored


@dataclass(frozen=True)
class Example:
    name: str
    count: int
    rate: float
    limit: int | None
    pair: tuple[float, float]
    many: tuple[int, ...]
    flag: bool


WHOLE = Example("x", 3, 0.5, None, (1.0, 2.0), (1, 2, 3), True)
STORED = json.loads(json.dumps(asdict(WHOLE)))


def test_what_was_stored_comes_back():
    assert restored(Example, STORED) == WHOLE
    assert restored(Example, {**STORED, "rate": 1, "limit": 7, "many": []}) == Example("x", 3, 1, 7, (1, 2), (), True)


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": 3},
        {"count": 3.5},
        {"count": True},
        {"count": None},
        {"rate": float("nan")},
        {"rate": float("inf")},
        {"rate": "0.5"},
        {"limit": "many"},
        {"pair": [1.0]},
        {"pair": [1.0, 2.0, 3.0]},
        {"pair": 1.0},
        {"many": [1, "2"]},
        {"flag": 1},
    ],
    ids=str,
)
def test_what_is_of_another_type_is_damage(wrong):
    with pytest.raises(ValueError, match=f"damaged: {next(iter(wrong))} is"):
        restored(Example, STORED | wrong)


@pytest.mark.parametrize("stored", [None, [], 7, {}, {**STORED, "new": 1}], ids=str)
def test_other_names_are_another_version(stored):
    with pytest.raises(ValueError, match="from another version"):
        restored(Example, stored)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (0, "--my-number must be positive, got 0"),
        (-1.5, "--my-number must be positive"),
        (float("nan"), "--my-number must be positive"),
        (float("inf"), "--my-number is too large: inf"),
        (10**16, "--my-number is too large"),
    ],
)
def test_numbers_out_of_range(value, message):
    with pytest.raises(ValueError, match=message):
        check_numbers({"my_number": value}, positive=["my_number"])


def test_numbers_in_range():
    check_numbers({"a": 1, "b": None, "c": 0, "d": 1e300}, positive=["a", "b", "d"], not_negative=["b", "c"])
    with pytest.raises(ValueError, match="^weight_decay must not be negative, got -1"):
        check_numbers({"weight_decay": -1}, not_negative=["weight_decay"], prefix="")


def test_what_a_number_is():
    assert [is_number(value) for value in (0, -1.5, True, None, "1", float("nan"), float("inf"), [])] == [
        True, True, False, False, False, False, False, False,
    ]  # fmt: skip
