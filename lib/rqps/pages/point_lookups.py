"""The table of the page on point lookups: medians of all kinds of query, with their intervals."""

from collections.abc import Callable

import polars as pl
from great_tables import GT

from rqps.show import Column, Nothing, coverage_of, in_order, rounds_of, spread, table
from rqps.show.table import with_interval


def medians_table(medians: pl.DataFrame, form: Callable[[float], str], *, name: str, note: str) -> GT | Nothing:
    """One row per dbms in each group, one column per kind of query: the median in that `form`, above its interval."""
    if medians.is_empty():
        return Nothing(["No round has the lookups of the base that all others are relative to."])
    columns = [Column(kind, form=with_interval(form), align="right") for kind in in_order(medians["kind"])]
    interval = f"below it its {coverage_of(medians['coverage'])}" if medians["n"].max() != 1 else "so no interval"
    return table(
        spread(medians, "kind", ["group", "dbms"]),
        columns,
        name=f"lookups-{name}",
        group="group",
        rows="dbms",
        note=f"{note} Median of {rounds_of(medians['n'])}, {interval}.",
    )
