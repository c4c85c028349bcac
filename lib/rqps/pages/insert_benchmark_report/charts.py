"""Work of every client in the course of every step, one chart per dbms, and how a step's debt went away."""

from collections.abc import Iterator
from typing import Any

import altair as alt
import polars as pl

from rqps.pages.insert_benchmark_report.steps import FEW_CLIENTS, clients_over_time, settling, steps_over_time
from rqps.show import INK, SERIES, Nothing, by_host, in_order, rounds_of, slim, throughput
from rqps.show.lines import panels
from rqps.show.theme import colours, dbms_colours, numbers
from rqps.store.read import Study

PANEL_PX, HEIGHT_PX, STRIP_PX = 190, 84, 9
STALL = "#a63c06"
_OF_CLIENT = ("panel", "client", "second", "estimate", "low", "n")
_AXIS = alt.Axis(tickCount=3, labelExpr="format(datum.value, abs(datum.value) < 1000 ? '~g' : '~s')", title=None)
_SECONDS = alt.X("second:Q", axis=alt.Axis(grid=False, tickCount=4, tickMinStep=1, format="~g", title=None))


def over_time(study: Study) -> list[Any]:
    """Throughput of each second of the steps that only write, of those with queries, and of each client by dbms."""
    by_client = client_charts(clients_over_time(study))
    return [*(throughput(steps_over_time(study, queries=queries)) for queries in (False, True)), *by_client]


def client_charts(pieces: pl.DataFrame) -> Iterator[Any]:
    """One line per client for up to four; of more, a strip each, which is dark where a client did much."""
    words = {"insert": "rows/s", "query": "queries/s"}
    share = pl.col("estimate") / pl.col("estimate").median().over("step")
    named = pl.format("{}, {}", "step", pl.col("kind").replace_strict(words, return_dtype=pl.String))
    for (dbms,), of_dbms in by_host(pieces).group_by("dbms", maintain_order=True):
        few = of_dbms["client"].n_unique() <= FEW_CLIENTS
        shown = of_dbms.with_columns(share.alias("share"), named.alias("panel"))
        panel = (_lines if few else _strips)(shown)
        names, claim, how = in_order(shown["panel"]), _claim(str(dbms), of_dbms), _how(of_dbms, few)
        yield panels(panel, "panel", names, claim, how, width_px=PANEL_PX, own_axes=("x", "y"))


def _lines(pieces: pl.DataFrame) -> Any:
    clients = sorted(pieces["client"].unique())
    colour = alt.Color("client:N", title="client", scale=alt.Scale(domain=clients, range=list(SERIES)))
    base = alt.Chart().encode(x=_SECONDS, color=colour, tooltip=["client:N", "second:Q", *numbers(",.0f")])
    area = base.mark_area(opacity=0.16).encode(y=alt.Y("low:Q", axis=_AXIS), y2="high:Q")
    line = base.mark_line(strokeWidth=1.6).encode(y=alt.Y("estimate:Q", scale=alt.Scale(zero=True), axis=_AXIS))
    return alt.layer(area, line, data=slim(pieces, *_OF_CLIENT, "high")).properties(height=HEIGHT_PX)


def _strips(pieces: pl.DataFrame) -> Any:
    until = pieces.with_columns((pl.col("second") + pl.col("piece_s")).alias("until"))
    tooltip = ["client:O", "second:Q", *numbers(",.0f", names=("estimate", "low"))]
    shades = alt.Scale(domain=[0, 1.5], range=["#ffffff", "#0b3c5d"], clamp=True)
    legend = alt.Legend(title="of the middle client", format=".1f", gradientLength=140, direction="horizontal")
    count = pieces["client"].n_unique()
    labels = [1, *range(5, count + 1, 5)] if count >= 10 else [1, count]
    clients = alt.Axis(values=labels, title=None, ticks=False, domain=False)
    x = _SECONDS.copy().scale(nice=False)
    base = alt.Chart().encode(x=x, x2="until:Q", y=alt.Y("client:O", axis=clients), tooltip=tooltip)
    rects = base.mark_rect().encode(color=alt.Color("share:Q", scale=shades, legend=legend))
    stalls = base.transform_filter("datum.low === 0").mark_rect(color=STALL, height=3)
    strips = alt.layer(rects, stalls, data=slim(until, *_OF_CLIENT, "until", "share"))
    return strips.properties(height=STRIP_PX * count)


def _claim(dbms: str, pieces: pl.DataFrame) -> str:
    still = pieces.filter(pl.col("low") == 0).group_by("step", maintain_order=True).agg(pl.col("client").n_unique())
    if still.is_empty():
        return f"{dbms}: no client did nothing for a whole second."
    each = [f"{step} ({count} client{'' if count == 1 else 's'})" for step, count in still.rows()]
    return f"{dbms}: in some seconds a client did nothing, in {', '.join(each)}."


def _how(pieces: pl.DataFrame, few: bool) -> str:
    length = " to ".join(in_order(str(each) for each in (pieces["piece_s"].min(), pieces["piece_s"].max())))
    what = f"Operations of each client per second: median of {rounds_of(pieces['n'])}, over {length} s"
    if few:
        return f"{what}; the band from the lowest to the highest single second. By seconds since the step began."
    return (
        f"{what}, as a share of those of the client in the middle; one row per client, the first on top. Orange "
        "marks a piece with a second in which it did nothing. By seconds since the step began."
    )


def settling_chart(study: Study) -> Any:
    """The debt while the server settled before the first step with queries, one line per run."""
    lines = by_host(settling(study))
    if lines.is_empty():
        return Nothing(["No step of this study was waited for."])
    names = {"history_length": "to purge", "dirty_mb": "dirty pages, MB", "checkpoint_age_mb": "checkpoint age, MB"}
    shown = lines.with_columns(pl.col("measure").replace(names).alias("panel"))
    there = set(shown["dbms"])
    panel = (
        alt.Chart(slim(shown, "panel", "dbms", "round", "run", "second", "value"))
        .mark_line(strokeWidth=1.2, opacity=0.8, color=INK)
        .encode(
            x=_SECONDS,
            y=alt.Y("value:Q", axis=_AXIS),
            color=colours("dbms", dbms_colours(each for each in study.card.dbms if each in there)),
            detail="run:N",
            tooltip=["dbms:N", "round:Q", "second:Q", alt.Tooltip("value:Q", format=",.1f")],
        )
        .properties(height=1.4 * HEIGHT_PX)
    )
    last = sorted(lines.group_by("run").agg(pl.col("second").max())["second"])
    reach = " to ".join(in_order(f"{each:,.0f}" for each in (last[0], last[-1])))
    claim = f"The server settled for {reach} seconds before the first step with queries."
    counts = rounds_of(shown.group_by("dbms").agg(pl.col("round").n_unique())["round"])
    how = f"One line per run, of {counts}. By seconds since the wait began."
    return panels(panel, "panel", list(names.values()), claim, how, width_px=PANEL_PX, own_axes=("y",))
