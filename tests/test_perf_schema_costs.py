"""Costs of the performance schema, on made-up studies in which the cost of each event is known, and on the sample."""

import re
from html import unescape
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import rqps
import synthetic_scenarios as made_up
from executed import Notebook
from hypothesis import given
from hypothesis import strategies as st
from rqps.engines.mysql.perf_schema import ALWAYS_ON, named
from rqps.pages import FirstPage
from rqps.pages import perf_schema_overhead as page
from rqps.show import Nothing
from rqps.stats import deciding, over_steps, relate
from rqps.stats.metrics import CPU
from rqps.stats.scenario_parts import disjoint, scenario_parts
from rqps.stats.scenarios import events_per_statement, ranked, scenario_costs, scenarios, with_events
from rqps.store import Study
from synthetic import write_study

DATA = Path(__file__).parent.parent / "data"


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    return rqps.load("synthetic", data=made_up.write(tmp_path_factory.mktemp("data")))


@pytest.fixture(scope="module")
def notebook(study: Study) -> Notebook:
    return Notebook("perf_schema_overhead", study)


def parts_of(study: Study) -> pl.DataFrame:
    return scenario_parts(study, "all-enabled", "all-disabled", ALWAYS_ON)


def cpu(study: Study, against: str = "off") -> pl.DataFrame:
    return scenario_costs(study).filter(metric=CPU, against=against)


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
        ("all-enabled", "default", 1.15),
    ],
)
def test_a_scenario_adds_the_cost_of_its_events(study: Study, scenario: str, against: str, added_us: float) -> None:
    (row,) = cpu(study, against).filter(scenario=scenario).to_dicts()
    assert row["added"] == pytest.approx(added_us, abs=0.05)
    assert row["added_low"] <= row["added"] <= row["added_high"]
    assert row["estimate"] == pytest.approx(1 + added_us / row["base_estimate"], abs=0.01)
    assert row["n"] == 6


def test_a_cost_has_one_figure_wherever_it_stands(study: Study) -> None:
    """The study's base is `off`, as that of its own tables."""
    figures = pl.struct("estimate", "low", "high", "verdict")
    own = relate(study)[1].filter(metric=CPU)
    assert dict(cpu(study).select("dbms", figures).rows()) == dict(own.select("dbms", figures).rows())
    alone = cpu(study, "all-disabled").select("scenario", pl.struct("added", "added_low", "added_high"))
    for scenario, of_part in (
        parts_of(study).filter(role="part").select("scenario", pl.struct("estimate", "low", "high")).rows()
    ):
        assert [*of_part.values()] == [*dict(alone.rows())[scenario].values()]


def test_no_pair_is_decided_twice(study: Study) -> None:
    """`off` against `default` is `default` against `off`."""
    pairs = [frozenset(pair) for pair in scenario_costs(study).filter(metric=CPU).select("base", "dbms").rows()]
    assert len(pairs) == len(set(pairs)) == 7 + 6 + 5


def test_each_cell_of_the_matrix_leads_to_its_rounds(notebook: Notebook) -> None:
    html = notebook.shown("scenario-matrix")
    assert html.count('data-step="point-query"') == len(made_up.NAMES) - 1
    assert 'data-dbms="my8.all-enabled" data-base="my8.off"' in html


def test_throughput_stands_beside_the_cost(study: Study) -> None:
    (row,) = cpu(study).filter(scenario="all-enabled").to_dicts()
    assert 0.8 < row["throughput_low"] < row["throughput"] < row["throughput_high"] < 1
    assert (row["verdict"], row["throughput_verdict"]) == ("slower", "slower")


def test_parts_share_nothing_add_up_and_leave_what_none_of_them_has(study: Study) -> None:
    results = {row["scenario"]: row for row in parts_of(study).to_dicts()}
    parts = {name for name, row in results.items() if row["role"] == "part"}
    assert parts == {"memory-only", "stages-only", "statements-only", "waits-only"}
    complete = 1.15 + 0.4 + 0.4 + 0.06
    assert results["all-enabled"]["estimate"] == pytest.approx(complete, abs=0.05)
    assert results["sum of the parts"]["estimate"] == pytest.approx(complete, abs=0.1)
    assert results["left over"]["low"] <= 0 <= results["left over"]["high"]
    assert results["sum of the parts"]["covers"] < 1  # transactions are in none of them
    assert results["left over"]["covers"] + results["sum of the parts"]["covers"] == pytest.approx(1)


