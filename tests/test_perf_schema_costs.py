"""What the performance schema costs, on made-up studies in which the cost of each event is known."""

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
import rqps
import synthetic_scenarios as made_up
from hypothesis import given
from hypothesis import strategies as st
from rqps import analysis, charts
from rqps.pages.perf_schema_overhead.parts import disjoint
from rqps.store import Study
from rqps.study.perf_schema import named


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    return rqps.load("synthetic", data=made_up.write(tmp_path_factory.mktemp("data")))


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Study:
    steps = ("read-write@1", "read-write@4")
    return rqps.load("synthetic", data=made_up.write(tmp_path_factory.mktemp("data"), steps=steps))


def names_of(study: Study) -> pl.DataFrame:
    return analysis.scenarios(study.runs, study.conditions)


def costs_of(study: Study, against: str) -> pl.DataFrame:
    return analysis.scenario_costs(analysis.scenario_ratios(study.steps, study.runs, names_of(study), against))


def test_a_dbms_has_the_scenario_of_its_config_or_what_its_switch_says(study: Study) -> None:
    assert dict(names_of(study).select("dbms", "scenario").rows()) == {f"my8.{name}": name for name in made_up.NAMES}
    sample = rqps.load("releases", data=Path(__file__).parent.parent / "data")
    by_switch = dict(names_of(sample).select("dbms", "scenario").rows())
    assert (by_switch["my8033.base"], by_switch["my8033.ps0"]) == ("default", "off")


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
def test_what_a_scenario_adds_is_what_its_events_cost(
    study: Study, scenario: str, against: str, added_us: float
) -> None:
    (row,) = costs_of(study, against).filter(scenario=scenario).to_dicts()
    assert row["added_us"] == pytest.approx(added_us, abs=0.05)
    assert row["added_low_us"] <= row["added_us"] <= row["added_high_us"]
    assert row["cpu_ratio"] == pytest.approx(1 + added_us / row["base_us"], abs=0.01)
    assert row["n"] == 6


def test_less_throughput_is_a_positive_share_with_its_ends_in_order(study: Study) -> None:
    (row,) = costs_of(study, "off").filter(scenario="all-enabled").to_dicts()
    assert 0 < row["share_low"] < row["share"] < row["share_high"] < 0.2
    assert (row["verdict"], row["share_verdict"]) == ("slower", "slower")


def test_parts_share_nothing_add_up_and_leave_what_none_of_them_has(study: Study) -> None:
    ratios = analysis.scenario_ratios(study.steps, study.runs, names_of(study), "all-disabled")
    found = {row["scenario"]: row for row in analysis.scenario_parts(ratios, study.settings).to_dicts()}
    parts = {name for name, row in found.items() if row["kind"] == "part"}
    assert parts == {"memory-only", "stages-only", "statements-only", "waits-only"}
    whole = 1.15 + 0.4 + 0.4 + 0.06
    assert found["all-enabled"]["median"] == pytest.approx(whole, abs=0.05)
    assert found["sum of the parts"]["median"] == pytest.approx(whole, abs=0.1)
    assert found["left over"]["low"] <= 0 <= found["left over"]["high"]
    assert found["sum of the parts"]["covers"] < 1  # transactions are in none of them
    assert found["left over"]["covers"] + found["sum of the parts"]["covers"] == pytest.approx(1)


def test_a_piece_of_a_part_is_what_another_scenario_has_of_it_or_lacks(tmp_path: Path) -> None:
    names = ("all-disabled", "all-enabled", "waits-only", "mdl-only", "statements-only", "statements-without-digests")
    servers = {f"my8.{name}": named(name) for name in names}
    study = rqps.load("synthetic", data=made_up.write(tmp_path, servers))
    ratios = analysis.scenario_ratios(study.steps, study.runs, names_of(study), "all-disabled")
    parts = analysis.scenario_parts(ratios, study.settings)
    found = {row["scenario"]: row for row in parts.filter(kind="within").to_dicts()}
    assert set(found) == {"mdl-only, of waits-only", "statements_digest, of statements-only"}
    assert found["statements_digest, of statements-only"]["median"] == pytest.approx(made_up.DIGEST_US, abs=0.05)
    assert found["mdl-only, of waits-only"]["median"] == pytest.approx(0, abs=0.05)
    assert parts.filter(kind="sum")["median"].item() == pytest.approx(1.55 + 0.4, abs=0.1)


