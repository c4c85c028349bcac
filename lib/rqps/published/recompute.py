"""Every printed ratio whose two inputs were printed too, calculated again from them."""

from collections.abc import Iterator
from typing import Any

import polars as pl

from rqps.published.columns import COSTS
from rqps.published.read import Published
from rqps.published.rounding import SLACK, Range, printed

COLUMNS: dict[str, Any] = {
    "source": pl.String,
    "place": pl.String,
    "host": pl.String,
    "step": pl.String,
    "dbms": pl.String,
    "metric": pl.String,
    "printed": pl.String,
    "me": pl.String,
    "base": pl.String,
    "found": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "agrees": pl.String,
}

HOW = ("exactly", "rounded", "zeros", "no")

_BLOCK = ["source", "section", "table", "step"]


def recomputed(published: Published) -> pl.DataFrame:
    """One row a ratio. `low` to `high` is what the inputs allow, each of them rounded as it is printed.

    `agrees` is `exactly` where the printed inputs give the printed ratio, `rounded` where inputs that round to the
    printed ones do, `zeros` where 0 is divided by 0 and 1 is printed, and else `no`.
    """
    rows = [*_relative_parts(published), *_throughputs(published), *_told(published)]
    return pl.DataFrame(rows, schema=COLUMNS)


def agreement(recomputed: pl.DataFrame) -> pl.DataFrame:
    """How many ratios were calculated again, by source and metric, and how many agree."""
    return recomputed.group_by("source", "metric", maintain_order=True).agg(
        pl.len().alias("ratios"), *((pl.col("agrees") == each).sum().alias(each) for each in HOW)
    )


def _relative_parts(published: Published) -> Iterator[dict[str, Any]]:
    """The lower half of each per-operation table, from its upper half."""
    for _, table in published.per_operation.group_by(_BLOCK, maintain_order=True):
        absolute = _by_build(table.filter(part="absolute"))
        first = table["build"][0]
        for row in table.filter(part="relative").iter_rows(named=True):
            me, base = absolute[row["build"], row["metric"]], absolute[first, row["metric"]]
            yield _row(row, f"{row['section']}, {row['table']}", row["build"], row["metric"], me, base)


def _throughputs(published: Published) -> Iterator[dict[str, Any]]:
    """rQPS of the big tables, from the operations per second that are printed below them."""
    for (source, section, _, step), table in published.per_operation.group_by(_BLOCK, maintain_order=True):
        absolute = _by_build(table.filter(part="absolute"))
        first = table["build"][0]
        for row in published.rqps.filter(source=source, section=section, step=step).iter_rows(named=True):
            me, base = absolute[row["build"], "o/s"], absolute[first, "o/s"]
            yield _row(row, f"{section}, rQPS of {step}", row["build"], "rQPS", me, base)


def _told(published: Published) -> Iterator[dict[str, Any]]:
    """Ratios of costs that the text gives, from the table of the same host, step and builds."""
    told = published.prose.filter(pl.col("metric").is_in(list(COSTS)), pl.col("base") != "", unit="ratio")
    for row in told.iter_rows(named=True):
        absolute = published.per_operation.filter(
            part="absolute", host=row["host"], step=row["step"], metric=row["metric"], build=row["dbms"]
        )
        # A post that prints no such table speaks of the last one printed before it.
        sources = list(published.sources)
        own = sources.index(row["source"])
        before = [each for each in absolute.iter_rows(named=True) if sources.index(each["source"]) <= own]
        me = max(before, key=lambda each: sources.index(each["source"]))
        base = published.per_operation.row(
            by_predicate=(pl.col("source") == me["source"])
            & (pl.col("table") == me["table"])
            & (pl.col("section") == me["section"])
            & (pl.col("part") == "absolute")
            & (pl.col("metric") == row["metric"])
            & (pl.col("build") == row["base"]),
            named=True,
        )
        yield _row(row, row["place"], row["dbms"], row["metric"], me, base)


def _row(
    row: dict[str, Any], place: str, dbms: str, metric: str, me: dict[str, Any], base: dict[str, Any]
) -> dict[str, Any]:
    possible = printed(me) / printed(base) if base["value"] or me["value"] else Range(1.0, 1.0)
    found = me["value"] / base["value"] if base["value"] else None
    return {
        **{name: row[name] for name in ("source", "host", "step", "printed")},
        "place": place,
        "dbms": dbms,
        "metric": metric,
        "me": me["printed"],
        "base": base["printed"],
        "found": found,
        "low": possible.low,
        "high": possible.high,
        "agrees": _agrees(row, found, possible),
    }


def _agrees(row: dict[str, Any], found: float | None, possible: Range) -> str:
    if found is None:
        return "zeros" if row["value"] == 1 else "no"
    if abs(found - row["value"]) <= row["half"] + SLACK:
        return "exactly"
    return "rounded" if printed(row).meets(possible) else "no"


def _by_build(absolute: pl.DataFrame) -> dict[tuple[str, str], dict[str, Any]]:
    return {(row["build"], row["metric"]): row for row in absolute.iter_rows(named=True)}
