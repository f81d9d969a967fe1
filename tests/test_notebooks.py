"""The notebooks run from top to bottom, and say what they should."""

from pathlib import Path

import pytest

from minicnn.backend import gpu_problem

ROOT = Path(__file__).parents[1]
nbformat = pytest.importorskip("nbformat", reason="pip install nbclient ipykernel")
nbclient = pytest.importorskip("nbclient", reason="pip install nbclient ipykernel")

SAYS = {
    "1_the_paper_in_ten_minutes": [
        "CReLU  [2.  0.  0.5 0.  3.  0. ]",
        "back   [ 2.  -3.   0.5]",
        "the opposite: +2.532",
    ],
    "2_from_op_to_network": ["right: 0.0", "wrong: ", "tape: 28.0   by hand: 28.0", "test error"],
    "3_theorem_and_counterexample": [
        "larger by 1.4142",
        "37% of 2000 random classes",
        "ratio among them is 1.402",
        "with two points",
    ],
    "4_first_run_on_a_gpu": ["CPU [", "| The machine | passed |", "There is no GPU that minicnn can use"]
    if gpu_problem()
    else ["largest difference", "| The tests for a GPU |"],
}
PICTURES = {
    "1_the_paper_in_ten_minutes": 2,
    "2_from_op_to_network": 2,
    "3_theorem_and_counterexample": 2,
    "4_first_run_on_a_gpu": 0,
}


def notebook(name):
    return nbformat.read(ROOT / "notebooks" / f"{name}.ipynb", as_version=4)


def test_all_are_listed():
    assert {path.stem for path in (ROOT / "notebooks").glob("*.ipynb")} == set(SAYS) == set(PICTURES)


@pytest.mark.parametrize("name", SAYS)
def test_nothing_that_was_computed_is_committed(name):
    for cell in notebook(name).cells:
        assert cell.cell_type == "markdown" or (cell.outputs == [] and cell.execution_count is None)


@pytest.mark.slow
@pytest.mark.parametrize("name", SAYS)
def test_it_runs(name):
    found = notebook(name)
    nbclient.NotebookClient(
        found, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(ROOT)}}
    ).execute()
    outputs = [output for cell in found.cells if cell.cell_type == "code" for output in cell.outputs]
    text = "".join(output.get("text", "") for output in outputs)
    for words in SAYS[name]:
        assert words in text
    assert sum("image/png" in output.get("data", {}) for output in outputs) == PICTURES[name]
    assert [output for output in outputs if output.output_type == "error"] == []
