"""Response times of point lookups: one chart an engine and number of clients, a small panel a kind of query."""

import math
from typing import Any

import altair as alt
import polars as pl

from rqps.view.rows import slim
from rqps.view.text import Sentences
from rqps.view.theme import INK, SERIES, by_host, coverage_of, in_order, rounds_of, titled

PANEL_PX, BARS_PX, ROW_PX, LABELS_PX = 118, 80, 17, 34
COLUMNS = 5
OFF = "► "


def lookup_answers(normalised: pl.DataFrame) -> Sentences:
    """For each engine and number of clients, what the first kind of query takes, in the unit of all charts."""
    said = []
    for _, of_one in normalised.group_by("host", "engine", "clients", maintain_order=True):
        rows = by_host(of_one.filter(pl.col("position") == of_one["position"].min())).sort("median", descending=True)
        told = [f"{row['dbms']} {_number(row['median'])}{_reach(row)}" for row in rows.to_dicts()]
        said.append(f"{_where(rows)}, {rows['kind_words'][0]}: {', '.join(told)}.")
    unit = f"1 is {' or '.join(in_order(normalised['unit']))} of {normalised['base'][0]}"
    return Sentences([*said, f"{unit}: medians of {rounds_of(normalised['n'].to_list())}, with their intervals."])


def generator_answers(shares: pl.DataFrame) -> Sentences:
    """What the load generator takes of the CPU: in the middle of all steps and dbms, at most, and at least."""
    rows = by_host(shares).sort("median", maintain_order=True)
    least, most = rows.row(0, named=True), rows.row(-1, named=True)
    told = [
        f"{word} {row['median']:.0%}{_share_reach(row)}, in {row['step']} of {row['dbms']}"
        for word, row in (("At most", most), ("At least", least))
    ]
    half: Any = rows["median"].median()
    middle = f"In half of all steps and dbms it takes {half:.0%} or more of the CPU time of both."
    return Sentences([middle, f"{told[0]}. {told[1]}. Medians of {rounds_of(rows['n'].to_list())}."])


def lookup_charts(normalised: pl.DataFrame) -> list[Any]:
    """The charts in order: each whole, and again with its axis cut where a few bars leave no room for the rest."""
    charts = []
    for _, of_one in normalised.group_by("host", "engine", "clients", maintain_order=True):
        bars = of_one.sort("position", maintain_order=True)
        charts.append(_chart(bars, None))
        if (cut := bars["cut"][0]) is not None:
            charts.append(_chart(bars, float(cut)))
    return charts


def _chart(bars: pl.DataFrame, cut: float | None) -> Any:
    named = by_host(bars).with_columns(_label(cut), *_ends(cut), pl.col("kind_words").alias("name"))
    shown = slim(
        named, "name", "dbms", "config", "n", "median", "low", "high", "coverage", "end", "from", "to", "label"
    )
    dbms, configs = in_order(shown["dbms"]), in_order(shown["config"])
    seen = cut or float(shown.select(pl.max_horizontal("median", "high").max()).item())
    # Numbers stand to the right of the axis, where neither a bar nor an interval crosses them.
    scale = alt.Scale(domain=[0, seen * PANEL_PX / BARS_PX], nice=False)
    # An axis gives a format without a precision one of its own, and then 40 is 4e+1.
    axis = alt.Axis(values=_ticks(seen), labelExpr="format(datum.value, ',.3~r')")
    x = alt.X("end:Q", title=None, scale=scale, axis=axis)
    y = alt.Y("dbms:N", sort=dbms, title=None, axis=alt.Axis(ticks=False, domain=False, labelLimit=0))
    told: list[Any] = ["name:N", "dbms:N", alt.Tooltip("n:Q", title="rounds")]
    told += [alt.Tooltip(f"{name}:Q", format=".3f") for name in ("median", "low", "high")]
    told += [alt.Tooltip("coverage:Q", format=".1%")]
    colour = alt.Color("config:N", title=None, scale=alt.Scale(domain=configs, range=list(SERIES)))
    base = alt.Chart().encode(y=y, tooltip=told)
    panel = alt.layer(
        base.mark_bar(height=11, opacity=0.75).encode(x=x, color=colour),
        base.mark_rule(color=INK, strokeWidth=2).encode(x="from:Q", x2="to:Q"),
        base.mark_text(fontSize=10, align="right", color=INK).encode(x=alt.value(PANEL_PX), text="label:N"),
        data=shown,
    ).properties(width=PANEL_PX, height=ROW_PX * len(dbms))
    header = alt.Header(title=None, labelAnchor="start", labelFontSize=11, labelPadding=2)
    facet = alt.Facet("name:N", sort=in_order(shown["name"]), header=header)
    made = titled(
        alt.vconcat(panel.facet(facet=facet, columns=COLUMNS, spacing=16)).resolve_scale(color="shared"),
        _claim(bars, cut),
        _how(named, cut),
    )
    made.usermeta["rqps"] |= {"panel": PANEL_PX + LABELS_PX, "minWidth": 300}
    return made


