"""Colours, sizes and words that all charts and tables share."""

from collections.abc import Iterable, Sequence
from textwrap import wrap
from typing import Any

import altair as alt
import polars as pl

# As published: grey from 0.95 to 1.05. Orange against blue-green stays apart for the colour-blind, and a sign
# stands beside every colour, so that a print in grey can be read too.
LIMITS = (0.80, 0.90, 0.95, 1.05, 1.11, 1.25)
COLOURS = ("#a63c06", "#e08244", "#f7cfa8", "#eceff1", "#b8e0da", "#4fae9f", "#0b6e64")
VERDICT_COLOURS = {"slower": "#c8500f", "faster": "#12867a", "same": "#5f6b76", "unsure": "#a9b2ba"}
SIGNS = {"slower": "▼", "faster": "▲", "same": "=", "unsure": "?"}
COST_SIGNS = {"slower": "▲", "faster": "▼", "same": "=", "unsure": "?"}

# Okabe and Ito's colours, then some of Tol's: told apart by nearly everybody.
SERIES = (
    "#0072b2",
    "#d55e00",
    "#009e73",
    "#cc79a7",
    "#e69f00",
    "#56b4e9",
    "#332288",
    "#999933",
    "#882255",
    "#44aa99",
)

# What is compared, as a title says it.
WORDS = {
    "operations_per_s": "operations/s",
    "server_cpu_us_per_operation": "server CPU per operation",
    "client_cpu_us_per_operation": "client CPU per operation",
    "host_cpu_us_per_operation": "CPU of the whole host per operation",
}

INK, MUTED, GRID = "#1c2630", "#5f6b76", "#e3e7ea"
FONTS = ("system-ui", "Segoe UI", "Roboto", "Helvetica Neue", "Liberation Sans", "Arial", "sans-serif")
PICTURE_WIDTH_PX = 760
LINE = 120


def colour_of(ratio: float) -> str:
    """The heatmap's colour of a ratio.

    >>> colour_of(1.0), colour_of(0.95) == colour_of(1.05), colour_of(0.62)
    ('#eceff1', False, '#a63c06')
    """
    return COLOURS[sum(ratio >= limit for limit in LIMITS)]


def ink_on(ratio: float) -> str:
    """Black or white, whichever is read more easily on that colour."""
    return ink_on_colour(colour_of(ratio))


def ink_on_colour(colour: str) -> str:
    """The same for a colour of the heatmap."""
    return "#ffffff" if colour in (COLOURS[0], COLOURS[-1]) else INK


def titled(chart: alt.LayerChart | alt.Chart | alt.FacetChart, claim: str, how: str, *, min_width_px: int = 0) -> Any:
    """A claim above a chart and, smaller, how it was made. The page lets a chart scroll below `min_width_px`."""
    title = alt.TitleParams(text=wrap(claim, LINE - 30), subtitle=wrap(how, LINE))
    return chart.properties(
        title=title,
        description=f"{claim} {how}",
        usermeta={"rqps": {"claim": claim, "how": how, "minWidth": min_width_px}},
    )


def by_host(frame: pl.DataFrame) -> pl.DataFrame:
    """Where there is more than one host, the dbms says which one it ran on."""
    if frame["host"].n_unique() < 2:
        return frame
    return frame.with_columns(pl.format("{} on {}", "dbms", "host").alias("dbms"))


def told_apart(numbers: pl.DataFrame) -> tuple[pl.DataFrame, str]:
    """`warned`: the warnings of a number that not all have; and a sentence on those that all have."""
    if "warnings" not in numbers.columns:
        return numbers.with_columns(pl.lit("").alias("warned")), ""
    every = [set(kinds) for kinds in numbers["warnings"].to_list()]
    common = set.intersection(*every) if every else set()
    own = [", ".join(sorted(kinds - common)) for kinds in every]
    of_all = f" A warning on {', '.join(sorted(common))} concerns every number here." if common else ""
    return numbers.drop("warnings").with_columns(pl.Series("warned", own, pl.String)), of_all


def is_throughput(metric: str) -> bool:
    """Whether more is better."""
    return metric in ("operations_per_s", "o/s")


def signs_of(metric: str) -> dict[str, str]:
    """An arrow points where the number goes: throughput down is slower, cost up is."""
    return SIGNS if is_throughput(metric) else COST_SIGNS


def verdict_words(metric: str) -> dict[str, str]:
    """How a verdict is called: an operation is not slower for costing more, it is dearer."""
    worse, better = ("slower", "faster") if is_throughput(metric) else ("dearer", "cheaper")
    return {"slower": worse, "faster": better, "same": "same", "unsure": "unsure"}


def legend_of(metric: str) -> str:
    """What the signs mean."""
    words, signs = verdict_words(metric), signs_of(metric)
    worse, better = (f"{signs[each]} {words[each]}" for each in ("slower", "faster"))
    return f"{worse}, {better}, = same within 2 %, ? the rounds can't tell."


def in_order(values: Iterable[str]) -> list[str]:
    """Each value once, where it first stands."""
    return list(dict.fromkeys(values))


def rounds_of(counts: Sequence[int]) -> str:
    """How many rounds, in words.

    >>> rounds_of([6, 6]), rounds_of([5, 6]), rounds_of([1])
    ('6 rounds', '5 to 6 rounds', '1 round')
    """
    low, high = min(counts), max(counts)
    return f"{low} to {high} rounds" if low < high else f"{low} round{'' if low == 1 else 's'}"


def coverage_of(coverages: Sequence[float]) -> str:
    """How sure the intervals are, in words.

    >>> coverage_of([0.96875]), coverage_of([0.875, 0.75]), coverage_of([0.0])
    ('97 % intervals', '75 to 88 % intervals', 'no intervals')
    """
    percent = sorted({round(100 * each) for each in coverages if each > 0})
    if not percent:
        return "no intervals"
    return f"{percent[0]} to {percent[-1]} % intervals" if len(percent) > 1 else f"{percent[0]} % intervals"


_TEXT: dict[str, Any] = {"labelColor": INK, "titleColor": MUTED, "labelFontSize": 12, "titleFontSize": 12}
_AXIS = {"gridColor": GRID, "domainColor": "#b6bfc6", "tickColor": "#b6bfc6", "labelLimit": 320}
_TITLE = {"anchor": "start", "frame": "bounds", "color": INK, "fontSize": 15, "offset": 12, "limit": 900}
_CONFIG: dict[str, Any] = {
    "font": ", ".join(FONTS),
    "background": "#ffffff",
    "view": {"stroke": None, "continuousWidth": PICTURE_WIDTH_PX},
    "axis": {**_TEXT, **_AXIS, "titleFontWeight": "normal"},
    "axisX": {"titleAnchor": "end"},  # on a phone a centred one would not fit
    "legend": {**_TEXT, "orient": "top", "symbolOpacity": 1, "titleFontWeight": "normal"},
    "header": {**_TEXT, "labelFontWeight": "bold", "title": None},
    "title": {**_TITLE, "subtitleColor": MUTED, "subtitleFontSize": 12},
    "range": {"category": list(SERIES)},
}


@alt.theme.register("rqps", enable=False)
def _theme() -> alt.theme.ThemeConfig:
    return {"config": _CONFIG}  # type: ignore[typeddict-item]
