"""Every check accepts a right answer and refuses typical mistakes, with words that help."""

import ast
import re
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from exercises import check, slow_layer, worker
from exercises.catalogue import TASKS
from exercises.complexities import complexity
from experiments.cli.app import UsageError
from minicnn.theory.rademacher import COUNTEREXAMPLES
from reference.conv import conv2d
from tests.exercises.mistakes import MISTAKES

ROOT = Path(__file__).parents[2]
STARTERS = ROOT / "exercises" / "starters"
RIGHT = Path(__file__).parent / "right"

every_task = pytest.mark.parametrize("task", TASKS)


def judged(task, path, seed=0):
    """The verdict, in this process."""
    return worker.judge(task, path, seed)


@every_task
@pytest.mark.parametrize("seed", [0, 1])
def test_right_answers_are_accepted(task, seed):
    assert judged(task, RIGHT / f"{task}.py", seed) == ("right", "")


@every_task
def test_starters_are_refused_as_not_written(task):
    verdict, message = judged(task, STARTERS / f"{task}.py")
    assert verdict == "wrong"
    assert "not written yet" in message


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda m: f"{m.task}: {m.name}")
def test_mistakes_are_refused_with_a_reason(mistake, tmp_path):
    right = (RIGHT / f"{mistake.task}.py").read_text()
    assert right.count(mistake.old) >= 1, "the right answer has changed; change the mistake too"
    path = tmp_path / "answer.py"
    path.write_text(right.replace(mistake.old, mistake.new))
    verdict, message = judged(mistake.task, path)
    assert verdict == "wrong"
    assert mistake.says in message, message
    assert "Traceback" not in message
    assert str(ROOT) not in message


@every_task
def test_every_task_has_mistakes_and_its_files(task):
    assert len([m for m in MISTAKES if m.task == task]) >= 5
    found = {path.stem for path in STARTERS.glob("*.py")} - {"__init__"}
    assert found == {path.stem for path in (ROOT / "exercises" / "checkers").glob("*.py")} - {"__init__"} == set(TASKS)


FORWARD = """    for i, p, q, f in np.ndindex(y.shape):
        window = padded[i, p * stride : p * stride + k, q * stride : q * stride + k]  # (k, k, C)
        y[i, p, q, f] = (window * w[..., f]).sum()
"""
FASTER_FORWARD = """    for i, j in np.ndindex(k, k):
        y += padded[:, i : i + out[0] * stride : stride, j : j + out[1] * stride : stride] @ w[i, j]
"""


@pytest.mark.parametrize("forward", [FORWARD, FASTER_FORWARD], ids=["loops", "loops in the derivative"])
def test_loops_are_not_fast_enough(forward, tmp_path):
    loops = (ROOT / "exercises" / "slow_layer.py").read_text()
    assert FORWARD in loops
    path = tmp_path / "answer.py"
    path.write_text(loops.replace(FORWARD, forward))
    verdict, message = judged("faster_layer", path)
    assert verdict == "wrong"
    assert re.search(r"at least 10 times as fast\n  got +[\d.]+ times", message)


# What the checks compare with is right itself.


@pytest.mark.parametrize("name", COUNTEREXAMPLES)
def test_complexities_by_hand(name):
    example = COUNTEREXAMPLES[name]
    values = np.array(example.values, float)
    activation = "modulus" if example.activation == "avr" else example.activation
    assert complexity(values, activation) == pytest.approx(example.left)
    assert complexity(values, "identity") == pytest.approx(example.right)


def test_the_slow_layer_is_a_convolution():
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(2, 5, 4, 3)), rng.normal(size=(3, 3, 3, 2))
    y, vjp = slow_layer.conv2d(x, w, stride=2, pad=1)
    np.testing.assert_allclose(y, conv2d(x, w, stride=2, pad=1), atol=1e-12)
    g = rng.normal(size=y.shape)
    for gradient, argument in zip(vjp(g), (x, w), strict=True):  # y is linear in each: <g, y> = <gradient, argument>
        assert (gradient * argument).sum() == pytest.approx((g * y).sum())


# The command.


def write(tmp_path, text):
    path = tmp_path / "answer.py"
    path.write_text(textwrap.dedent(text))
    return str(path)


