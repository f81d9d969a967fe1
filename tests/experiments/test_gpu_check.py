"""experiments.gpu_check: what it tries, and the text that it writes."""

import sys
from pathlib import Path

import pytest

from experiments import cifar, gpu_check
from experiments.benchmarks import gpu
from experiments.gpu_check import Step, main, shortened, steps
from minicnn.backend import CPU


def program(text):
    return ("-c", text)


@pytest.fixture
def out(tmp_path):
    return tmp_path / "new" / "check.txt"


def check(monkeypatch, out, *tried, problem=None):
    """The exit code and the text, where these steps are tried."""
    monkeypatch.setattr(gpu_check, "gpu_problem", lambda: problem)
    monkeypatch.setattr(gpu_check, "MACHINE", Step("The machine", program("print('a machine')")))
    monkeypatch.setattr(gpu_check, "steps", lambda epochs, folder: list(tried))
    return main(["--out", str(out)]), out.read_text()


def test_without_a_gpu_it_says_so(monkeypatch, out, capsys):
    never = Step("Never", program("raise SystemExit(1)"))
    code, text = check(monkeypatch, out, never, problem="CuPy is not installed. Install it: pip.")
    assert code == 1
    said = "There is no GPU that minicnn can use: CuPy is not installed. Install it: pip."
    assert said in text
    assert said in capsys.readouterr().out
    assert "| The machine | passed |" in text
    assert "Never" not in text


def test_a_step_that_fails_is_in_the_text_and_the_next_is_tried(monkeypatch, out, capsys):
    bad = Step("Bad", program("import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)"))
    code, text = check(monkeypatch, out, bad, Step("Good", program("print('fine')")))
    assert code == 1
    for words in ("| Bad | FAILED (exit code 3) |", "| Good | passed |", "\nout\nerr\n```", "\nfine\n```", "a machine"):
        assert words in text
    assert f"paste {out} into it" in capsys.readouterr().out


def test_all_is_well(monkeypatch, out):
    code, text = check(monkeypatch, out, Step("Good", program("print('fine')")))
    assert code == 0
    assert "FAILED" not in text


def test_what_a_step_printed_is_shortened():
    assert shortened("10%\r 20%\r100%\nend\r\n\n") == "100%\nend"
    assert shortened("\n".join(map(str, range(100)))).split("\n") == [str(i) for i in range(40, 100)]
    assert shortened(f"in {Path.home()}/x") == "in ~/x"


def test_its_commands_exist(tmp_path):
    tests, speed, *trainings = (step.arguments for step in steps(2, tmp_path))
    assert tests == ("-m", "pytest", "-q", "-m", "gpu")
    assert speed == ("-m", "experiments.gpu_check", "--speed")
    asked = [cifar.parser().parse_args(arguments[2:]) for arguments in trainings]
    assert [(a.act, a.width, a.epochs, a.device) for a in asked] == [
        ("relu", "base", 2, "gpu"),
        ("crelu", "half", 2, "gpu"),
    ]
    assert asked[0].out != asked[1].out


def test_the_table_of_images_a_second(monkeypatch, capsys):
    """Where there is no GPU, the problem instead."""
    monkeypatch.setattr(gpu_check, "gpu_problem", lambda: "no card.")
    assert main(["--speed"]) == 1
    assert capsys.readouterr().out == "no card.\n"
    rows = [("crelu-half", 128, {"graph": 12345.6, "plain": 100.0})]
    monkeypatch.setattr(gpu_check, "gpu_problem", lambda: None)
    monkeypatch.setattr(gpu_check, "device", lambda name: CPU)
    monkeypatch.setattr(gpu_check, "images_per_second", lambda device: rows)
    assert main(["--speed"]) == 0
    assert capsys.readouterr().out.splitlines()[1] == "crelu-half       batch  128   graph    12,346   plain       100"


def test_images_a_second_are_measured_in_each_way(monkeypatch):
    """On the CPU, quickly; the environment is then as it was."""
    seen = []
    monkeypatch.setattr(gpu, "torch_has_a_gpu", lambda: False)
    monkeypatch.setattr(gpu, "seconds", lambda work, wait: seen.append(gpu.os.environ.get("MINICNN_FAST")) or 0.5)
    monkeypatch.delenv("MINICNN_FAST", raising=False)
    ((name, batch, rates),) = gpu.images_per_second(CPU, quick=True)
    assert (name, batch, rates) == ("crelu-half", 1, {"graph": 2.0, "plain": 2.0, "textbook": 2.0})
    assert seen == [None, None, "0"]
    assert "MINICNN_FAST" not in gpu.os.environ


def test_seconds_are_those_of_the_second_time(monkeypatch):
    clock, events = iter([10.0, 12.5]), []
    monkeypatch.setattr(gpu.time, "perf_counter", lambda: events.append("clock") or next(clock))
    assert gpu.seconds(lambda: events.append("work"), lambda: events.append("wait")) == 2.5
    assert events == ["work", "wait", "clock", "work", "wait", "clock"]


def test_it_is_tried_by_this_python(capsys):
    outcome = gpu_check.tried(Step("x", program("import sys; print(sys.executable)")))
    assert outcome.output == shortened(sys.executable)
    assert outcome.verdict == "passed"
