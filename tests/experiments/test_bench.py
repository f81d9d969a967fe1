"""The benchmark measures what it says, and its command line is sound.  No test here asks how fast anything is."""

import json
import statistics
import sys
import time
import types

import numpy as np
import pytest

from experiments import bench
from experiments.benchmarks import comparison, contenders, layers, networks, result_tables, sections, timing
from experiments.cli.app import UsageError
from tests.fast.native.ways import needs_compiler


@pytest.fixture
def alone(monkeypatch):
    """None of the other frameworks is installed, and nothing is fast in 16 bits."""
    monkeypatch.setattr(contenders, "find_spec", lambda package: package if package in ("minicnn", "numpy") else None)
    monkeypatch.setattr(contenders, "bf16_is_fast", lambda: False)


@pytest.fixture
def small(monkeypatch):
    """A single network, small and quickly built."""
    network = networks.Network(lambda: networks.models.convpool("crelu", "half", scale=0.1), batches=(1, 3))
    monkeypatch.setattr(networks, "MODELS", {"small": network})
    monkeypatch.setattr(timing, "PAUSE", 0)
    monkeypatch.setattr(bench, "matmul_peak", lambda: 1e9)


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


def test_who_is_hopeless_does_not_hold_up_the_others(monkeypatch):
    """More than a second, and three times as slow as the fastest: its call to warm up is all."""
    monkeypatch.setattr(timing, "PAUSE", 0)
    calls = []
    seconds = {"fast": 0.5, "slow": 1.4, "hopeless": 1.6}
    monkeypatch.setattr(timing, "_seconds", lambda call, repetitions: calls.append(call) or seconds[call])
    found = timing.interleaved({name: name for name in seconds}, 2, warm=1, hopeless=3)
    assert {name: len(times) for name, times in found.items()} == {"fast": 2, "slow": 2, "hopeless": 1}
    assert calls.count("hopeless") == 1
    assert timing.ratio({name: found[name] for name in ("fast", "hopeless")}, "fast").median == 3.2
    assert len(timing.interleaved({name: name for name in seconds}, 2)["hopeless"]) == 2  # unless that is wished


def result(model, batch=8, **families):
    """A row of the section "models": (seconds, error) by family, ours first."""
    found = {
        f"{family}, eager": {
            "family": family,
            "precision": "bf16" if "bf16" in family else "float32",
            "seconds": seconds,
            "error": error,
            "rounds": [seconds],
        }
        for family, (seconds, error) in families.items()
    }
    found["ours"] = found.pop("ours, eager")
    ratios = {}
    for key in comparison.RIVALS:
        allowed = [n for n, own in found.items() if n != "ours" and (key == "any" or own["precision"] == key)]
        rival = min(allowed, key=lambda n: found[n]["seconds"])
        ratio = found[rival]["seconds"] / found["ours"]["seconds"]
        ratios[key] = {"median": ratio, "low": ratio, "high": ratio, "rival": rival, "seconds": found[rival]["seconds"]}
    return {"kind": "inference", "model": model, "side": 32, "batch": batch, "contenders": found, **ratios}


RESULTS = [
    result("a", ours=(1.0, 1e-6), PyTorch=(2.0, 5e-7), **{"PyTorch bf16": (0.5, 4e-3)}),
    result("b", ours=(1.0, 1e-6), PyTorch=(8.0, 5e-7), **{"PyTorch bf16": (9.0, 4e-3)}),
    result("a", batch=1, ours=(1.0, 1e-6), PyTorch=(0.25, 5e-7)),
]


def test_means_are_taken_over_one_batch_and_say_what_16_bits_are_worth():
    assert list(sections.means(RESULTS)) == [
        "geometric mean of 2 (32x32, batch 8): 4.00 x the best in float32 (least 2.00), "
        "2.00 x the best of all (least 0.50)",
        "geometric mean of 1 (32x32, batch 1): 0.25 x the best in float32 (least 0.25), "
        "0.25 x the best of all (least 0.25)",
    ]
    assert list(sections.means([{"op": "relu", "float32": None, "any": None}])) == []


