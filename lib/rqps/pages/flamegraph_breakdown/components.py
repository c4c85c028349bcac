"""What an operation costs, as a bar of the parts of the server that it passes through."""

from typing import Any

import altair as alt
import polars as pl

from rqps.view.flame.look import figure, with_error
from rqps.view.rounds import most_changed
from rqps.view.rows import height_of, row_axis, slim, with_rows
from rqps.view.text import Sentences
from rqps.view.theme import GRID, INK, SERIES, by_host, rounds_of, titled

MOST_ROWS = 48
NAMED = len(SERIES)
REST = "the rest"
_FEW = alt.Axis(tickCount=8)
_CELL = ("host", "step", "dbms")


def components(parts: pl.DataFrame) -> Any:
    """Stacked bars, base first, each relative to what the whole operation costs its base."""
    if parts.is_empty():
        return Sentences(["No profile, so there is nothing to divide."])
    bars = _bars(parts)
    shown = most_changed(_ratios(parts), MOST_ROWS // bars.select("dbms", "host").n_unique())
    claim, unit = _claim(parts), parts["unit"][0]
    named = _named(bars)
    bars = with_rows(by_host(bars.filter(pl.col("step").is_in(shown)))).with_columns(
        pl.when(pl.col("part").is_in(named)).then("part").otherwise(pl.lit(REST)).alias("shown")
    )
    order = {name: place for place, name in enumerate([*named, REST])}
    bars = (
        bars.group_by("step", "dbms", "row", "shown", "base_measured", maintain_order=True)
        .agg(pl.col("cost", "share").sum())
        .with_columns(pl.col("shown").replace_strict(order, return_dtype=pl.Int32).alias("place"))
    )
    axis, height = row_axis(bars), height_of(bars)
    totals = bars.group_by("row", maintain_order=True).agg(pl.col("share", "cost").sum())
    totals = totals.with_columns(pl.col("cost").map_elements(figure, pl.String).alias("label"))
    room = alt.Scale(domainMax=1.12 * float(totals["share"].max() or 1))  # type: ignore[arg-type]
    domain = [name for name in order if name in bars["shown"].to_list()]
    colours = [GRID if name == REST else SERIES[order[name]] for name in domain]
    chart = alt.layer(
        alt.Chart(slim(bars, "row", "shown", "place", "share", "cost"))
        .mark_bar(height=14, stroke="#ffffff", strokeWidth=0.5)
        .encode(
            x=alt.X("share:Q", stack="zero", title=f"{unit}, base = 1", axis=_FEW, scale=room),
            y=axis,
            color=alt.Color(
                "shown:N",
                sort=domain,
                scale=alt.Scale(domain=domain, range=colours),
                legend=alt.Legend(title=None, columns=4, labelLimit=170),
            ),
            order="place:Q",
            tooltip=[
                "row:N",
                alt.Tooltip("shown:N", title="component"),
                alt.Tooltip("cost:Q", format=",.3~f", title=unit),
                alt.Tooltip("share:Q", format=".1%", title="of what the base costs"),
            ],
        ),
        alt.Chart(slim(totals, "row", "share", "label"))
        .mark_text(align="left", dx=5, fontSize=11, color=INK)
        .encode(x="share:Q", y=axis, text="label:N"),
    ).properties(width="container", height=height)
    how = (
        f"Each bar is the measured cost, divided as the profile of its stacks is; means of "
        f"{rounds_of(parts['n'].to_list())}. Figures are {unit}. What is small everywhere is in “{REST}”; errors "
        "stand in the tables below."
    )
    return titled(chart, claim, how, min_width_px=700)


def _bars(parts: pl.DataFrame) -> pl.DataFrame:
    """One row a component of each dbms; the base's are those of its first comparison."""
    keys = ["host", "step"]
    base = parts.select(
        *keys, pl.col("base").alias("dbms"), "part", pl.col("base_cost").alias("cost"), "base_measured"
    ).unique([*keys, "part"], keep="first", maintain_order=True)
    me = parts.select(*keys, "dbms", "part", pl.col("me_cost").alias("cost"), "base_measured")
    each = [
        pl.concat([base.filter(host=host, step=step), me.filter(host=host, step=step)])
        for host, step in parts.select(keys).unique(maintain_order=True).iter_rows()
    ]
    return pl.concat(each).with_columns((pl.col("cost") / pl.col("base_measured")).alias("share"))


def _named(bars: pl.DataFrame) -> list[str]:
    """The components that matter most anywhere; their order is that of their mean."""
    most = bars.group_by("part", maintain_order=True).agg(
        pl.col("share").max().alias("most"), pl.col("share").mean().alias("mean")
    )
    named = most.sort("most", descending=True, maintain_order=True).head(NAMED)
    return named.sort("mean", descending=True, maintain_order=True)["part"].to_list()


def _ratios(parts: pl.DataFrame) -> pl.DataFrame:
    ratio = (pl.col("me_measured") / pl.col("base_measured")).alias("median")
    return parts.select(*_CELL, ratio).unique(maintain_order=True)


def _claim(parts: pl.DataFrame) -> str:
    """The component that grew most."""
    most = parts.sort("difference", descending=True, maintain_order=True).row(0, named=True)
    if most["difference"] <= most["error"]:
        return f"No component of any step costs more than with {most['base']} beyond its error."
    return (
        f"The greatest increase is of {most['part']}: {with_error(most['difference'], most['error'])} {most['unit']} "
        f"in {most['step']} for {most['dbms']}."
    )
