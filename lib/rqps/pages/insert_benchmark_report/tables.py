"""Tables of a row a dbms in groups of steps, a column a number with its interval."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl
from great_tables import GT, loc, style

from rqps.view.tables import plain_table
from rqps.view.text import Sentences
from rqps.view.theme import MUTED, by_host, coverage_of, rounds_of

SMALL = f"font-size:11px;color:{MUTED};white-space:nowrap"
Form = Callable[[float], str]


@dataclass(frozen=True)
class Column:
    """A metric as a column: what it is called, and how a number of it is written."""

    label: str
    form: Form
    under: str = ""
    """A heading that it shares with its neighbours."""


def numbers_table(
    found: pl.DataFrame,
    columns: Mapping[str, Column],
    name: str,
    note: str,
    base: str,
    *,
    title: str = "",
    by: str = "step",
) -> GT:
    """`found` has a row a step, dbms and metric. The base stands first in each step; or, by dbms, before the rest."""
    rows = found.filter(pl.col("metric").is_in(list(columns)))
    order: list[str | pl.Expr] = (
        ["position", pl.col("dbms") != base] if by == "step" else [pl.col("dbms") != base, "dbms", "position"]
    )
    ordered = rows.sort("host", *order, maintain_order=True)
    wide = by_host(ordered).with_columns(
        pl.struct("metric", "median", "low", "high")
        .map_elements(lambda row: _cell(row, columns[row["metric"]].form), pl.String)
        .alias("cell")
    )
    wide = wide.pivot("metric", index=["step", "dbms"], values="cell", maintain_order=True)
    shown = [metric for metric in columns if metric in wide.columns]
    counts = medians_of(rows)
    table = plain_table(wide.select("step", "dbms", *shown), name, f"{note} {counts}".strip())
    row = "dbms" if by == "step" else "step"
    table = table.tab_stub(rowname_col=row, groupname_col=by).fmt(as_it_is, columns=shown)
    table = table.cols_align("right", columns=shown).tab_style(style.css("white-space: nowrap"), loc.stub())
    for under in dict.fromkeys(columns[each].under for each in shown):
        if under:
            table = table.tab_spanner(under, columns=[each for each in shown if columns[each].under == under])
    table = table.cols_label(cases={each: columns[each].label for each in shown})
    return table.tab_header(title=title) if title else table


def nothing(text: str) -> Sentences:
    """In place of a table without rows."""
    return Sentences([text])


def _cell(row: dict[str, Any], form: Form) -> str:
    reach = "no interval" if row["low"] is None else reach_of(form(row["low"]), form(row["high"]))
    return f'{form(row["median"])}<br><span style="{SMALL}">{reach}</span>'


def medians_of(rows: pl.DataFrame) -> str:
    """How many rounds are behind the numbers of a table, and what stands below them."""
    if rows["n"].max() == 1:
        return "One round, so there is no interval."
    return f"Medians of {rounds_of(rows['n'].to_list())}, below them the {coverage_of(rows['coverage'].to_list())}."


def reach_of(low: str, high: str) -> str:
    """An interval, with its unit once.

    >>> reach_of("1.2 ms", "1.4 ms"), reach_of("900 µs", "1.4 ms"), reach_of("3", "3")
    ('1.2–1.4 ms', '900 µs–1.4 ms', '±0')
    """
    if low == high:
        return "±0"
    number, _, unit = low.partition(" ")
    return f"{number}–{high}" if unit and high.endswith(f" {unit}") else f"{low}–{high}"


def as_it_is(value: str | None) -> str:
    return value or "–"  # made here, from numbers


def whole(value: float) -> str:
    """
    >>> whole(12345.6), whole(-0.2)
    ('12,346', '0')
    """
    return f"{value:,.0f}".replace("-0", "0") if abs(value) < 0.5 else f"{value:,.0f}"


def sized(value: float) -> str:
    """Three digits or so, whatever the size.

    >>> sized(1234.5), sized(12.345), sized(0.012345), sized(0)
    ('1,234', '12.3', '0.0123', '0')
    """
    if value == 0:
        return "0"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{float(f'{value:.3g}'):g}"


def percent(value: float) -> str:
    """
    >>> percent(1.0), percent(0.9837)
    ('100 %', '98.4 %')
    """
    return f"{100 * value:.4g} %" if round(value, 4) in (0, 1) else f"{100 * value:.1f} %"


def duration_us(value: float) -> str:
    """
    >>> duration_us(87.4), duration_us(1234.0), duration_us(1234567.0)
    ('87.4 µs', '1.23 ms', '1.23 s')
    """
    for unit, size in (("s", 1e6), ("ms", 1e3)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.3g} µs"