def test_tables_for_documents(tmp_path):
    tables = list(result_tables.network_tables(RESULTS))
    assert next(result_tables.network_tables(RESULTS, "a Mac")).caption == "Inference on a Mac, 32x32, batch 8"
    assert [table.caption for table in tables] == [
        "Inference, 32x32, batch 8",
        "Inference, 32x32, batch 8: errors",
        "Inference, 32x32, batch 1",
        "Inference, 32x32, batch 1: errors",
    ]
    shown = result_tables.markdown(tables[0])
    assert "<!-- from inference-32x32-batch-8 -->\n\n| network | ours, ms | PyTorch, ms | PyTorch bf16, ms |" in shown
    best = "2.00 | 2.00 to 2.00 | PyTorch, eager | 0.50 | 0.50 to 0.50 | PyTorch bf16, eager"
    assert f"| a | 1000.0 | 2000.0 | 500.0 | {best} |" in shown
    assert "| geometric mean |  |  |  | 4.00 |  |  | 2.00 |  |  |" in shown
    assert "| a | 1e-06 | 5e-07 | 4e-03 |" in result_tables.markdown(tables[1])
    written = result_tables.write_tables(tmp_path, tables)
    assert [path.name for path in written] == ["inference.csv", "inference-errors.csv"]
    assert "Inference, 32x32, batch 1" in written[0].read_text()


def test_a_result_is_shown_again(tmp_path, capsys):
    file = tmp_path / "bench.json"
    file.write_text(json.dumps({"models": RESULTS}))
    assert bench.main(["--read", str(file), "--tables", str(tmp_path)]) == 0
    assert "| geometric mean |  |  |  | 4.00 |" in capsys.readouterr().out
    assert (tmp_path / "inference.csv").exists()
    for text in ("{}", "[]", "nonsense", json.dumps({"models": [{"kind": "inference"}]})):
        file.write_text(text)
        with pytest.raises(UsageError, match="--read"):
            bench.main(["--read", str(file)])
    with pytest.raises(UsageError, match="--read"):
        bench.main(["--read", str(tmp_path / "none")])


def test_errors_are_against_float64(alone):
    case = next(c for c in layers.layer_cases(1) if c.name == "conv 3x3 96-96 at 32x32")
    found = comparison.compare(case, comparison.competing("layer"), rounds=1)
    assert 0 < found["contenders"]["ours"]["error"] < 3e-5
    assert comparison.largest_error([np.array([1.0, 2.5])], [np.array([1.0, 2.0])]) == 0.25


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("batch", [1, 20])
def test_the_logits_of_the_first_images_are_compared(alone, small, training, batch):
    case = networks.NetworkCase("small", batch, training=training)
    found = comparison.compare(case, comparison.competing(case.kind), rounds=1)
    assert case.exact()[0].shape == (min(batch, networks.PROBED), 10)
    assert 0 < found["contenders"]["ours"]["error"] < 1e-5


def test_a_training_step_changes_the_weights_and_inference_does_not(alone, monkeypatch):
    model = networks.models.convpool("crelu", "half", scale=0.1)
    monkeypatch.setitem(networks.MODELS, "small", networks.Network(lambda: model))
    for training in (False, True):
        before = {name: value.copy() for name, value in model.state_dict().items()}
        case = networks.NetworkCase("small", 2, training=training)
        (ours,) = comparison.competing(case.kind)
        assert ours.name == "ours"
        ours.network(case)()
        assert training == any((model.state_dict()[name] != value).any() for name, value in before.items())


