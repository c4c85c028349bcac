"""Tables of point lookups: dbms by kind of query, in groups of one engine and number of clients."""

from collections.abc import Callable
from typing import Any, Literal

import polars as pl
from great_tables import GT, loc, style

from rqps.view.tables import plain_table
from rqps.view.text import Sentences
from rqps.view.theme import MUTED, by_host, coverage_of, in_order, rounds_of

Unit = Literal["ratio", "µs", "µs CPU", "share"]


def _microseconds(value: float) -> str:
    return f"{value:,.{1 if value < 1000 else 0}f}"


_FORMS: dict[Unit, Callable[[float], str]] = {
    "ratio": "{:.2f}".format,
    "µs": _microseconds,
    "µs CPU": _microseconds,
    "share": "{:.0%}".format,
}


def lookup_table(numbers: pl.DataFrame, unit: Unit, what: str) -> GT:
    """One row a dbms: of each kind the median with its interval. `what` begins the note, in words."""
    rows = by_host(numbers).sort("position", maintain_order=True)
    form = _FORMS[unit]
    cell = pl.struct("median", "low", "high").map_elements(lambda row: _cell(row, form), pl.String).alias("cell")
    words = pl.format("{}, {}", "engine", pl.format("{} client{}", "clients", _plural()))
    wide = rows.with_columns(cell, words.alias("of")).pivot(
        "kind_words", index=["of", "dbms"], values="cell", maintain_order=True
    )
    kinds = in_order(rows["kind_words"])
    note = (
        f"{what}: median of {rounds_of(rows['n'].to_list())}, below it its {coverage_of(rows['coverage'].to_list())}."
    )
    table = plain_table(wide, f"lookups-{unit.replace(' ', '-')}", note).tab_stub(
        rowname_col="dbms", groupname_col="of"
    )
    return table.fmt(_as_it_is, columns=kinds).cols_align("right", columns=kinds)


def lookup_plans(plans: pl.DataFrame) -> GT | Sentences:
    """One row a kind, engine and way of reading; marked where the kind's name promises another."""
    if plans.is_empty():
        return Sentences(["No plans were kept: these runs were measured before plans were."])
    mark = pl.when("differs").then(pl.lit("⚠ not as named")).otherwise(pl.lit("as named"))
    shown = plans.select(
        "engine",
        "kind_words",
        "statement",
        "reads",
        "rows",
        mark.alias("plan"),
        pl.col("dbms").list.join(", ").alias("dbms"),
    )
    table = plain_table(shown, "plans", "By EXPLAIN, before each step; rows is what the server expects to read.")
    table = table.cols_label(kind_words="kind", reads="reads by").tab_stub(groupname_col="engine")
    warned = style.text(color="#a63c06", weight="bold")
    return table.tab_style(warned, loc.body(["reads", "plan"], pl.col("plan").str.starts_with("⚠")))


def lookups_beside(beside: pl.DataFrame) -> GT | Sentences:
    """One row a comparison, published and ours."""
    if beside.is_empty():
        return Sentences(["These releases have nothing in common with those of the published study."])
    note = "Ratios of response times, PK on InnoDB with one client. Published: in brackets what rounding leaves open."
    table = plain_table(beside, "lookups-beside", f"{note} Ours: the median of the rounds and its interval.")
    return table.cols_label({"theirs": "published", "from": "from"})


def _plural() -> pl.Expr:
    return pl.when(pl.col("clients") == 1).then(pl.lit("")).otherwise(pl.lit("s"))


def _cell(row: dict[str, Any], form: Callable[[float], str]) -> str:
    small = f"font-size:11px;color:{MUTED};white-space:nowrap"
    if row["low"] is None:
        return f'{form(row["median"])}<br><span style="{small}">no interval</span>'
    return f'{form(row["median"])}<br><span style="{small}">{form(row["low"])}–{form(row["high"])}</span>'


def _as_it_is(value: str | None) -> str:
    return value or "–"  # made above, from numbers