def test_without_the_whole_there_are_no_parts(tmp_path: Path) -> None:
    few = {f"my8.{name}": named(name) for name in ("all-disabled", "waits-only", "stages-only")}
    study = rqps.load("synthetic", data=made_up.write(tmp_path, few))
    ratios = analysis.scenario_ratios(study.steps, study.runs, names_of(study), "all-disabled")
    assert analysis.scenario_parts(ratios, study.settings).is_empty()


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


def test_events_are_those_of_a_statement_and_their_cost_is_shared_out(study: Study) -> None:
    events = analysis.events_per_statement(study.status, names_of(study))
    waits = events.filter(scenario="waits-only")
    per = dict(waits.select("instrument", "per_statement").rows())
    assert per["wait/synch/mutex/innodb/trx_mutex"] == pytest.approx(4.0)
    assert "wait/synch/mutex/sql/LOCK_never_taken" not in per
    assert set(waits["kind"]) == {"wait/synch/mutex", "wait/io/table"}
    each = analysis.event_costs(events, costs_of(study, "all-disabled"))
    (row,) = each.filter(scenario="waits-only").to_dicts()
    assert row["per_statement"] == pytest.approx(13.5)
    assert row["each_ns"] == pytest.approx(1550 / 13.5, rel=0.05)
    assert each.filter(scenario="stages-only")["each_ns"].to_list() == [None]  # it costs nothing that shows


def test_memory_is_the_same_whatever_is_recorded_and_nothing_when_off(study: Study) -> None:
    memory = dict(
        analysis.memory_use(study.status, study.counters, names_of(study)).select("scenario", "perf_schema_mb").rows()
    )
    assert memory.pop("off") == 0
    assert set(memory.values()) == {230}


def test_clocks_have_one_row_each_with_the_reach_of_what_was_found(study: Study) -> None:
    assert analysis.timers(study.settings).select("clock", "overhead").rows() == [("CYCLE", "21 to 26")]


def test_clocks_of_a_version_that_can_choose_say_what_they_are_used_for() -> None:
    sample = rqps.load("ps-by-release", data=Path(__file__).parent.parent / "data")
    clocks = analysis.timers(sample.settings)
    used = dict(clocks.filter(build="my5614").drop_nulls("used_for").select("clock", "used_for").rows())
    assert used == {"CYCLE": "wait", "NANOSECOND": "stage, statement", "MICROSECOND": "idle"}
    assert clocks.filter(build="my97")["used_for"].null_count() == 5


def test_clients_are_told_apart_from_the_step(sweep: Study, study: Study) -> None:
    series = analysis.by_clients(sweep.steps, sweep.runs, names_of(sweep))
    assert set(series["step"]) == {"read-write"}
    assert sorted(set(series["threads"])) == [1, 4]
    assert series.height == 2 * len(made_up.NAMES)
    assert analysis.by_clients(study.steps, study.runs, names_of(study)).is_empty()


