"""A map of steps by dbms. Each cell leads to what its difference is made of, in numbers and as a flame graph."""

from collections.abc import Mapping
from html import escape
from typing import NamedTuple
from urllib.parse import quote, urlencode

import polars as pl

from rqps.charts.flame.drawing import Drawing
from rqps.charts.flame.graph import claim_of, figure_of, how_of
from rqps.charts.flame.look import SIGNS, figure
from rqps.charts.flame.table import parts_table
from rqps.charts.flame.tree import Tree, tree_of
from rqps.charts.text import Sentences
from rqps.charts.theme import by_host, colour_of, in_order, ink_on

STYLE = """
.rqps-map { border-collapse: separate; border-spacing: 2px; font-variant-numeric: tabular-nums; }
.rqps-map th { font-weight: normal; text-align: left; padding: 2px 10px 2px 0; }
.rqps-map td { padding: 0; text-align: center; }
.rqps-map a { display: block; padding: 4px 10px; color: inherit; text-decoration: none; white-space: nowrap; }
.rqps-map a:hover { text-decoration: underline; }
.rqps-map a[aria-current=true] { outline: 3px solid #0b5c8a; }
.rqps-map small { display: block; font-size: 11px; }
.rqps-cell { scroll-margin-top: 12px; }
.rqps-cell > summary { font-weight: 600; font-size: 17px; margin: 14px 0 4px; }
"""


class Cell(NamedTuple):
    step: str
    dbms: str


class _Told(NamedTuple):
    """What all cells have in common."""

    base: str
    unit: str
    by: str
    how: str


def explorer(
    trees: pl.DataFrame,
    parts: pl.DataFrame,
    functions: pl.DataFrame | None = None,
    *,
    base: str,
    by: str = "",
    fold_below: float | None = None,
) -> Drawing | Sentences:
    """Put the trees of all cells behind their map. `parts` and `functions` break the same costs down.

    On a page the address can name a cell: `#step=point-query&dbms=my8033.base`. Where a page has two explorers,
    `&by=` tells which of them is meant; `&search=` looks for a function.
    """
    if trees.is_empty():
        return Sentences(["There is nothing to choose from: no step has a profile of a dbms and of its base."])
    parts = by_host(parts)
    named = by_host(trees).partition_by("step", "dbms", as_dict=True, maintain_order=True)
    read = {Cell(str(step), str(dbms)): tree_of(tree) for (step, dbms), tree in named.items()}
    unit = str(parts["unit"][0])
    told = _Told(base, unit, by, how_of(unit, fold_below))
    sections = [
        _section(cell, tree, _of(parts, cell), None if functions is None else _of(by_host(functions), cell), told)
        for cell, tree in read.items()
    ]
    claim = _claim(read, told)
    html = (
        f'<div class="rqps-explorer" data-by="{escape(by)}"><style>{STYLE}</style>'
        f"<p><strong>{escape(claim)}</strong> Each cell leads to what its difference is made of, by component "
        f"and as a flame graph. {escape(told.how)}</p>"
        f'{_map(read, told)}<p class="rqps-note" role="status"></p>{"".join(sections)}</div>'
    )
    return Drawing(claim, told.how, html)


def address(step: str, dbms: str, by: str = "") -> str:
    """What follows the name of the page to lead to a cell.

    >>> address("range=10", "my8033.base")
    '#step=range%3D10&dbms=my8033.base'
    """
    asked = {"step": step, "dbms": dbms, **({"by": by} if by else {})}
    return "#" + urlencode(asked, quote_via=quote)


def _of(frame: pl.DataFrame, cell: Cell) -> pl.DataFrame:
    return frame.filter(step=cell.step, dbms=cell.dbms)


def _claim(read: Mapping[Cell, Tree], told: _Told) -> str:
    signs = [tree.sign(0) for tree in read.values()]
    what = "instructions" if told.unit.startswith("instructions") else "CPU of the server"
    said = {1: f"cost more {what}", -1: f"cost less {what}", 0: "differ within the error"}
    counts = [f"{signs.count(sign)} {words}" for sign, words in said.items() if sign in signs]
    return f"Of {len(read)} comparisons with {told.base}, {', '.join(counts)}."


def _map(read: Mapping[Cell, Tree], told: _Told) -> str:
    first = max(read, key=lambda cell: abs(read[cell].difference(0) / read[cell].whole))
    dbms = in_order(cell.dbms for cell in read)
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in dbms)
    rows = "".join(
        f'<tr><th scope="row">{escape(step)}</th>'
        f"{''.join(_cell(cell, read.get(cell), cell == first, told) for cell in (Cell(step, name) for name in dbms))}"
        "</tr>"
        for step in in_order(cell.step for cell in read)
    )
    what = f"{escape(told.unit)}, against {escape(told.base)}"
    return (
        '<div class="table" style="overflow-x:auto"><table class="rqps-map">'
        f'<thead><tr><th scope="col">{what}</th>{head}</tr></thead><tbody>{rows}</tbody></table></div>'
    )


def _cell(cell: Cell, tree: Tree | None, first: bool, told: _Told) -> str:
    if tree is None:
        return "<td>–</td>"
    base, me = tree.base_total[0], tree.me_total[0]
    # The colours of the heatmap, as if nothing but this cost made rQPS.
    fill, ink = colour_of(base / me if me else 1.0), ink_on(base / me if me else 1.0)
    marks = "rqps-to rqps-first" if first else "rqps-to"
    by_how_much = f"{SIGNS[tree.sign(0)] or '?'} {figure(tree.difference(0), signed=True)}"
    return (
        f'<td style="background:{fill};color:{ink}">'
        f'<a class="{marks}" href="{escape(address(*cell, told.by))}"><b>{by_how_much}</b>'
        f"<small>{figure(base)} → {figure(me)}</small></a></td>"
    )


def _section(cell: Cell, tree: Tree, parts: pl.DataFrame, functions: pl.DataFrame | None, told: _Told) -> str:
    where = address(*cell, told.by)
    sides = {"base": told.base, "me": cell.dbms, "unit": told.unit}
    # Without scripts the address leads to this id, and the browser opens what it is in.
    title = f"{cell.step}: {cell.dbms} against {told.base}"
    return (
        f'<details class="rqps-cell" data-key="{escape(where)}"><summary>{escape(title)}</summary>'
        f'<div id="{escape(where[1:])}">{parts_table(parts, "component", **sides)}'
        f"{figure_of(tree, functions, claim_of(tree, **sides), '', **sides)}</div></details>"
    )
