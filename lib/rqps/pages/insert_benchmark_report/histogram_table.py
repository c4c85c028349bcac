"""Response times in the published buckets, in the published greys."""

from typing import Any

import polars as pl
from great_tables import GT, loc, style

from rqps.pages.insert_benchmark_report.colours import of_longest, of_share
from rqps.pages.insert_benchmark_report.tables import SMALL, as_it_is, medians_of, nothing, reach_of
from rqps.view.tables import plain_table
from rqps.view.text import Sentences
from rqps.view.theme import by_host, in_order

LONGEST = "max"
PLURAL = {"insert": "inserts", "delete": "deletes", "query": "queries"}
NONZERO = "nonzero"


def histogram_table(found: pl.DataFrame, kind: str, base: str) -> GT | Sentences:
    """One row a step and dbms: the percent of statements of a kind in each bucket, and the longest in seconds."""
    rows = found.filter(kind=kind)
    if rows.is_empty():
        return nothing(f"No step of this study has a {kind} that was timed.")
    ordered = by_host(rows.sort("host", "position", pl.col("dbms") != base, maintain_order=True))
    buckets = in_order(ordered["bucket"])
    cells = ordered.with_columns(
        pl.struct("bucket", "median", "low", "high").map_elements(_cell, pl.String).alias("cell")
    )
    wide = cells.pivot("bucket", index=["step", "dbms"], values="cell", maintain_order=True)
    note = (
        f"Percent of the {kind} statements up to so long, empty where there was none; {LONGEST} is the longest in "
        "seconds, of all clients, red within a quarter of the gap of the most in its step, green within a quarter of "
        "the least, but not where that is 80 % of the most. The darker a cell, the more it holds, in steps of 5 %. "
        f"{medians_of(rows)}"
    )
    table = plain_table(wide, f"insert-histogram-{kind}", note).tab_stub(rowname_col="dbms", groupname_col="step")
    table = table.fmt(as_it_is, columns=buckets).cols_align("right", columns=buckets)
    return _painted(table, ordered, wide).tab_header(title=f"Published buckets, {PLURAL[kind]}")


def _painted(table: GT, rows: pl.DataFrame, wide: pl.DataFrame) -> GT:
    place = {key: number for number, key in enumerate(wide.select("step", "dbms").rows())}
    colours: dict[tuple[str, str], list[int]] = {}
    for row in rows.filter(pl.col("bucket") != LONGEST).iter_rows(named=True):
        colours.setdefault((row["bucket"], of_share(row["median"])), []).append(place[row["step"], row["dbms"]])
    for _, of_step in rows.filter(bucket=LONGEST).group_by("host", "step", maintain_order=True):
        for row, colour in zip(of_step.to_dicts(), of_longest(of_step["median"].to_list()), strict=True):
            if colour:
                colours.setdefault((LONGEST, colour), []).append(place[row["step"], row["dbms"]])
    for (bucket, colour), at in colours.items():
        table = table.tab_style(style.fill(colour), loc.body(bucket, at))
    return table


def _cell(row: dict[str, Any]) -> str:
    low, high = row["low"], row["high"]
    value = _share(row["median"]) if row["bucket"] != LONGEST else f"{row['median']:.3f}"
    if not value and not high:
        return " "
    reach = "no interval" if low is None else reach_of(f"{low:.3f}", f"{high:.3f}")
    return f'{value or "0"}<br><span style="{SMALL};color:inherit">{reach}</span>'


def _share(percent: float) -> str:
    """
    >>> _share(0.0), _share(0.0002), _share(12.3456)
    ('', 'nonzero', '12.346')
    """
    if percent == 0:
        return ""
    return f"{percent:.3f}" if percent >= 0.0005 else NONZERO
