"""Colours and sizes that all charts and tables share."""

from collections.abc import Iterable, Mapping, Sequence
from textwrap import wrap
from typing import Any
from zlib import crc32

import altair as alt

from rqps.study import build_and_config

# The ratios at which the colour changes, as in the published studies: a cell from 0.95 to 1.05 is grey. The
# colour-blind can distinguish orange from blue-green, and each coloured cell also has a sign, which is readable in a
# grey print.
LIMITS = (0.80, 0.90, 0.95, 1.05, 1.11, 1.25)
COLOURS = ("#a63c06", "#e08244", "#f7cfa8", "#eceff1", "#b8e0da", "#4fae9f", "#0b6e64")
VERDICT_COLOURS = {"slower": "#c8500f", "faster": "#12867a", "same": "#5f6b76", "unsure": "#8b96a0"}

# Okabe and Ito's colours, then some of Tol's: nearly everybody can distinguish them.
_OKABE_ITO = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
SERIES = (*_OKABE_ITO, "#332288", "#999933", "#882255", "#44aa99")

INK, MUTED, GRID = "#1c2630", "#5f6b76", "#e3e7ea"
FONTS = ("system-ui", "Segoe UI", "Roboto", "Helvetica Neue", "Liberation Sans", "Arial", "sans-serif")
PICTURE_WIDTH_PX = 760
PALE = 0.2
"""A cell whose verdict is unsure is paler: this share of its colour is left, and the rest is white."""
LINE = 120


def colour_of(ratio: float, verdict: str = "", colours: Sequence[str] = COLOURS) -> str:
    """The heat map's colour for a ratio, paler if the verdict is unsure. For costs, pass the colours reversed.

    >>> colour_of(1.0), colour_of(0.95) == colour_of(1.05), colour_of(0.62), colour_of(0.62, "unsure")
    ('#eceff1', False, '#a63c06', '#edd8cd')
    """
    colour = colours[sum(ratio >= limit for limit in LIMITS)]
    return lighter(colour, 1 - PALE) if verdict == "unsure" else colour


def lighter(colour: str, share: float) -> str:
    """The colour mixed with a share of white.

    >>> lighter("#000000", 0.5)
    '#808080'
    """
    parts = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return "#" + "".join(f"{round(part + (255 - part) * share):02x}" for part in parts)


def dbms_colours(names: Iterable[str]) -> dict[str, str]:
    """Maps each dbms to a colour that is chosen by a hash of its name, so it is the same in all charts. If two names
    in a chart get the same colour, the later name takes the next free one.

    >>> dbms_colours(["my5624.common", "my8033.common"]) | dbms_colours(["my8033.common", "my8033.ps0"])
    {'my5624.common': '#e69f00', 'my8033.common': '#999933', 'my8033.ps0': '#b8b870'}
    """
    by_name: dict[str, str] = {}
    for name in names:
        build, config = build_and_config(name)
        # The prefix `b:` was chosen so that the hashes of commonly compared releases lead to different colours.
        place = crc32(f"b:{build}".encode())
        share = (0.5, 0.0, 0.3)[crc32(config.encode()) % 3]
        colours = [lighter(SERIES[(place + more) % len(SERIES)], share) for more in range(len(SERIES))]
        by_name[name] = next((colour for colour in colours if colour not in by_name.values()), colours[0])
    return by_name


def ink_on(colour: str) -> str:
    """The colour of text on a colour of the heat map: white on the two darkest, black on all others."""
    return "#ffffff" if colour in (COLOURS[0], COLOURS[-1]) else INK


def colours(column: str, of_values: Mapping[str, str]) -> alt.Color:
    """The colour encoding of a column: maps its values to colours; the legend has no title."""
    scale = alt.Scale(domain=list(of_values), range=list(of_values.values()))
    return alt.Color(f"{column}:N", title=None, scale=scale)


def titled(chart: Any, claim: str, how: str, *, min_width_px: int = 0) -> Any:
    """A chart with a claim as its title and, as the subtitle, how the chart was made. If the page is narrower than
    `min_width_px`, the chart scrolls."""
    title = alt.TitleParams(text=wrap(claim, LINE - 30), subtitle=wrap(how, LINE))
    return chart.properties(
        title=title,
        description=f"{claim} {how}",
        usermeta={"rqps": {"claim": claim, "how": how, "minWidth": min_width_px}},
    )


def numbers(form: str, unit: str = "", names: Sequence[str] = ("estimate", "low", "high")) -> list[Any]:
    """Tooltips for the number of rounds (column `n`) and for the columns `names`, with `unit` after each column's
    name."""
    of = [alt.Tooltip(f"{name}:Q", format=form, title=f"{name}{unit}") for name in names]
    return [alt.Tooltip("n:Q", title="rounds"), *of]


_TEXT: dict[str, Any] = {"labelColor": INK, "titleColor": MUTED, "labelFontSize": 12, "titleFontSize": 12}
_AXIS = {"gridColor": GRID, "domainColor": "#b6bfc6", "tickColor": "#b6bfc6", "labelLimit": 320}
_TITLE = {"anchor": "start", "frame": "bounds", "color": INK, "fontSize": 15, "offset": 12, "limit": 900}
_CONFIG: dict[str, Any] = {
    "font": ", ".join(FONTS),
    "background": "#ffffff",
    "view": {"stroke": None, "continuousWidth": PICTURE_WIDTH_PX},
    "axis": {**_TEXT, **_AXIS, "titleFontWeight": "normal"},
    "axisX": {"titleAnchor": "end"},  # a centred title would not fit on a phone
    "legend": {**_TEXT, "orient": "top", "symbolOpacity": 1, "titleFontWeight": "normal", "labelLimit": 0},
    "header": {**_TEXT, "labelFontWeight": "bold", "title": None},
    "title": {**_TITLE, "subtitleColor": MUTED, "subtitleFontSize": 12},
    "range": {"category": list(SERIES)},
}


@alt.theme.register("rqps", enable=False)
def _theme() -> alt.theme.ThemeConfig:
    return {"config": _CONFIG}  # type: ignore[typeddict-item]
