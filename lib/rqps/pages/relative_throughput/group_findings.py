"""A study of many steps in a few sentences: one a group, with its middle, its reach and its worst steps."""

from collections.abc import Iterator
from typing import Any

import polars as pl

from rqps.pages.relative_throughput.many_steps import by_group

WORST = 3
"""Steps of a group that are named."""
MOST_DBMS = 2
"""Dbms of which a group's middle is told: those that changed most."""

Row = dict[str, Any]


def group_sentences(throughput: pl.DataFrame) -> Iterator[str]:
    """A sentence a group, from the throughput ratios of one host."""
    for _, of_group in throughput.group_by("group", maintain_order=True):
        middles = by_group(of_group).sort(pl.col("middle").log().abs(), descending=True, maintain_order=True)
        rows = middles.head(MOST_DBMS).to_dicts()
        told = [f"{_middle(row)} of {row['base']}" * (row is rows[0]) or _middle(row) for row in rows]
        yield f"{_name(rows[0])}: in the median step {', '.join(told)}. {_worst(of_group)}"


def _name(row: Row) -> str:
    steps = f"{row['steps']} step{'s' if row['steps'] > 1 else ''}"
    return f"{row['group']} ({steps})" if row["group"] else f"All {steps}"


def _middle(row: Row) -> str:
    does = f"{row['dbms']} does {row['middle']:.2f}"
    return does if row["steps"] == 1 else f"{does} ({row['low']:.2f} to {row['high']:.2f})"


def _worst(of_group: pl.DataFrame) -> str:
    """The steps that are shown to be slower, each by the dbms that does worst in it."""
    slower = of_group.filter(verdict="slower").sort("median", maintain_order=True)
    rows = slower.unique("step", keep="first", maintain_order=True).head(WORST).to_dicts()
    if not rows:
        return "None of them is shown to be slower."
    in_one = len({row["dbms"] for row in rows}) == 1
    named = [f"{row['step']} {_number(row)}" + (f" in {row['dbms']}" if not in_one else "") for row in rows]
    where = f", all in {rows[0]['dbms']}" if in_one and len(rows) > 1 else f" in {rows[0]['dbms']}" if in_one else ""
    return f"Worst: {', '.join(named)}{where}; {_rounds(rows)}."


def _number(row: Row) -> str:
    return f"{row['median']:.2f} ({row['low']:.2f}–{row['high']:.2f})"


def _rounds(rows: list[Row]) -> str:
    counts = sorted({row["n"] for row in rows})
    return f"{' to '.join(map(str, counts[:: max(1, len(counts) - 1)]))} rounds"
