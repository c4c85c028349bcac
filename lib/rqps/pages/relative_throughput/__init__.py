"""Relative throughput: the cost of a change, in relative queries per second."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import polars as pl
from great_tables import GT

from rqps import show, stats
from rqps.pages import FirstPage
from rqps.pages.relative_throughput.sentences import findings
from rqps.pages.relative_throughput.tables import MANY, config_table, configs, group_table, host_tables, worst_table
from rqps.show import side_by_side
from rqps.stats.metrics import THROUGHPUT
from rqps.store import Study

__all__ = ["config_table", "configs", "findings", "host_tables", "on_first_page", "over_time", "short_tables"]
__all__ += ["side_by_side", "summary"]

MOST_IN_THROUGHPUT, MOST_IN_LATENCY = 6, 12


def summary(compared: pl.DataFrame, means: pl.DataFrame | None = None) -> Iterator[GT]:
    """The groups of steps with the `means` over all of them, and the worst steps."""
    if compared.is_empty():
        return
    yield group_table(compared, means)
    yield worst_table(compared)


def over_time(study: Study, compared: pl.DataFrame) -> Iterator[Any]:
    """Throughput of each second, and the latencies, of the steps that changed most."""
    every = show.in_order(study.steps["step"])
    shown = stats.most_changed(compared, MOST_IN_THROUGHPUT) or every[:MOST_IN_THROUGHPUT]
    seconds = stats.throughput_over_time(study.intervals, study.steps.filter(pl.col("step").is_in(shown)))
    latencies = stats.latencies_of_steps(study.steps)
    order = stats.version_order(study.runs)
    seconds, latencies = (
        each.join(order, on="dbms", maintain_order="left").sort("host", "position", "rank", maintain_order=True)
        for each in (seconds, latencies)
    )
    yield show.throughput(seconds, of_steps=len(every))
    yield show.latencies(latencies, stats.most_changed(compared, MOST_IN_LATENCY))


def short_tables(compared: pl.DataFrame, means: pl.DataFrame | None = None) -> Iterator[GT]:
    """All ratios; of many steps, those of the groups and of the worst."""
    if compared["step"].n_unique() > MANY:
        yield from summary(compared, means)
    else:
        yield show.ratio_table(compared, means=means)


def on_first_page(page: FirstPage) -> FirstPage:
    """Tables of relative throughput, unless another measure is the page's subject."""
    if page.measure != THROUGHPUT:
        return page
    headings = (f"Throughput relative to {page.study.card.base}", "The worst steps")
    tables = zip(headings, short_tables(page.compared, page.means), strict=False)
    return replace(page, tables=(*page.tables, *tables))
