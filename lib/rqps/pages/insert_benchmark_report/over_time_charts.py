"""What every client did in the course of every step: a chart a dbms, a small panel a step."""

from collections.abc import Iterator
from typing import Any

import altair as alt
import polars as pl

from rqps.view.rows import slim
from rqps.view.text import Sentences
from rqps.view.theme import INK, SERIES, by_host, in_order, rounds_of, titled

FEW_CLIENTS = 4
PANEL_PX, HEIGHT_PX, STRIP_PX = 190, 84, 9
AXES_PX = 52
STALL = "#a63c06"
_AXIS = alt.Axis(tickCount=3, labelExpr="format(datum.value, abs(datum.value) < 1000 ? '~g' : '~s')", title=None)
_SECONDS = alt.Axis(grid=False, tickCount=4, tickMinStep=1, format="~g", title=None)


def client_charts(pieces: pl.DataFrame) -> list[Any]:
    """Of up to four clients a line each, of more a strip each, which is dark where a client did much."""
    return list(_charts(by_host(pieces)))


def _charts(pieces: pl.DataFrame) -> Iterator[Any]:
    for (dbms,), of_dbms in pieces.group_by("dbms", maintain_order=True):
        few = of_dbms["client"].n_unique() <= FEW_CLIENTS
        shown = of_dbms.with_columns(_share().alias("share"), _panel_name(of_dbms))
        panel = _lines(shown) if few else _strips(shown)
        header = alt.Header(title=None, labelAnchor="start", labelFontSize=11, labelPadding=2)
        facet = alt.Facet("panel:N", sort=in_order(shown["panel"]), header=header)
        drawn = panel.facet(facet=facet, columns=3, spacing=14).resolve_scale(x="independent", y="independent")
        whole: Any = alt.vconcat(drawn)
        made = titled(whole, _claim(str(dbms), of_dbms), _how(of_dbms, few))
        made.usermeta["rqps"] |= {"panel": PANEL_PX + AXES_PX, "minWidth": 300}
        yield made


def _share() -> pl.Expr:
    """Of what a client of that step does in the middle of all."""
    return pl.col("median") / pl.col("median").median().over("step")


def _panel_name(pieces: pl.DataFrame) -> pl.Expr:
    words = {"insert": "rows/s", "query": "queries/s"}
    of_step = {
        step: f"{step}, {words[kind]}"
        for step, kind in pieces.select("step", "kind").unique(maintain_order=True).rows()
    }
    return pl.col("step").replace_strict(of_step, return_dtype=pl.String).alias("panel")


def _lines(pieces: pl.DataFrame) -> Any:
    kept = slim(pieces, "panel", "client", "second", "median", "low", "high", "n")
    clients = sorted(pieces["client"].unique())
    colour = alt.Color("client:N", title="client", scale=alt.Scale(domain=clients, range=list(SERIES)))
    told: list[Any] = ["client:N", "second:Q", alt.Tooltip("n:Q", title="rounds")]
    told += [alt.Tooltip(f"{name}:Q", format=",.0f") for name in ("median", "low", "high")]
    base = alt.Chart().encode(x=alt.X("second:Q", axis=_SECONDS), color=colour, tooltip=told)
    y = alt.Y("median:Q", scale=alt.Scale(zero=True), axis=_AXIS)
    return alt.layer(
        base.mark_area(opacity=0.16).encode(y=alt.Y("low:Q", axis=_AXIS), y2="high:Q"),
        base.mark_line(strokeWidth=1.6).encode(y=y),
        data=kept,
    ).properties(width=PANEL_PX, height=HEIGHT_PX)