def test_a_piece_of_a_part_is_what_another_scenario_has_of_it_or_lacks(tmp_path: Path) -> None:
    names = ("all-disabled", "all-enabled", "waits-only", "mdl-only", "statements-only", "statements-without-digests")
    servers = {f"my8.{name}": named(name) for name in names}
    study = rqps.load("synthetic", data=made_up.write(tmp_path, servers))
    parts = parts_of(study)
    results = {row["scenario"]: row for row in parts.filter(role="within").to_dicts()}
    assert set(results) == {"mdl-only, of waits-only", "statements_digest, of statements-only"}
    assert results["statements_digest, of statements-only"]["estimate"] == pytest.approx(made_up.DIGEST_US, abs=0.05)
    assert results["mdl-only, of waits-only"]["estimate"] == pytest.approx(0, abs=0.05)
    assert parts.filter(role="sum")["estimate"].item() == pytest.approx(1.55 + 0.4, abs=0.1)


def test_without_the_whole_there_are_no_parts(tmp_path: Path) -> None:
    few = {f"my8.{name}": named(name) for name in ("all-disabled", "waits-only", "stages-only")}
    study = rqps.load("synthetic", data=made_up.write(tmp_path, few))
    assert parts_of(study).is_empty()


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
    one = with_events(cpu(study, "all-disabled"), events)
    (row,) = one.filter(scenario="waits-only").to_dicts()
    assert row["per_statement"] == pytest.approx(13.5)
    assert row["each_ns"] == pytest.approx(1550 / 13.5, rel=0.05)
    assert one.filter(scenario="stages-only")["each_ns"].to_list() == [None]  # it costs nothing that shows


def test_memory_is_the_same_whatever_is_recorded_and_nothing_when_off(notebook: Notebook) -> None:
    memory = dict(notebook["memory"].select("scenario", "perf_schema_mb").rows())
    assert memory.pop("off") == 0
    assert set(memory.values()) == {230}


def test_clocks_have_their_readings_and_where_a_version_can_choose_their_use(notebook: Notebook) -> None:
    assert notebook["clocks"].select("clock", "overhead").rows() == [("CYCLE", "21 to 26")]
    clocks = Notebook("perf_schema_overhead", rqps.load("ps-by-release", data=DATA))["clocks"]
    used = dict(clocks.filter(build="my5614").drop_nulls("used_for").select("clock", "used_for").rows())
    assert used == {"CYCLE": "wait", "NANOSECOND": "stage, statement", "MICROSECOND": "idle"}
    assert clocks.filter(build="my97")["used_for"].null_count() == 5


def test_steps_are_joined_by_their_name_without_the_clients(tmp_path: Path, notebook: Notebook) -> None:
    steps = ("read-write@1", "read-write@4")
    sweep = Notebook("perf_schema_overhead", rqps.load("synthetic", data=made_up.write(tmp_path, steps=steps)))
    series = sweep["series"]
    assert set(series["kind"]) == {"read-write"}
    assert sorted(set(series["clients"])) == [1, 4]
    assert series.height == 2 * len(made_up.NAMES)
    assert "with 1 client, " in sweep.html
    assert "1 clients" not in sweep.html
    assert notebook["series"].is_empty()


def test_sentences_say_what_costs_more_and_rank_nothing_that_is_unsure(study: Study, tmp_path: Path) -> None:
    first, *_ = page.findings(cpu(study))
    assert re.fullmatch(r"Everything enabled, CPU per operation: \+2[12]\.\d % \(.* %\) for point-query\.", first)
    beside = page.findings(cpu(study, "all-disabled"))
    assert "Recording stages, CPU per operation: less than 2 % for point-query." in beside
    noisy = rqps.load("synthetic", data=made_up.write(tmp_path, noise=0.4))
    [only] = page.findings(cpu(noisy))
    assert only.startswith("Inconclusive in every step: ")
    assert only.count(",") + only.count(" and ") == len(made_up.NAMES) - 2


