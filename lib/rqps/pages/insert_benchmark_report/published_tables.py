"""Tables in the published colours, which know no noise: a verdict stands beside each number of throughput."""

from collections.abc import Sequence
from math import inf
from typing import Any

import polars as pl
from great_tables import GT

from rqps.pages.insert_benchmark_report.response_times import LONGEST, STATEMENTS, buckets
from rqps.pages.insert_benchmark_report.steps import insert_rates, throughput
from rqps.pages.insert_benchmark_report.tables import percentile_table
from rqps.show import (
    Column,
    Nothing,
    Row,
    Sentences,
    by_host,
    in_order,
    interval_of,
    legend_of,
    ratio,
    signs_of,
    spread,
    table,
    two_lines,
)
from rqps.show.table import with_interval
from rqps.show.theme import PALE, lighter
from rqps.show.words import medians_of, reach_of
from rqps.stats import relate
from rqps.stats.metrics import THROUGHPUT
from rqps.store.read import Study

TARGET = "target"
RED, GREY, GREEN, YELLOW, BLUE = "#FF9A9A", "#D7D7D7", "#81FFA6", "#FFDD81", "#81FFF9"
QUARTER, CLOSE = 0.25, 0.80
SHADE_PERCENT, SMALLEST = 5, 0.0005
Colour = str | None


def of_throughput(values: Sequence[float], on_target: Sequence[bool | None]) -> list[Colour]:
    """Red near the least of a column, grey where the rate was missed, green near the most that reached its rate."""
    both = list(zip(values, on_target, strict=True))
    reached = [value for value, each in both if each is not False]
    if not reached:
        return [GREY] * len(both)
    low, high = _limits(min(values), max(reached))
    return [
        RED if value <= low else GREY if each is False else GREEN if value >= high else None for value, each in both
    ]


