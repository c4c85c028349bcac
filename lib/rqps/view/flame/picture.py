"""A tree as an SVG file, for where no script runs."""

import re
from collections.abc import Iterator
from html import escape
from typing import NamedTuple

from rqps.view.flame.look import (
    CHEAPER,
    CHEAPER_EDGES,
    DEARER,
    DEARER_EDGES,
    FEWEST_LETTERS,
    FONT_PX,
    GREY,
    MEANING,
    NARROWEST_TEXT_PX,
    ROW_PX,
    SIGNS,
    figure,
    strength_of,
    with_error,
)
from rqps.view.flame.tree import Tree
from rqps.view.theme import FONTS, INK, MUTED, PICTURE_WIDTH_PX

HEAD_PX = 22
LETTER_PX = 7.2
_NOT_IN_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")


class Box(NamedTuple):
    frame: int
    left: float
    width: float


def svg(tree: Tree, base: str, unit: str, *, narrowest_px: float, titles: bool) -> str:
    """Every frame that is wide enough. Widths are the mean of both sides, so that nothing is hidden.

    With titles each box tells its numbers when a pointer rests on it; they are most of the file.
    """
    boxes = list(_boxes(tree, narrowest_px))
    height = HEAD_PX + ROW_PX * (1 + max((tree.depth[box.frame] for box in boxes), default=0))
    size = f'width="{PICTURE_WIDTH_PX}" height="{height}" viewBox="0 0 {PICTURE_WIDTH_PX} {height}"'
    by_colour: dict[str, list[str]] = {}
    for box in boxes:
        title = f"<title>{xml(_told(tree, box.frame, unit))}</title>" if titles else ""
        by_colour.setdefault(_colour(tree, box.frame), []).append(_path(tree, box, title))
    parts = [f'<g fill="{colour}">{_joined(paths)}</g>' for colour, paths in by_colour.items()]
    parts += [_edges(tree, boxes, sign, strength) for sign in (1, -1) for strength in range(len(DEARER))]
    parts += [_label(tree, box) for box in boxes if box.width > NARROWEST_TEXT_PX]
    font = f'font-family="{xml(", ".join(FONTS))}" font-size="{FONT_PX}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {font} fill="{INK}">'
        f'<rect width="100%" height="100%" fill="#ffffff"/>'
        f'<text x="0" y="13" fill="{MUTED}">{xml(MEANING.format(base=base))}</text>'
        f"{''.join(parts)}</svg>"
    )


def xml(text: str) -> str:
    """Text for XML, in which control characters have no place, not even escaped.

    >>> xml('a<b>::"c"' + chr(1))
    'a&lt;b&gt;::&quot;c&quot;\ufffd'
    """
    return escape(_NOT_IN_XML.sub("\ufffd", text))


def _boxes(tree: Tree, narrowest_px: float) -> Iterator[Box]:
    """A frame stands right of what its caller costs by itself and of its caller's frames before it."""
    sums = [0.0]
    for base, me in zip(tree.base_self, tree.me_self, strict=True):
        sums.append(sums[-1] + base + me)
    scale = PICTURE_WIDTH_PX / (sums[-1] or 1.0)
    i = 0
    while i < len(tree):
        left, right = sums[i] * scale, sums[tree.end[i]] * scale
        if right - left >= narrowest_px:
            yield Box(i, left, right - left)
            i += 1
        else:
            i = tree.end[i]


def _colour(tree: Tree, i: int) -> str:
    sign = tree.sign(i)
    colours = DEARER if sign > 0 else CHEAPER
    return colours[_strength(tree, i)] if sign else GREY


def _strength(tree: Tree, i: int) -> int:
    return strength_of(tree.difference(i) / tree.whole)


def _path(tree: Tree, box: Box, title: str) -> str:
    shape = _rectangle(box.left, _top(tree, box), _inner(box), ROW_PX - 1)
    return f'<path d="{shape}">{title}</path>' if title else shape


def _joined(paths: list[str]) -> str:
    return "".join(paths) if paths[0].startswith("<") else f'<path d="{"".join(paths)}"/>'


def _edges(tree: Tree, boxes: list[Box], sign: int, strength: int) -> str:
    """Dearer has its edge above, cheaper below: not everybody sees the colours."""
    down = 0 if sign > 0 else ROW_PX - 3
    colour = (DEARER_EDGES if sign > 0 else CHEAPER_EDGES)[strength]
    found = [box for box in boxes if (tree.sign(box.frame), _strength(tree, box.frame)) == (sign, strength)]
    shapes = "".join(_rectangle(box.left, _top(tree, box) + down, _inner(box), 2) for box in found)
    return f'<path fill="{colour}" d="{shapes}"/>' if shapes else ""


def _label(tree: Tree, box: Box) -> str:
    i, sign = box.frame, tree.sign(box.frame)
    text = f"{SIGNS[sign]} {tree.name[i]} {figure(tree.difference(i), signed=True)}" if sign else tree.name[i]
    letters = int((box.width - 6) / LETTER_PX)
    if letters < min(len(text), FEWEST_LETTERS):
        return ""
    if len(text) > letters:
        text = text[: letters - 1].rstrip() + "…"
    strong = sign and _strength(tree, i) == len(DEARER) - 1
    white = ' fill="#fff"' if strong else ""
    return f'<text x="{box.left + 3:.1f}" y="{_top(tree, box) + 13}"{white}>{xml(text)}</text>'


def _told(tree: Tree, i: int, unit: str) -> str:
    by = with_error(tree.difference(i), tree.error[i])
    cost = f"{figure(tree.base_total[i])} → {figure(tree.me_total[i])} {unit}"
    return f"{tree.name[i]} ({tree.component[i]}): {cost}, {by}"


def _rectangle(left: float, top: int, width: float, height: int) -> str:
    return f"M{left:.1f} {top}h{width:.1f}v{height}h-{width:.1f}z"


def _top(tree: Tree, box: Box) -> int:
    return HEAD_PX + tree.depth[box.frame] * ROW_PX


def _inner(box: Box) -> float:
    return box.width - 1 if box.width > 3 else box.width
