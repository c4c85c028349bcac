"""Studies of many steps: their groups, their worst steps, and each step over the releases."""

from typing import Any

import polars as pl
from great_tables import GT

from rqps import view
from rqps.stats import version_order
from rqps.stats.verdict import VERDICTS
from rqps.view import (
    Column,
    by_host,
    colour_of,
    coverage_of,
    in_order,
    interval_of,
    legend_of,
    ratio_cell,
    ratio_colour,
    rounds_of,
    signs_of,
    spread,
    table,
    two_lines,
)

THROUGHPUT = "operations_per_s"
CPU = "server_cpu_us_per_operation"
MANY = 12
"""Steps; of more than these, a reader wants the groups first."""
ALL = "All steps"


def by_group(compared: pl.DataFrame, metric: str = THROUGHPUT) -> pl.DataFrame:
    """One row per group and dbms: the median of its steps' medians, their reach, and the number of each verdict."""
    middle = pl.col("median")
    return (
        compared.filter(metric=metric)
        .group_by("host", "group", "base", "dbms", maintain_order=True)
        .agg(
            pl.len().alias("steps"),
            middle.median().alias("middle"),
            middle.min().alias("low"),
            pl.col("step").sort_by("median").first().alias("low_step"),
            middle.max().alias("high"),
            pl.col("step").sort_by("median").last().alias("high_step"),
            pl.col("n").min().alias("fewest_rounds"),
            pl.col("n").max().alias("most_rounds"),
            *((pl.col("verdict") == word).sum().alias(word) for word in VERDICTS),
        )
    )


def group_table(compared: pl.DataFrame) -> GT:
    """One row per dbms, one column per group of steps."""
    rows = by_host(by_group(compared)).with_columns(pl.col("group").replace("", ALL))
    steps = dict(rows.sort("steps").select("group", "steps").iter_rows())
    signs = signs_of(THROUGHPUT)
    legend = ", ".join(f"{signs[word]} {word}" for word in VERDICTS[:2])
    return table(
        spread(rows, "group", ["dbms"]),
        [
            Column("dbms"),
            *(
                Column(group, f"{group} ({steps[group]})", _middle, _colour_of_middle, align="center")
                for group in in_order(rows["group"])
            ),
        ],
        name="groups",
        note=f"rQPS against {rows['base'][0]}, a step counts once: the median of the steps, below it from the lowest "
        f"to the highest, and how many of them are {legend}, {signs['same']} the same or {signs['unsure']} unsure, "
        f"each by {rounds_of([*rows['fewest_rounds'], *rows['most_rounds']])}.",
    )


def worst(compared: pl.DataFrame, at_most: int = MANY) -> pl.DataFrame:
    """Each step with the dbms that does worst in it, the worst first, and the server's CPU there."""
    ratios = compared.filter(metric=THROUGHPUT).sort("median", maintain_order=True)
    first = ratios.unique(["host", "step"], keep="first", maintain_order=True)
    keys = ["host", "step", "base", "dbms"]
    cpu = compared.filter(metric=CPU).select(*keys, cpu="median", cpu_low="low", cpu_high="high")
    shown = first.head(at_most).with_columns(pl.lit(first.height).alias("of_steps"))
    return shown.join(cpu, on=keys, how="left", maintain_order="left")


def worst_table(compared: pl.DataFrame) -> GT:
    """One row per step, the worst first."""
    rows = by_host(worst(compared))
    of_steps = rows["of_steps"][0]
    shown = f"The worst {rows.height} of {of_steps} steps" if rows.height < of_steps else "All steps"
    cells = [row | {"ratio": row, "cost": row if row["cpu"] is not None else None} for row in rows.to_dicts()]
    return table(
        cells,
        [
            Column("step"),
            Column("dbms"),
            Column("ratio", "rQPS", lambda row: ratio_cell(row | {"warned": ""}), ratio_colour, align="center"),
            Column("cost", "server CPU/o", _cost, align="center"),
        ],
        name="worst",
        note=f"{shown}, each with the dbms that does worst in it. Relative to {rows['base'][0]}: median of "
        f"{rounds_of(rows['n'])}, {coverage_of(rows['coverage'])}. {legend_of(THROUGHPUT)} Server CPU/o: its CPU "
        "time for an operation, relative to the base.",
    )


def over_releases(compared: pl.DataFrame, runs: pl.DataFrame) -> Any:
    """A small chart of each step, with the base among its releases."""
    return view.over_releases(release_series(compared, runs))


def release_series(compared: pl.DataFrame, runs: pl.DataFrame) -> pl.DataFrame:
    """The ratios of each step with the base among them, which is 1, in the order of releases."""
    ratios = compared.filter(metric=THROUGHPUT)
    build, config = (pl.col("base").str.splitn(".", 2).struct.field(f"field_{part}") for part in (0, 1))
    of_base = (
        ratios.group_by("host", "group", "step", "kind", "range", "base")
        .agg(pl.col("n").max())
        .with_columns(
            build.alias("build"),
            config.alias("config"),
            pl.col("base").alias("dbms"),
            *(pl.lit(1.0).alias(name) for name in ("median", "low", "high")),
            pl.lit("base").alias("verdict"),
        )
    )
    of_step = ["host", "group", "step", "kind", "range"]
    shown = [*of_step, "base", "dbms", "build", "config", "n", "median", "low", "high", "verdict"]
    order = {step: number for number, step in enumerate(in_order(ratios["step"]))}
    place = pl.col("step").replace_strict(order, return_dtype=pl.Int32)
    both = pl.concat([ratios.select(shown), of_base.select(shown)])
    return both.join(version_order(runs), on="dbms").sort("host", place, "rank")


def _middle(row: dict[str, Any]) -> str:
    signs = signs_of(THROUGHPUT)
    counted = " ".join(f"{signs[word]}{row[word]}" for word in VERDICTS if row[word])
    return two_lines(f"<b>{row['middle']:.2f}</b>", f"{row['low']:.2f} to {row['high']:.2f}<br>{counted}")


def _colour_of_middle(row: dict[str, Any] | None) -> str | None:
    return colour_of(row["middle"]) if row else None


def _cost(row: dict[str, Any]) -> str:
    return two_lines(f"{row['cpu']:.2f}", interval_of({"low": row["cpu_low"], "high": row["cpu_high"]}))
