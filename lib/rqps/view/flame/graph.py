"""A differential flame graph of base and me, over the stacks of both."""

from html import escape
from urllib.parse import quote

import polars as pl

from rqps.view.flame.drawing import Drawing
from rqps.view.flame.look import figure, with_error
from rqps.view.flame.packed import packed
from rqps.view.flame.picture import svg, xml
from rqps.view.flame.table import functions_of, functions_table
from rqps.view.flame.tree import Tree, tree_of
from rqps.view.text import Sentences

# Of a picture nobody can zoom into, thinner boxes say nothing.
PICTURE_NARROWEST_PX, FILE_NARROWEST_PX = 3.0, 0.3
_PICTURE = "max-width:100%;min-width:640px;height:auto"
HOW = (
    "Below a function stand those that it calls. A box is as wide as its cost in {unit}, the mean of both sides, so "
    "that what is new and what is gone are there too. Its colour is the difference: orange with an edge above is "
    "dearer, blue-green with an edge below is cheaper, grey is no difference, or one within its error."
)


def flame_graph(
    tree: pl.DataFrame,
    *,
    base: str,
    me: str,
    unit: str = "µs/operation",
    title: str = "flame",
    functions: pl.DataFrame | None = None,
    fold_below: float | None = None,
) -> Drawing | Sentences:
    """Draw a tree in pre-order: costs per operation of each frame for both sides, with the error of the difference.

    `functions` is the breakdown of the same costs by function, for the table beside it. `fold_below` is only told:
    the share of the cost below which frames were folded into one. `title` begins the names of files that are saved.
    """
    if tree.is_empty() or not tree["base_total"][0] + tree["me_total"][0]:
        return Sentences([f"No stacks of {base} and {me} to draw."])
    read = tree_of(tree)
    claim, how = claim_of(read, base, me, unit), how_of(unit, fold_below)
    return Drawing(claim, how, figure_of(read, functions, claim, how, title=title, base=base, me=me, unit=unit))


def flame_svg(tree: pl.DataFrame, *, base: str, me: str, unit: str = "µs/operation") -> str:
    """The same as the text of an SVG file, in which each box tells its numbers when a pointer rests on it."""
    read = tree_of(tree)
    picture = svg(read, base, unit, narrowest_px=FILE_NARROWEST_PX, titles=True)
    return picture.replace(">", f"><title>{xml(claim_of(read, base, me, unit))}</title>", 1)


def how_of(unit: str, fold_below: float | None) -> str:
    """How to read it."""
    return f"{HOW.format(unit=unit)} {folded_of(fold_below)}".rstrip()


def folded_of(fold_below: float | None) -> str:
    """What is not drawn by itself."""
    if not fold_below:
        return ""
    return f"Frames of less than {100 * fold_below:g} % of the cost are folded into one below their caller."


def claim_of(tree: Tree, base: str, me: str, unit: str) -> str:
    """What the whole graph says."""
    by, error = tree.difference(0), tree.error[0]
    sides = f"{figure(tree.me_total[0])} {unit} in {me}, {figure(tree.base_total[0])} in {base}"
    if not tree.sign(0):
        return f"{sides}: no difference beyond the error of ± {figure(error)}."
    more = "more" if by > 0 else "less"
    percent = f", {100 * abs(by) / tree.base_total[0]:.0f} %" if tree.base_total[0] else ""
    return f"{sides}: {with_error(abs(by), error).removeprefix('+')} {more}{percent}."


def figure_of(
    tree: Tree, functions: pl.DataFrame | None, claim: str, how: str, *, title: str, base: str, me: str, unit: str
) -> str:
    """A picture that the program replaces by the drawing, the same in words, and the tree for the program."""
    picture = svg(tree, base, unit, narrowest_px=PICTURE_NARROWEST_PX, titles=False)
    source = "data:image/svg+xml," + quote(picture, safe=" =:/;,.()*+-!@~")
    told = packed(tree, title=title, base=base, me=me, unit=unit, claim=claim)
    own = functions_of(tree) if functions is None else functions
    return (
        '<figure class="rqps-flame" style="margin:0 0 26px">'
        f"<p><strong>{escape(claim)}</strong> {escape(how)}</p>"
        f'<div style="overflow-x:auto"><img alt="Flame graph. {escape(claim)}" src="{source}" '
        f'style="{_PICTURE}"></div>'
        f"{functions_table(own, base=base, me=me, unit=unit)}"
        f'<script type="application/x-rqps-flame">{told}</script>'
        "</figure>"
    )
