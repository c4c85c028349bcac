"""Ratios of totals beside those of the median cycle, in the samples: which comparisons differ by more than their
interval.

A round's throughput is the operations of its slices over their time, and CPU is what was used in them over these
operations. Before, the ratio of a round was the median of its cycles' ratios, and CPU of a step that writes was the
whole step's.
"""

import sys
from pathlib import Path

import polars as pl
import rqps
from rqps import stats
from rqps.stats.metrics import CPU, THROUGHPUT
from rqps.store.read import Study

SAMPLES = Path(__file__).parent.parent / "data" / "sample"
KEYS = ["host", "step", "base", "dbms", "metric"]
RATES = {THROUGHPUT: pl.col("operations") / pl.col("busy_us"), CPU: pl.col("server_cpu_us") / pl.col("operations")}
IN_BURSTS = ("fillseq", "overwrite")
"""Steps whose throughput was that of the whole step before, too."""
WORTH_NAMING = 0.01


def main() -> None:
    names = sys.argv[1:] or sorted(path.name.partition("=")[2] for path in SAMPLES.glob("study=*"))
    for name in names:
        study = rqps.load(name, SAMPLES.parent)
        rounds, compared = stats.relate(study)
        in_bursts = (pl.col("metric") == THROUGHPUT) & pl.col("kind").is_in(IN_BURSTS)
        in_slices = rounds.drop_nulls("cycles").filter(pl.col("metric").is_in(list(RATES)), ~in_bursts)
        if in_slices.is_empty():
            continue
        rows = compared.join(median_cycles(study, in_slices), on=KEYS).with_columns(
            moved=(pl.col("estimate") / pl.col("before") - 1)
        )
        outside = rows.filter((pl.col("before") < pl.col("low")) | (pl.col("before") > pl.col("high")))
        more = rows.filter(pl.col("moved").abs() > WORTH_NAMING).height
        print(
            f"\n{name}: {more} of {rows.height} ratios moved by more than 1 %, {outside.height} beyond their interval"
        )
        for row in outside.sort(pl.col("moved").abs(), descending=True).iter_rows(named=True):
            interval = f"{row['before']:.3f} -> {row['estimate']:.3f} ({row['low']:.3f} to {row['high']:.3f})"
            print(f"  {stats.SIDES[row['metric']]:10} {row['step']:28} {row['dbms']:30} {interval}")


def median_cycles(study: Study, rounds: pl.DataFrame) -> pl.DataFrame:
    """The ratio `before` of each comparison, from the median cycles of its rounds."""
    cycles = study.slices.group_by("run", "step", "cycle").agg(pl.col("operations", "busy_us", "server_cpu_us").sum())
    values = cycles.select("run", "step", "cycle", **RATES).collect()
    long = values.unpivot(list(RATES), index=["run", "step", "cycle"], variable_name="metric")
    of_base = long.rename({"run": "base_run", "value": "of_base"})
    keys = [*KEYS, "round"]
    medians = (
        rounds.select(*keys, "run", "base_run")
        .join(long, on=["run", "step", "metric"])
        .join(of_base, on=["base_run", "step", "metric", "cycle"])
        .group_by(keys)
        .agg(ratio=(pl.col("value") / pl.col("of_base")).median())
    )
    steps = study.steps.select("run", "step", "writes", whole=pl.col("server_cpu_s") / pl.col("operations"))
    ends = rounds.select(*keys, "run", "base_run").join(steps, on=["run", "step"])
    ends = ends.join(steps.rename({"run": "base_run", "whole": "of_base"}).drop("writes"), on=["base_run", "step"])
    whole = ends.filter("writes", metric=CPU).select(*keys, ratio=pl.col("whole") / pl.col("of_base"))
    return medians.update(whole, on=keys).group_by(KEYS).agg(before=pl.col("ratio").log().mean().exp())


if __name__ == "__main__":
    main()
