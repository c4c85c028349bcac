"""The three tables of the published summary, in its colours, with interval and verdict beside each number."""

from collections.abc import Callable, Iterable
from typing import Any

import polars as pl
from great_tables import GT, loc, style

from rqps.pages.insert_benchmark_report.colours import GREY, Colour, of_rate, of_ratio, of_throughput
from rqps.pages.insert_benchmark_report.tables import SMALL, medians_of, reach_of
from rqps.view.tables import plain_table
from rqps.view.text import Sentences
from rqps.view.theme import by_host, in_order, legend_of, signs_of

THROUGHPUT = "operations_per_s"
TARGET = "target"

Row = dict[str, Any]
Cells = dict[tuple[str, str], tuple[str, Colour]]
"""By dbms and step: what is in a cell, and its colour."""


def throughput_table(found: pl.DataFrame, summary: pl.DataFrame) -> GT:
    """Rows inserted, rows indexed or queries in a second, one row a dbms; the sign is the verdict of its ratio."""
    base, signs = str(summary["base"][0]), signs_of(THROUGHPUT)
    verdicts = {
        (row["host"], row["step"], row["dbms"]): signs[row["verdict"]]
        for row in summary.filter(metric=THROUGHPUT).iter_rows(named=True)
    }
    cells: Cells = {}
    named = _base_first(found, base)
    for _, column in named.group_by("host", "step", maintain_order=True):
        rows = column.to_dicts()
        colours = of_throughput([row["median"] for row in rows], [row["met"] for row in rows])
        for row, colour in zip(rows, colours, strict=True):
            sign = verdicts.get((row["host"], row["step"], row["dbms"]), "")
            cells[row["row"], row["step"]] = (f"{_number(row['median'])} {sign}{_reach(row)}", colour)
    return _table(
        named,
        cells,
        "insert-throughput",
        "l.i0, l.i1, l.i2: rows inserted in a second; l.x: rows indexed; q…: queries. "
        "In each column red is within a quarter of the gap of the least, unless that is 80 % of the most; green "
        "within a quarter of the most; grey where the rate of inserts was missed. "
        f"{medians_of(found)} The sign is the verdict against {base}: {legend_of(THROUGHPUT)}",
    )


def relative_throughput_table(summary: pl.DataFrame) -> GT:
    """Throughput relative to the first row, the base: the median of the rounds' ratios."""
    rows = summary.filter(metric=THROUGHPUT)
    base, signs = str(rows["base"][0]), signs_of(THROUGHPUT)
    first = rows.unique(["host", "step"], maintain_order=True).with_columns(
        pl.lit(base).alias("dbms"), median=1.0, low=None, high=None, verdict=pl.lit("base")
    )
    named = _base_first(pl.concat([first, rows], how="vertical_relaxed"), base)
    cells: Cells = {}
    for row in named.iter_rows(named=True):
        told = "1.00" if row["verdict"] == "base" else f"{signs[row['verdict']]} {row['median']:.2f}"
        reach = "" if row["verdict"] == "base" else _reach(row, ".2f")
        cells[row["row"], row["step"]] = (f"{told}{reach}", of_ratio(row["median"]))
    return _table(
        named,
        cells,
        "insert-relative",
        f"Relative to {base}: the median of the ratios within each round. Yellow below 0.95, blue above 1.05. "
        f"{medians_of(rows)} {legend_of(THROUGHPUT)}",
    )


def insert_rate_table(rates: pl.DataFrame, base: str) -> GT | Sentences:
    """Rows inserted in a second while queries were asked, and in the last row the rate that was asked for."""
    if rates.is_empty():
        return Sentences(["No step of this study had a rate of inserts to hold."])
    named = _base_first(rates, base)
    cells: Cells = {}
    for row in named.iter_rows(named=True):
        missed = f"<br><span style='{SMALL}'>missed in {row['missed']} of {row['n']}</span>" if row["missed"] else ""
        told = f"{_number(row['median'])}{_reach(row)}{missed}"
        cells[row["row"], row["step"]] = (told, of_rate(row["median"], row["target"]))
        cells[TARGET, row["step"]] = (_number(row["target"]), GREY)
    return _table(
        named,
        cells,
        "insert-rate",
        "Rows inserted in a second of the whole step, all clients together; as many were deleted where the step "
        "deletes. Red below 95 % of the target, which is the rate of each client times their number. "
        f"{medians_of(rates)}",
        more=[TARGET],
    )


def _base_first(frame: pl.DataFrame, base: str) -> pl.DataFrame:
    """With `row`, what a dbms is called in the table, the base before all others."""
    ordered = frame.sort("host", pl.col("dbms") != base, maintain_order=True)
    return ordered.with_columns(by_host(ordered)["dbms"].alias("row"))


def _table(named: pl.DataFrame, cells: Cells, name: str, note: str, more: Iterable[str] = ()) -> GT:
    steps = in_order(named.sort("position", maintain_order=True)["step"])
    rows = [*in_order(named["row"]), *more]
    texts = {step: [cells.get((row, step), ("", None))[0] for row in rows] for step in steps}
    table = plain_table(pl.DataFrame({"dbms": rows, **texts}), name, note)
    table = table.fmt(_as_it_is, columns=steps).cols_align("right", columns=steps)
    for step in steps:
        for number, row in enumerate(rows):
            if colour := cells.get((row, step), ("", None))[1]:
                table = table.tab_style(style.fill(colour), loc.body(step, [number]))
    return table


def _number(value: float) -> str:
    """
    >>> _number(123456.7), _number(9.87)
    ('123,457', '9.9')
    """
    return f"{value:,.{0 if value >= 100 else 1}f}"


def _reach(row: Row, form: str | None = None) -> str:
    told: Callable[[float], str] = (lambda value: format(value, form)) if form else _number
    reach = "no interval" if row["low"] is None else reach_of(told(row["low"]), told(row["high"]))
    return f'<br><span style="{SMALL}">{reach}</span>'


def _as_it_is(value: str | None) -> str:
    return value or "–"  # made above, from numbers
