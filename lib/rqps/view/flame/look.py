"""How a flame graph looks: sizes, colours and forms of numbers, the same in the drawing and in the picture of it."""

import math
from typing import Any

from rqps.view.theme import COLOURS, COST_SIGNS, FONTS, INK

ROW_PX, FONT_PX = 18, 12
NARROWEST_PX, NARROWEST_TEXT_PX = 0.5, 30
FEWEST_LETTERS = 5

# A difference is strong by its share of what the whole operation costs the base: under 1 %, 1 to 5 %, over 5 %.
LIMITS = (0.01, 0.05)
DEARER, CHEAPER, GREY = (COLOURS[2], COLOURS[1], COLOURS[0]), (COLOURS[4], COLOURS[5], COLOURS[6]), "#dfe3e6"
# The edge above or below a box is one shade darker than the box.
DEARER_EDGES, CHEAPER_EDGES = (*DEARER[1:], "#6b2503"), (*CHEAPER[1:], "#06413b")
REST, CHOSEN, FADED, FADED_TEXT = "#f0f2f4", "#0b5c8a", 0.3, 0.65
SIGNS = {1: COST_SIGNS["slower"], -1: COST_SIGNS["faster"], 0: ""}
MEANING = (
    "▲ and an edge above: dearer than {base}; ▼ and an edge below: cheaper; "
    "grey: no difference, or one within its error."
)


def constants() -> dict[str, Any]:
    """What the drawing's script is told."""
    return {
        "row": ROW_PX,
        "font_px": FONT_PX,
        "fonts": ", ".join(FONTS),
        "narrowest": NARROWEST_PX,
        "narrowest_text": NARROWEST_TEXT_PX,
        "fewest": FEWEST_LETTERS,
        "limits": LIMITS,
        "dearer": DEARER,
        "cheaper": CHEAPER,
        "dearer_edges": DEARER_EDGES,
        "cheaper_edges": CHEAPER_EDGES,
        "grey": GREY,
        "rest": REST,
        "chosen": CHOSEN,
        "faded": FADED,
        "faded_text": FADED_TEXT,
        "ink": INK,
        "meaning": MEANING,
    }


def strength_of(share: float) -> int:
    """How strong a difference is shown.

    >>> strength_of(0.002), strength_of(-0.03), strength_of(0.2)
    (0, 1, 2)
    """
    return sum(abs(share) >= limit for limit in LIMITS)


def with_error(value: float, error: float) -> str:
    """A difference in as many digits as its error has any use for.

    >>> with_error(22.04, 0.29), with_error(-82.7, 26.1), with_error(1.5, 0.0)
    ('+22.0 ± 0.3', '−83 ± 26', '+1.50')
    """
    if error <= 0:
        return figure(value, signed=True)
    digits = min(3, max(0, -math.floor(math.log10(error) + 0.0001)))
    shown = f"{value:+,.{digits}f}".replace("-", "−") if round(value, digits) else "0"
    return f"{shown} ± {error:,.{digits}f}"


def figure(value: float, *, signed: bool = False) -> str:
    """A number with as many digits as its size needs.

    >>> figure(0.1234), figure(-1.234, signed=True), figure(12.34), figure(1234.5)
    ('0.123', '−1.23', '12.3', '1,234')
    >>> figure(0.0), figure(-0.0001, signed=True)
    ('0', '0')
    """
    size = abs(value)
    digits = 3 - sum(size >= limit for limit in (0.9995, 9.995, 99.95))
    if not round(value, digits):
        return "0"
    return f"{value:{'+' if signed else ''},.{digits}f}".replace("-", "−")
