"""One side of `relating.py`: what the notebooks do, on `steps`, from the one-second `intervals`, and a whole page."""

import sys
import tempfile
from pathlib import Path

import polars as pl
import rqps
from relating_side import Rows, serve
from rqps.notebook import LOGS, RESULT, Execution
from rqps.report.render import notebook_page
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
    """A page as `rqps report` makes it: its notebook executed in a kernel of its own, and rendered."""
    with tempfile.TemporaryDirectory(prefix="rqps-bench-") as name:
        folder = Path(name)
        (folder / LOGS).mkdir()
        execution = Execution(NOTEBOOKS / f"{task}.ipynb", folder, {"study": place, "data": ""}, each_cell=False)
        execution.wait()
        execution.stop()
        assert execution.error() is None, execution.error()
        page = notebook_page(folder / RESULT, study="relating", lead="", home="index.html", made="")[1]
    return [(len(page),)]


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
