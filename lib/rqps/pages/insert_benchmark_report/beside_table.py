"""Published ratios beside ours."""

import polars as pl
from great_tables import GT

from rqps.view.tables import plain_table
from rqps.view.text import Sentences


def beside_table(beside: pl.DataFrame) -> GT | Sentences:
    """One row a ratio that both have."""
    if beside.is_empty():
        return Sentences(["These releases and steps have nothing in common with those of the published studies."])
    note = "Ratios of throughput. Ours: the median of the rounds and its interval."
    return plain_table(beside, "inserts-beside", note, theirs="published").tab_stub(groupname_col="compared")
