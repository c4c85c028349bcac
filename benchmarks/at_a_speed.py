"""Ratios at a speed: does the speed of the other servers in the same cycle explain a ratio, and does its slope narrow
the spread between rounds?

The slope of a comparison is robust (Huber) and of cycles within rounds, so that the rounds test it: each round's
ratio of totals, less the slope times its speed.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import rqps
from rqps.store.read import Study

DATA = Path(__file__).parent.parent / "data"
NAMES = ("sysbench-releases", "point-lookups", "ps-by-release", "releases", "where-did-it-go", "ps-statements")
SURE = 3.0
"""Standard errors that a slope is from 0 to explain anything."""
RATE = (pl.col("operations").sum() / pl.col("busy_us").sum()).log().alias("rate")


def main() -> None:
    rows = [row for name in sys.argv[1:] or NAMES for row in slopes(name, rqps.load(name, DATA))]
    frame = pl.DataFrame(rows, schema=["sample", "writes", "slope", "t", "variance", "at_speed"], orient="row")
    explained = frame.with_columns(explains=pl.col("t").abs() > SURE)
    share = (pl.col("at_speed") / pl.col("variance")).median()
    table = explained.group_by("sample", "writes", "explains", maintain_order=True).agg(
        pl.len().alias("comparisons"), pl.col("slope").median(), share.alias("variance left")
    )
    with pl.Config(tbl_rows=-1):
        print(table.sort("sample", "writes", "explains"))


def slopes(name: str, study: Study) -> Iterator[tuple[Any, ...]]:
    """Each comparison with others beside it: its slope and that over its error, and the variance of rounds with and
    without it. With two servers there are no others; a speed that does not change has no slope."""
    slices = study.slices.drop("dbms").join(study.runs.lazy().select("run", "unit", "dbms"), on="run").collect()
    writes = dict(study.steps.select("step", "writes").unique().iter_rows())
    by_cycle = slices.group_by("step", "unit", "cycle", "dbms").agg(RATE).filter(pl.col("rate").is_finite())
    by_round = slices.group_by("step", "unit", "dbms").agg(RATE)
    for step, kind in writes.items():
        cycles = by_cycle.filter(step=step).pivot("dbms", index=["unit", "cycle"], values="rate").drop_nulls()
        rounds = by_round.filter(step=step).pivot("dbms", index="unit", values="rate").drop_nulls()
        names = sorted(cycles.columns[2:])
        for me in names:
            others = [other for other in names if other not in (me, study.card.base)]
            if me == study.card.base or not others or study.card.base not in names:
                continue
            ratio, speed = pl.col(me) - pl.col(study.card.base), pl.mean_horizontal(others)
            within = cycles.select("unit", ratio=ratio, speed=speed)
            reach = pl.col("speed").max() - pl.col("speed").min()
            if not within.group_by("unit").agg(reach)["speed"].max():
                continue
            slope, error = huber(within)
            of_rounds = rounds.select(ratio=ratio, at_speed=ratio - slope * speed)
            variances = of_rounds.select(pl.all().var()).row(0)
            yield (name, kind, slope, slope / max(error, 1e-12), *variances)


def huber(within: pl.DataFrame) -> tuple[float, float]:
    """The slope of ratio on speed within units, and its standard error; far cycles weigh less."""
    unit = within["unit"].rank("dense").to_numpy() - 1
    ratio, speed = within["ratio"].to_numpy(), within["speed"].to_numpy()
    weight = np.ones(len(unit))
    for _ in range(8):
        sums = np.bincount(unit, weight)
        x, y = (v - (np.bincount(unit, weight * v) / sums)[unit] for v in (speed, ratio))
        squares = (weight * x * x).sum()
        slope = (weight * x * y).sum() / squares
        residual = y - slope * x
        weight = 1 / np.maximum(1, np.abs(residual) / (2 * spread(residual)))
        weight /= np.maximum(1, np.abs(x) / (3 * spread(x)))
    return float(slope), float(np.sqrt(((weight * residual * x) ** 2).sum()) / squares)


def spread(values: Any) -> Any:
    return 1.4826 * np.median(np.abs(values)) + 1e-12


if __name__ == "__main__":
    main()
