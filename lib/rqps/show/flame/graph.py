"""A differential flame graph of base and me as the output of a notebook cell."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote

import polars as pl

from rqps.numbers import formatted
from rqps.show.flame.frames import Tree, packed, packed_json, tree_of
from rqps.show.flame.picture import LOOK, figure, svg, with_error, xml
from rqps.show.words import Sentences

# Minimum width of a box that is drawn: a picture on a page can't be zoomed, so it omits boxes that are too thin to
# read; an SVG file can be zoomed, so it has thinner boxes, too.
PICTURE_NARROWEST_PX, FILE_NARROWEST_PX = 3.0, 0.3
PROGRAM = ("tree.js", "draw.js", "graph.js", "explorer.js", "questions.js")
HOW = (
    "The functions that a function calls are drawn below it. The width of a box is its cost in {unit}, the mean of "
    "both sides, so frames that only one side has are drawn, too. Its colour shows the difference: orange with a "
    "line at the top costs more, blue-green with a line at the bottom costs less, grey is unchanged within the "
    "error. In the list of widths, “only in …” shows the frames that only one side has."
)
NO_PROGRAM = "The flame graph is drawn by a script, which does not run here: trust the notebook, or render the page."
_HERE = Path(__file__).parent
_PICTURE = "max-width:100%;min-width:640px;height:auto"


@dataclass(frozen=True)
class Drawing:
    """HTML with its own script, for JupyterLab and for a page; it needs no Jupyter kernel and no network."""

    claim: str
    how: str
    html: str  # without the script

    def __repr__(self) -> str:
        return f"{self.claim} {self.how}"

    def _repr_mimebundle_(self, **_options: Any) -> dict[str, str]:
        return {"text/html": self.html + script_element(), "text/plain": repr(self)}


def flame_graph(tree: pl.DataFrame, *, base: str, me: str, unit: str = "µs/operation") -> Drawing | Sentences:
    """The flame graph of base and me. `tree` has one row per frame: its cost per operation in both, and the error
    of the difference."""
    if tree.is_empty() or not tree["base_total"][0] + tree["me_total"][0]:
        return Sentences([f"No stacks of {base} and {me} to draw."])
    read = tree_of(tree)
    claim, how = claim_of(read, base, me, unit), how_of(unit)
    return Drawing(claim, how, figure_of(read, "", claim, how, title="flame", base=base, me=me, unit=unit))


def flame_svg(tree: pl.DataFrame, *, base: str, me: str, unit: str = "µs/operation") -> str:
    """The flame graph of a tree as the text of an SVG file, in which each box has a tooltip with its numbers."""
    read = tree_of(tree)
    picture = svg(read, base, unit, narrowest_px=FILE_NARROWEST_PX, titles=True)
    return picture.replace(">", f"><title>{xml(claim_of(read, base, me, unit))}</title>", 1)


def how_of(unit: str, fold_below: float | None = None) -> str:
    """Sentences that explain how to read a flame graph."""
    return f"{HOW.format(unit=unit)} {folded_of(fold_below)}".rstrip()


def folded_of(fold_below: float | None) -> str:
    """A sentence on the limit below which frames are folded into one frame; empty without such a limit."""
    if not fold_below:
        return ""
    return f"Frames of less than {100 * fold_below:g} % of the cost are drawn as one box below their caller."


def claim_of(tree: Tree, base: str, me: str, unit: str) -> str:
    """A sentence on the difference in the cost of the whole operation."""
    by, error = tree.difference(0), tree.error[0]
    sides = f"{figure(tree.me_total[0])} {unit} in {me}, {figure(tree.base_total[0])} in {base}"
    if not tree.sign(0):
        return f"{sides}: no difference beyond the error of ± {figure(error)}."
    more = "more" if by > 0 else "less"
    percent = f", {formatted(100 * abs(by) / tree.base_total[0], '.0f')} %" if tree.base_total[0] else ""
    return f"{sides}: {with_error(abs(by), error).removeprefix('+')} {more}{percent}."


def figure_of(
    tree: Tree,
    below: str,
    claim: str,
    how: str,
    *,
    title: str,
    base: str,
    me: str,
    unit: str,
    names: Sequence[str] | None = None,
    picture: bool = True,
) -> str:
    """A figure: a picture that the script replaces by its drawing, the HTML `below` it, and the tree for the script.

    Names of saved files begin with `title`; `names` are the frame names that many drawings share, see `shared_names`.
    Without `picture`, a sentence is shown if no script runs.
    """
    # The placeholder has the height of the drawing: otherwise the page would move when the script draws.
    shown = f'<div style="min-height:{LOOK.row * (max(tree.depth) + 1)}px">{NO_PROGRAM}</div>'
    if picture:
        drawn = svg(tree, base, unit, narrowest_px=PICTURE_NARROWEST_PX, titles=False)
        source = "data:image/svg+xml," + quote(drawn, safe=" =:/;,.()*+-!@~")
        shown = f'<img alt="Flame graph. {escape(claim)}" src="{source}" style="{_PICTURE}">'
    return (
        '<figure class="rqps-flame" style="margin:0 0 26px">'
        f"<p><strong>{escape(claim)}</strong> {escape(how)}</p>"
        f'<div class="rqps-drawn" style="overflow-x:auto">{shown}</div>{below}'
        '<script type="application/x-rqps-flame">'
        f"{packed(tree, names, title=title, base=base, me=me, unit=unit, claim=claim)}</script></figure>"
    )


def shared_names(names: Sequence[str]) -> str:
    """The script element with the frame names that many drawings share."""
    return f'<script type="application/x-rqps-names">{packed_json(names)}</script>'


@cache
def script_element() -> str:
    """The script that draws the figures. A page contains it once, each notebook cell has its own copy."""
    style, *parts = ((_HERE / name).read_text(encoding="utf-8") for name in ("flame.css", *PROGRAM))
    known = {"LOOK": vars(LOOK), "STYLE": style}
    constants = (f"const {name} = {json.dumps(value, ensure_ascii=False)};" for name, value in known.items())
    head = "\n".join(constants).replace("<", "\\u003c")
    return "\n".join(['<script>(() => {\n"use strict";', head, *parts[:-1], f"{parts[-1]}}})();\n</script>"])


def without_program(html: str) -> str | None:
    """The HTML of a drawing without its script, for a page that contains the script once. None if `html`, the output
    of some notebook cell, is no drawing."""
    bare = html.removesuffix(script_element())
    return bare if bare != html else None