def test_sentences_say_what_is_dearer_and_rank_nothing_that_is_unsure(study: Study, tmp_path: Path) -> None:
    told = analysis.scenario_findings(costs_of(study, "off"))
    assert told[0].startswith("All of it costs 2.2")
    assert "µs of CPU for point-query (+22%" in told[0]
    beside = analysis.scenario_findings(costs_of(study, "all-disabled"))
    assert "Recording stages changes point-query by less than 2 %." in beside
    noisy = rqps.load("synthetic", data=made_up.write(tmp_path, noise=0.4, counted=True))
    counted = rqps.load("synthetic", data=tmp_path, mode="instructions")
    by_count = analysis.scenario_instructions(
        counted.instructions, counted.steps, counted.runs, names_of(counted), "off"
    )
    told = analysis.scenario_findings(costs_of(noisy, "off"), by_count)
    assert all("may or may not cost" in each for each in told)
    whole = next(each for each in told if each.startswith("All of it"))
    assert whole.endswith(" By instructions: +22.1% of point-query.")


def test_what_the_rounds_can_t_tell_stands_behind_all_others_by_name(tmp_path: Path) -> None:
    costs = costs_of(rqps.load("synthetic", data=made_up.write(tmp_path, noise=0.012)), "off")
    verdicts = costs["verdict"].to_list()
    sure = [each != "unsure" for each in verdicts]
    assert set(sure) == {True, False}
    assert sure == sorted(sure, reverse=True)
    unsure = costs.filter(verdict="unsure")["scenario"].to_list()
    assert unsure == sorted(unsure)
    told = analysis.scenario_findings(costs)
    assert ["may or may not" in each for each in told] == [not each for each in sure]


def test_the_dearest_is_named_with_those_that_the_rounds_can_t_tell_from_it(study: Study, tmp_path: Path) -> None:
    title = charts.scenario_bars(costs_of(study, "off")).to_dict()["usermeta"]["rqps"]["claim"]
    assert title.startswith("all-enabled costs most: +22% of the CPU of off for point-query")
    alike = {f"my8.{name}": named(name) for name in ("off", "all-disabled", "waits-only")}
    alike["my8.again"] = replace(named("waits-only"), name="waits again")
    costs = costs_of(rqps.load("synthetic", data=made_up.write(tmp_path, alike)), "off")
    title = charts.scenario_bars(costs).to_dict()["usermeta"]["rqps"]["claim"]
    assert title.endswith("The rounds can't tell waits-only from it.") or title.endswith("tell waits again from it.")


def test_the_table_as_lines(study: Study) -> None:
    lines = charts.scenario_text(costs_of(study, "off")).splitlines()
    assert lines[0] == "Against: off"
    assert lines[3] == "point-query on my8"
    assert len(lines) == 4 + len(made_up.NAMES) - 1
    assert lines[-1].startswith("▲ +22.")
    assert lines[-1].endswith("all-enabled, n=6")


def test_every_chart_and_table_draws_what_there_is_and_says_what_there_is_not(study: Study, sweep: Study) -> None:
    for each in (study, sweep):
        found = names_of(each)
        costs = costs_of(each, "off")
        ratios = analysis.scenario_ratios(each.steps, each.runs, found, "all-disabled")
        series = analysis.by_clients(each.steps, each.runs, found)
        memory = analysis.memory_use(each.status, each.counters, found)
        events = analysis.events_per_statement(each.status, found)
        drawn = [
            charts.scenario_bars(costs),
            charts.scenario_table(costs),
            charts.clients_in_one(series),
            charts.clients_one_by_one(series),
            charts.parts_chart(analysis.scenario_parts(ratios, each.settings)),
            charts.events_table(analysis.event_costs(events, analysis.scenario_costs(ratios))),
            charts.cost_by_release(costs),
            charts.cost_against_memory(costs, memory),
            charts.memory_table(memory),
        ]
        for one in drawn:
            assert isinstance(one, charts.Sentences) or len(one.to_json() if hasattr(one, "to_json") else "x")
    none = costs_of(study, "no-such-scenario")
    assert isinstance(charts.scenario_bars(none), charts.Sentences)
    assert isinstance(charts.scenario_table(none), charts.Sentences)
    assert charts.scenario_text(none).startswith("This study has no two scenarios")
    assert analysis.scenario_findings(none) == ()
