"""What the studies of the performance schema in data/sample say, held against what their instructions say."""

from itertools import permutations
from pathlib import Path

import polars as pl
import pytest
import rqps
from rqps import analysis, charts
from rqps.store import Study

DATA = Path(__file__).parent.parent / "data"
SAME = 0.006
"""Of an operation's instructions: up to half of it lies between two starts of one server."""


@pytest.fixture(scope="module")
def study() -> Study:
    return rqps.load("ps-statements", data=DATA)


@pytest.fixture(scope="module")
def costs(study: Study) -> pl.DataFrame:
    named = analysis.scenarios(study.runs, study.conditions)
    return analysis.scenario_costs(analysis.scenario_ratios(study.steps, study.runs, named, "off"))


@pytest.fixture(scope="module")
def counted(study: Study) -> pl.DataFrame:
    named = analysis.scenarios(study.runs, study.conditions)
    found = rqps.load("ps-statements", data=DATA, mode="instructions")
    return analysis.scenario_instructions(found.instructions, found.steps, found.runs, named, "off")


def test_time_puts_scenarios_of_point_queries_in_the_order_of_their_instructions(
    costs: pl.DataFrame, counted: pl.DataFrame
) -> None:
    of_step = costs.filter(step="point-query").join(counted, on=["step", "scenario"])
    assert of_step.height == 10
    dearer = [
        (one["scenario"], other["scenario"])
        for one, other in permutations(of_step.to_dicts(), 2)
        if one["cpu_low"] > other["cpu_high"]
    ]
    assert dearer
    instructions = dict(of_step.select("scenario", "instructions").rows())
    assert [pair for pair in dearer if instructions[pair[0]] < instructions[pair[1]] - SAME] == []


def test_what_time_can_t_tell_is_said_to_be_unsure_and_not_ranked(costs: pl.DataFrame) -> None:
    told = analysis.scenario_findings(costs)
    first = costs.filter(step="point-query")
    unsure = first.filter(verdict="unsure")["scenario"].to_list()
    assert first["scenario"].to_list()[first.height - len(unsure) :] == sorted(unsure)
    for each in told[len(told) - len(unsure) :]:
        assert "may or may not cost" in each
    lines = charts.scenario_text(first).splitlines()[4:]
    assert [line.startswith("?") for line in lines] == [verdict == "unsure" for verdict in first["verdict"]]


def test_instructions_tell_every_scenario_from_off_in_the_order_of_what_it_records(counted: pl.DataFrame) -> None:
    added = dict(counted.filter(step="point-query").select("scenario", "added_instructions").rows())
    assert added["all-enabled"] == max(added.values())
    assert added["all-enabled"] > added["waits-only"] > added["statements-only"] > added["all-disabled"]
    assert added["stages-and-statements"] > max(added["stages-only"], added["statements-only"])