def test_what_is_unsure_stands_behind_all_others_by_name(tmp_path: Path) -> None:
    costs = ranked(cpu(rqps.load("synthetic", data=made_up.write(tmp_path, noise=0.012))))
    sure = [verdict != "unsure" for verdict in costs["verdict"]]
    assert set(sure) == {True, False}
    assert sure == sorted(sure, reverse=True)
    unsure = costs.filter(verdict="unsure")["scenario"].to_list()
    assert unsure == sorted(unsure)
    *decided, last = page.findings(costs)
    assert len(decided) == sum(sure)
    assert not any("nconclusive" in sentence for sentence in decided)
    assert last.startswith("Inconclusive in every step: ")


def test_a_headline_names_clients_and_scenarios_and_of_many_steps_their_mean(tmp_path: Path) -> None:
    def headline(folder: str, **how: Any) -> str:
        loaded = rqps.load("synthetic", data=made_up.write(tmp_path / folder, **how))
        rounds, compared = relate(loaded)
        means, decided = over_steps(rounds, {}), deciding(compared)
        return page.on_first_page(FirstPage(loaded, compared, means, decided, "", None)).headline

    one = headline("one")
    assert one.startswith(
        "CPU per operation against the performance schema off with 1 client: the default instruments +"
    )
    assert "; everything enabled +2" in one
    clients = headline("clients", steps=("read-write@1", "read-write@4"))
    assert " with 1 client, " in clients
    assert " with 4 clients; everything enabled " in clients
    builds = {f"{build}.{name}": named(name) for build in ("my5", "my8") for name in ("off", "default")}
    of_builds = headline("builds", servers=builds)
    assert " with 1 client of point-query: the default instruments +" in of_builds
    assert of_builds.count(" %) on ") == 2
    many = headline("many", steps=tuple(f"step{number}" for number in range(8)))
    assert " over 8 steps (geometric mean): the default instruments +" in many


def test_the_notebook_says_what_is_missing(tmp_path: Path) -> None:
    lonely = made_up.write(tmp_path, {"my8.off": named("off"), "my8.also-off": named("off")})
    notebook = Notebook("perf_schema_overhead", rqps.load("synthetic", data=lonely))
    missing = [sentence for shown in notebook.outputs if isinstance(shown, Nothing) for sentence in shown.sentences]
    assert "No step of this study was measured with several numbers of clients." in missing
    assert any(sentence.startswith("No build of this study has all-disabled") for sentence in missing)
    assert "No run of this study had its instructions counted." in missing


def test_a_study_that_only_counts_begins_with_its_instructions() -> None:
    notebook = Notebook("perf_schema_overhead", rqps.load("ps-index-creation-counts", data=DATA))
    table = notebook.shown("scenario-matrix")
    assert "+3.6 %" in table
    assert notebook["added"].filter(scenario="default", step="l.x", build="my8033")[
        "estimate_pct"
    ].item() == pytest.approx(3.6, abs=0.06)
    first = unescape(notebook.html.partition("<li data-claims=")[2].partition(">")[2].partition("</li>")[0])
    assert first.startswith("Instructions per operation of l.x against the performance schema off: the default ")
    assert "no intervals" not in notebook.html


@pytest.fixture(scope="module")
def sample() -> Notebook:
    return Notebook("perf_schema_overhead", rqps.load("ps-statements", data=DATA))


def test_time_orders_scenarios_as_instructions_do(sample: Notebook) -> None:
    assert sample["pairs"].height > 50
    assert sample["pairs"].filter(sample["other_way"]).is_empty()


def test_instructions_order_scenarios_by_what_they_record(sample: Notebook) -> None:
    counted = sample["beside"].filter(metric="server_instructions_per_operation", step="point-query")
    added = dict(counted.select("scenario", "added").rows())
    assert set(added) == set(sample["cpu"].filter(step="point-query")["scenario"])
    assert added["all-enabled"] == max(added.values())
    assert added["all-enabled"] > added["waits-only"] > added["statements-only"] > added["all-disabled"]
    assert added["stages-and-statements"] > max(added["stages-only"], added["statements-only"])
