"""The parts of a scenario: what costs nothing stays whole, what costs something is looked at by name."""

import re
from pathlib import Path

import polars as pl
import pytest
import synthetic_scenarios as made_up
import yaml
from rqps.engines.mysql.perf_schema import class_of, split
from rqps.errors import RqpsError
from rqps.pages import perf_schema_instruments as page
from rqps.schedule.levels import file_of_level, levels_file, run_levels
from rqps.stats.scenarios import costly, events_per_statement, parts_by_kind, recorded_events
from rqps.store import load
from rqps.store.read import load_levels
from rqps.study import RunsFile, read_runs_file, study_of, unfold
from rqps.study.reading import for_another_folder
from rqps.workloads import PARAMETERS

RUNS = """
builds:
  my8: {mysql: "8.0.33"}
configs:
  base: {max_connections: 100}
  none: {extends: base, perf_schema: all-disabled}
  all: {extends: base, perf_schema: all-enabled}
  theirs: {my_cnf: my.cnf}
studies:
  parts:
    question: Which of them cost what?
    workload: sysbench
    dbms: [my8.none, my8.all]
    base: my8.none
    measure_parts_of: my8.all
    rounds: 6
    parameters: {steps: [point-query], seconds: 1}
"""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return in_a_folder(tmp_path)


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data folder of a study that was measured with all its levels."""
    data = in_a_folder(tmp_path_factory.mktemp("measured"))
    assert measure(data) == ["parts-1", "parts-2", "parts-3"]
    return data


def in_a_folder(folder: Path) -> Path:
    """The data folder beside a runs.yaml, one of whose configs takes a file there."""
    (folder / "runs.yaml").write_text(RUNS)
    (folder / "my.cnf").write_text("[mysqld]\nsync_binlog=0\n")
    return folder / "data"


def measure(data: Path, noise: float = 0.001, *, counted: bool = False) -> list[str]:
    """Measures the study and all its levels, made up; the levels in their order."""
    done: list[str] = []

    def run(runs_file: RunsFile, study: str) -> int:
        runs = {member.dbms: member for unit in unfold(runs_file, study, "here") for member in unit.members}
        servers = {dbms: item.scenario for dbms, item in runs.items() if item.scenario}
        made_up.write(data, servers, study=study, base=runs_file.studies[study].base, noise=noise, counted=counted)
        done.append(study)
        return 0

    run(read_runs_file(data.parent / "runs.yaml", PARAMETERS), "parts")
    assert run_levels(data.parent / "runs.yaml", "parts", data, run, lambda _: None) == 0
    return done[1:]


def instruments(data: Path, level: str) -> list[list[str]]:
    configs = read_runs_file(levels_file(data, "parts"), PARAMETERS)
    return [
        list(spec.instruments)
        for dbms in configs.studies[level].dbms[1:]
        if (spec := configs.configs[dbms.partition(".")[2]].perf_schema)
    ]


def test_kinds_come_first_then_what_costs_something_down_to_its_names(measured: Path) -> None:
    kinds = ["memory/%", "stage/%", "statement/%", "transaction", "wait/io/table/%", "wait/synch/mutex/%"]
    assert sorted(instruments(measured, "parts-1")) == [[kind] for kind in kinds]
    # Only mutexes cost something and are several: stages are two, and cost nothing.
    assert instruments(measured, "parts-2") == [["wait/synch/mutex/sql/%"], ["wait/synch/mutex/innodb/%"]]
    by_name = instruments(measured, "parts-3")
    assert ["wait/synch/mutex/innodb/trx_mutex"] in by_name
    assert ["wait/synch/mutex/innodb/dict_sys_mutex"] in by_name
    assert sum(len(names) for names in by_name) == 13 + 2
    assert not any("LOCK_never_taken" in name for names in by_name for name in names)


def test_each_level_has_its_own_base_and_the_consumers_of_its_kinds(measured: Path) -> None:
    levels = read_runs_file(levels_file(measured, "parts"), PARAMETERS)
    assert all(levels.studies[f"parts-{number}"].dbms[0] == "my8.none" for number in (1, 2, 3))
    config = levels.configs["wait-synch-mutex"]
    assert config.extends == "none"
    assert config.perf_schema is not None
    assert set(config.perf_schema.consumers) == {
        f"events_waits_{reach}" for reach in ("current", "history", "history_long")
    }
    assert levels.studies["parts-1"].measure_parts_of is None


def test_counted_instructions_separate_parts_that_time_can_t_and_need_one_round_below_the_kinds(data: Path) -> None:
    runs_yaml = data.parent / "runs.yaml"
    runs_yaml.write_text(RUNS.replace("rounds: 6", "rounds: 6\n    instructions_rounds: 1"))
    assert measure(data, noise=0.3, counted=True) == ["parts-1", "parts-2", "parts-3"]
    levels = read_runs_file(levels_file(data, "parts"), PARAMETERS).studies
    assert [levels[f"parts-{number}"].rounds for number in (1, 2, 3)] == [6, 1, 1]
    assert [levels[f"parts-{number}"].instructions_rounds for number in (1, 2, 3)] == [1, 1, 1]
    costs = page.instrument_costs(load_levels("parts", data))
    added = {(row["level"], row["part"]): row["added_instructions"] for row in costs.to_dicts()}
    assert added[1, "wait/synch/mutex/%"] == pytest.approx(1150)
    assert added[1, "stage/%"] == 0
    assert added[3, "wait/synch/mutex/innodb/trx_mutex"] == pytest.approx(400)
    of_level = costs.filter(level=1)["added_instructions"].to_list()
    assert of_level == sorted(of_level, reverse=True)  # the most expensive first, whatever their time
    text = page.instrument_text(costs)
    assert re.search(r"wait/synch/mutex/innodb/trx_mutex .* \+400 +4\.0 +\S+ +100$", text, re.MULTILINE)
    assert "wait/synch/mutex/% costs most: 1,150 instructions per operation (57 %); of single" in page.largest(costs)
    assert costs["row"].n_unique() == costs.select("step", "part").n_unique()


def test_parts_of_what_the_rounds_leave_unsure_are_not_measured(data: Path) -> None:
    assert measure(data, noise=0.3) == ["parts-1"]


def test_what_was_begun_goes_on_with_the_levels_that_are_written_down(measured: Path) -> None:
    before = levels_file(measured, "parts").read_text()
    again: list[str] = []

    def note(_file: RunsFile, study: str) -> int:
        again.append(study)
        return 0

    code = run_levels(measured.parent / "runs.yaml", "parts", measured, note, lambda _: None)
    assert (code, again) == (0, ["parts-1", "parts-2", "parts-3"])
    assert levels_file(measured, "parts").read_text() == before


def test_a_level_that_fails_ends_it(measured: Path) -> None:
    assert run_levels(measured.parent / "runs.yaml", "parts", measured, lambda *_: 1, lambda _: None) == 1


def test_a_level_is_found_by_its_name(data: Path, measured: Path) -> None:
    assert file_of_level(data, "parts-1") is None
    assert file_of_level(measured, "parts-2") == levels_file(measured, "parts")
    assert file_of_level(measured, "parts-9") is None
    assert file_of_level(measured, "parts") is None
    assert "8.0.33" in yaml.safe_load(levels_file(measured, "parts").read_text())["builds"]["my8"]["mysql"]


def test_a_study_that_is_called_as_a_level_is_refused(data: Path) -> None:
    (data.parent / "runs.yaml").write_text(f"{RUNS}  parts-1: {{extends: parts}}\n")
    with pytest.raises(RqpsError, match=r"studies\.parts-1: this name is reserved for a study that rqps makes"):
        study_of(read_runs_file(data.parent / "runs.yaml", PARAMETERS), "parts")


def test_the_parts_of_a_kind_follow_from_its_events(tmp_path: Path) -> None:
    made_up.write(tmp_path)
    study = load("synthetic", tmp_path)
    events = recorded_events(events_per_statement(study), "my8.all-enabled", class_of)
    assert next(iter(events)) == "wait/synch/mutex/innodb/trx_mutex"
    assert len(parts_by_kind(events, class_of)) == 6
    mutexes = {name: count for name, count in events.items() if "mutex" in name}
    assert [len(part) for part in split(mutexes, most=4)] == [1, 1]
    assert split({"transaction": 1.0}, most=4) == []


def test_instructions_decide_what_is_costly_where_they_were_counted() -> None:
    first = {"position": [0, 0], "dbms": ["a", "b"]}
    costs = pl.DataFrame({**first, "verdict": ["slower", "unsure"], "added": [1.0, 2.0]})
    counted = pl.DataFrame({**first, "estimate": [1.004, 1.2]})
    assert costly(costs, counted.clear()) == ["a"]
    assert costly(costs, counted) == ["b"]


def test_paths_beside_runs_yaml_are_absolute_in_the_file_of_levels(tmp_path: Path) -> None:
    own = "\n    parameters: {tables: t.sql, steps: {one: SELECT 1, log: {file: slow.log}}}\n"
    (tmp_path / "runs.yaml").write_text(RUNS + "  own:\n    workload: own" + own)
    written = for_another_folder(tmp_path / "runs.yaml")
    assert written["configs"]["theirs"] == {"my_cnf": str(tmp_path / "my.cnf")}
    parameters = written["studies"]["own"]["parameters"]
    assert parameters["tables"] == str(tmp_path / "t.sql")
    assert parameters["steps"] == {"one": "SELECT 1", "log": {"file": str(tmp_path / "slow.log")}}
