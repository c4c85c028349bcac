"""At most one module per analysis notebook, with what would not read well in its cells.

A notebook may have a place on the first page of a report: its metadata names a function that adds to a `FirstPage`.
"""

from dataclasses import dataclass
from typing import NamedTuple

import polars as pl
from great_tables import GT

from rqps import show as show  # before any page imports altair
from rqps.show import Row
from rqps.stats.metrics import THROUGHPUT
from rqps.store import Study


@dataclass(frozen=True)
class FirstPage:
    """The first page of a report, as far as it is made; each notebook in turn returns it with what it adds."""

    study: Study
    compared: pl.DataFrame
    means: pl.DataFrame
    """Geometric means over all steps."""
    decided: pl.DataFrame
    """One row per comparison, by the measure that decides it."""
    headline: str
    row: Row | None
    """The comparison that the headline names, if there is one."""
    explanation: str = ""
    measure: str = THROUGHPUT
    """The metric of the headline."""
    tables: tuple[tuple[str, GT], ...] = ()
    """Tables with their headings."""


class Reliability(NamedTuple):
    """The reliability of a study: in few words, in a sentence, and whether to doubt its numbers."""

    head: str
    sentence: str
    doubtful: bool