def test_the_command_says_right(capfd):
    assert check.main(["max_pool_bound", str(RIGHT / "max_pool_bound.py")]) == 0
    assert capfd.readouterr().out == "max_pool_bound: right\n"


def test_the_command_says_what_is_wrong(tmp_path, capfd):
    path = write(tmp_path, "def mu(w):\n    return w.shapely\n")
    assert check.main(["pairing_null", path]) == 1
    out, err = capfd.readouterr()
    assert out.startswith("pairing_null: not right yet\n\nmu([[[[ 3., -1., 0.]")
    assert "line 2, in mu:  return w.shapely" in out
    assert "AttributeError" in out
    assert "Traceback" not in out + err


ENDLESS = {
    "a loop": "while True:\n    pass\n",
    "a process that stays": (
        "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
    ),
}


@pytest.mark.parametrize("name", ENDLESS)
def test_what_does_not_end_is_stopped(name, tmp_path, capfd):
    assert check.main(["sqrt_two", write(tmp_path, ENDLESS[name]), "--seconds", "2"]) == 1
    assert "stopped after 2 seconds" in capfd.readouterr().out


def test_an_answer_that_ends_the_process_is_refused(tmp_path, capfd):
    assert check.main(["sqrt_two", write(tmp_path, "import os\nos._exit(0)\n")]) == 1
    assert "ended the process (exit code 0)" in capfd.readouterr().out


LOADING = {
    "syntax": ("def mu(:\n", "is not Python: line 1"),
    "exit": ("import sys\nsys.exit(0)\n", "line 2, in <module>:  sys.exit(0)"),
    "import": ("import nothing_of_that_name\n", "No module named 'nothing_of_that_name'"),
    "empty": ("", "there is no function mu in your file"),
    "memory": ("import numpy as np\ndef mu(w):\n    raise MemoryError('too much')\n", "MemoryError: too much"),
}


@pytest.mark.parametrize("name", LOADING)
def test_files_that_cannot_be_used(name, tmp_path):
    text, says = LOADING[name]
    verdict, message = judged("pairing_null", Path(write(tmp_path, text)))
    assert verdict == "wrong"
    assert says in message


def test_a_mistake_in_a_check_is_no_fault_of_the_answer(monkeypatch):
    from exercises.checkers import max_pool_bound

    monkeypatch.setattr(max_pool_bound, "check_shapes", lambda *_: 1 / 0)
    path = RIGHT / "max_pool_bound.py"
    verdict, message = judged("max_pool_bound", path)
    assert verdict == "trouble"
    assert "the check itself failed (ZeroDivisionError" in message


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "which task and which file"),
        (["sqrt_two"], "which task and which file"),
        (["sqrt_three", "a.py"], "there is no task 'sqrt_three'; there are write_an_op"),
        (["sqrt_two", "absent.py"], "no file absent.py; start from a copy of exercises/starters/sqrt_two.py"),
        (["sqrt_two", "a.py", "--seconds", "0"], "--seconds above 0"),
    ],
)
def test_usage(arguments, says):
    with pytest.raises(UsageError, match=re.escape(says)):
        check.main(arguments)


def test_usage_errors_have_exit_code_2(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["check", "nonsense", "a.py"])
    with pytest.raises(SystemExit) as ended:
        check.run_main(check.main, check.MODULE)
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith("error: there is no task 'nonsense'")


def test_the_list(capsys):
    assert check.main(["--list"]) == 0
    out = capsys.readouterr().out
    for name, task in TASKS.items():
        assert name in out
        assert task.title in out


# The document.


@every_task
def test_the_document_describes_the_task(task):
    """A section a task, with its time, its level and the signatures of the starter."""
    text = (ROOT / "docs" / "exercises.md").read_text()
    (section,) = re.findall(rf"^## \d\. .*?`{task}`\n(.*?)(?=^## )", text, re.M | re.S)
    assert f"{TASKS[task].level}, about {TASKS[task].minutes} minutes" in section
    for part in ("**Goal.**", "**Read.**", "**Hand in.**", "**Graded.**", "<summary>Hints</summary>"):
        assert part in section
    for node in ast.parse((STARTERS / f"{task}.py").read_text()).body:
        if isinstance(node, ast.FunctionDef):
            assert f"def {node.name}({ast.unparse(node.args)})" in " ".join(section.split()).replace("( ", "(")