def test_everything_runs_alone(alone, small, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(layers, "CONVOLUTIONS", ((3, 4, 3, 4),))
    monkeypatch.setattr(sections, "peak_memory", lambda *_: {"peak": 2.0, "imported": 1.0})
    file = tmp_path / "bench.json"
    assert bench.main(["--batch", "2", "--rounds", "1", "--json", str(file), "--tables", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    for title in ("One layer", "Training step", "Inference", "Peak memory", "by threads", "by batch"):
        assert title in shown
    saved = json.loads(file.read_text())
    assert {"ops", "models", "memory", "scaling", "environment", "peak"} <= set(saved)
    assert saved["models"][0]["images_per_second"] > 0
    assert bench.main(["--read", str(file)]) == 0


@needs_compiler
def test_in_16_bits_our_best_meets_the_best_rival(again, small, monkeypatch):
    """In float32, float32 alone."""
    seconds = {"ours": 4.0, "ours bf16": 2.0, "Again": 6.0, "Again bf16": 5.0, "Again, networks": 9.0}
    monkeypatch.setattr(contenders, "bf16_is_fast", lambda: True)
    monkeypatch.setattr(comparison, "interleaved", lambda calls, *_, **__: {name: [seconds[name]] for name in calls})
    case = networks.NetworkCase("small", 2, training=False)
    found = comparison.compare(case, comparison.competing(case.kind), rounds=1)
    assert [(found[key]["rival"], found[key]["median"]) for key in comparison.RIVALS] == [
        ("Again", 1.5),
        ("Again bf16", 2.5),
    ]
    errors = [found["contenders"][name]["error"] for name in ("ours", "ours bf16")]
    assert errors[0] < 1e-5 < 1e-4 < errors[1] < 0.05
    monkeypatch.setattr(contenders, "bf16_is_fast", lambda: False)
    why = "this processor has no instructions for it, so float32 is faster"
    assert f"ours bf16 takes no part: {why}" in contenders.absences()


def test_who_is_not_installed_is_named(alone, capsys):
    assert bench.main(["--dry-run"]) == 0
    shown = capsys.readouterr().out
    for line in (
        "PyTorch takes no part without torch: make bench installs it",
        "ONNX Runtime takes no part without onnxruntime and onnx: make bench installs it",
        "OpenVINO takes no part without openvino and onnx: make bench installs it",
    ):
        assert line in shown


class Again(contenders.Ours):
    """A further framework, that of the tests."""

    def obstacle(self):
        return "it is too old" if self.variant == "old" else ""


@pytest.fixture
def again(alone, monkeypatch):
    """A framework with a variant in 16 bits, one that computes no single layers, and one that cannot run here."""
    variants = (
        Again("Again"),
        Again("Again", precision="bf16"),
        Again("Again", "networks", kinds=("inference",)),
        Again("Again", "old"),
    )
    monkeypatch.setitem(sys.modules, "again", types.SimpleNamespace(VARIANTS=variants))
    monkeypatch.setitem(contenders.FRAMEWORKS, "again", contenders.Framework("Again", ("numpy",), "again"))


def test_a_further_framework_is_a_module_and_an_entry(again):
    case = next(c for c in layers.layer_cases(1) if c.name.startswith("relu"))
    found, (line,) = sections.compared(case, sections.Plan([], rounds=1), "op")
    assert list(found["contenders"]) == ["ours", "Again", "Again bf16"]
    assert found["float32"]["rival"] == "Again"
    assert found["any"]["rival"] in ("Again", "Again bf16")
    assert all(own["error"] == 0 for own in found["contenders"].values())
    assert line.keys() - {"op"} == sections.comparison_widths(sections.Plan([]), kind="layer").keys() - {"op"}
    assert "Again, old takes no part: it is too old" in contenders.absences()


def test_inference_is_measured_by_batch_and_each_contender_on_demand(again, small, capsys):
    assert bench.main(["--only", "models", "--rounds", "1", "--batch", "2", "--batches", "3,1", "--all"]) == 0
    inference = capsys.readouterr().out.partition("Inference")[2]
    rows = [line.split() for line in inference.splitlines() if line.startswith("small")]
    assert [row[1] for row in rows] == ["3", "1"]
    assert inference.count("\n  Again, networks") == 2
    assert all(len(line) <= 150 for line in inference.splitlines())


def test_batches_are_the_networks_own_until_others_are_named():
    small, plan = networks.Network(lambda: None, batch=4, batches=(1, 2)), sections.Plan
    assert plan([]).batches_of(small, "inference") == (1, 2)
    assert plan([]).batches_of(small, "training") == (4,)
    assert plan([], batch=3).batches_of(small, "inference") == (3,)
    assert plan([], batch=3, batches=(5, 6)).batches_of(small, "inference") == (5, 6)
    assert plan([], batch=3, batches=(5, 6)).batches_of(small, "training") == (3,)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--only", "speed"],
        ["--models", "resnet"],
        ["--rounds", "0"],
        *(["--batches", text] for text in ("0", "1,x", "-1", "65537", "1.5", "9" * 30)),
        ["--tables", "no/such/folder"],
        ["--json", "no/such/folder/bench.json"],
    ],
)
def test_nonsense_is_refused(arguments):
    with pytest.raises(UsageError):
        bench.main(arguments)