def of_share(percent: float) -> str:
    """The grey of a bucket: the more responses, the darker."""
    shade = 255 - round(5.5 * (percent // SHADE_PERCENT))
    return f"#{shade:02x}{shade:02x}{shade:02x}"


def of_longest(values: Sequence[float]) -> list[Colour]:
    """The column of longest responses: red near the most, and green near the least where they differ enough."""
    low, high = _limits(min(values), max(values))
    return [RED if value >= high else GREEN if value <= low else None for value in values]


def _limits(least: float, most: float) -> tuple[float, float]:
    """The highest number near the least, if they differ enough, and the lowest number near the most."""
    near = QUARTER * (most - least)
    return least + near if least < CLOSE * most else -inf, most - near


def summary_table(study: Study, what: str) -> Any:
    """One of the three tables of the published summary: `throughput`, `relative throughput` and `rate of inserts`."""
    base = study.card.base
    if what == "rate of inserts":
        return insert_rate_table(insert_rates(study), base)
    compared = relate(study)[1].filter(metric=THROUGHPUT)
    return throughput_table(throughput(study), compared) if what == "throughput" else relative_table(compared)


def response_times(study: Study, statement: str) -> list[Any]:
    """Tables of the percentiles of one kind of statement, and of its published buckets."""
    found = buckets(study).filter(statement=statement)
    return [percentile_table(study, statement), *([] if found.is_empty() else [histogram(found, statement)])]


def throughput_table(found: pl.DataFrame, compared: pl.DataFrame) -> GT:
    """Rows inserted, rows indexed or queries per second; the sign is the verdict of the ratio."""
    base, signs, cells = compared["base"][0], signs_of(THROUGHPUT), []
    verdicts = compared.select("host", "step", "dbms", "verdict")
    rows = found.join(verdicts, on=["host", "step", "dbms"], how="left", maintain_order="left")
    for _, column in rows.group_by("host", "step", maintain_order=True):
        colours = of_throughput(column["estimate"].to_list(), column["on_target"].to_list())
        for row, colour in zip(column.to_dicts(), colours, strict=True):
            number = f"{_number(row['estimate'])} {signs.get(row['verdict'], '')}"
            shown = lighter(colour, 1 - PALE) if colour and row["verdict"] == "unsure" else colour
            cells.append({**row, "cell": two_lines(number, reach_of(row, _number)), "colour": shown})
    note = (
        "l.i0, l.i1, l.i2: rows inserted per second; l.x: rows indexed; q…: queries. "
        "In each column red is within a quarter of the gap of the least, unless that is 80 % of the most; green "
        "within a quarter of the most; grey where the rate of inserts was missed. "
        f"Pale: unsure. {medians_of(found)} The sign is the verdict against {base}: {legend_of(compared)}"
    )
    return _by_step(cells, base, "insert-throughput", note)


def relative_table(rows: pl.DataFrame) -> GT:
    """Throughput relative to the first row, the base."""
    base, signs = rows["base"][0], signs_of(THROUGHPUT)
    first = rows.unique(["host", "step"], maintain_order=True).select("host", "step", "position", dbms=pl.lit(base))
    cells = [{**row, "cell": "1.00", "colour": None} for row in first.to_dicts()]
    for row in rows.to_dicts():
        number = f"{signs[row['verdict']]} {ratio(row['estimate'])}"
        cell = two_lines(number, interval_of(row))
        colour = YELLOW if row["estimate"] < 0.95 else BLUE if row["estimate"] > 1.05 else None
        colour = None if row["verdict"] == "unsure" else colour
        cells.append({**row, "cell": cell, "colour": colour})
    note = (
        f"Relative to {base}: the mean of the ratios within each round. Yellow below 0.95, blue above 1.05, where "
        "that is not unsure. "
        f"{medians_of(rows, 'Means')} {legend_of(rows)}"
    )
    return _by_step(cells, base, "insert-relative", note)


def insert_rate_table(rates: pl.DataFrame, base: str) -> GT | Sentences:
    """Rows inserted per second while queries were asked, and in the last row the rate that was asked for."""
    cells: list[Row] = []
    if rates.is_empty():
        return Nothing(["No step of this study had a rate of inserts to reach."])
    for row in rates.to_dicts():
        cell = with_interval(_number)(row)
        if row["missed"]:
            cell = two_lines(cell, f"missed in {row['missed']} of {row['n']}")
        cells.append({**row, "cell": cell, "colour": None if row["on_target"] else RED})
    targets = [{**row, "dbms": TARGET, "cell": _number(row["target"]), "colour": GREY} for row in cells]
    note = (
        "Rows inserted per second of the whole step, all clients together. Red below 95 % of the target, which is "
        f"the rate of each client times their number. {medians_of(rates)}"
    )
    return _by_step([*cells, *targets], base, "insert-rate", note)


def _by_step(cells: Sequence[Row], base: str, name: str, note: str) -> GT:
    """One row per dbms, the base first, and a column per step with `cell` on its `colour`."""
    kept = pl.DataFrame(
        [{name: cell[name] for name in ("host", "step", "position", "dbms", "cell", "colour")} for cell in cells],
        schema_overrides={"colour": pl.String},
    )
    ordered = by_host(kept.sort("host", pl.col("dbms") == TARGET, pl.col("dbms") != base, maintain_order=True))
    steps = in_order(kept.sort("position", maintain_order=True)["step"])
    columns = [Column(step, form=lambda row: str(row["cell"]), colour=_colour, align="right") for step in steps]
    return table(spread(ordered, "step", ["dbms"]), [Column("dbms"), *columns], name=name, note=note)


def _colour(row: Row | None) -> Colour:
    return row["colour"] if row else None


def _number(value: float) -> str:
    return f"{value:,.{0 if value >= 100 else 1}f}"


def histogram(found: pl.DataFrame, statement: str) -> GT:
    cells, rows = [], by_host(found)
    for _, of_step in rows.group_by("host", "step", maintain_order=True):
        longest = of_step.filter(bucket=LONGEST)
        colours = dict(zip(longest["dbms"], of_longest(longest["estimate"].to_list()), strict=True))
        for row in of_step.to_dicts():
            grey = of_share(row["estimate"])
            cells.append({**row, "colour": colours[row["dbms"]] if row["bucket"] == LONGEST else grey})
    note = (
        f"Percent of the {statement} statements up to so long, darker by steps of 5 %; {LONGEST}: the longest of all "
        "clients, in seconds: in each step red within a quarter of the gap of the most, green within a quarter of "
        f"the least, unless that is 80 % of the most. {medians_of(rows)}"
    )
    wide = spread(pl.DataFrame(cells, schema_overrides={"colour": pl.String}), "bucket", ["step", "dbms"])
    shown = [Column(bucket, form=_bucket, colour=_colour, align="right") for bucket in in_order(rows["bucket"])]
    title, name = f"Published buckets, {STATEMENTS[statement]}", f"insert-histogram-{statement}"
    return table(wide, shown, name=name, group="step", rows="dbms", title=title, note=note)


def _bucket(row: Row) -> str:
    """A cell of the histogram: blank for none, `nonzero` for fewer than three decimals show."""
    value = f"{row['estimate']:.3f}"
    if row["bucket"] != LONGEST and row["estimate"] < SMALLEST:
        value = "nonzero" if row["estimate"] else "0"
    return two_lines(value, reach_of(row, "{:.3f}".format)) if row["estimate"] or row["high"] else " "
