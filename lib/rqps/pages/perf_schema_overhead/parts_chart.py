"""Whether the parts of the performance schema add up to the whole."""

from typing import Any

import altair as alt
import polars as pl

from rqps.view.rows import height_of, row_axis, slim, with_rows
from rqps.view.text import Sentences
from rqps.view.theme import INK, coverage_of, in_order, rounds_of, titled

_KINDS = {"part": "a part alone", "sum": "their sum", "whole": "all at once", "rest": "left over"}
_KINDS |= {"within": "a piece of a part"}
_SHADES = ("#56b4e9", "#0072b2", "#1c2630", "#d55e00", "#b9dff5")
_COLUMNS = ("row", "scenario", "what", "n", "median", "low", "high", "coverage", "covers", "label", "end")


def parts_chart(parts: pl.DataFrame) -> Any:
    """Bars in groups by step: what each part adds to all-disabled, their sum, the whole, and what is left over."""
    if parts.is_empty():
        return Sentences(["No build of this study has all-disabled, all-enabled and parts of it that share nothing."])
    several = parts["build"].n_unique() > 1
    group = pl.format("{} on {}", "step", "build") if several else pl.col("step")
    kinds = list(_KINDS)
    rank = pl.col("kind").replace_strict({kind: number for number, kind in enumerate(kinds)}, return_dtype=pl.Int8)
    rows = parts.sort("position", "build", rank, "scenario", maintain_order=True).with_columns(
        group.alias("step"),
        pl.col("kind").replace_strict(_KINDS, return_dtype=pl.String).alias("what"),
        pl.format("{} µs", pl.col("median").map_elements("{:+,.2f}".format, pl.String)).alias("label"),
        pl.max_horizontal("median", "high", pl.lit(0.0)).alias("end"),
    )
    rows = with_rows(rows, "step", "scenario")
    axis, height = row_axis(rows, "step", "scenario"), height_of(rows, "step", "scenario")
    shades = alt.Scale(domain=list(_KINDS.values()), range=list(_SHADES))
    told: list[Any] = ["row:N", "what:N", alt.Tooltip("n:Q", title="rounds")]
    told += [alt.Tooltip(f"{name}:Q", format="+,.2f", title=f"{name}, µs") for name in ("median", "low", "high")]
    told += [alt.Tooltip("covers:Q", format=".0%", title="of what is enabled")]
    room = alt.Scale(domainMax=1.2 * float(rows["end"].max() or 1))  # type: ignore[arg-type]
    x = alt.X("median:Q", title="server CPU added to all-disabled, µs an operation", scale=room)
    base = alt.Chart(slim(rows, *_COLUMNS)).encode(y=axis, tooltip=told)
    chart = alt.layer(
        base.mark_bar(height=13).encode(x=x, color=alt.Color("what:N", title=None, scale=shades)),
        base.mark_rule(color=INK, strokeWidth=2).encode(x="low:Q", x2="high:Q"),
        base.mark_text(align="left", dx=6, fontSize=11, color=INK).encode(x="end:Q", text="label:N"),
    ).properties(width="container", height=height)
    return titled(chart, _claim(parts), _how(parts), min_width_px=330)


def _claim(parts: pl.DataFrame) -> str:
    """About the first step: whether the rounds can tell sum and whole apart."""
    first = parts.filter(position=parts["position"].min(), build=in_order(parts["build"])[0])
    of_kind = {row["kind"]: row for row in first.to_dicts()}
    rest, whole = of_kind["rest"], of_kind["whole"]
    told = f"{rest['median']:+.1f} µs of {whole['median']:.1f} are left over"
    if rest["low"] is None:
        return f"{whole['step']}: {told}, in one round."
    told += f", {rest['low']:+.1f} to {rest['high']:+.1f}."
    if rest["low"] <= 0 <= rest["high"]:
        return f"{whole['step']}: the parts add up to the whole as far as the rounds can tell; {told}"
    return f"{whole['step']}: the parts do not add up to the whole; {told}"


def _how(parts: pl.DataFrame) -> str:
    covers = parts.filter(kind="sum")["covers"].to_list()
    return (
        "Parts are the scenarios that share no instrument or consumer; they hold "
        f"{min(covers):.0%} of what all-enabled has. Sums are taken within a round: median of "
        f"{rounds_of(parts['n'].to_list())}, the line is the interval ({coverage_of(parts['coverage'].to_list())})."
    )
