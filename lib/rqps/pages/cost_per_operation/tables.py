"""Per-operation tables in the form in which they are published: cpu/o, cs/o, r/o, rKB/o, wKB/o, o/s and the dbms."""

import difflib
import math
from collections.abc import Iterator, Mapping, Sequence
from html import escape

import polars as pl
from great_tables import GT

from rqps.errors import RqpsError
from rqps.show import MUTED, Column, Row, by_host, coverage_of, in_order, interval_of, ratio, rounds_of, signs_of
from rqps.show.table import spread, table, two_lines
from rqps.show.words import first_of_many
from rqps.stats import PUBLISHED
from rqps.stats.metrics import CLIENT_CPU, CPU, THROUGHPUT

OURS = {
    CPU: "server, µs/o",
    CLIENT_CPU: "generator, µs/o",
    "host_cpu_us_per_operation": "whole host, µs/o",
    THROUGHPUT: "operations/s",
}
DIGITS = {"cpu/o": 6, "o/s": 0, THROUGHPUT: 0}
USUAL_DIGITS = 3
BETWEEN = 2  # blanks between columns, at least

Line = tuple[list[str], str]
"""The cells of the columns, and the text after them."""


def cost_text(costs: pl.DataFrame) -> str:
    """The published pair of tables for each step, absolute and relative, with the interval below each number."""
    rows = by_host(costs)
    names = _metrics(rows)
    steps = rows.group_by("host", "step", "clients", maintain_order=True)
    return "\n\n".join(_block(str(step), int(clients), of_step, names) for (_, step, clients), of_step in steps)


def cost_tables(costs: pl.DataFrame, steps: Sequence[str] | None = None) -> Iterator[GT]:
    """Tables of costs to look at, one per group of steps, with the verdict at each ratio."""
    named, ratios = of_steps(costs, steps), pl.col("metric").is_in([CPU, "cpu/o"])
    few, left_out = first_of_many(named, named.filter(ratios).with_columns(estimate="ratio"))
    for (group,), rows in by_host(few).group_by("group", maintain_order=True):
        names, title = _metrics(rows), str(group or "")
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


def of_steps(table: pl.DataFrame, names: Sequence[str] | None) -> pl.DataFrame:
    """The rows of some steps, each given by its name or by that of its group; all if none is named."""
    if names is None:
        return table
    there = list(dict.fromkeys([*table["step"], *filter(None, table["group"])]))
    for name in names:
        if name not in there:
            near = difflib.get_close_matches(name, there, n=1)
            fix = f"did you mean {near[0]!r}?" if near else f"give one of: {', '.join(there)}"
            raise RqpsError(f"the study has no step {name!r} with a number", fix=fix)
    return table.filter(pl.any_horizontal(pl.col(column).is_in(list(names)) for column in ("step", "group")))


def _metrics(rows: pl.DataFrame) -> list[str]:
    there = set(rows["metric"])
    return [name for name in (*PUBLISHED, *OURS) if name in there]


def _block(step: str, clients: int, of_step: pl.DataFrame, names: list[str]) -> str:
    each_dbms = [
        {row["metric"]: row for row in of_step.filter(dbms=dbms).iter_rows(named=True)}
        for dbms in in_order(of_step["dbms"])
    ]
    absolute = [line for rows in each_dbms for line in _absolute_lines(rows, names)]
    relative = [line for rows in each_dbms for line in _relative_lines(rows, names)]
    heads = [OURS.get(name, name) for name in names]
    columns = zip(heads, *(cells for cells, _ in absolute + relative), strict=True)
    widths = [max(map(len, column)) + BETWEEN for column in columns]
    lines = [f"{step}, {clients} client{'' if clients == 1 else 's'}", "--- absolute"]
    marked: list[Line] = [([], "--- relative to first result")] if relative else []
    for cells, end in [(heads, "n  dbms"), *absolute, *marked, *relative]:
        lines.append("".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=False)) + end)
    return "\n".join(line.rstrip() for line in lines)


def _absolute_lines(rows: Mapping[str, Row], names: list[str]) -> Iterator[Line]:
    cells = [(row, _digits(row) if row else 0) for row in map(rows.get, names)]
    n, dbms = max((row["n"], row["dbms"]) for row in rows.values())
    yield [_number(row["estimate"], digits) if row else "-" for row, digits in cells], f"{n:<3}{dbms}"
    yield [_reach(row["low"], row["high"], digits) if row else "" for row, digits in cells], ""


def _relative_lines(rows: Mapping[str, Row], names: list[str]) -> Iterator[Line]:
    """The ratios as published: 1 where both numbers are 0, inf where only the base's is. The base has none."""
    one, *_ = rows.values()
    if one["is_base"] or one["base_estimate"] is None:
        return

    def written(row: Row | None) -> str:
        if row is None or row["base_estimate"] is None:
            return "-"
        if row["ratio"] is not None:
            return ratio(row["ratio"])
        return "inf" if row["estimate"] else "0" if row["base_estimate"] else "1"

    n = max(row["ratio_n"] or 0 for row in rows.values())
    found = [rows.get(name) for name in names]
    yield [written(row) for row in found], f"{n:<3}{one['dbms']}"
    yield [_reach_of_ratio(row, n) for row in found], ""


def _reach_of_ratio(row: Row | None, n: int) -> str:
    if row is None or row["ratio"] is None:
        return ""
    fewer = "" if row["ratio_n"] == n else f" n={row['ratio_n']}"
    return _reach_relative(row) + fewer


def _reach_relative(row: Row) -> str:
    return "" if row["ratio_low"] is None else f"({interval_of(row, of='ratio')})"


def _digits(row: Row) -> int:
    """Decimals of a number and its interval: as published, and of our own numbers enough to see small ones.

    >>> [_digits({"metric": "client_cpu_us_per_operation", "estimate": each}) for each in (12.3, 0.14, 0.00021, 0)]
    [2, 3, 6, 2]
    """
    if row["metric"] in DIGITS or row["metric"] not in OURS:
        return DIGITS.get(row["metric"], USUAL_DIGITS)
    return 2 if row["estimate"] >= 1 or row["estimate"] <= 0 else 2 - math.floor(math.log10(row["estimate"]))


def _number(value: float, digits: int) -> str:
    return "0" if value == 0 else f"{value:.{digits}f}"


def _reach(low: float | None, high: float | None, digits: int) -> str:
    return "" if low is None or high is None else f"({_number(low, digits)}–{_number(high, digits)})"


def _cell(row: Row) -> str:
    digits = _digits(row)
    cell = two_lines(_number(row["estimate"], digits), _reach(row["low"], row["high"], digits), muted=True)
    if row["ratio"] is None or float(_number(row["base_estimate"], digits)) == 0:  # of almost nothing
        return cell
    signed = f"{signs_of(row['metric']).get(row['verdict'], '')} {ratio(row['ratio'])}".strip()
    small = f'<span style="font-size:11px;color:{MUTED}">{_reach_relative(row)}</span>'
    relative = f'<b title="{escape(row["needs"])}">{signed}</b> {small}'
    return f'{cell}<br><span style="white-space:nowrap">{relative}</span>'
