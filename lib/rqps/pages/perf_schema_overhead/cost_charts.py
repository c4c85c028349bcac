"""What each scenario costs, as rows with their intervals."""

from typing import Any

import altair as alt
import polars as pl

from rqps.view.rows import height_of, row_axis, slim, with_rows
from rqps.view.text import Sentences
from rqps.view.theme import INK, VERDICT_COLOURS, coverage_of, in_order, rounds_of, titled, verdict_words

CPU = "server_cpu_us_per_operation"
MOST_ROWS = 72
_PERCENT = alt.Axis(format="+.0%", tickCount=8)
_COLUMNS = ("row", "scenario", "against", "n", "share", "low", "high", "added_us", "base_us", "coverage", "verdict")


def scenario_bars(costs: pl.DataFrame) -> Any:
    """A row a scenario, in groups by step: CPU that it adds to an operation, in percent, with its interval.

    In the order in which they come, which ranks nothing that is unsure.
    """
    if costs.is_empty():
        return Sentences(["This study has no two scenarios of the performance schema of one build."])
    several = costs["build"].n_unique() > 1
    group = pl.format("{} on {}", "step", "build") if several else pl.col("step")
    words = verdict_words(CPU)
    rows = costs.select(
        group.alias("step"),
        "scenario",
        "against",
        "n",
        (pl.col("cpu_ratio") - 1).alias("share"),
        (pl.col("cpu_low") - 1).alias("low"),
        (pl.col("cpu_high") - 1).alias("high"),
        "added_us",
        "base_us",
        "coverage",
        pl.col("verdict").replace(words),
        pl.format("{} µs", pl.col("added_us").map_elements("{:+,.2f}".format, pl.String)).alias("label"),
    )
    rows = with_rows(rows.head(MOST_ROWS), "step", "scenario")
    axis, height = row_axis(rows, "step", "scenario"), height_of(rows, "step", "scenario")
    shades = alt.Scale(domain=[words[each] for each in VERDICT_COLOURS], range=list(VERDICT_COLOURS.values()))
    told: list[Any] = ["row:N", "against:N", alt.Tooltip("n:Q", title="rounds"), "verdict:N"]
    told += [alt.Tooltip(f"{name}:Q", format="+.1%") for name in ("share", "low", "high")]
    told += [alt.Tooltip(f"{name}:Q", format=",.2f") for name in ("added_us", "base_us")]
    base = alt.Chart(slim(rows, *_COLUMNS, "label")).encode(
        y=axis, tooltip=told, color=alt.Color("verdict:N", title=None, scale=shades)
    )
    against = in_order(rows["against"])[0]
    room = alt.Scale(domainMax=1.25 * float(rows["high"].max() or rows["share"].max() or 0))  # type: ignore[arg-type]
    x = alt.X("share:Q", title=f"server CPU per operation, against {against}", axis=_PERCENT, scale=room)
    zero = alt.Chart(pl.DataFrame({"share": [0.0]})).mark_rule(color="#8a949c", strokeDash=[4, 3]).encode(x="share:Q")
    chart = alt.layer(
        zero,
        base.mark_rule(strokeWidth=5, opacity=0.45).encode(x=alt.X("low:Q"), x2="high:Q"),
        base.mark_tick(thickness=3, size=14).encode(x=x),
        base.mark_text(align="left", dx=6, fontSize=11).encode(x="high:Q", text="label:N", color=alt.value(INK)),
    ).properties(width="container", height=height)
    return titled(chart, _claim(costs), _how(rows), min_width_px=330)


def _claim(costs: pl.DataFrame) -> str:
    """The dearest row, and those of the same step that the rounds can't tell from it."""
    shown = costs.filter(verdict="slower").sort("cpu_ratio", descending=True)
    if shown.is_empty():
        return f"The rounds show no scenario to be dearer than {costs['against'][0]}."
    most = shown.row(0, named=True)
    where = f"{most['step']} on {most['build']}" if costs["build"].n_unique() > 1 else most["step"]
    told = f"{most['cpu_ratio'] - 1:+.0%} of the CPU of {most['against']} for {where}, "
    told += f"{most['added_us']:,.1f} µs an operation."
    beside = shown.filter(pl.col("step") == most["step"], pl.col("dbms") != most["dbms"]).filter(
        pl.col("cpu_high") >= most["cpu_low"]
    )
    if beside.is_empty():
        return f"{most['scenario']} costs most: {told}"
    several = costs["build"].n_unique() > 1
    others = [f"{row['scenario']} on {row['build']}" if several else row["scenario"] for row in beside.to_dicts()]
    return f"{most['scenario']} costs {told} The rounds can't tell {' and '.join(others)} from it."


def _how(rows: pl.DataFrame) -> str:
    return (
        f"CPU time of the server's process over operations, against {rows['against'][0]} of the same build and "
        f"round: median of {rounds_of(rows['n'].to_list())}, the bar its interval "
        f"({coverage_of(rows['coverage'].to_list())}); behind it the µs added."
    )
