"""Charts of response times: one per storage engine and number of clients, a small panel per kind of query."""

import math
from typing import Any

import altair as alt
import polars as pl

from rqps.show import INK, SERIES, by_host, coverage_of, in_order, rounds_of, slim, titled
from rqps.show.theme import numbers
from rqps.show.words import three_digits

PANEL_PX, BARS_PX, ROW_PX, LABELS_PX = 118, 80, 17, 34
COLUMNS = 5
OFF = "► "
JUMP = 2.5
"""A bar so many times as long as the next shorter one leaves no room for all others on one axis."""
ROOM = 1.15


def chart(bars: pl.DataFrame) -> list[Any]:
    """The chart, and once more with its axis cut where a few bars leave no room for the rest."""
    cut = cut_of(bars["estimate"].to_list())
    return [_chart(bars, None), *([] if cut is None else [_chart(bars, cut)])]


def cut_of(values: list[float]) -> float | None:
    """End of a cut axis: a bit above the last value before a jump, if that shows at least half of them.

    >>> cut_of([1.0, 1.2, 1.4, 90.0, 80.0]), cut_of([1.0, 1.2, 1.4]), cut_of([1.0, 80.0, 85.0])
    (1.7, None, None)
    """
    ordered = sorted(values)
    pairs = zip(ordered, ordered[1:], range(1, len(ordered)), strict=False)
    jumps = [low for low, high, below in pairs if 0 < low * JUMP <= high and 2 * below >= len(ordered)]
    if not jumps:
        return None
    end = jumps[0] * ROOM
    digit = 10.0 ** (math.floor(math.log10(end)) - 1)
    return max(end, round(math.ceil(end / digit) * digit, 9))  # two digits, and never down


def _chart(bars: pl.DataFrame, cut: float | None) -> Any:
    named = by_host(bars).with_columns(*_drawn(cut), pl.col("kind_words").alias("name"))
    columns = ("name", "dbms", "config", "n", "estimate", "low", "high", "coverage", "end", "from", "to", "label")
    shown = slim(named, *columns)
    dbms, configs = in_order(shown["dbms"]), in_order(shown["config"])
    seen = cut or float(shown.select(pl.max_horizontal("estimate", "high").max()).item())
    # Numbers stand to the right of the axis, where neither a bar nor an interval crosses them.
    scale = alt.Scale(domain=[0, seen * PANEL_PX / BARS_PX], nice=False)
    # An axis gives a format without a precision one of its own, and then 40 is 4e+1.
    axis = alt.Axis(values=_ticks(seen), labelExpr="format(datum.value, ',.3~r')")
    x = alt.X("end:Q", title=None, scale=scale, axis=axis)
    y = alt.Y("dbms:N", sort=dbms, title=None, axis=alt.Axis(ticks=False, domain=False, labelLimit=0))
    tooltip = ["name:N", "dbms:N", *numbers(".3f"), alt.Tooltip("coverage:Q", format=".1%")]
    colour = alt.Color("config:N", title=None, scale=alt.Scale(domain=configs, range=list(SERIES)))
    base = alt.Chart().encode(y=y, tooltip=tooltip)
    panel = alt.layer(
        base.mark_bar(height=11, opacity=0.75).encode(x=x, color=colour),
        base.mark_rule(color=INK, strokeWidth=2).encode(x="from:Q", x2="to:Q"),
        base.mark_text(fontSize=10, align="right", color=INK).encode(x=alt.value(PANEL_PX), text="label:N"),
        data=shown,
    ).properties(width=PANEL_PX, height=ROW_PX * len(dbms))
    header = alt.Header(title=None, labelAnchor="start", labelFontSize=11, labelPadding=2)
    facet = alt.Facet("name:N", sort=in_order(shown["name"]), header=header)
    panels = alt.vconcat(panel.facet(facet=facet, columns=COLUMNS, spacing=16)).resolve_scale(color="shared")
    made = titled(panels, _claim(bars, cut), _how(named, cut))
    made.usermeta["rqps"] |= {"panel": PANEL_PX + LABELS_PX, "minWidth": 300}
    return made


def _drawn(cut: float | None) -> list[pl.Expr]:
    """The end of a bar and of its interval, within the axis, and its label: one that is cut off says so."""
    off, most = (pl.lit(False), pl.lit(None)) if cut is None else (pl.col("estimate") > cut, pl.lit(cut))
    text = pl.col("estimate").map_elements(three_digits, return_dtype=pl.String)
    low, high = (pl.when(off).then(None).otherwise(pl.min_horizontal(name, most)) for name in ("low", "high"))
    label = pl.when(off).then(pl.lit(OFF) + text).otherwise(text)
    end = pl.min_horizontal("estimate", most)
    return [end.alias("end"), low.alias("from"), high.alias("to"), label.alias("label")]


def _ticks(most: float) -> list[float]:
    """
    >>> _ticks(2.6), _ticks(142), _ticks(0.9)
    ([0.0, 1.0, 2.0], [0.0, 50.0, 100.0], [0.0, 0.5])
    """
    power = 10.0 ** math.floor(math.log10(most))
    step = next(power * part for part in (0.5, 1.0, 2.0, 5.0) if most / (power * part) < 3)
    return [round(step * count, 9) for count in range(int(most / step) + 1)]


def _claim(bars: pl.DataFrame, cut: float | None) -> str:
    where = bars["group"][0]
    if cut is None:
        low, high = bars.sort("estimate").row(0, named=True), bars.sort("estimate").row(-1, named=True)
        return (
            f"{where}: a lookup takes {three_digits(low['estimate'])} ({low['kind_words']}, {low['dbms']}) to "
            f"{three_digits(high['estimate'])} times ({high['kind_words']}, {high['dbms']}) as long as the unit."
        )
    said = []
    for (kind,), of_kind in bars.group_by("kind_words", maintain_order=True):
        off = of_kind.filter(pl.col("estimate") > cut)["estimate"].to_list()
        if off:
            reach = three_digits(off[0]) if len(off) == 1 else f"{three_digits(min(off))} to {three_digits(max(off))}"
            said.append(f"{kind} in {'all' if len(off) == of_kind.height else len(off)} dbms ({reach})")
    return f"{where}, the axis cut at {cut:g}. Off it run {', '.join(said)}."


def _how(named: pl.DataFrame, cut: float | None) -> str:
    if cut is not None:
        return f"The same numbers as above; a bar with {OFF}is longer than the axis, and its number says how long."
    return (
        f"Response time of a query; the unit, 1, is {named['unit'][0]} of {named['base'][0]} in the same round. "
        f"Median of {rounds_of(named['n'])}, the line is its interval ({coverage_of(named['coverage'])})."
    )
