"""Steps in groups, so that a study of many can be read: which groups there are, the caller says."""

from collections.abc import Mapping

import polars as pl


def grouped(frame: pl.DataFrame, groups: Mapping[str, str]) -> pl.DataFrame:
    """The frame with the column `group`, its rows in the order in which `groups` has the steps.

    Without groups all steps are in one that has no name, and stay in the order in which they are run.

    >>> steps = pl.DataFrame({"step": ["insert", "scan"], "ratio": [0.9, 0.8]})
    >>> grouped(steps, {"scan": "Range queries", "insert": "Writes"}).rows()
    [('scan', 0.8, 'Range queries'), ('insert', 0.9, 'Writes')]
    """
    named = pl.col("step").replace_strict(dict(groups), default="", return_dtype=pl.String).alias("group")
    order = {step: number for number, step in enumerate(groups)}
    place = pl.col("step").replace_strict(order, default=len(order), return_dtype=pl.Int32)
    by = [pl.col("host"), place] if "host" in frame.columns else [place]
    return frame.with_columns(named).sort(*by, maintain_order=True)
