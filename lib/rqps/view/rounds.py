"""Every round as a dot, with the median and its interval."""

from typing import Any

import altair as alt
import polars as pl

from rqps.view.rows import height_of, row_axis, slim, with_rows
from rqps.view.theme import (
    INK,
    VERDICT_COLOURS,
    WORDS,
    by_host,
    coverage_of,
    in_order,
    rounds_of,
    titled,
    verdict_words,
)

MOST_ROWS = 72
STEADY = 0.05
# By itself the wheel scrolls the page, as everywhere.
_ZOOM = alt.selection_interval(bind="scales", encodings=["x"], zoom="wheel![event.altKey]")
_FEW = alt.Axis(tickCount=8)
_AROUND = alt.Scale(zero=False, padding=14)
_OF_ROW = ("row", "base", "n", "median", "low", "high", "coverage", "verdict", "needs")
_OF_ROUND = ("row", "run", "base_run", "round", "ratio", "me_value", "base_value")


def rounds(ratios: pl.DataFrame, summary: pl.DataFrame, metric: str = "operations_per_s") -> Any:
    """One row a step and dbms. Of many steps, those whose median is farthest from 1."""
    of_metric = summary.filter(metric=metric)
    shown = most_changed(of_metric, MOST_ROWS // of_metric.select("dbms", "host").n_unique())
    rows = with_rows(by_host(of_metric.filter(pl.col("step").is_in(shown)).drop("warnings", strict=False)))
    dots = with_rows(by_host(ratios.filter(pl.col("step").is_in(shown), pl.col("metric") == metric)))
    axis, height = row_axis(rows), height_of(rows)
    rows, dots = slim(rows, *_OF_ROW), slim(dots, *_OF_ROUND)
    what = WORDS[metric]
    x = alt.X("ratio:Q", title=f"{what}, relative to {rows['base'][0]}", scale=_AROUND, axis=_FEW)
    words = verdict_words(metric)
    rows = rows.with_columns(pl.col("verdict").replace(words))
    shades = alt.Scale(domain=[words[each] for each in VERDICT_COLOURS], range=list(VERDICT_COLOURS.values()))
    colour = alt.Color("verdict:N", title=None, scale=shades)
    told: list[Any] = ["row:N", alt.Tooltip("n:Q", title="rounds"), "verdict:N", "needs:N"]
    told += [alt.Tooltip(f"{name}:Q", format=".3f") for name in ("median", "low", "high")]
    told += [alt.Tooltip("coverage:Q", format=".1%")]
    of_round: list[Any] = ["run:N", "base_run:N", "round:Q", alt.Tooltip("ratio:Q", format=".4f")]
    of_round += [alt.Tooltip(f"{name}:Q", format=",.1f") for name in ("me_value", "base_value")]
    one = alt.Chart(pl.DataFrame({"ratio": [1.0]})).mark_rule(color="#8a949c", strokeDash=[4, 3]).encode(x="ratio:Q")
    summed = alt.Chart(rows).encode(y=axis, color=colour, tooltip=told)
    chart = alt.layer(
        one,
        summed.mark_rule(strokeWidth=5, opacity=0.45).encode(x=alt.X("low:Q"), x2="high:Q"),
        alt.Chart(dots).mark_circle(size=30, opacity=0.75, color=INK).encode(x=x, y=axis, tooltip=of_round),
        summed.mark_tick(thickness=3, size=15).encode(x="median:Q"),
    ).properties(width="container", height=height)
    return titled(chart.add_params(_ZOOM), _claim(of_metric, shown), _how(rows, what), min_width_px=330)


def most_changed(summary: pl.DataFrame, at_most: int) -> list[str]:
    """The steps whose median is farthest from 1, in the order in which they are run."""
    size = summary.group_by("step", maintain_order=True).agg(pl.col("median").log().abs().max())
    chosen = set(size.top_k(max(at_most, 1), by="median")["step"])
    return [step for step in in_order(summary["step"]) if step in chosen]


def _claim(summary: pl.DataFrame, shown: list[str]) -> str:
    spread = summary.select(((pl.col("high") - pl.col("low")) / pl.col("median")).median()).item()
    steps = summary["step"].n_unique()
    some = f" Shown: the {len(shown)} of {steps} steps that changed most." if len(shown) < steps else ""
    if spread is None:
        return f"One round shows no spread.{some}"
    told = "narrower" if spread < STEADY else "wider"
    return f"Half of the intervals are {told} than {100 * spread:.2g} % of their median.{some}"


def _how(rows: pl.DataFrame, what: str) -> str:
    count, sure = rounds_of(rows["n"].to_list()), coverage_of(rows["coverage"].to_list())
    return (
        f"{what[0].upper()}{what[1:]} relative to {rows['base'][0]}. A dot is a round ({count}), the tick their "
        f"median, the bar its interval ({sure}). Hover for the run; drag to move, scroll with Alt to zoom."
    )
