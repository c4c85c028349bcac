"""Costs of the performance schema, on made-up studies in which the cost of each event is known, and on the sample."""

from itertools import permutations
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import rqps
import synthetic_scenarios as made_up
from hypothesis import given
from hypothesis import strategies as st
from rqps.engines.mysql.perf_schema import named
from rqps.pages import perf_schema_overhead as page
from rqps.pages.perf_schema_overhead.parts import disjoint, scenario_parts
from rqps.pages.perf_schema_overhead.recorded import clocks, memory_use
from rqps.pages.perf_schema_overhead.scenario_costs import by_clients
from rqps.pages.perf_schema_overhead.sentences import instruction_costs
from rqps.show import Sentences
from rqps.stats import relate
from rqps.stats.scenarios import events_per_statement, scenarios, with_events
from rqps.store import Study
from synthetic import write_study

SAME = 0.006
"""A share of an operation's instructions; two starts of one server differ by up to half of it."""
DATA = Path(__file__).parent.parent / "data"


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    return rqps.load("synthetic", data=made_up.write(tmp_path_factory.mktemp("data")))


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Study:
    steps = ("read-write@1", "read-write@4")
    return rqps.load("synthetic", data=made_up.write(tmp_path_factory.mktemp("data"), steps=steps))


def claim(chart: Any) -> str:
    return str(chart.to_dict()["usermeta"]["rqps"]["claim"])


def test_a_dbms_has_the_scenario_of_its_config_or_what_its_switch_says(study: Study, tmp_path: Path) -> None:
    assert dict(scenarios(study).select("dbms", "scenario").rows()) == {f"my8.{name}": name for name in made_up.NAMES}
    switched = scenarios(rqps.load("synthetic", data=write_study(tmp_path, rounds=1)))
    by_switch = {"my1.base": "default", "my2.base": "default", "my2.ps0": "off"}
    assert dict(switched.select("dbms", "scenario").rows()) == by_switch


@pytest.mark.parametrize(
    ("scenario", "against", "added_us"),
    [
        ("all-disabled", "off", 0.2),
        ("waits-only", "off", 0.2 + 1.15 + 0.4),
        ("waits-only", "all-disabled", 1.15 + 0.4),
        ("memory-only", "all-disabled", 0.06),
        ("statements-only", "default", 0.4 - 0.86),
    ],
)
def test_a_scenario_adds_the_cost_of_its_events(study: Study, scenario: str, against: str, added_us: float) -> None:
    (row,) = page.costs(study, against).filter(scenario=scenario).to_dicts()
    assert row["added"] == pytest.approx(added_us, abs=0.05)
    assert row["added_low"] <= row["added"] <= row["added_high"]
    assert row["estimate"] == pytest.approx(1 + added_us / row["base_estimate"], abs=0.01)
    assert row["n"] == 6


def test_a_cost_has_one_figure_wherever_it_stands(study: Study) -> None:
    """The study's base is `off`, as that of its own tables."""
    compared = relate(study)[1].filter(metric="server_cpu_us_per_operation")
    own = dict(compared.select("dbms", pl.struct("estimate", "low", "high", "verdict")).rows())
    costs = page.costs(study)
    assert dict(costs.select("dbms", pl.struct("estimate", "low", "high", "verdict")).rows()) == own
    alone = page.costs(study, "all-disabled").select("scenario", pl.struct("added", "added_low", "added_high"))
    parts = scenario_parts(study).filter(role="part").select("scenario", pl.struct("estimate", "low", "high"))
    for scenario, figures in parts.rows():
        assert [*figures.values()] == [*dict(alone.rows())[scenario].values()]


def test_each_cell_of_the_matrix_leads_to_its_rounds(study: Study) -> None:
    html = page.cost_matrix(page.costs(study)).as_raw_html()
    assert html.count('data-step="point-query"') == len(made_up.NAMES) - 1
    assert 'data-dbms="my8.all-enabled" data-base="my8.off"' in html


def test_throughput_stands_beside_the_cost(study: Study) -> None:
    (row,) = page.costs(study, "off").filter(scenario="all-enabled").to_dicts()
    assert 0.8 < row["throughput_low"] < row["throughput"] < row["throughput_high"] < 1
    assert (row["verdict"], row["throughput_verdict"]) == ("slower", "slower")


