"""A map of steps by dbms. Each cell leads to what its difference is made of, in numbers and as a flame graph."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from html import escape
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote, urlencode

import polars as pl

from rqps.view.flame.drawing import Drawing
from rqps.view.flame.graph import claim_of, figure_of, folded_of, how_of
from rqps.view.flame.look import figure, with_error
from rqps.view.flame.table import parts_table
from rqps.view.flame.tree import Tree, tree_of
from rqps.view.text import Sentences
from rqps.view.theme import COST_SIGNS, by_host, colour_of, in_order, ink_on, legend_of, rounds_of

T = TypeVar("T")
Row = Mapping[str, Any]
STYLE = """
.rqps-map { border-collapse: separate; border-spacing: 2px; font-size: 13px; font-variant-numeric: tabular-nums; }
.rqps-map th { font-weight: normal; text-align: left; padding: 2px 6px 2px 0; }
.rqps-map th[scope=row] { position: sticky; left: 0; background: #fff; }
.rqps-map td { padding: 0; text-align: center; }
.rqps-map a { display: block; padding: 4px 5px; color: inherit; text-decoration: none; white-space: nowrap; }
.rqps-map a:hover { text-decoration: underline; }
.rqps-map a[aria-current=true] { outline: 3px solid #0b5c8a; }
.rqps-map small { display: block; font-size: 11px; }
.rqps-cell { scroll-margin-top: 12px; }
.rqps-cell > summary { font-weight: 600; font-size: 17px; margin: 14px 0 4px; }
"""


class Cell(NamedTuple):
    step: str
    dbms: str


@dataclass(frozen=True)
class _Told:
    """What all cells have in common."""

    base: str
    unit: str
    by: str
    counts_differ: bool
    """Of rounds, from cell to cell."""
    folded: str

    def sides(self, me: str) -> dict[str, str]:
        return {"base": self.base, "me": me, "unit": self.unit}


def explorer(
    operations: pl.DataFrame,
    parts: pl.DataFrame,
    functions: pl.DataFrame,
    trees: pl.DataFrame,
    *,
    by: str = "",
    fold_below: float | None = None,
) -> Drawing | Sentences:
    """Put the trees of all cells behind their map. `parts` and `functions` break the same costs down.

    On a page the address can name a cell: `#step=point-query&dbms=my8033.base`. Where a page has two explorers,
    `&by=` tells which of them is meant; `&search=` looks for a function.
    """
    if operations.is_empty():
        return Sentences(["There is nothing to choose from: no step has a profile of a dbms and of its base."])
    operations = by_host(operations)
    counts_differ = operations["n"].n_unique() > 1
    told = _Told(operations["base"][0], operations["unit"][0], by, counts_differ, folded_of(fold_below))
    rows = {Cell(row["step"], row["dbms"]): row for row in operations.iter_rows(named=True)}
    read = _cells(trees, tree_of)
    halves = _cells(parts, _as_it_is), _cells(functions, _as_it_is)
    sections = [_section(cell, row, read[cell], halves[0][cell], halves[1][cell], told) for cell, row in rows.items()]
    claim, how = _claim(operations, told), how_of(told.unit, fold_below)
    html = (
        f'<div class="rqps-explorer" data-by="{escape(by)}"><style>{STYLE}</style>'
        f"<p><strong>{escape(claim)}</strong> Each cell leads to what its difference is made of, by component and "
        f"as a flame graph. {_below(operations)} {legend_of('cost')}</p>"
        f"{_map(rows, told)}<details><summary>How to read a flame graph</summary><p>{escape(how)}</p></details>"
        f'<p class="rqps-note" role="status"></p>{"".join(sections)}</div>'
    )
    return Drawing(claim, how, html)


def address(step: str, dbms: str, by: str = "") -> str:
    """What follows the name of the page to lead to a cell.

    >>> address("range=10", "my8033.base")
    '#step=range%3D10&dbms=my8033.base'
    """
    asked = {"step": step, "dbms": dbms, **({"by": by} if by else {})}
    return "#" + urlencode(asked, quote_via=quote)


def _cells(frame: pl.DataFrame, read: Callable[[pl.DataFrame], T]) -> dict[Cell, T]:
    parts = by_host(frame).partition_by("step", "dbms", as_dict=True, maintain_order=True)
    return {Cell(str(step), str(dbms)): read(part) for (step, dbms), part in parts.items()}


def _as_it_is(frame: pl.DataFrame) -> pl.DataFrame:
    return frame


def _below(operations: pl.DataFrame) -> str:
    counted = (
        ", and n rounds" if operations["n"].n_unique() > 1 else f", means of {rounds_of(operations['n'].to_list())}"
    )
    return f"Below a difference: base → me{counted}."


def _claim(operations: pl.DataFrame, told: _Told) -> str:
    what = "instructions" if told.unit.startswith("instructions") else "CPU of the server"
    said = {"slower": f"cost more {what}", "faster": f"cost less {what}", "same": "the same", "unsure": "are unsure"}
    count = dict(operations.group_by("verdict").len().rows())
    counts = ", ".join(f"{count[verdict]} {words}" for verdict, words in said.items() if verdict in count)
    return f"Of {operations.height} comparison{'s' * (operations.height > 1)} with {told.base}, {counts}."


def _map(rows: Mapping[Cell, Row], told: _Told) -> str:
    first = max(rows, key=lambda cell: abs(rows[cell]["difference"]) / (rows[cell]["base_cost"] or 1.0))
    dbms = in_order(cell.dbms for cell in rows)
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in dbms)
    body = "".join(
        f'<tr><th scope="row">{escape(step)}</th>'
        f"{''.join(_cell(cell, rows.get(cell), cell == first, told) for cell in (Cell(step, name) for name in dbms))}"
        "</tr>"
        for step in in_order(cell.step for cell in rows)
    )
    return (
        '<div class="scroll" style="overflow-x:auto"><table class="rqps-map">'
        f'<thead><tr><th scope="col">{escape(told.unit)}</th>{head}</tr></thead><tbody>{body}</tbody></table></div>'
    )


def _cell(cell: Cell, row: Row | None, first: bool, told: _Told) -> str:
    if row is None:
        return "<td>–</td>"
    # The colours of the heatmap, as if nothing but this cost made rQPS.
    as_ratio = row["base_cost"] / row["me_cost"] if row["me_cost"] else 1.0
    marks = "rqps-to rqps-first" if first else "rqps-to"
    count = f" · n={row['n']}" if told.counts_differ else ""
    by_how_much = f"{COST_SIGNS[row['verdict']]} {with_error(row['difference'], row['error'])}"
    return (
        f'<td style="background:{colour_of(as_ratio)};color:{ink_on(as_ratio)}">'
        f'<a class="{marks}" href="{escape(address(*cell, told.by))}"><b>{by_how_much}</b>'
        f"<small>{figure(row['base_cost'])} → {figure(row['me_cost'])}{count}</small></a></td>"
    )


def _section(cell: Cell, row: Row, tree: Tree, parts: pl.DataFrame, functions: pl.DataFrame, told: _Told) -> str:
    where, sides = address(*cell, told.by), told.sides(cell.dbms)
    claim = claim_of(tree, **sides)
    too_few = row["verdict"] == "unsure" and abs(row["difference"]) > row["error"]
    rounds = f"Mean of {rounds_of([row['n']])}{', too few for a verdict' if too_few else ''}. {told.folded}".rstrip()
    # Without scripts the address leads to this id, and the browser opens what it is in.
    return (
        f'<details class="rqps-cell" data-key="{escape(where)}">'
        f"<summary>{escape(f'{cell.step}: {cell.dbms} against {told.base}')}</summary>"
        f'<div id="{escape(where[1:])}"><p>{escape(row["finding"])}</p>{parts_table(parts, "component", **sides)}'
        f"{figure_of(tree, functions, claim, rounds, title=cell.step, **sides)}</div></details>"
    )
