"""The same number printed in two places, and the same table under two hosts."""

from itertools import combinations
from typing import Any

import polars as pl

from rqps.published.columns import COSTS
from rqps.published.read import Published

_NUMBER = ["host", "build", "step"]


def printed_twice(published: Published) -> pl.DataFrame:
    """rQPS of the same step, build and host in two tables; all of them are relative to the same build of 8.0.28."""
    where = pl.format("{}, {}", "source", "section").alias("place")
    tables = [
        table.select(*_NUMBER, where, "printed", "value", "half", "source")
        for _, table in published.rqps.group_by("source", "section", maintain_order=True)
    ]
    pairs = [
        one.join(other, on=_NUMBER, suffix="_2", maintain_order="left") for one, other in combinations(tables, 2)
    ]
    return pl.concat(pairs).rename({"place": "place_1", "printed": "printed_1", "value": "value_1", "half": "half_1"})


def same_for_two_hosts(published: Published) -> pl.DataFrame:
    """rQPS tables of two hosts that agree in every number: hosts that differ don't do that."""
    tables = dict(published.rqps.group_by("source", "section", "host", maintain_order=True))
    rows = []
    for (one, first), (other, second) in combinations(tables.items(), 2):
        both = first.join(second, on=["build", "step"])
        equal = (both["printed"] == both["printed_right"]).sum()
        if one[2] != other[2] and both.height > 1:
            rows.append(
                {
                    "source_1": one[0],
                    "section_1": one[1],
                    "source_2": other[0],
                    "section_2": other[1],
                    "numbers": both.height,
                    "equal": int(equal),
                }
            )
    return pl.DataFrame(rows)


def found_under_another_host(published: Published) -> pl.DataFrame:
    """Rows of per-operation tables that stand, with all six numbers, under two different hosts."""
    cells = published.per_operation.filter(part="absolute").with_columns(
        pl.col("metric").cast(pl.Enum(list(COSTS))), pl.col("printed").str.strip_chars()
    )
    key = ["source", "section", "table", "host", "threads", "step", "build"]
    rows = (
        cells.sort("metric", maintain_order=True)
        .group_by(key, maintain_order=True)
        .agg(pl.col("printed").str.join(" "))
    )
    both = rows.join(rows, on=["build", "step", "printed"], suffix="_2", maintain_order="left")
    return both.filter(pl.col("host") != pl.col("host_2"), pl.col("source") < pl.col("source_2"))


def steps_of(published: Published, source: str, section: str) -> list[str]:
    """The steps of one table."""
    found: Any = published.rqps.filter(source=source, section=section)["step"]
    return list(dict.fromkeys(found))