def test_parts_share_nothing_add_up_and_leave_what_none_of_them_has(study: Study) -> None:
    found = {row["scenario"]: row for row in scenario_parts(study).to_dicts()}
    parts = {name for name, row in found.items() if row["role"] == "part"}
    assert parts == {"memory-only", "stages-only", "statements-only", "waits-only"}
    whole = 1.15 + 0.4 + 0.4 + 0.06
    assert found["all-enabled"]["estimate"] == pytest.approx(whole, abs=0.05)
    assert found["sum of the parts"]["estimate"] == pytest.approx(whole, abs=0.1)
    assert found["left over"]["low"] <= 0 <= found["left over"]["high"]
    assert found["sum of the parts"]["covers"] < 1  # transactions are in none of them
    assert found["left over"]["covers"] + found["sum of the parts"]["covers"] == pytest.approx(1)


def test_a_piece_of_a_part_is_what_another_scenario_has_of_it_or_lacks(tmp_path: Path) -> None:
    names = ("all-disabled", "all-enabled", "waits-only", "mdl-only", "statements-only", "statements-without-digests")
    servers = {f"my8.{name}": named(name) for name in names}
    study = rqps.load("synthetic", data=made_up.write(tmp_path, servers))
    parts = scenario_parts(study)
    found = {row["scenario"]: row for row in parts.filter(role="within").to_dicts()}
    assert set(found) == {"mdl-only, of waits-only", "statements_digest, of statements-only"}
    assert found["statements_digest, of statements-only"]["estimate"] == pytest.approx(made_up.DIGEST_US, abs=0.05)
    assert found["mdl-only, of waits-only"]["estimate"] == pytest.approx(0, abs=0.05)
    assert parts.filter(role="sum")["estimate"].item() == pytest.approx(1.55 + 0.4, abs=0.1)


def test_without_the_whole_there_are_no_parts(tmp_path: Path) -> None:
    few = {f"my8.{name}": named(name) for name in ("all-disabled", "waits-only", "stages-only")}
    study = rqps.load("synthetic", data=made_up.write(tmp_path, few))
    assert scenario_parts(study).is_empty()


sets = st.dictionaries(
    st.text("abcdefgh", min_size=1, max_size=2), st.frozensets(st.integers(0, 9), min_size=1), max_size=7
)


@given(sets.map(lambda some: {name: frozenset(map(str, on)) for name, on in some.items()}))
def test_chosen_parts_never_overlap_and_no_other_single_set_covers_more(some: dict[str, frozenset[str]]) -> None:
    chosen = disjoint(some)
    size = sum(len(some[name]) for name in chosen)
    assert size == len(frozenset().union(*(some[name] for name in chosen)))
    assert all(size >= len(on) for on in some.values())
    left = [on for name, on in some.items() if name not in chosen]
    assert all(any(on & some[name] for name in chosen) for on in left)


def test_events_are_those_of_a_statement_and_share_its_cost(study: Study) -> None:
    events = events_per_statement(study)
    waits = events.filter(scenario="waits-only")
    per = dict(waits.select("instrument", "per_statement").rows())
    assert per["wait/synch/mutex/innodb/trx_mutex"] == pytest.approx(4.0)
    assert "wait/synch/mutex/sql/LOCK_never_taken" not in per
    assert set(waits["class"]) == {"wait/synch/mutex", "wait/io/table"}
    each = with_events(page.costs(study, "all-disabled"), events)
    (row,) = each.filter(scenario="waits-only").to_dicts()
    assert row["per_statement"] == pytest.approx(13.5)
    assert row["each_ns"] == pytest.approx(1550 / 13.5, rel=0.05)
    assert each.filter(scenario="stages-only")["each_ns"].to_list() == [None]  # it costs nothing that shows


def test_memory_is_the_same_whatever_is_recorded_and_nothing_when_off(study: Study) -> None:
    memory = dict(memory_use(study).select("scenario", "perf_schema_mb").rows())
    assert memory.pop("off") == 0
    assert set(memory.values()) == {230}


