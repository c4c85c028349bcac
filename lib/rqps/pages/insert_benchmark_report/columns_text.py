"""The 21 columns in the form in which they are published, with what the rounds leave open below each number."""

from collections.abc import Iterator
from typing import Any

import polars as pl

from rqps.pages.insert_benchmark_report.folded import Folded
from rqps.view.theme import by_host, coverage_of, in_order, rounds_of

COLUMNS = (
    *("ips", "qps", "rps", "rmbps", "wps", "wmbps", "rpq", "rkbpq", "wpi", "wkbpi", "csps", "cpups", "cspq", "cpupq"),
    *("dbgb1", "dbgb2", "rss", "maxop", "p50", "p99"),
)
TAG = "tag"
DIGITS = {
    **dict.fromkeys(("ips", "qps", "rps", "wps", "csps", "cpupq", "p50", "p99"), 0),
    **dict.fromkeys(("rmbps", "wmbps", "cpups", "dbgb1", "dbgb2", "rss"), 1),
}
USUAL_DIGITS = 3
BETWEEN = 2

Row = dict[str, Any]
Line = tuple[list[str], str]


def columns_text(table: pl.DataFrame) -> Folded:
    """For each step one line a dbms, and below it by how many percent each interval reaches away from its median;
    then the same relative to the base."""
    rows = by_host(table.filter(pl.col("metric").is_in(COLUMNS)))
    sure = coverage_of(rows["coverage"].to_list())
    note = f"Medians of {rounds_of(rows['n'].to_list())}; ± how far the {sure} reach."
    note = note if rows["n"].max() != 1 else "One round, which has no interval."
    note += f" Lines in the order {', '.join(in_order(rows['dbms']))}."
    steps = rows.group_by("host", "step", maintain_order=True)
    return Folded(note, {str(step): _block(of_step) for (_, step), of_step in steps})


def _block(rows: pl.DataFrame) -> str:
    of_dbms = [
        {row["metric"]: row for row in rows.filter(dbms=dbms).iter_rows(named=True)}
        for dbms in in_order(rows["dbms"])
    ]
    others = [found for found in of_dbms if not _any(found)["is_base"]]
    absolute = [line for found in of_dbms for line in _lines(found, "")]
    relative = [line for found in others for line in _lines(found, "ratio_")]
    columns = zip(COLUMNS, *(cells for cells, _ in absolute + relative), strict=True)
    widths = [max(map(len, column)) + BETWEEN for column in columns]
    head: Line = (list(COLUMNS), TAG)
    told = [_line(cells, widths, end) for cells, end in [head, *absolute]]
    if relative:
        told += [f"relative to {rows['base'][0]}", *(_line(cells, widths, end) for cells, end in relative)]
    return "\n".join(told)


def _lines(found: dict[str, Row], of: str) -> Iterator[Line]:
    rows = [found.get(name) for name in COLUMNS]
    numbers = [_number(row, f"{of}median", 2 if of else None) for row in rows]
    yield numbers, str(_any(found)["dbms"])
    if any(reaches := [_reach(row, of) for row in rows]):
        yield reaches, ""


def _number(row: Row | None, value: str, digits: int | None) -> str:
    if row is None or row[value] is None:
        return "-"
    return f"{row[value]:.{DIGITS.get(row['metric'], USUAL_DIGITS) if digits is None else digits}f}"


def _reach(row: Row | None, of: str) -> str:
    """
    >>> _reach({"median": 200.0, "low": 198.0, "high": 201.0}, ""), _reach(dict(median=0.0, low=0.0, high=0.0), "")
    ('±1.0%', '±0')
    """
    if row is None or row[f"{of}low"] is None:
        return ""
    median, low, high = (row[f"{of}{name}"] for name in ("median", "low", "high"))
    if low == high:
        return "±0"
    return f"±{100 * max(high - median, median - low) / median:.1f}%" if median else f"..{high:.3g}"


def _any(found: dict[str, Row]) -> Row:
    return next(iter(found.values()))


def _line(cells: list[str], widths: list[int], end: str) -> str:
    return ("".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)) + end).rstrip()
