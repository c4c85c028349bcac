"""Counted instructions beside what the ordinary rounds measured, also where a study lacks one of the two."""

import polars as pl

from rqps.profile.instructions import (
    CPU,
    THROUGHPUT,
    USER_CPU,
    instruction_ratios,
    instructions_beside,
    instructions_per_operation,
)
from rqps.stats.relative import relative
from rqps.stats.summary import summarise
from rqps.store.read import Study

_NO_SUMMARY = {
    **dict.fromkeys(("metric", "host", "step", "base", "dbms"), pl.String),
    "n": pl.Int32,
    **dict.fromkeys(("median", "low", "high", "coverage"), pl.Float64),
}


def counted_beside(counted: Study, measured: Study, base: str) -> pl.DataFrame:
    """One row a step and dbms whose instructions were counted: their ratio, and those of throughput and CPU time.

    `counted` are a study's runs of that mode, `measured` its ordinary ones. No rows where nothing was counted.
    """
    values = instructions_per_operation(counted.instructions, counted.steps, counted.runs)
    if base not in set(values["dbms"]) or values["dbms"].n_unique() < 2:
        return pl.DataFrame()
    summary = pl.DataFrame(schema=_NO_SUMMARY)
    if base in set(measured.runs["dbms"]):
        summary = summarise(relative(measured.steps, measured.runs, base, (THROUGHPUT, CPU, USER_CPU)))
    return instructions_beside(instruction_ratios(values, counted.runs, base), summary)