def test_clocks_have_their_readings_and_where_a_version_can_choose_their_use(study: Study) -> None:
    assert clocks(study.settings).select("clock", "overhead").rows() == [("CYCLE", "21 to 26")]
    found = clocks(rqps.load("ps-by-release", data=DATA).settings)
    used = dict(found.filter(build="my5614").drop_nulls("used_for").select("clock", "used_for").rows())
    assert used == {"CYCLE": "wait", "NANOSECOND": "stage, statement", "MICROSECOND": "idle"}
    assert found.filter(build="my97")["used_for"].null_count() == 5


def test_steps_are_joined_by_their_name_without_the_clients(sweep: Study, study: Study) -> None:
    series = by_clients(sweep)
    assert set(series["load"]) == {"read-write"}
    assert sorted(set(series["clients"])) == [1, 4]
    assert series.height == 2 * len(made_up.NAMES)
    assert by_clients(study).is_empty()


def test_sentences_say_what_costs_more_and_rank_nothing_that_is_unsure(study: Study, tmp_path: Path) -> None:
    sentences = page.findings(page.costs(study), study).sentences
    assert sentences[0].startswith("All of it costs 2.19")
    assert "µs of CPU for point-query (+22%" in sentences[0]
    beside = page.findings(page.costs(study, "all-disabled"), study).sentences
    assert "Recording stages changes point-query by less than 2 %." in beside
    noisy = rqps.load("synthetic", data=made_up.write(tmp_path, noise=0.4, counted=True))
    sentences = page.findings(page.costs(noisy), noisy).sentences
    assert all("has an unsure cost" in each for each in sentences)
    whole = next(text for text in sentences if text.startswith("All of it"))
    assert whole.endswith(" By instructions: +22.1% of point-query.")


def test_what_is_unsure_stands_behind_all_others_by_name(tmp_path: Path) -> None:
    noisy = rqps.load("synthetic", data=made_up.write(tmp_path, noise=0.012))
    costs = page.costs(noisy)
    sure = [each != "unsure" for each in costs["verdict"]]
    assert set(sure) == {True, False}
    assert sure == sorted(sure, reverse=True)
    unsure = costs.filter(verdict="unsure")["scenario"].to_list()
    assert unsure == sorted(unsure)
    *said, last = page.findings(costs, noisy).sentences
    assert len(said) == sum(sure)
    assert not any("unsure" in each for each in said)
    assert last.startswith("Unsure is what these cost: ")
    assert last.count("point-query (") == len(unsure)


def test_every_chart_and_table_draws_what_there_is_and_says_what_is_missing(study: Study, sweep: Study) -> None:
    for each in (study, sweep):
        costs = page.costs(each)
        shown = [page.cost_table(costs)]
        shown += [page.parts_chart(each), *page.client_charts(each), *page.events(each), *page.memory(each, costs)]
        shown += page.by_instructions(costs, each)
        for one in shown:
            assert isinstance(one, Sentences) or len(one.to_json() if hasattr(one, "to_json") else one.as_raw_html())
    none = page.costs(study, "no-such-scenario")
    assert isinstance(page.cost_table(none), Sentences)
    assert page.findings(none, study).sentences == ()


@pytest.fixture(scope="module")
def sample() -> pl.DataFrame:
    return page.costs(rqps.load("ps-statements", data=DATA))


@pytest.fixture(scope="module")
def counted() -> pl.DataFrame:
    return instruction_costs(rqps.load("ps-statements", data=DATA), "off")


def test_time_orders_scenarios_as_instructions_do(sample: pl.DataFrame, counted: pl.DataFrame) -> None:
    of_step = sample.filter(step="point-query").to_dicts()
    instructions = dict(counted.filter(step="point-query").select("scenario", "estimate").rows())
    assert set(instructions) == {row["scenario"] for row in of_step}
    pairs = [(one, other) for one, other in permutations(of_step, 2) if one["low"] > other["high"]]
    assert pairs
    for one, other in pairs:
        assert instructions[one["scenario"]] >= instructions[other["scenario"]] - SAME


def test_instructions_order_scenarios_by_what_they_record(counted: pl.DataFrame) -> None:
    added = dict(counted.filter(step="point-query").select("scenario", "added").rows())
    assert added["all-enabled"] == max(added.values())
    assert added["all-enabled"] > added["waits-only"] > added["statements-only"] > added["all-disabled"]
    assert added["stages-and-statements"] > max(added["stages-only"], added["statements-only"])
