"""Counting instructions on real servers: every call of a statement, the same number again, and nothing left running."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
import rqps
from rqps.errors import RqpsError
from rqps.observe.instructions.table import is_counted
from rqps.run import finish, make_ready, measure, open_run, start, stop
from rqps.store import StudyCard, write_study_card
from rqps.study import read_runs_file, unfold

pytestmark = pytest.mark.live

OPERATIONS = 100
RUNS = """
builds:
  my5534: {mysql: "5.5.34"}
  my5614: {mysql: "5.6.14"}
  my5624: {mysql: "5.6.24"}
  my8033: {mysql: "8.0.33"}
  my97: {mysql: "9.7"}
configs:
  base: {innodb_buffer_pool_size: 64M, innodb_redo_log_capacity: 32M, log_bin: OFF, ssl: OFF, CONFIG}
studies:
  counted:
    question: How many instructions does a statement take?
    workload: sysbench
    dbms: [BUILD.base]
    base: BUILD.base
    rounds: 1
    instructions_rounds: 2
    parameters: {steps: [STEPS], table_rows: 2000, index_first: true, counted_operations: 100, THREADS}
"""


class Place:
    """A folder with a runs.yaml of one dbms whose instructions are counted."""

    def __init__(self, path: Path, build: str, steps: str, config: str = "", threads: str = "") -> None:
        self.path = path
        text = RUNS.replace("BUILD", build).replace("STEPS", steps)
        text = text.replace("CONFIG", config or "max_connections: 100").replace("THREADS", threads or "threads: 1")
        self.runs_yaml = path / "runs.yaml"
        self.runs_yaml.write_text(text)
        self.study = path / "data/raw/study=counted"
        self.study.mkdir(parents=True)
        runs = unfold(read_runs_file(self.runs_yaml), "counted", "test")
        self.runs = [run for run in runs if run.mode == "instructions"]
        first = self.runs[0]
        card = StudyCard(
            study="counted",
            question=first.question,
            workload=first.workload,
            base=first.base,
            dbms=(first.dbms,),
            rounds=1,
            parameters={},
        )
        write_study_card(self.study, card)

    def count(self, number: int = 1) -> rqps.store.Study:
        """One run as its notebook does it."""
        run = self.runs[number - 1].run
        folder = self.study / f"run={run}"
        job = open_run(str(self.runs_yaml), "counted", run, str(folder))
        serving = start(job)
        try:
            measured = measure(job, serving)
        finally:
            stop(job, serving)
        finish(job, serving, measured)
        return rqps.load_run(folder)


@pytest.fixture
def short(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("c")
    (folder / "scratch").mkdir()
    monkeypatch.setenv("RQPS_SCRATCH", str(folder / "scratch"))
    before = os.sched_getaffinity(0)
    yield folder
    os.sched_setaffinity(0, before)  # a run's own process keeps off the CPUs of its server
    shutil.rmtree(folder, ignore_errors=True)


def totals(study: rqps.store.Study) -> dict[str, int]:
    sums = study.instructions.group_by("step").agg(pl.col("instructions").sum()).collect()
    return dict(sums.select("step", "instructions").rows())


def test_every_instruction_of_every_statement_is_in_a_whole_stack(short: Path) -> None:
    place = Place(short, "my8033", "point-query, update-index, read-only, scan")
    result = place.count()
    steps = {row["step"]: row for row in result.steps.to_dicts()}
    assert {name: row["transactions"] for name, row in steps.items()} == {
        "point-query": OPERATIONS,
        "update-index": OPERATIONS,
        "read-only": 5,  # of 16 statements and 396 rows
        "scan": 5,  # of 2000 rows
    }
    assert steps["scan"]["operations"] == 5 * 2000
    counted = result.instructions.collect()
    assert counted["frames"].list.first().map_elements(is_counted, return_dtype=pl.Boolean).all()
    assert (counted["frames"].list.len() == counted["modules"].list.len()).all()
    assert counted["instructions"].min() > 0
    # Statements that the client sent are calls of the function that counting begins with, exactly.
    roots = counted.filter(pl.col("frames").list.len() == 1)
    assert dict(roots.select("step", "calls").rows()) == {
        "point-query": OPERATIONS,
        "update-index": OPERATIONS,
        "read-only": 5 * 16,
        "scan": 5,
    }
    called = counted.filter(pl.col("frames").list.len() > 1)
    assert called["calls"].null_count() == 0
    of_innodb = counted.filter(pl.col("frames").list.last().str.starts_with("row_search_mvcc"), step="point-query")
    assert of_innodb["calls"].to_list() == [OPERATIONS]
    assert result.runs["mode"].to_list() == ["instructions"]
    assert set(result.conditions.filter(name="valgrind")["kind"]) == {"tool"}
    assert not counted["frames"].list.contains("[unknown]").any()
    assert result.warnings.filter(pl.col("kind").is_in(["nothing done", "instructions"])).is_empty()
    assert not list((short / "scratch").iterdir())


@pytest.mark.parametrize("build", ["my5534", "my5614", "my5624", "my97"])
def test_each_release_can_be_counted(build: str, short: Path) -> None:
    result = Place(short, build, "point-query, insert").count()
    roots = result.instructions.filter(pl.col("frames").list.len() == 1).collect()
    assert dict(roots.select("step", "calls").rows()) == {"point-query": OPERATIONS, "insert": OPERATIONS}
    for instructions in totals(result).values():
        assert 10_000 < instructions / OPERATIONS < 400_000


def test_a_second_start_counts_the_same(short: Path) -> None:
    """The same statements on another start: within one in a hundred, on any machine, however busy."""
    place = Place(short, "my5624", "point-query", threads="threads: 2")
    place.runs[1] = type(place.runs[1])(**{**vars(place.runs[1]), "round": 1})
    first = totals(place.count(1))["point-query"]
    again = totals(place.count(2))["point-query"]
    assert again == pytest.approx(first, rel=0.01)