def _ticks(most: float) -> list[float]:
    """Two to four round numbers up to there.

    >>> _ticks(2.6), _ticks(142), _ticks(0.9)
    ([0.0, 1.0, 2.0], [0.0, 50.0, 100.0], [0.0, 0.5])
    """
    power = 10.0 ** math.floor(math.log10(most))
    step = next(power * part for part in (0.5, 1.0, 2.0, 5.0) if most / (power * part) < 3)
    return [round(step * number, 9) for number in range(int(most / step) + 1)]


def _label(cut: float | None) -> pl.Expr:
    """The number at the end of a bar; one that is cut off says so."""
    number = pl.col("median").map_elements(_number, return_dtype=pl.String)
    return (pl.when(_runs_off(cut)).then(pl.lit(OFF) + number).otherwise(number)).alias("label")


def _ends(cut: float | None) -> list[pl.Expr]:
    """Where a bar ends, and from where to where its interval reaches, all within the axis."""
    most = pl.lit(cut)
    seen = [pl.when(_runs_off(cut)).then(None).otherwise(pl.min_horizontal(name, most)) for name in ("low", "high")]
    return [pl.min_horizontal("median", most).alias("end"), seen[0].alias("from"), seen[1].alias("to")]


def _runs_off(cut: float | None) -> pl.Expr:
    return pl.lit(False) if cut is None else pl.col("median") > cut


def _number(value: float) -> str:
    """
    >>> _number(1.234), _number(23.45), _number(123.4)
    ('1.23', '23.4', '123')
    """
    return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f}"


def _reach(row: dict[str, Any]) -> str:
    return "" if row["low"] is None else f" ({_number(row['low'])}–{_number(row['high'])})"


def _share_reach(row: dict[str, Any]) -> str:
    return "" if row["low"] is None else f" ({row['low']:.0%}–{row['high']:.0%})"


def _claim(bars: pl.DataFrame, cut: float | None) -> str:
    where = _where(bars)
    if cut is not None:
        return f"{where}, the axis cut at {cut:g}. Off it run {', '.join(_off(bars, cut))}."
    low, high = bars.sort("median").row(0, named=True), bars.sort("median").row(-1, named=True)
    return (
        f"{where}: a lookup takes {_number(low['median'])} ({low['kind_words']}, {low['dbms']}) to "
        f"{_number(high['median'])} times ({high['kind_words']}, {high['dbms']}) as long as the unit."
    )


def _off(bars: pl.DataFrame, cut: float) -> list[str]:
    """What runs off a cut axis, by kind of query: how far, and how many of its bars."""
    told = []
    for (kind,), of_kind in bars.group_by("kind_words", maintain_order=True):
        off = of_kind.filter(pl.col("median") > cut)["median"].to_list()
        if off:
            reach = _number(off[0]) if len(off) == 1 else f"{_number(min(off))} to {_number(max(off))}"
            told.append(f"{kind} in {'all' if len(off) == of_kind.height else len(off)} dbms ({reach})")
    return told


def _where(bars: pl.DataFrame) -> str:
    clients = bars["clients"][0]
    return f"{bars['engine'][0]}, {clients} client{'' if clients == 1 else 's'}"


def _how(named: pl.DataFrame, cut: float | None) -> str:
    if cut is not None:
        return f"The same numbers as above; a bar with {OFF}is longer than the axis, and its number says how long."
    rounds, sure = rounds_of(named["n"].to_list()), coverage_of(named["coverage"].to_list())
    return (
        f"Response time of a query; the unit, 1, is {named['unit'][0]} of {named['base'][0]} in the same round. "
        f"Median of {rounds}, the black line is its interval ({sure})."
    )
