"""Time to a decided cell: the minutes of measuring that a comparison of throughput takes until the interval that
decides its verdict resolves 2 %, in each sample of duets.

The minutes are the time of a round, with its twin or its share of duets of the base with itself, divided by its
comparisons, times the rounds that each comparison needs by its spread. `before` has the ratio of the median cycle in
place of that of totals, by the same rounds.
"""

import sys
from pathlib import Path

import polars as pl
import rqps
from rqps import stats
from rqps.store.manifest import studies
from rqps.store.read import Study
from rqps.study import ROUNDS_FOR_A_VERDICT

DATA = Path(__file__).parent.parent / "data"
THROUGHPUT, RESOLVED = "operations_per_s", 0.02
MAD, OF_MEDIAN = 1.4826, 1.2533
"""The standard deviation in median deviations, and the error of a median in those of a mean, of normal noise."""


def main() -> None:
    rows = [row for name in sys.argv[1:] or studies(DATA) for row in minutes(name, rqps.load(name, DATA))]
    with pl.Config(tbl_rows=-1, tbl_cols=-1, tbl_width_chars=118):
        print(pl.DataFrame(rows))


def minutes(name: str, study: Study) -> list[dict[str, object]]:
    """A row for totals and one for the median cycle; none for a study of rounds."""
    if not study.runs["side"].is_not_null().any() or not study.card.rounds:
        return []
    totals = stats.rounds(stats.measured(study, [THROUGHPUT]), study.runs, study.card.base)
    totals = totals.drop("occasion")  # an interval for other hours is not narrowed by rounds
    rounds = study.runs["unit"].n_unique()
    of_duets = rqps.load(study.place, mode=None).runs.filter(pl.col("mode").is_in(["throughput", "health"]))
    elapsed_s = of_duets.group_by("unit").agg(pl.col("elapsed_s").max())["elapsed_s"].sum()
    round_s = float(elapsed_s) / rounds
    rows = []
    for ratio, paired in (("totals", totals), ("before", by_median_cycle(study, totals))):
        compared = stats.compare(paired).filter(pl.col("n") >= ROUNDS_FOR_A_VERDICT)
        if compared.is_empty():
            return []
        half = (compared["sure_high"] / compared["sure_low"]).sqrt() - 1
        needed = (compared["n"] * (half / RESOLVED) ** 2).clip(ROUNDS_FOR_A_VERDICT)
        row: dict[str, object] = {"sample": name, "cells": compared.height, "round_s": round(round_s)}
        row |= {"ratio": ratio, "decided": compared.filter(pl.col("verdict") != "unsure").height}
        a_cell = needed.median() * round_s / compared.height / 60  # type: ignore[operator]
        rows.append(row | {"half_pct": round(100 * half.median(), 2), "minutes_a_cell": round(a_cell, 2)})  # type: ignore[operator, arg-type]
    return rows


def by_median_cycle(study: Study, paired: pl.DataFrame) -> pl.DataFrame:
    """The rounds with the ratio of their median cycle, and its error by the spread of their cycles."""
    keys, rate = ["duet", "step", "cycle"], (pl.col("operations").sum() / pl.col("busy_us").sum()).log()
    sides = study.runs.lazy().select("run", "dbms", duet="unit")
    cycles = study.slices.drop("dbms").join(sides, on="run").group_by(*keys, "dbms").agg(rate=rate).collect()
    base = cycles.filter(dbms=study.card.base).drop("dbms")
    off = pl.col("rate") - pl.col("rate_right")
    spread = MAD * (off - off.median()).abs().median()
    medians = (
        cycles.join(base, on=keys)
        .filter(off.is_finite())
        .group_by("duet", "step", "dbms")
        .agg(ratio=off.median().exp(), error=OF_MEDIAN * spread / pl.len().sqrt())
    )
    return paired.drop("ratio", "error").join(medians, on=["duet", "step", "dbms"], maintain_order="left")


if __name__ == "__main__":
    main()
