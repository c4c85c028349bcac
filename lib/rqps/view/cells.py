"""What the cells of both heatmaps hold: the ratio with its sign, its colour, and all that is told on hovering."""

from typing import Any

import altair as alt
import polars as pl

from rqps.view.theme import (
    COLOURS,
    INK,
    LIMITS,
    WORDS,
    by_host,
    coverage_of,
    is_throughput,
    legend_of,
    rounds_of,
    signs_of,
    verdict_words,
)

TOLD: list[Any] = [
    "step:N",
    "dbms:N",
    "base:N",
    alt.Tooltip("median:Q", format=".3f", title="median"),
    alt.Tooltip("interval:N", title="interval"),
    alt.Tooltip("coverage:Q", format=".1%", title="coverage of the interval"),
    alt.Tooltip("n:Q", title="rounds"),
    "verdict:N",
    alt.Tooltip("needs:N", title="to be sure"),
    alt.Tooltip("warned:N", title="warnings"),
]


def cells_of(summary: pl.DataFrame) -> pl.DataFrame:
    """The summary with `label`, the ratio with its sign, `number` without it, and `interval`; verdicts in words."""
    metric = str(summary["metric"][0])
    sign = pl.col("verdict").replace_strict(signs_of(metric), return_dtype=pl.String)
    two = [pl.col(name).round(2).map_elements("{:.2f}".format, return_dtype=pl.String) for name in ("low", "high")]
    mark = pl.when(pl.col("warned") != "").then(pl.lit(" ⚠")).otherwise(pl.lit(""))
    value = pl.col("median").map_elements("{:.2f}".format, return_dtype=pl.String)
    return by_host(summary).with_columns(
        pl.format("{} {}{}", sign, value, mark).alias("label"),
        value.alias("number"),
        pl.format("{}–{}", *two).fill_null("1 round").alias("interval"),
        pl.col("verdict").replace(verdict_words(metric)),
    )


def colour(cells: pl.DataFrame) -> alt.Color:
    """By the ratio, in the steps of the published studies; what is worse is orange, also where that is more."""
    colours = COLOURS if is_throughput(cells["metric"][0]) else COLOURS[::-1]
    return alt.Color(
        "median:Q",
        scale=alt.Scale(type="threshold", domain=list(LIMITS), range=list(colours)),
        legend=alt.Legend(title="ratio", gradientLength=200, direction="horizontal", format=".2f"),
    )


def ink() -> Any:
    """Black or white, whichever is read on that colour."""
    dark = f"datum.median < {LIMITS[0]} || datum.median >= {LIMITS[-1]}"
    return alt.when(dark).then(alt.value("#ffffff")).otherwise(alt.value(INK))


def claim_of(cells: pl.DataFrame) -> str:
    """The verdicts, counted."""
    count = dict(cells.group_by("verdict").len().rows())
    told = [f"{count[word]} {word}" for word in verdict_words(cells["metric"][0]).values() if word in count]
    many = "comparison" if cells.height == 1 else "comparisons"
    return f"Of {cells.height} {many} with {cells['base'][0]}: {', '.join(told)}."


def how_of(cells: pl.DataFrame, where: str) -> str:
    """How it was made; `where` is where the interval of a cell is to be found."""
    rounds, sure = rounds_of(cells["n"].to_list()), coverage_of(cells["coverage"].to_list())
    metric = str(cells["metric"][0])
    what = WORDS[metric]
    what = f"rQPS, {what}" if is_throughput(metric) else f"{what[0].upper()}{what[1:]}"
    return (
        f"{what} relative to {cells['base'][0]}: median of {rounds}, each paired with its round's base; "
        f"{where} the {sure} of the median. {legend_of(metric)}"
    )
