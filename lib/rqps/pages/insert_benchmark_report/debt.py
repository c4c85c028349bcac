"""What a step inherits: rows that wait for the purge, dirty pages, the age of the checkpoint, the wait for them."""

import polars as pl

from rqps.pages.insert_benchmark_report.steps import over_rounds, reads
from rqps.store.read import Study

DEBT = ("history_length", "dirty_mb", "dirty_share", "checkpoint_age_mb", "age_share", "waited_s")
MB = 1024
"""In KB."""
MOST_POINTS = 60

_MEASURES = {
    "history_length": pl.col("history_length").cast(pl.Float64),
    "dirty_mb": pl.col("dirty_kb") / MB,
    "dirty_share": pl.col("dirty_kb") / pl.col("buffer_pool_kb"),
    "checkpoint_age_mb": pl.col("checkpoint_age_kb") / MB,
    "age_share": pl.col("checkpoint_age_kb") / pl.col("redo_capacity_kb"),
    "waited_s": pl.col("waited_s"),
}


def debt(study: Study) -> pl.DataFrame:
    """One row a read-write step, dbms and metric, just before the step began, over the rounds."""
    before = study.engine.filter(pl.col("moment") == "before").select("run", "step", **_MEASURES).collect()
    steps = study.steps.filter(reads())
    wide = steps.join(before, on=["run", "step"], how="left", maintain_order="left")
    return over_rounds(wide, DEBT, study.runs)


def settling(study: Study) -> pl.DataFrame:
    """How the debt went away in the wait before a step: `second` of the wait, `measure`, `value`, one line a run."""
    wanted = ["history_length", "dirty_mb", "checkpoint_age_mb"]
    rows = (
        study.engine.filter(pl.col("moment") == "settling", pl.col("second").is_not_null())
        .select("host", "dbms", "round", "run", "step", "second", **{name: _MEASURES[name] for name in wanted})
        .collect()
    )
    long = rows.unpivot(
        index=["host", "dbms", "round", "run", "step", "second"], variable_name="measure", value_name="value"
    )
    of_line = ["run", "step", "measure"]
    every = (pl.len().over(of_line) + MOST_POINTS - 1) // MOST_POINTS
    place = pl.int_range(pl.len()).over(of_line)
    sorted_ = long.drop_nulls("value").sort("measure", "dbms", "round", "second", maintain_order=True)
    return sorted_.filter(place % every == 0)
