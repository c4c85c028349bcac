"""The look of a flame graph, shared by the script that draws it and by the SVG picture shown without scripts."""

import re
from collections.abc import Iterator
from html import escape
from types import SimpleNamespace
from typing import NamedTuple

from rqps.numbers import digits_of, formatted
from rqps.show.flame.frames import Tree
from rqps.show.theme import COLOURS, FONTS, INK, MUTED, PICTURE_WIDTH_PX
from rqps.show.words import COST_SIGNS

# The shade shows the difference as a share of the base's cost of the whole operation: under 1 %, 1 to 5 %, over 5 %.
_MORE, _LESS = (COLOURS[2], COLOURS[1], COLOURS[0]), (COLOURS[4], COLOURS[5], COLOURS[6])
LOOK = SimpleNamespace(
    row=18,
    font_px=12,
    fonts=", ".join(FONTS),
    ink=INK,
    narrowest=0.5,
    narrowest_text=30,
    fewest_letters=5,
    limits=(0.01, 0.05),
    more=_MORE,
    less=_LESS,
    more_edges=(*_MORE[1:], "#6b2503"),  # one shade darker than the box
    less_edges=(*_LESS[1:], "#06413b"),
    grey="#dfe3e6",
    rest="#f0f2f4",
    in_dark={COLOURS[1]: "#f7b183", COLOURS[5]: "#86c9bf"},  # as in page.css: ink is legible on these colours
    chosen="#0b5c8a",
    faded=0.2,
    faded_text=0.7,
    meaning="▲, line at the top: costs more than {base}; ▼, line at the bottom: less; grey: within the error.",
)
SIGNS = {1: COST_SIGNS["slower"], -1: COST_SIGNS["faster"], 0: ""}
HEAD_PX = 22
LETTER_PX = 7.2
_NOT_IN_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")


def with_error(value: float, error: float) -> str:
    """A difference and its error, with as many digits as the error justifies.

    >>> with_error(22.04, 0.31), with_error(1.4, 1.1), with_error(-82.7, 26.1), with_error(1.5, 0.0)
    ('+22.0 ± 0.3', '+1.4 ± 1.1', '−83 ± 26', '+1.50')
    """
    if error <= 0:
        return figure(value, signed=True)
    digits = digits_of(error)
    number = formatted(value, f"+,.{digits}f") if round(value, digits) else "0"
    return f"{number} ± {formatted(error, f',.{digits}f')}"


def figure(value: float, *, signed: bool = False) -> str:
    """A number with commas between thousands, and with three decimals below 1, two below 10, one below 100.

    >>> figure(0.1234), figure(-1.234, signed=True), figure(12.34), figure(1234.5)
    ('0.123', '−1.23', '12.3', '1,234')
    >>> figure(0.0), figure(-0.0001, signed=True)
    ('0', '0')
    """
    size = abs(value)
    digits = 3 - sum(size >= limit for limit in (0.9995, 9.995, 99.95))
    if not round(value, digits):
        return "0"
    return formatted(value, f"{'+' if signed else ''},.{digits}f")


def xml(text: str) -> str:
    """Escapes text for XML and replaces control characters, which XML does not allow even when escaped.

    >>> xml('a<b>::"c"' + chr(1))
    'a&lt;b&gt;::&quot;c&quot;\ufffd'
    """
    return escape(_NOT_IN_XML.sub("\ufffd", text))


def svg(tree: Tree, base: str, unit: str, *, narrowest_px: float, titles: bool) -> str:
    """The flame graph as SVG, with all frames of at least `narrowest_px`. The width of a frame is the mean of its
    costs on both sides, so frames of only one side are visible, too.

    With `titles`, each box has a tooltip with its numbers; the tooltips are most of the file.
    """
    boxes = list(_boxes(tree, narrowest_px))
    height = HEAD_PX + LOOK.row * (1 + max((tree.depth[box.frame] for box in boxes), default=0))
    size = f'width="{PICTURE_WIDTH_PX}" height="{height}" viewBox="0 0 {PICTURE_WIDTH_PX} {height}"'
    font = f'font-family="{xml(LOOK.fonts)}" font-size="{LOOK.font_px}"'
    shapes = "".join(_shape(tree, box, _title(tree, box.frame, unit) if titles else "") for box in boxes)
    labels = "".join(_label(tree, box) for box in boxes if box.width > LOOK.narrowest_text)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {font} fill="{INK}">'
        f'<rect width="100%" height="100%" fill="#ffffff"/>'
        f'<text x="0" y="13" fill="{MUTED}">{xml(LOOK.meaning.format(base=base))}</text>{shapes}{labels}</svg>'
    )


class _Box(NamedTuple):
    frame: int
    left: float
    top: int
    width: float
    strength: int  # index of the shade: 0, 1 or 2


def _boxes(tree: Tree, narrowest_px: float) -> Iterator[_Box]:
    """The boxes of all frames that are wide enough. Below a caller, its own cost is on the left, without a box; to
    the right are the boxes of the frames that it calls."""
    sums = [0.0]
    for base, me in zip(tree.base_self, tree.me_self, strict=True):
        sums.append(sums[-1] + base + me)
    scale = PICTURE_WIDTH_PX / (sums[-1] or 1.0)
    i = 0
    while i < len(tree):
        left, right = sums[i] * scale, sums[tree.end[i]] * scale
        if right - left >= narrowest_px:
            strength = sum(abs(tree.difference(i) / tree.operation_cost) >= limit for limit in LOOK.limits)
            yield _Box(i, left, HEAD_PX + tree.depth[i] * LOOK.row, right - left, strength)
            i += 1
        else:
            i = tree.end[i]


def _title(tree: Tree, i: int, unit: str) -> str:
    cost = f"{figure(tree.base_total[i])} → {figure(tree.me_total[i])} {unit}"
    by = with_error(tree.difference(i), tree.error[i])
    return f"<title>{xml(f'{tree.name[i]} ({tree.component[i]}): {cost}, {by}')}</title>"


def _shape(tree: Tree, box: _Box, title: str) -> str:
    sign = tree.sign(box.frame)
    if not sign:
        return _rectangle(box, LOOK.grey, 0, LOOK.row - 1, title)
    # For the colour-blind: a box that costs more has an edge at its top, a box that costs less at its bottom.
    colours, edges = (LOOK.more, LOOK.more_edges) if sign > 0 else (LOOK.less, LOOK.less_edges)
    edge = _rectangle(box, edges[box.strength], 0 if sign > 0 else LOOK.row - 3, 2)
    return _rectangle(box, colours[box.strength], 0, LOOK.row - 1, title) + edge


def _label(tree: Tree, box: _Box) -> str:
    i, sign = box.frame, tree.sign(box.frame)
    text = f"{SIGNS[sign]} {tree.name[i]} {figure(tree.difference(i), signed=True)}" if sign else tree.name[i]
    letters = int((box.width - 6) / LETTER_PX)
    if letters < min(len(text), LOOK.fewest_letters):
        return ""
    if len(text) > letters:
        text = text[: letters - 1].rstrip() + "…"
    white = ' fill="#fff"' if sign and box.strength == len(LOOK.limits) else ""
    return f'<text x="{box.left + 3:.1f}" y="{box.top + 13}"{white}>{xml(text)}</text>'


def _rectangle(box: _Box, colour: str, down: int, height: int, title: str = "") -> str:
    width = box.width - 1 if box.width > 3 else box.width
    shape = f"M{box.left:.1f} {box.top + down}h{width:.1f}v{height}h-{width:.1f}z"
    return f'<path fill="{colour}" d="{shape}">{title}</path>'
