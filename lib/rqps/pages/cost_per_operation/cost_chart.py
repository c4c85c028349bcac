"""CPU microseconds an operation, of the server and of the client."""

from typing import Any

import altair as alt
import polars as pl

from rqps.view.rounds import most_changed
from rqps.view.rows import height_of, row_axis, slim, with_rows
from rqps.view.theme import INK, by_host, coverage_of, rounds_of, titled

SERVER, CLIENT = "server_cpu_us_per_operation", "client_cpu_us_per_operation"
WHO = {SERVER: "server", CLIENT: "client"}
MOST_ROWS = 72
_FEW = alt.Axis(tickCount=8)
_OF_BAR = ("row", "who", "part", "n", "median", "low", "high", "coverage", "share", "low_share", "high_share")


def cpu_per_operation(absolute: pl.DataFrame, base: str) -> Any:
    """Bars of one step are relative to what its base costs, so that cheap and dear steps can stand together."""
    bars = _bars(absolute, base)
    shown = most_changed(
        _totals(bars).rename({"share": "median"}), MOST_ROWS // bars.select("dbms", "host").n_unique()
    )
    claim = _claim(_totals(bars), base)
    bars = with_rows(by_host(bars.filter(pl.col("step").is_in(shown))))
    totals = with_rows(_totals(bars))
    axis, height = row_axis(bars), height_of(bars)
    bars, totals = slim(bars, *_OF_BAR), slim(totals, "row", "end", "label")
    x = alt.X("share:Q", stack="zero", title=f"CPU per operation, {base} = 1", axis=_FEW)
    told: list[Any] = ["row:N", "who:N", alt.Tooltip("n:Q", title="rounds")]
    told += [alt.Tooltip(f"{name}:Q", format=",.2f", title=f"{name}, µs") for name in ("median", "low", "high")]
    told += [alt.Tooltip("coverage:Q", format=".1%")]
    colour = alt.Color(
        "who:N", title=None, scale=alt.Scale(domain=["server", "client"], range=["#2f6d9b", "#b9cbd8"])
    )
    room = alt.Scale(domainMax=1.32 * float(totals["end"].max() or 1))  # type: ignore[arg-type]
    chart = alt.layer(
        alt.Chart(bars)
        .mark_bar(height=13)
        .encode(x=x.scale(room), y=axis, color=colour, order="part:Q", tooltip=told),
        alt.Chart(bars.filter(who="server"))
        .mark_rule(color=INK, strokeWidth=2)
        .encode(x="low_share:Q", x2="high_share:Q", y=axis, tooltip=told),
        alt.Chart(totals)
        .mark_text(align="left", dx=5, fontSize=11, color=INK)
        .encode(x="end:Q", y=axis, text="label:N"),
    ).properties(width="container", height=height)
    how = (
        f"CPU time from the processes' own counters at a step's ends, over its operations: median of "
        f"{rounds_of(bars['n'].to_list())}. Figures are µs/operation, server + client; the black line is the "
        f"server's interval ({coverage_of(bars['coverage'].to_list())})."
    )
    return titled(chart, claim, how, min_width_px=330)


def _bars(absolute: pl.DataFrame, base: str) -> pl.DataFrame:
    bars = absolute.filter(pl.col("metric").is_in(list(WHO))).with_columns(
        pl.col("metric").replace_strict(WHO, return_dtype=pl.String).alias("who"),
        (pl.col("metric") == CLIENT).cast(pl.Int8).alias("part"),
    )
    of_base = bars.filter(dbms=base).group_by("host", "step").agg(pl.col("median").sum().alias("whole"))
    shares = [
        (pl.col(name) / pl.col("whole")).alias(share)
        for name, share in (("median", "share"), ("low", "low_share"), ("high", "high_share"))
    ]
    joined = bars.join(of_base, on=["host", "step"], maintain_order="left").filter(pl.col("whole") > 0)
    # Rows keep the order of steps and dbms; the metric only stacks.
    return joined.with_columns(shares).sort("host", "position", maintain_order=True)


def _totals(bars: pl.DataFrame) -> pl.DataFrame:
    parts = pl.col("median").sort_by("part").map_elements("{:,.1f}".format, return_dtype=pl.String)
    return bars.group_by("host", "step", "dbms", maintain_order=True).agg(
        pl.col("share").sum(),
        pl.max_horizontal(pl.col("share").sum(), pl.col("high_share").filter(who="server").max()).alias("end"),
        parts.str.join(" + ").alias("label"),
    )


def _claim(totals: pl.DataFrame, base: str) -> str:
    others = totals.filter(pl.col("dbms") != base)
    if others.is_empty():
        return f"What an operation costs {base}."
    most = others.sort("share", descending=True, maintain_order=True).row(0, named=True)
    return f"An operation costs up to {most['share']:.2f} times the CPU of {base} ({most['step']}, {most['dbms']})."
