"""Counting instructions on real servers: each call of a statement, the same number again, nothing left running."""

import os
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

import polars as pl
import pytest
import rqps
from live_study import Place as StudyPlace
from live_study import ended
from rqps.engines import Counted
from rqps.engines.mysql import engine
from rqps.engines.mysql.engine import PreparedServer
from rqps.errors import RqpsError
from rqps.measure.job import Job, make_ready, read_job
from rqps.measure.run import measure
from rqps.profile.footprint import by_function, density_of, footprint, split_of
from rqps.store import StudyCard, write_study_card
from rqps.study import read_runs_file, unfold
from rqps.workloads import PARAMETERS
from test_live_study import RUNS as STUDY_RUNS

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("undrawn")]

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
INSERTS = RUNS.replace("sysbench", "insert-benchmark").replace(
    "table_rows: 2000, index_first: true, counted_operations: 100, THREADS", "load_rows: 3000, write_rows: 1000"
)


@pytest.fixture
def short(short: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A run's own process keeps off the CPUs of its server, for as long as the test."""
    (short / "scratch").mkdir()
    monkeypatch.setenv("RQPS_SCRATCH", str(short / "scratch"))
    before = os.sched_getaffinity(0)
    yield short
    os.sched_setaffinity(0, before)


class Place:
    """A folder with a runs.yaml of one dbms whose instructions are counted."""

    def __init__(
        self, path: Path, build: str, steps: str, config: str = "", threads: str = "", text: str = RUNS
    ) -> None:
        self.path = path
        text = text.replace("BUILD", build).replace("STEPS", steps)
        text = text.replace("CONFIG", config or "max_connections: 100").replace("THREADS", threads or "threads: 1")
        self.runs_yaml = path / "runs.yaml"
        self.runs_yaml.write_text(text)
        self.study = path / "data/raw/study=counted"
        self.study.mkdir(parents=True)
        runs = unfold(read_runs_file(self.runs_yaml, PARAMETERS), "counted", "test")
        self.runs = [run for run in runs if run.mode == "instructions"]
        first = self.runs[0]
        facts = {name: getattr(first, name) for name in ("study", "question", "workload", "base")}
        write_study_card(self.study, StudyCard(**facts, dbms=(first.dbms,), rounds=1, parameters={}))

    def count(self, again: str = "") -> rqps.store.Study:
        """The first run as its notebook does it."""
        job = self.job(again)
        measure(job)
        return rqps.load_run(job.folder)

    def job(self, again: str = "") -> Job:
        run = self.runs[0]
        job = make_ready([run], print)[run.dbms].job(run, self.study / f"run={run.run}{again}", None)
        return read_job(job.write())


def each_statement_is_a_call(counted: pl.DataFrame, sent: dict[str, int]) -> None:
    """Of the function that counting begins with. A busy machine may be late with a command that nobody waits for the
    answer of, from before the step."""
    roots = counted.filter(pl.col("frames").list.len() == 1)
    late = {step: calls - sent[step] for step, calls in roots.select("step", "calls").rows()}
    assert set(late) == set(sent)
    assert set(late.values()) <= {0, 1}


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
    assert all(fnmatchcase(stack[0], engine.counted.function) for stack in counted["frames"])
    assert (counted["frames"].list.len() == counted["modules"].list.len()).all()
    assert (counted["instructions"] > 0).all()
    each_statement_is_a_call(
        counted, {"point-query": OPERATIONS, "update-index": OPERATIONS, "read-only": 5 * 16, "scan": 5}
    )
    called = counted.filter(pl.col("frames").list.len() > 1)
    assert called["calls"].null_count() == 0
    of_innodb = counted.filter(pl.col("frames").list.last().str.starts_with("row_search_mvcc"), step="point-query")
    assert of_innodb["calls"].to_list() == [OPERATIONS]
    assert result.runs["mode"].to_list() == ["instructions"]
    assert set(result.conditions.filter(name="valgrind")["kind"]) == {"tool"}
    assert not counted["frames"].list.contains("[unknown]").any()
    assert result.warnings.filter(pl.col("kind").is_in(["nothing done", "instructions"])).is_empty()
    assert not list((short / "scratch").iterdir())


def counted_statements(place: Place, again: str = "") -> dict[str, int]:
    """The instructions of each step, of a hundred point queries and as many inserts."""
    result = place.count(again)
    each_statement_is_a_call(result.instructions.collect(), {"point-query": OPERATIONS, "insert": OPERATIONS})
    for instructions in (outcome := totals(result)).values():
        assert 10_000 < instructions / OPERATIONS < 400_000
    return outcome


@pytest.mark.parametrize("build", ["my5534", "my5614", "my97"])
def test_each_release_can_be_counted(build: str, short: Path) -> None:
    counted_statements(Place(short, build, "point-query, insert"))


def test_a_second_start_counts_the_same(short: Path) -> None:
    """The same statements on another start: within one in a hundred, on any machine, however busy."""
    place = Place(short, "my5624", "point-query, insert", threads="threads: 2")
    first, second = (counted_statements(place, again)["point-query"] for again in ("", "-again"))
    assert second == pytest.approx(first, rel=0.01)


def test_what_does_not_start_under_callgrind_shows_both_logs(short: Path) -> None:
    place = Place(short, "my5624", "point-query")
    job = place.job()
    assert isinstance(job.prepared, PreparedServer)
    translated = replace(job.prepared.translated, arguments=("--no-such-option=1",))
    broken = job.model_copy(update={"prepared": replace(job.prepared, translated=translated)})
    with pytest.raises(RqpsError, match=r"(?s)did not start.*under callgrind, which said:.*no-such-option"):
        measure(broken)
    assert not list((short / "scratch").iterdir())


def test_statements_that_callgrind_does_not_see(short: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one that was stripped of its symbols."""
    monkeypatch.setattr(engine, "counted", Counted("no_such_function(*)", "connection"))
    with pytest.raises(
        RqpsError, match="point-query: not one instruction was counted: callgrind saw no call of no_such_function"
    ):
        Place(short, "my5624", "point-query").count()
    assert not list((short / "scratch").iterdir())


def test_writes_of_the_insert_benchmark_are_counted(short: Path) -> None:
    place = Place(short, "my5624", "l.i0, l.x, l.i1", text=INSERTS)
    result = place.count()
    assert dict(result.steps.select("step", "operations").rows()) == {"l.i0": 3000, "l.x": 3100, "l.i1": 800}
    each_statement_is_a_call(result.instructions.collect(), {"l.i0": 30, "l.x": 2, "l.i1": 32})


def test_a_step_with_a_rate_is_not_counted(short: Path) -> None:
    with pytest.raises(RqpsError, match=r"without a fixed number of operations: qr100"):
        Place(short, "my8033", "l.i0, l.x, qr100", text=INSERTS).job()


@pytest.fixture(scope="module")
def study_place(tmp_path_factory: pytest.TempPathFactory) -> StudyPlace:
    """A study whose step of counting would take long; what comes before it is measured once."""
    runs = STUDY_RUNS.replace("rounds: 1", "rounds: 1\n    instructions_rounds: 1").replace(", my5624.ps0]", "]")
    runs = runs.replace("steps: [point-query, update-index]", "steps: [point-query], counted_operations: 1000000")
    return StudyPlace(tmp_path_factory.mktemp("counting"), runs.replace("seconds: 2", "seconds: 1"))


@pytest.fixture
def counting(study_place: StudyPlace) -> Iterator["subprocess.Popen[str]"]:
    """`rqps run`, in the middle of that step."""
    process, place = study_place.start(), study_place
    try:
        place.wait("counting", lambda: list(place.study.glob(".run=i01*.partial/logs/valgrind.log")), process)
        place.wait("the step", lambda: place.doing().startswith("point-query"), process)
        place.wait("its load", lambda: "--counted-transactions=1000000" in commands(), process)
        yield process
    finally:
        process.kill()
        process.wait()


def commands() -> set[str]:
    """All words of all command lines of this machine."""
    text = subprocess.run(["ps", "-eo", "args", "-ww"], capture_output=True, text=True, check=True).stdout
    return set(text.split())


def test_ctrl_c_leaves_no_process_and_no_half_run(study_place: StudyPlace, counting: "subprocess.Popen[str]") -> None:
    counting.send_signal(signal.SIGINT)
    ended(counting, 130)
    assert study_place.servers() == []
    assert sorted(path.name[:4] for path in study_place.study.iterdir()) == ["run=", "stud"]


def test_a_killed_kernel_takes_its_server_with_it(study_place: StudyPlace, counting: "subprocess.Popen[str]") -> None:
    (pids,) = study_place.study.glob(".run=i01*.partial/pids.txt")
    os.kill(int(pids.read_text().split()[0]), signal.SIGKILL)
    ended(counting, 1)
    assert study_place.servers() == []
    (failed,) = study_place.study.glob("failed/run=i01*")
    assert (failed / "logs/valgrind.log").exists()


def test_cache_misses_stand_beside_the_instructions(tmp_path: Path) -> None:
    text = RUNS.replace("dbms: [BUILD.base]", "caches: true\n    dbms: [my5614.base, my5624.base]")
    text = text.replace("BUILD", "my5614").replace("STEPS", "point-query")
    text = text.replace("CONFIG", "table_definition_cache: 400")
    text = text.replace("  counted:", "  small:").replace("    rounds: 1", "    rounds: 0").replace(", THREADS", "")
    place = StudyPlace(tmp_path, text)
    place.run()
    study = rqps.load("small", tmp_path / "data", mode="instructions")
    misses = study.cache_misses.collect()
    simulated = misses.group_by("round").agg(pl.col("last_level_kb").unique())
    sizes = dict(simulated.explode("last_level_kb").rows())
    assert sizes[1] == 4096
    assert sizes[2] >= 4096
    table = footprint(study)
    assert set(table["dbms"]) == {"my5624.base"}
    value = dict(table.filter(pl.col("n") > 0).select("event", "me_value").rows())
    assert value["instructions"] > 10 * value["misses of the instruction cache"] > 0
    assert value["misses of the data cache"] > value["misses of 4 MB"] > 0
    (split,) = split_of(study).to_dicts()
    assert (split["work"], split["cpu"]) == (dict(table.select("event", "ratio").rows())["instructions"], None)
    density = density_of(study)
    assert set(density["event"]) == value.keys() - {"instructions"}
    per_1000 = {event: 1000 * value[event] / value["instructions"] for event in density["event"]}
    assert dict(density.select("event", "me_value").rows()) == pytest.approx(per_1000)
    functions = by_function(study).group_by("event").agg(pl.col("me_value").sum())
    assert dict(functions.rows()) == pytest.approx(value)
