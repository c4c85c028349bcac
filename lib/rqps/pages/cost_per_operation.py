"""Cost per operation: costs compared with the base's, in rqps's metrics and in the columns of published tables."""

import math
from collections.abc import Iterator
from html import escape

import polars as pl
from great_tables import GT

from rqps import stats
from rqps.numbers import formatted
from rqps.show import MUTED, Column, Row, by_host, coverage_of, interval_of, ratio, rounds_of, signs_of
from rqps.show.table import spread, table, two_lines
from rqps.show.words import first_of_many
from rqps.stats import PUBLISHED
from rqps.stats.metrics import CLIENT_CPU, CPU, SHOWN_BY_VMSTAT, THROUGHPUT, vmstat_averages
from rqps.stats.pairing import SHARES_SECONDS
from rqps.store import Study

OURS = {
    CPU: "dbms, µs/o",
    CLIENT_CPU: "generator, µs/o",
    "host_cpu_us_per_operation": "whole host, µs/o",
    THROUGHPUT: "operations/s",
}
DIGITS = {"cpu/o": 6, "o/s": 0, THROUGHPUT: 0}
USUAL_DIGITS = 3
_OF_THE_DISK = {"r/o": "host_reads", "rKB/o": "host_read_kb", "wKB/o": "host_write_kb"}


def costs(study: Study, *, published: bool = False) -> pl.DataFrame:
    """One row per step, dbms and metric: the `estimate` with its interval and, except for the base, the `ratio` to
    the base with the interval of the ratio. `published` selects the columns that the published scripts calculate.

    Only the metrics that all pages compare (`stats.COMPARED`) have verdicts; other metrics have only intervals."""
    values = as_published(study.steps, study.counters, study.runs) if published else stats.measured(study)
    rounds = stats.rounds(values, study.runs, study.card.base)
    of_study = pl.col("metric").is_in(stats.COMPARED)
    compared = stats.compare(rounds.filter(~of_study)).with_columns(verdict=pl.lit(None, pl.String), needs=pl.lit(""))
    if not published:
        compared = pl.concat([stats.relate(study)[1].select(compared.columns), compared])
    return stats.in_tables(cost_table(values, compared))


def as_published(steps: pl.DataFrame, counters: pl.LazyFrame, runs: pl.DataFrame) -> pl.DataFrame:
    """One row per step, run and published column, calculated from the lines of vmstat and iostat, one per second.

    Duets have no rows, since several servers have the load in the same second. For a scan, `o/s` is the thousands
    of rows per second that are read from one table, as published. The first line of vmstat, which averages over the
    time since boot, is left out."""
    of_disk = ((pl.col(total) / pl.col("interval_s")).mean().alias(name) for name, total in _OF_THE_DISK.items())
    steps = steps.filter(~SHARES_SECONDS)
    lines = counters.filter(SHOWN_BY_VMSTAT, pl.col("run").is_in(steps["run"].unique().implode()))
    seconds = lines.group_by("run", "step").agg(*vmstat_averages("cpu/o", "cs/o"), *of_disk)
    wide = stats.usable(steps).join(seconds.collect(), on=["run", "step"], how="inner", maintain_order="left")
    rows_per_table = pl.col("operations") / pl.col("transactions")
    of_scan = rows_per_table / 1000 / (pl.col("latency_mean_us") / 1e6)
    wide = wide.with_columns(pl.when(unit="row").then(of_scan).otherwise("operations_per_s").alias("o/s"))
    per_operation = [pl.col(name) / pl.col("o/s") for name in PUBLISHED if name != "o/s"]
    return stats.tidy(wide.with_columns(per_operation), PUBLISHED, runs)


