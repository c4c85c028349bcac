"""One side of `relating.py`: what the notebooks do, on `steps` or from the one-second `intervals`."""

import sys

import polars as pl
import rqps
from relating_side import Rows, serve
from relating_study import STUDY
from rqps.stats import COMPARED, compare, measured, rounds, tidy
from rqps.store import Study

data, task = sys.argv[1:]


def load() -> Study:
    return rqps.load(STUDY, data=data)


def of_steps(study: Study) -> Rows:
    values = measured(study, COMPARED)
    return _rows(compare(rounds(values, study.runs, study.card.base)))


def of_intervals(study: Study) -> Rows:
    rate = pl.col("operations").sum() / pl.len()
    rates = study.intervals.filter(pl.col("second") >= 0).group_by("run", "step").agg(rate.alias("operations_per_s"))
    steps = study.steps.lazy().drop("operations_per_s").join(rates, on=["run", "step"])
    values = tidy(steps, ["operations_per_s"], study.runs)
    return _rows(compare(rounds(values, study.runs, study.card.base)))


def _rows(summary: pl.DataFrame) -> Rows:
    return summary.select("host", "step", "metric", "dbms", "n", "median", "low", "high").rows()


serve(load, {"steps": of_steps, "intervals": of_intervals}[task])
