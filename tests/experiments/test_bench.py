"""The benchmark measures what it says, and its command line is sound.  No test here asks how fast anything is."""

import json
import statistics
import sys
import time
import types

import numpy as np
import pytest

from experiments import bench
from experiments.benchmarks import contenders, layers, networks, sections, timing
from experiments.cli.app import UsageError


@pytest.fixture
def without_torch(monkeypatch):
    monkeypatch.setattr(contenders, "find_spec", lambda package: None if package == "torch" else package)


def test_ratio_is_the_best_rival_over_ours():
    times = {"ours": [1.0, 2.0, 1.0], "slow": [9.0, 9.0, 9.0], "fast": [2.0, 4.0, 3.0]}
    found = timing.ratio(times, "ours")
    assert found.rival == "fast"
    assert (found.low, found.median, found.high) == (2.0, 2.0, 2.5)
    assert timing.ratio({"ours": times["ours"]}, "ours") is None


def test_rounds_are_interleaved(monkeypatch):
    monkeypatch.setattr(timing, "PAUSE", 0)
    calls = []
    found = timing.interleaved(
        {name: lambda name=name: calls.append(name) or time.sleep(0.001) for name in "ab"}, 3, least=0, warm=1
    )
    assert calls == list("ab" + "ab" * 3)
    assert [len(seconds) for seconds in found.values()] == [3, 3]
    assert all(statistics.median(seconds) >= 0.001 for seconds in found.values())


def test_errors_are_against_float64(without_torch):
    case = next(c for c in layers.layer_cases(1) if c.name == "conv 3x3 96-96 at 32x32")
    ours, theirs = sections.rounding_errors(case)
    assert 0 < ours < 3e-5
    assert theirs is None
    assert sections.largest_error([np.array([1.0, 2.5])], [np.array([1.0, 2.0])]) == 0.25


def test_a_training_step_changes_the_weights_and_inference_does_not(without_torch, monkeypatch):
    model = networks.models.convpool("crelu", "half", scale=0.1)
    monkeypatch.setitem(networks.MODELS, "small", networks.Network(lambda: model))
    for training in (False, True):
        before = {name: value.copy() for name, value in model.state_dict().items()}
        case = networks.NetworkCase("small", 2, training=training)
        (ours,) = [c for name in contenders.FRAMEWORKS for c in contenders.variants(name)]
        assert ours.name == "ours"
        ours.network(case)()
        assert training == any((model.state_dict()[name] != value).any() for name, value in before.items())


def test_everything_runs_without_torch(without_torch, monkeypatch, tmp_path, capsys):
    small = {"small": networks.Network(lambda: networks.models.convpool("crelu", "half", scale=0.1))}
    monkeypatch.setattr(networks, "MODELS", small)
    monkeypatch.setattr(layers, "CONVOLUTIONS", ((3, 4, 3, 4),))
    monkeypatch.setattr(timing, "PAUSE", 0)
    monkeypatch.setattr(sections, "peak_memory", lambda *_: {"peak": 2.0, "imported": 1.0})
    monkeypatch.setattr(bench, "matmul_peak", lambda: 1e9)
    file = tmp_path / "bench.json"
    assert bench.main(["--batch", "2", "--rounds", "1", "--json", str(file)]) == 0
    shown = capsys.readouterr().out
    for title in ("One layer", "Training step", "Inference", "Peak memory", "by threads", "by batch"):
        assert title in shown
    saved = json.loads(file.read_text())
    assert {"ops", "models", "memory", "scaling", "environment", "peak"} <= set(saved)
    assert saved["models"][0]["images_per_second"] > 0


def test_a_further_framework_is_a_module_and_an_entry(without_torch, monkeypatch):
    module = types.SimpleNamespace(VARIANTS=(contenders.Ours("again"), contenders.Contender("networks only")))
    monkeypatch.setitem(sys.modules, "again", module)
    monkeypatch.setitem(contenders.FRAMEWORKS, "again", contenders.Framework("Again", "numpy", "again"))
    case = next(c for c in layers.layer_cases(1) if c.name.startswith("relu"))
    row, _ = sections.compare(case, sections.Plan([], "", None, rounds=1, compiled=False, peak=1.0))
    assert list(row["times"]) == ["ours", "again"]
    assert row["ratio"]["rival"] == "again"
    assert row["errors"] == (0, None, 0)


@pytest.mark.parametrize("arguments", [["--only", "speed"], ["--models", "resnet"], ["--rounds", "0"]])
def test_nonsense_is_refused(arguments):
    with pytest.raises(UsageError):
        bench.main(arguments)
