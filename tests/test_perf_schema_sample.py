"""Costs of the performance schema in data/sample, compared with their instructions."""

from itertools import permutations
from pathlib import Path

import polars as pl
import pytest
import rqps
from rqps.pages import perf_schema_overhead as page
from rqps.pages.perf_schema_overhead.sentences import instruction_costs

DATA = Path(__file__).parent.parent / "data"
SAME = 0.006
"""Of an operation's instructions: up to half of it lies between two starts of one server."""


@pytest.fixture(scope="module")
def costs() -> pl.DataFrame:
    return page.costs(rqps.load("ps-statements", data=DATA))


@pytest.fixture(scope="module")
def counted() -> pl.DataFrame:
    return instruction_costs(rqps.load("ps-statements", data=DATA, mode="instructions"), "off")


def test_time_puts_scenarios_of_point_queries_in_the_order_of_their_instructions(
    costs: pl.DataFrame, counted: pl.DataFrame
) -> None:
    of_step = costs.filter(step="point-query").to_dicts()
    instructions = dict(counted.filter(step="point-query").select("scenario", "median").rows())
    assert set(instructions) == {row["scenario"] for row in of_step}
    pairs = [(one, other) for one, other in permutations(of_step, 2) if one["low"] > other["high"]]
    assert pairs
    for one, other in pairs:
        assert instructions[one["scenario"]] >= instructions[other["scenario"]] - SAME


def test_what_time_leaves_unsure_is_not_ranked(costs: pl.DataFrame) -> None:
    said = page.findings(costs).sentences
    first = costs.filter(step="point-query")
    unsure = first.filter(verdict="unsure")["scenario"].to_list()
    assert first["scenario"].to_list()[first.height - len(unsure) :] == sorted(unsure)
    for each in said[len(said) - len(unsure) :]:
        assert "may or may not cost" in each
    lines = page.cost_table(first, as_text=True).splitlines()[4:]
    assert [line.startswith("?") for line in lines] == [verdict == "unsure" for verdict in first["verdict"]]


def test_instructions_order_scenarios_by_what_they_record(counted: pl.DataFrame) -> None:
    added = dict(counted.filter(step="point-query").select("scenario", "added").rows())
    assert added["all-enabled"] == max(added.values())
    assert added["all-enabled"] > added["waits-only"] > added["statements-only"] > added["all-disabled"]
    assert added["stages-and-statements"] > max(added["stages-only"], added["statements-only"])
