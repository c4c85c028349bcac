"""One side of `relating.py`: what the notebooks do, on `steps`, from the one-second `intervals`, and a whole page."""

import json
import sys
from pathlib import Path

import polars as pl
import rqps
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from relating_side import Rows, serve
from rqps.stats import COMPARED, compare, measured, rounds, tidy
from rqps.store import Study

NOTEBOOKS = Path(__file__).parent.parent / "notebooks/analysis"
place, task = sys.argv[1:]


def load() -> Study:
    return rqps.load(place)


def of_steps(study: Study) -> Rows:
    return _rows(study, measured(study, COMPARED))


def of_intervals(study: Study) -> Rows:
    rate = pl.col("operations").sum() / pl.len()
    rates = study.intervals.filter(pl.col("second") >= 0).group_by("run", "step").agg(rate.alias("operations_per_s"))
    steps = study.steps.lazy().drop("operations_per_s").join(rates, on=["run", "step"])
    return _rows(study, tidy(steps, ["operations_per_s"], study.runs))


def of_page(_: None) -> Rows:
    """The code cells of a page's notebook, with all that they show: tables as HTML, charts also as pictures."""
    shell = InteractiveShell.instance()
    cells = json.loads((NOTEBOOKS / f"{task}.ipynb").read_text())["cells"]
    asked, *others = ("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    assert asked.startswith("study = ")
    with capture_output() as captured:
        for source in (f"study, data = {place!r}, None", *others):
            shell.run_cell(source).raise_error()  # type: ignore[no-untyped-call]
    return [(len(captured.outputs),)]


def _rows(study: Study, values: pl.DataFrame) -> Rows:
    found = rounds(values, study.runs, study.card.base)
    compare(found)
    ratios = found.group_by("host", "step", "metric", "dbms").agg(pl.len(), pl.col("ratio").median())
    return ratios.rows()


if task == "steps":
    serve(load, of_steps)
elif task == "intervals":
    serve(load, of_intervals)
else:
    serve(lambda: None, of_page)
