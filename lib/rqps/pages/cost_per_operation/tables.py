"""Per-operation tables in the form in which they are published: cpu/o, cs/o, r/o, rKB/o, wKB/o, o/s and the dbms."""

import math
from collections.abc import Iterator
from html import escape
from typing import Any

import polars as pl
from great_tables import GT

from rqps.stats import PUBLISHED
from rqps.view import MUTED, Column, by_host, coverage_of, in_order, rounds_of, signs_of, spread, table

OURS = {
    "server_cpu_us_per_operation": "server, µs/o",
    "client_cpu_us_per_operation": "generator, µs/o",
    "host_cpu_us_per_operation": "whole host, µs/o",
    "operations_per_s": "operations/s",
}
DIGITS = {"cpu/o": 6, "o/s": 0, "operations_per_s": 0}
USUAL_DIGITS = 3
BETWEEN = 2
"""Blanks between columns, at least."""

Row = dict[str, Any]
Line = tuple[list[str], str]
"""The cells of the columns, and the text after them."""


def cost_text(costs: pl.DataFrame) -> str:
    """For each step the published pair of tables, absolute and relative to the first, as lines of text.

    Below each number is its interval; n is the number of rounds.
    """
    rows = by_host(costs)
    names = _metrics(rows)
    steps = rows.group_by("host", "step", "clients", maintain_order=True)
    return "\n\n".join(_block(str(step), int(clients), of_step, names) for (_, step, clients), of_step in steps)


def cost_tables(costs: pl.DataFrame) -> Iterator[GT]:
    """Tables of costs to look at, one per group of steps, with the verdict at each ratio."""
    for (group,), of_group in by_host(costs).group_by("group", maintain_order=True):
        yield _group_table(str(group or ""), of_group)


def _group_table(group: str, rows: pl.DataFrame) -> GT:
    names = _metrics(rows)
    cells = spread(rows, "metric", ["step", "dbms"])
    for row in cells:
        row["rounds"] = max(row[name]["n"] for name in names if row.get(name))
    kind = "published" if "cpu/o" in names else "ours"
    return table(
        cells,
        [*(Column(name, OURS.get(name, ""), _cell, align="right") for name in names), Column("rounds")],
        name="-".join(["cost", kind, *group.lower().split()]),
        group="step",
        rows="dbms",
        title=group,
        note=f"Median of {rounds_of(rows['n'])}, below it the {coverage_of(rows['coverage'])}; in bold the ratio to "
        f"{rows['base'][0]}, median of the rounds' own ratios, with its interval.",
    )


def _metrics(rows: pl.DataFrame) -> list[str]:
    there = set(rows["metric"])
    return [name for name in (*PUBLISHED, *OURS) if name in there]


def _block(step: str, clients: int, of_step: pl.DataFrame, names: list[str]) -> str:
    each_dbms = [
        {row["metric"]: row for row in of_step.filter(dbms=dbms).iter_rows(named=True)}
        for dbms in in_order(of_step["dbms"])
    ]
    compared = [rows for rows in each_dbms if not _any(rows)["is_base"] and _any(rows)["base_median"] is not None]
    absolute = [line for rows in each_dbms for line in _absolute_lines(rows, names)]
    relative = [line for rows in compared for line in _relative_lines(rows, names)]
    heads = [OURS.get(name, name) for name in names]
    columns = zip(heads, *(cells for cells, _ in absolute + relative), strict=True)
    widths = [max(map(len, column)) + BETWEEN for column in columns]
    lines = [f"{step}, {clients} client{'' if clients == 1 else 's'}", "--- absolute"]
    lines += [_line(cells, widths, end) for cells, end in [(heads, "n  dbms"), *absolute]]
    lines += ["--- relative to first result"] if relative else []
    return "\n".join([*lines, *(_line(cells, widths, end) for cells, end in relative)])


def _any(rows: dict[str, Row]) -> Row:
    return next(iter(rows.values()))


def _absolute_lines(rows: dict[str, Row], names: list[str]) -> Iterator[Line]:
    cells = [(row, _digits(row) if row else 0) for row in map(rows.get, names)]
    n = max(row["n"] for row in rows.values())
    yield [_number(row["median"], digits) if row else "-" for row, digits in cells], f"{n:<3}{_any(rows)['dbms']}"
    yield [_reach(row["low"], row["high"], digits) if row else "" for row, digits in cells], ""


def _relative_lines(rows: dict[str, Row], names: list[str]) -> Iterator[Line]:
    n = max(row["ratio_n"] or 0 for row in rows.values())
    found = [rows.get(name) for name in names]
    yield [_ratio(row) for row in found], f"{n:<3}{_any(rows)['dbms']}"
    yield [_reach_of_ratio(row, n) for row in found], ""


def _ratio(row: Row | None) -> str:
    """As published: 1 where both numbers are 0, inf where only the base's is."""
    if row is None or row["base_median"] is None:
        return "-"
    if row["ratio"] is None:
        return "1" if row["median"] == 0 else "inf"
    return f"{row['ratio']:.2f}"


def _reach_of_ratio(row: Row | None, n: int) -> str:
    if row is None or row["ratio"] is None:
        return ""
    fewer = "" if row["ratio_n"] == n else f" n={row['ratio_n']}"
    return _reach(row["ratio_low"], row["ratio_high"], 2) + fewer


def _digits(row: Row) -> int:
    """Decimals of a number and its interval: as published, and of our own numbers enough to see small ones.

    >>> [_digits({"metric": "client_cpu_us_per_operation", "median": each}) for each in (12.3, 0.14, 0.00021, 0)]
    [2, 3, 6, 2]
    """
    if row["metric"] in DIGITS or row["metric"] not in OURS:
        return DIGITS.get(row["metric"], USUAL_DIGITS)
    return 2 if row["median"] >= 1 or row["median"] <= 0 else 2 - math.floor(math.log10(row["median"]))


def _number(value: float, digits: int) -> str:
    return "0" if value == 0 else f"{value:.{digits}f}"


def _reach(low: float | None, high: float | None, digits: int) -> str:
    return "" if low is None or high is None else f"({_number(low, digits)}–{_number(high, digits)})"


def _line(cells: list[str], widths: list[int], end: str) -> str:
    return ("".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)) + end).rstrip()


def _cell(row: Row) -> str:
    digits = _digits(row)
    small = f"font-size:11px;color:{MUTED};white-space:nowrap"
    reach = _reach(row["low"], row["high"], digits)
    lines = [_number(row["median"], digits), f'<span style="{small}">{reach}</span>']
    if row["ratio"] is not None:
        sign = signs_of(row["metric"])[row["verdict"]]
        lines.append(
            f'<span style="white-space:nowrap"><b title="{escape(row["needs"])}">{sign} {row["ratio"]:.2f}</b> '
            f'<span style="{small}">{_reach(row["ratio_low"], row["ratio_high"], 2)}</span></span>'
        )
    return "<br>".join(lines)
