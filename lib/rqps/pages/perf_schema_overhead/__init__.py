"""The page on what the performance schema costs: by scenario, step, release, part and event, and its memory."""

from dataclasses import replace

import polars as pl

from rqps.pages import FirstPage
from rqps.pages.perf_schema_overhead.parts import parts_chart
from rqps.pages.perf_schema_overhead.recorded import events, memory
from rqps.pages.perf_schema_overhead.scenario_costs import client_charts, cost_matrix, cost_table, costs
from rqps.pages.perf_schema_overhead.sentences import by_instructions, findings, largest
from rqps.stats.metrics import CPU


def on_first_page(page: FirstPage) -> FirstPage:
    """The most expensive scenario as the headline, and the costs of all. Where CPU leaves a comparison unsure,
    throughput or instructions decide it if they can."""
    of_scenarios = costs(page.study)
    if of_scenarios.is_empty():
        return page
    headline, explanation, row = largest(page.study, of_scenarios)
    keys = ["host", "step", "base", "dbms"]
    decided = page.decided.filter(pl.col("verdict") != "unsure")
    others = decided.join(of_scenarios.filter(verdict="unsure"), on=keys, how="semi")
    about = pl.concat([of_scenarios.join(others, on=keys, how="anti", maintain_order="left"), others], how="diagonal")
    tables = (("What the performance schema costs", cost_matrix(of_scenarios)), *page.tables)
    page = replace(page, headline=headline, explanation=explanation, row=row, about=about)
    return replace(page, measure=CPU, tables=tables)
