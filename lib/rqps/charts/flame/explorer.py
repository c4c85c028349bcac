"""A map of steps by dbms. Each cell leads to what its difference is made of, in numbers and as a flame graph."""

from collections.abc import Mapping
from html import escape
from urllib.parse import quote, urlencode

import polars as pl

from rqps.charts.flame.drawing import Drawing
from rqps.charts.flame.graph import claim_of, figure_of, how_of
from rqps.charts.flame.look import SIGNS, figure
from rqps.charts.flame.parts import parts_table
from rqps.charts.flame.tree import Tree, tree_of
from rqps.charts.text import Sentences
from rqps.charts.theme import colour_of, in_order, ink_on

Cell = tuple[str, str]
"""A step and a dbms."""

STYLE = """
.rqps-map { border-collapse: separate; border-spacing: 2px; font-variant-numeric: tabular-nums; }
.rqps-map th { font-weight: normal; text-align: left; padding: 2px 10px 2px 0; }
.rqps-map td { padding: 0; text-align: center; }
.rqps-map a { display: block; padding: 4px 10px; color: inherit; text-decoration: none; white-space: nowrap; }
.rqps-map a:hover { text-decoration: underline; }
.rqps-map a[aria-current=true] { outline: 3px solid #0b5c8a; }
.rqps-map small { display: block; font-size: 11px; }
.rqps-cell > summary { font-weight: 600; font-size: 17px; margin: 14px 0 4px; }
.rqps-part button { font: inherit; color: #0b5c8a; background: none; border: 0; padding: 0; text-align: left;
  text-decoration: underline; cursor: pointer; }
"""


def explorer(
    trees: Mapping[Cell, pl.DataFrame],
    parts: pl.DataFrame,
    *,
    base: str,
    unit: str = "µs/operation",
    by: str = "",
    fold_below: float | None = None,
) -> Drawing | Sentences:
    """Put the trees of all cells behind their map. `parts` is the breakdown of the same costs by component.

    On a page the address can name a cell: `#step=point-query&dbms=my8033.base`. Where a page has two explorers,
    `&by=` tells which of them is meant.
    """
    read = {cell: tree_of(tree) for cell, tree in trees.items() if not tree.is_empty()}
    if not read:
        return Sentences(["There is nothing to choose from: no step has stacks of a dbms and of its base."])
    how = how_of(unit, fold_below)
    claim = _claim(read, base, unit)
    strongest = max(read, key=lambda cell: abs(read[cell].difference(0) / read[cell].whole))
    cells = "".join(
        _section(cell, tree, parts.filter(step=cell[0], dbms=cell[1]), base=base, unit=unit, by=by, how=how)
        for cell, tree in read.items()
    )
    html = (
        f'<div class="rqps-explorer" data-by="{escape(by)}"><style>{STYLE}</style>'
        f"<p><strong>{escape(claim)}</strong> Each cell leads to what its difference is made of.</p>"
        f'{_map(read, strongest, base, unit, by)}<p class="rqps-note" role="status"></p>{cells}</div>'
    )
    return Drawing(claim, how, html)


def address(step: str, dbms: str, by: str = "") -> str:
    """What follows the name of the page to lead to a cell.

    >>> address("range=10", "my8033.base")
    '#step=range%3D10&dbms=my8033.base'
    """
    asked = {"step": step, "dbms": dbms, **({"by": by} if by else {})}
    return "#" + urlencode(asked, quote_via=quote)


def _claim(read: Mapping[Cell, Tree], base: str, unit: str) -> str:
    dearer = sum(tree.sign(0) > 0 for tree in read.values())
    cheaper = sum(tree.sign(0) < 0 for tree in read.values())
    return (
        f"Of {len(read)} comparisons with {base}, {dearer} cost more {unit}, {cheaper} less, and for "
        f"{len(read) - dearer - cheaper} the difference is within its error."
    )


def _map(read: Mapping[Cell, Tree], first: Cell, base: str, unit: str, by: str) -> str:
    steps, dbms = in_order(step for step, _ in read), in_order(name for _, name in read)
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in dbms)
    rows = "".join(
        f'<tr><th scope="row">{escape(step)}</th>'
        f"{''.join(_cell((step, name), read.get((step, name)), (step, name) == first, by) for name in dbms)}</tr>"
        for step in steps
    )
    what = f"{escape(unit)}, against {escape(base)}"
    return (
        '<div class="table" style="overflow-x:auto"><table class="rqps-map">'
        f'<thead><tr><th scope="col">{what}</th>{head}</tr></thead><tbody>{rows}</tbody></table></div>'
    )


def _cell(cell: Cell, tree: Tree | None, first: bool, by: str) -> str:
    if tree is None:
        return "<td>–</td>"
    base, me = tree.base_total[0], tree.me_total[0]
    # The colours of the heatmap: as rQPS would be if nothing but this cost counted.
    fill, ink = colour_of(base / me if me else 1.0), ink_on(base / me if me else 1.0)
    marks = "rqps-to rqps-first" if first else "rqps-to"
    by_how_much = f"{SIGNS[tree.sign(0)] or '?'} {figure(tree.difference(0), signed=True)}"
    return (
        f'<td style="background:{fill};color:{ink}">'
        f'<a class="{marks}" href="{escape(address(*cell, by))}"><b>{by_how_much}</b>'
        f"<small>{figure(base)} → {figure(me)}</small></a></td>"
    )


def _section(cell: Cell, tree: Tree, parts: pl.DataFrame, *, base: str, unit: str, by: str, how: str) -> str:
    step, me = cell
    where = address(step, me, by)
    claim = claim_of(tree, base, me, unit)
    # Without scripts the address leads to this id, and the browser opens what it is in.
    return (
        f'<details class="rqps-cell" data-key="{escape(where)}"><summary>{escape(step)}: {escape(me)} against '
        f'{escape(base)}</summary><div id="{escape(where[1:])}">{parts_table(parts, base=base, me=me, unit=unit)}'
        f"{figure_of(tree, claim, how, base=base, me=me, unit=unit)}</div></details>"
    )