def _strips(pieces: pl.DataFrame) -> Any:
    ends = pieces.with_columns((pl.col("second") + pl.col("piece_s")).alias("until"))
    kept = slim(ends, "panel", "client", "second", "until", "share", "median", "low", "n")
    told: list[Any] = ["client:O", "second:Q", alt.Tooltip("n:Q", title="rounds")]
    told += [alt.Tooltip(f"{name}:Q", format=",.0f") for name in ("median", "low")]
    shades = alt.Scale(domain=[0, 1.5], range=["#ffffff", "#0b3c5d"], clamp=True)
    legend = alt.Legend(title="of the middle client", format=".1f", gradientLength=140, direction="horizontal")
    clients = alt.Axis(values=_some(int(pieces["client"].max() or 1)), title=None, ticks=False, domain=False)  # type: ignore[arg-type]
    base = alt.Chart().encode(
        x=alt.X("second:Q", axis=_SECONDS, scale=alt.Scale(nice=False)),
        x2="until:Q",
        y=alt.Y("client:O", axis=clients),
        tooltip=told,
    )
    return alt.layer(
        base.mark_rect().encode(color=alt.Color("share:Q", scale=shades, legend=legend)),
        base.transform_filter("datum.low === 0").mark_rect(color=STALL, height=3),
        data=kept,
    ).properties(width=PANEL_PX, height=STRIP_PX * pieces["client"].n_unique())


def _some(clients: int) -> list[int]:
    """
    >>> _some(20), _some(6)
    ([1, 5, 10, 15, 20], [1, 6])
    """
    return [1, *range(5, clients + 1, 5)] if clients >= 10 else [1, clients]


def _claim(dbms: str, pieces: pl.DataFrame) -> str:
    still = pieces.filter(pl.col("low") == 0).group_by("step", maintain_order=True).agg(pl.col("client").n_unique())
    if still.is_empty():
        return f"{dbms}: no client did nothing for a whole second."
    told = [f"{step} ({count} client{'' if count == 1 else 's'})" for step, count in still.rows()]
    return f"{dbms}: in some seconds a client did nothing, in {', '.join(told)}."


def _how(pieces: pl.DataFrame, few: bool) -> str:
    lengths = sorted(set(pieces["piece_s"]))
    length = f"{lengths[0]} s" if len(lengths) == 1 else f"{lengths[0]} to {lengths[-1]} s"
    what = f"What each client did in a second: median of {rounds_of(pieces['n'].to_list())}, over {length}"
    if few:
        return (
            f"{what}; the band reaches from the lowest to the highest single second. By seconds since the step began."
        )
    return (
        f"{what}, as a share of what the client in the middle did; a row is a client, the first on top. Orange marks "
        "a piece with a second in which it did nothing. By seconds since the step began."
    )


def settling_chart(lines: pl.DataFrame) -> Any:
    """How what was left to do went away while the first step with queries was waited for: a line a run."""
    if lines.is_empty():
        return Sentences(["No step of this study was waited for."])
    names = {"history_length": "to purge", "dirty_mb": "dirty pages, MB", "checkpoint_age_mb": "checkpoint age, MB"}
    shown = by_host(lines).with_columns(pl.col("measure").replace(names).alias("panel"))
    dbms = in_order(shown["dbms"].sort())
    colour = alt.Color("dbms:N", title=None, scale=alt.Scale(domain=dbms, range=list(SERIES)))
    told: list[Any] = ["dbms:N", "round:Q", "second:Q", alt.Tooltip("value:Q", format=",.1f")]
    panel = (
        alt.Chart(slim(shown, "panel", "dbms", "round", "run", "second", "value"))
        .mark_line(strokeWidth=1.2, opacity=0.8, color=INK)
        .encode(
            x=alt.X("second:Q", axis=_SECONDS),
            y=alt.Y("value:Q", axis=_AXIS),
            color=colour,
            detail="run:N",
            tooltip=told,
        )
        .properties(width=PANEL_PX, height=1.4 * HEIGHT_PX)
    )
    facet = alt.Facet("panel:N", sort=list(names.values()), header=alt.Header(title=None, labelAnchor="start"))
    drawn = panel.facet(facet=facet, columns=3, spacing=14).resolve_scale(y="independent")
    last = sorted(lines.group_by("run").agg(pl.col("second").max())["second"])
    reach = " to ".join(dict.fromkeys(f"{each:,.0f}" for each in (last[0], last[-1])))
    claim = f"Before the first step with queries {reach} seconds were waited."
    how = f"A line is a run, of {rounds_of(list(shown.group_by('dbms').agg(pl.col('round').n_unique())['round']))}."
    whole: Any = alt.vconcat(drawn)
    made = titled(whole, claim, f"{how} By seconds since the wait began.")
    made.usermeta["rqps"] |= {"panel": PANEL_PX + AXES_PX, "minWidth": 300}
    return made
