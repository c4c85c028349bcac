"""Code that would make the cells of the analysis notebooks hard to read: at most one module per notebook.

A notebook may contribute to the first page of a report: its metadata names a function that adds to a `FirstPage`.
"""

from dataclasses import dataclass
from typing import NamedTuple

import polars as pl
from great_tables import GT

# Importing `show` sets the theme of all charts and the format in which notebooks store charts.
from rqps import show as show
from rqps.show import Row
from rqps.stats.metrics import THROUGHPUT
from rqps.store import Study


@dataclass(frozen=True)
class FirstPage:
    """The first page of a report while it is being made: each notebook's function gets a `FirstPage` and returns a
    copy with additions."""

    study: Study
    compared: pl.DataFrame
    means: pl.DataFrame
    """The geometric means of each dbms's ratios to the base, over the steps."""
    decided: pl.DataFrame
    """One row per host, step and dbms: the comparison of throughput or, if it is unsure, the comparison of a cost per
    operation."""
    headline: str
    row: Row | None
    """The comparison that the headline names, if there is one."""
    explanation: str = ""
    measure: str = THROUGHPUT
    """The metric of the headline."""
    notes: tuple[str, ...] = ()
    """Sentences that follow the headline: details of its answer, or conditions that affect the comparison, such as a
    full redo log."""
    conclusive: str = ""
    """A sentence on inconclusive comparisons, for a headline that is not about comparisons with the base. If it is
    empty, the page has the usual sentence, which names the inconclusive comparisons with the base."""
    tables: tuple[tuple[str, GT], ...] = ()
    """Tables with their headings."""


class Reliability(NamedTuple):
    """The reliability of a study: in a few words, in a sentence, and as a flag that is True if it is doubtful."""

    head: str
    sentence: str
    doubtful: bool
