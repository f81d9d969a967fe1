"""The projection launches what a step launches, and its arithmetic is that of its docstring."""

from pathlib import Path

import pytest

from experiments import bench
from experiments.common import UsageError
from experiments.projection import GPUS, Launch, launches_of, product
from minicnn import models
from tests.fast.cuda import test_training

ROOT = Path(__file__).parents[2]
one_step = test_training.one_step  # the fixture that counts


@test_training.needs_compiler
def test_as_many_launches_as_the_stand_in_counts(one_step):
    ours = list(launches_of(models.convpool("crelu", "half"), 128, (32, 32, 3)))
    assert len(ours) == len(one_step) + 2  # the stand-in counts from the batch on, which itself takes two


def test_the_products_are_those_of_winograd_and_im2col():
    """conv2 of CReLU (half): 96 channels to 48 filters at 32x32 has 8x8 tiles, 36 products, three times."""
    ours = [one for one in launches_of(models.convpool("crelu", "half"), 128, (32, 32, 3)) if one.layer == "conv2"]
    large = [one.operations for one in ours if one.operations > 1e8]
    assert large == [2 * 36 * (128 * 64) * 96 * 48] * 3
    first = [one for one in launches_of(models.convpool("crelu", "half"), 128, (32, 32, 3)) if one.layer == "conv1"]
    assert [one.operations for one in first if one.operations] == [2 * 128 * 1024 * 27 * 48] * 2


def test_time_of_a_launch():
    assert product("", 2, 3, 5, 7) == Launch("", 2 * (15 + 35 + 21), 2 * 2 * 105)
    assert Launch("", 1e9).seconds(bandwidth=4e9, rate=1) == 1
    assert Launch("", 1, 6e9).seconds(bandwidth=1e12, rate=2e9) == 3
    assert {gpu.name.split()[0] for gpu in GPUS} == {"T4", "A100", "H100"}


def test_the_command_says_what_it_is(capsys):
    assert bench.main(["--project-gpu", "--models", "crelu-half"]) == 0
    shown = capsys.readouterr().out
    assert "PROJECTION, not measured" in shown
    assert "time of a step     max(" in shown


def test_it_appears_nowhere_else():
    for document in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]:
        assert "H100" not in document.read_text(), document


def test_networks_it_does_not_know():
    with pytest.raises(UsageError, match="choose --models from convpool"):
        bench.main(["--project-gpu", "--models", "vgg"])
