"""One side of `relating.py`: what the notebooks do, on `steps`, from the one-second `intervals`, and a whole page."""

import sys
import tempfile
from pathlib import Path

import polars as pl
import rqps
from relating_side import Rows, serve
from rqps.report import build
from rqps.report.profiles import Links
from rqps.report.rounds import rounds_page
from rqps.report.site import NOTEBOOK_S, Progress, executed_page, reading
from rqps.stats import COMPARED, compare, measured, relate, rounds, tidy
from rqps.store import Study
from rqps.terminal import Terminal

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
    with tempfile.TemporaryDirectory(prefix="rqps-bench-") as folder, Path("/dev/null").open("w") as nowhere:
        parameters, progress = {"study": place, "data": ""}, Progress(NOTEBOOK_S, Terminal(nowhere))
        words = {"study": "relating", "home": "index.html", "made": ""}
        with reading(Path(folder) / "reading") as reader:
            notebook = NOTEBOOKS / f"{task}.ipynb"
            page = executed_page(notebook, Path(folder), parameters, progress, reader, **words)[1]
    return [(len(page),)]


def of_rounds(study: Study) -> Rows:
    """The page of all rounds, to which each number leads."""
    files: dict[str, str | None] = dict.fromkeys(study.runs["folder"])
    page = rounds_page(study, *relate(study), files, Links(), made="", screen="")[0]
    return [(len(page),)]


def of_report(_: None) -> Rows:
    """All pages, one after the other."""
    with tempfile.TemporaryDirectory(prefix="rqps-bench-") as folder:
        index = build(place, out=folder)
        return [(page.stat().st_size,) for page in index.parent.glob("*.html")]


def _rows(study: Study, values: pl.DataFrame) -> Rows:
    paired = rounds(values, study.runs, study.card.base)
    compare(paired)
    ratios = paired.group_by("host", "step", "metric", "dbms").agg(pl.len(), pl.col("ratio").median())
    return ratios.rows()


if task == "steps":
    serve(load, of_steps)
elif task == "intervals":
    serve(load, of_intervals)
elif task == "rounds":
    serve(load, of_rounds)
elif task == "report":
    serve(lambda: None, of_report)
else:
    serve(lambda: None, of_page)
