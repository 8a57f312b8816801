"""examples/figure-6.ipynb: its cells print what is stored, and its figure is that of figures()."""

import contextlib
import csv
import io
import json
from pathlib import Path

import pytest

import convoy_sim

NOTEBOOK = Path(__file__).resolve().parents[1] / "examples" / "figure-6.ipynb"


@pytest.fixture(scope="module")
def run():
    """The names that the cells define, and what each prints beside what is stored."""
    names, printed = {}, []
    for cell in json.loads(NOTEBOOK.read_text())["cells"]:
        if cell["cell_type"] == "code":
            output = io.StringIO()
            with contextlib.redirect_stdout(output):
                exec("".join(cell["source"]), names)
            stored = "".join(line for stream in cell["outputs"] for line in stream["text"])
            printed.append((output.getvalue(), stored))
    return names, printed


def test_the_cells_print_what_is_stored(run):
    for printed, stored in run[1]:
        assert printed == stored
    assert sum(printed != "" for printed, _ in run[1]) == 2


def test_its_figure_is_that_of_figures(run, tmp_path):
    convoy_sim.figures(tmp_path, packets=300, range_packets=1)
    with open(tmp_path / "figure-06.csv") as file:
        rows = [(row["series"], row["pattern"], float(row["throughput / that at W = 1"])) for row in csv.DictReader(file)]
    figure = run[0]["figure_6"](packets=300)
    patterns = run[0]["PATTERNS"]
    assert rows == [
        (f"W = {window}", pattern, value) for window in (10, 30) for pattern, value in zip(patterns, figure[window])
    ]
