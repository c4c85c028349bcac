"""p50 and p99 as published: of the rates of all seconds, the one that is reached in so many of them."""

import polars as pl

from rqps.pages.insert_benchmark_report.steps import main_kind, seconds_of
from rqps.store.read import Study

POSITIONS = {"p50": 0.50, "p99": 0.99}


def rates_at(study: Study) -> pl.DataFrame:
    """One row a run and step: `p50` and `p99` of the first client alone, as published, and `_all` of all of them."""
    steps = study.steps.filter(pl.col("step") != "l.x")
    seconds = seconds_of(study.clients, steps, ["insert", "query"]).filter(pl.col("kind") == main_kind())
    first = seconds.filter(client=1).group_by("run", "step").agg(_at("operations", ""))
    of_all = seconds.group_by("run", "step", "second").agg(pl.col("operations").sum())
    every = of_all.group_by("run", "step").agg(_at("operations", "_all"))
    return every.join(first, on=["run", "step"], how="left")


def _at(column: str, end: str) -> list[pl.Expr]:
    """The value at a position of all, the greatest first: reached in at least so large a share of the seconds."""
    ordered = pl.col(column).sort(descending=True).cast(pl.Float64)
    places = {name: ((share * pl.len()).ceil().cast(pl.Int64) - 1).clip(0) for name, share in POSITIONS.items()}
    return [ordered.get(place).alias(f"{name}{end}") for name, place in places.items()]
