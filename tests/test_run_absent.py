"""A version that does not have what a config asks for: every command says so, and none measures it."""

from dataclasses import replace
from pathlib import Path

import pytest
import synthetic
from child import rqps
from house import House
from rqps.stats.conditions import missing_rounds
from rqps.store import load, read_study_card

RUNS = """
builds:
  my1: {path: /nowhere/my1, mysql: "8.0.33"}
  my2: {path: /nowhere/my2, mysql: "5.6.14"}
configs:
  base: {max_connections: 100, performance_schema: on}
  mem: {extends: base, perf_schema: memory-only}
studies:
  demo:
    question: Does it hold?
    workload: sysbench
    dbms: [my1.base, my1.mem, my2.mem]
    base: my1.base
    rounds: 2
    method: rounds
    seed: 1
    parameters: {steps: [point-query], seconds: 1, warmup_seconds: 0}
"""
WHY = "MySQL 5.6.14 has no instruments memory/%; they came with 5.7"


@pytest.fixture
def house(tmp_path: Path) -> House:
    house = House(tmp_path)
    (tmp_path / "runs.yaml").write_text(RUNS)
    return house


def test_plan_and_status_say_what_is_not_in_a_version_and_why(house: House) -> None:
    plan = rqps("plan", "demo", cwd=house.path).stdout
    assert f"not in this version, so these have no runs\n  my2.mem: {WHY}" in plan
    assert "perf_schema = memory-only" in plan
    assert "my2.mem (not in this version)" in plan
    assert "demo: 6 runs, 4 missing, 2 not in this version" in plan
    status = rqps("status", "demo", cwd=house.path).stdout
    assert status.count(f"not in this version: {WHY}") == 2


def test_its_runs_are_left_out_every_time_and_the_study_is_whole_without_them(house: House) -> None:
    code, words = house.run()
    assert code == 0
    assert f"my2.mem: not in this version: {WHY}" in words
    assert "demo: 4 runs measured" in words
    assert house.folders() == [f"run=r{number:02}@my1.{config}" for number in (1, 2) for config in ("base", "mem")]
    assert house.failures() == []
    assert [state.state for state in house.states()].count("absent") == 2
    card = read_study_card(house.study)
    assert card.absent == {"my2.mem": WHY}

    code, words = house.run()
    assert code == 0
    assert "0 runs measured" in words
    assert "4 done already" in words

    (house.path / "runs.yaml").write_text(RUNS.replace("memory-only", "mdl-only"))
    code, words = house.run()
    assert code == 1
    assert 'my1.mem: perf_schema.instruments.memory/% was "counted", is now not set' in words
    assert 'perf_schema.instruments.wait/lock/metadata/sql/mdl was not set, is now "timed"' in words


def test_whoever_reads_the_data_is_warned_of_it(tmp_path: Path) -> None:
    synthetic.write_study(tmp_path, rounds=1)
    study = load("synthetic", data=tmp_path)
    asked = synthetic.card(synthetic.Shape(dbms=(*synthetic.DBMS, "my0.mem"), rounds=1), absent={"my0.mem": WHY})
    warned = missing_rounds(replace(study, card=asked)).select("dbms", "kind", "text").rows()
    assert warned == [("my0.mem", "absent", f"not in this version: {WHY}")]


def test_a_base_that_is_not_in_its_version_ends_the_study_before_it_begins(house: House) -> None:
    (house.path / "runs.yaml").write_text(RUNS.replace("base: my1.base", "base: my2.mem"))
    code, words = house.run()
    assert code == 1
    assert f"the base my2.mem needs a feature that its version lacks: {WHY}" in words
    assert house.noted() == []