def cost_table(values: pl.DataFrame, compared: pl.DataFrame) -> pl.DataFrame:
    """Absolute values, the base first, and the ratio of each other dbms to the base.

    The ratio may come from fewer rounds than the values: a round in which the base's value is 0 has no ratio.
    `base_estimate` is null if the base was not measured."""
    absolute, key = stats.absolute(values), ["host", "step", "metric"]
    base = str(next(iter(compared["base"]), ""))
    of_ratio = {f"ratio_{name}": pl.col(name) for name in ("low", "high", "n", "coverage")}
    of_base = absolute.filter(dbms=base).select(*key, base_estimate="estimate")
    of_me = compared.select(*key, "dbms", "verdict", "needs", "smallest_effect", ratio="estimate", **of_ratio)
    of_me = of_me.join(of_base.filter(pl.col("base_estimate") != 0), on=key, how="semi", maintain_order="left")
    joined = absolute.join(of_me, on=[*key, "dbms"], how="left", maintain_order="left")
    joined = joined.join(of_base, on=key, how="left", maintain_order="left")
    is_base = pl.col("dbms") == base
    return joined.with_columns(pl.lit(base).alias("base"), is_base.alias("is_base")).sort(
        "host", "position", ~is_base, maintain_order=True
    )


def cost_tables(costs: pl.DataFrame) -> Iterator[GT]:
    """Tables of costs, one per group of steps; a symbol beside each ratio shows its verdict."""
    ratios = pl.col("metric").is_in([CPU, "cpu/o"])
    few, left_out = first_of_many(costs, costs.filter(ratios).with_columns(estimate="ratio"))
    for (group,), rows in by_host(few).group_by("group", maintain_order=True):
        measured = set(rows["metric"])
        names, title = [name for name in (*PUBLISHED, *OURS) if name in measured], str(group or "")
        cells = spread(rows, "metric", ["step", "dbms"])
        for row in cells:
            row["rounds"] = max(row[name]["n"] for name in names if row.get(name))
        kind = "published" if "cpu/o" in names else "ours"
        yield table(
            cells,
            [*(Column(name, OURS.get(name, ""), _cell, align="right") for name in names), Column("rounds")],
            name="-".join(["cost", kind, *title.lower().split()]),
            group="step",
            rows="dbms",
            title=title,
            note=f"Median of {rounds_of(rows['n'])}, below it the {coverage_of(rows['coverage'])}; in bold the ratio "
            f"to {rows['base'][0]}, mean of the rounds' own ratios, with its interval.{left_out}",
        )


def _cell(row: Row) -> str:
    digits = _digits(row)
    low, high = row["low"], row["high"]
    interval = "" if low is None or high is None else f"({_number(low, digits)}–{_number(high, digits)})"
    cell = two_lines(_number(row["estimate"], digits), interval, muted=True)
    # If the base's cost is shown as 0, no ratio is shown.
    if row["ratio"] is None or float(_number(row["base_estimate"], digits)) == 0:
        return cell
    signed = f"{signs_of(row['metric']).get(row['verdict'], '')} {ratio(row['ratio'])}".strip()
    of_ratio = "" if row["ratio_low"] is None else f"({interval_of(row, of='ratio')})"
    small = f'<span style="font-size:11px;color:{MUTED}">{of_ratio}</span>'
    relative = f'<b title="{escape(row["needs"])}">{signed}</b> {small}'
    return f'{cell}<br><span style="white-space:nowrap">{relative}</span>'


def _digits(row: Row) -> int:
    """Number of decimals of a number and its interval. Published columns have as many decimals as in the published
    tables; rqps's metrics have 2 decimals, and more if the number is below 1.

    >>> [_digits({"metric": "client_cpu_us_per_operation", "estimate": value}) for value in (12.3, 0.14, 0.00021, 0)]
    [2, 3, 6, 2]
    """
    if row["metric"] in DIGITS or row["metric"] not in OURS:
        return DIGITS.get(row["metric"], USUAL_DIGITS)
    return 2 if row["estimate"] >= 1 or row["estimate"] <= 0 else 2 - math.floor(math.log10(row["estimate"]))


def _number(value: float, digits: int) -> str:
    return "0" if value == 0 else formatted(value, f".{digits}f")
