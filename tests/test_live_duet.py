"""Duets on real servers: slices, cycles and tables of each side, and the faults of one of them."""

import errno
import itertools
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from child import Child, is_running, running_from, stopping, until, waiting_threads
from live_load import ROWS, asked
from live_server import run_of, server_of
from live_study import Place, ended
from rqps.engines.cache import copy_folder
from rqps.engines.mysql import instance
from rqps.engines.mysql.instance import Server, query
from rqps.errors import RqpsError
from rqps.measure import placement, serve
from rqps.measure.counters import thread_ids
from rqps.measure.job import Job, make_ready
from rqps.measure.run import measure
from rqps.measure.serve import serving
from rqps.schedule.run_folder import begin
from rqps.schedule.state import StudyFolder
from rqps.store.manifest import read_manifest, read_study_card
from rqps.store.schemas import MODE_TABLES, TABLES, WORKLOAD_TABLES
from rqps.study import read_runs_file, unfold
from rqps.workloads import PARAMETERS, Answer
from rqps.workloads.load_generator import Options, sysbench_call
from rqps.workloads.sysbench import generator
from rqps.workloads.sysbench.workload import Sysbench

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("undrawn")]

BUILDS = ("my5624", "my8033")
RUNS = """
builds:
  my5624: {mysql: "5.6.24"}
  my8033: {mysql: "8.0.33"}
configs:
  base: {innodb_buffer_pool_size: 64M, innodb_redo_log_capacity: 32M, log_bin: OFF}
  events: {extends: base, perf_schema: all-enabled}
  silent: {extends: base, perf_schema: off}
  sharing: {extends: base, innodb_log_group_home_dir: LOGS}
  shared: {extends: sharing, performance_schema: OFF}
studies:
  small:
    question: Who is faster?
    workload: sysbench
    dbms: [my5624.base, my8033.base]
    base: my5624.base
    rounds: 1
    seed: 1
    parameters: {steps: [point-query, update-index], table_rows: 2000, seconds: 1, warmup_seconds: 1}
"""
OLD = RUNS.replace("my8033.base", "my5624.silent").replace("bin: OFF", "bin: OFF, table_definition_cache: 400")
"""Two servers that start with little CPU time."""
IDLE_TIMES = Path("/sys/devices/system/cpu/cpu0/cpuidle/state0/time")
"""A file that exists where the kernel counts idle time to the microsecond; else `cycles` has no rows."""


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Server]]:
    with ExitStack() as running:
        yield [
            running.enter_context(
                server_of(run_of(f"{build}.common", asked("insert")), tmp_path_factory.mktemp(build))
            )
            for build in BUILDS
        ]


def done(servers: list[Server], step: str, folder: Path, **parameters: Any) -> tuple[list[Answer], pl.DataFrame]:
    """The answers of a step, one for each server, and the slices of all."""
    workload, wanted = Sysbench(), asked(*parameters.pop("steps", (step,)), **parameters)
    with workload.generating(servers, step, wanted, seed=1, cpus=(), log=folder / f"{step}.log") as load:
        load.wait_for_all()
    answers = list(workload.answers(step, wanted, load))
    slices = [
        pl.DataFrame(answer.more["slices"]).with_columns(side=pl.lit(side)) for side, answer in enumerate(answers)
    ]
    return answers, pl.concat(slices).sort("slice", "side")


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("step", ["point-query", "update-index", "read-write_range=10", "scan"])
def test_servers_take_turns_there_and_back(step: str, threads: int, servers: list[Server], tmp_path: Path) -> None:
    answers, slices = done(servers, step, tmp_path, threads=threads, warmup_seconds=int(threads > 1), slice_ms=10)
    cycles = slices.group_by("cycle", maintain_order=True).agg("side", "slice")
    assert cycles["cycle"].to_list() == list(range(cycles.height))
    assert all(sides == [0, 1, 1, 0] for sides in cycles["side"].to_list()), "there and back"
    assert slices["slice"].to_list() == list(range(slices.height))
    one = ROWS if step == "scan" else 1
    assert min(slices["operations"].to_list()) >= threads * one, "every client did something in every slice"
    for side, answer in enumerate(answers):
        own = slices.filter(side=side)
        assert own["operations"].sum() == answer.columns["operations"]
        assert answer.columns["elapsed_s"] == pytest.approx(sum(own["busy_us"]) / 1e6 / threads, rel=1e-3)
        assert sum(row["operations"] for row in answer.intervals if row["second"] >= 0) == own["operations"].sum()


@pytest.mark.parametrize("threads", [1, 4])
def test_of_many_servers_none_follows_itself(threads: int, servers: list[Server], tmp_path: Path) -> None:
    _, slices = done([*servers, *servers], "point-query", tmp_path, threads=threads, slice_ms=5)
    turns = slices["side"].to_list()
    assert all(side != following for side, following in itertools.pairwise(turns))
    orders = slices.group_by("cycle").agg("side")["side"].to_list()
    assert all(sorted(order) == [0, 0, 1, 1, 2, 2, 3, 3] for order in orders)
    assert len({tuple(order) for order in orders}) > 1, "drawn anew for each cycle"


@pytest.mark.parametrize("busy", [False, True])
def test_the_cycles_say_how_much_of_the_cpus_others_had(busy: bool, servers: list[Server], tmp_path: Path) -> None:
    spin = [["taskset", "-c", str(cpu), sys.executable, "-c", "while True: pass"] for cpu in os.sched_getaffinity(0)]
    spinning = [subprocess.Popen(argv) for argv in spin * busy]
    try:
        answers, slices = done(servers, "update-index", tmp_path)
    finally:
        for process in spinning:
            process.kill()
            process.wait()
    of_first, of_second = (pl.DataFrame(answer.more["cycles"]) for answer in answers)
    assert of_first.equals(of_second)
    assert of_first.is_empty() == (not IDLE_TIMES.exists())
    if of_first.is_empty():
        return
    assert of_first["cycle"].to_list() == slices["cycle"].unique().sort().to_list()
    cpus, used_us = len(spin), slices.select(pl.col("server_cpu_us") + pl.col("client_cpu_us")).sum().item()
    cpu_us, outside_us = sum(of_first["cpu_us"]), sum(of_first["outside_us"])
    assert cpu_us > sum(slices["busy_us"]) * cpus
    assert cpu_us - outside_us > 0.95 * used_us
    assert min(of_first["outside_us"]) >= 0
    if busy:
        assert outside_us > 0.3 * cpu_us


def cpus_of_their_own(pid: int) -> Counter[int]:
    """How many threads of a process have a CPU and no other, by CPU."""
    return Counter(cpu for cpu, *others in map(os.sched_getaffinity, thread_ids(pid)) if not others)


def test_clients_share_the_cpus_each_with_the_thread_that_serves_it(servers: list[Server], tmp_path: Path) -> None:
    cpus = sorted(os.sched_getaffinity(0))[:2]
    wanted, pids = asked("point-query", threads=3), [server.pid for server in servers]
    for pid in pids:
        placement.apply(pid, cpus)
    how: dict[str, Any] = {"seed": 1, "cpus": tuple(cpus), "log": tmp_path / "log", "by_connection": True}
    with Sysbench().generating(servers, "point-query", wanted, **how) as load:
        load.wait_for_begin()
        placed = [cpus_of_their_own(pid) for pid in (*pids, load.pid)]
        load.wait_for_end()
        load.wait_until_gone()
    assert placed == [Counter([*cpus, cpus[0]])] * 3, "of servers and load generator"


def test_a_connection_that_no_thread_of_the_server_serves_can_not_be_placed(
    servers: list[Server], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def of_another(script: Path, of: Sequence[Server], options: Options) -> tuple[list[str], dict[str, str]]:
        return sysbench_call(script, of, {**options, "servers": f"{of[0].socket}={idle.pid}"})

    monkeypatch.setattr(f"{generator.__name__}.sysbench_call", of_another)
    with Child(waiting_threads(4)) as idle:
        how: dict[str, Any] = {"seed": 1, "cpus": (0,), "log": tmp_path / "log", "by_connection": True}
        with (
            pytest.raises(RqpsError, match=f"process {idle.pid}: no thread of its own serves this connection"),
            Sysbench().generating(servers[:1], "point-query", asked("point-query"), **how) as load,
        ):
            load.wait_for_begin()


def test_a_statement_longer_than_the_slice_is_done_once_in_each(servers: list[Server], tmp_path: Path) -> None:
    _, slices = done(servers, "scan", tmp_path, slice_ms=1)
    assert set(slices["operations"]) == {ROWS}
    assert all(sides == [0, 1, 1, 0] for sides in slices.group_by("cycle").agg("side")["side"].to_list())


def test_each_server_is_flushed_and_warmed_up_before_the_step(servers: list[Server], tmp_path: Path) -> None:
    done(servers, "update-index", tmp_path)
    before = [scans(server) for server in servers]
    done(servers, "scan", tmp_path, steps=("update-index", "flush", "scan.warm", "scan"))
    warming = (tmp_path / "scan.before1.log").read_text().splitlines()
    for side, server in enumerate(servers):
        assert {line.split()[2] for line in warming if line.startswith("slice ")} == {"0", "1"}
        both_tables = sum('"client":2' in line and f'"kind":"{side}"' in line for line in warming)
        assert both_tables, "a client for each table"
        assert scans(server) > before[side] + 2
        connection = server.connect()
        status = dict(query(connection, "SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_pages_%'"))
        assert int(status["Innodb_buffer_pool_pages_dirty"]) <= 0.01 * int(status["Innodb_buffer_pool_pages_total"])


def scans(server: Server) -> int:
    return int(query(server.connect(), "SHOW GLOBAL STATUS LIKE 'Select_scan'")[0][1])


def test_a_server_that_hangs_in_a_slice_is_named(
    servers: list[Server], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generator.Generator, "slice_patience_s", 5.0)
    workload, wanted, hanging = Sysbench(), asked("point-query"), servers[1].pid
    with workload.generating(servers, "point-query", wanted, seed=1, cpus=(), log=tmp_path / "log") as load:
        load.wait_for_begin()
        failure = r"point-query: sysbench did not get .* within 5 s on my8033\n"
        with stopping(hanging), pytest.raises(RqpsError, match=failure) as caught:
            load.wait_for_end()
    assert "process list" in caught.value.fix


def test_a_server_that_hangs_between_slices_is_named_with_what_it_was_asked(
    servers: list[Server], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(instance, "ANSWER_PATIENCE_S", 4.0)
    hanging, wanted = servers[1], asked("point-query")
    connection = hanging.connect()
    with stopping(hanging.pid):
        with pytest.raises(RqpsError, match=r"^my8033: no answer within 4 s to SELECT VERSION\(\)") as caught:
            query(connection, "SELECT VERSION()")
        assert "process list" in caught.value.fix
        with (
            pytest.raises(RqpsError, match=r"^my8033: no answer within 4 s to a new connection"),
            Sysbench().generating(
                servers,
                "point-query",
                asked("update-index", "flush", "point-query"),
                seed=1,
                cpus=(),
                log=tmp_path / "log",
            ),
        ):
            pass
    connection.close()
    assert Sysbench().check(hanging, "point-query", wanted).plans


def test_an_error_of_one_server_is_told_with_its_name(servers: list[Server], tmp_path: Path) -> None:
    workload, wanted = Sysbench(), asked("point-query", threads=4, seconds=20)
    connection = servers[1].connect("rqps")
    with workload.generating(servers, "point-query", wanted, seed=1, cpus=(), log=tmp_path / "log") as load:
        load.wait_for_begin()
        query(connection, "RENAME TABLE sbtest1 TO elsewhere")
        try:
            with pytest.raises(
                RqpsError,
                match=r"(?s)(failed in a thread|ended with code 1) on my8033: .*'rqps.sbtest1' doesn't exist",
            ):
                load.wait_for_end()
        finally:
            query(connection, "RENAME TABLE elsewhere TO sbtest1")


def job_of(folder: Path, runs_yaml: str) -> Job:
    """The first duet of a study, ready to be measured."""
    file = folder / "runs.yaml"
    file.write_text(runs_yaml)
    run, *_ = unfold(read_runs_file(file, PARAMETERS), "small", "test")
    ready = make_ready([run], print)
    partial = begin(StudyFolder(folder / "study"), run)
    jobs = [ready[member.dbms].job(member, partial, None, len(run.members)) for member in run.members]
    job = jobs[0].model_copy(update={"beside": tuple(jobs[1:])})
    job.write()
    return job


@pytest.fixture
def any_cpu() -> Iterator[None]:
    """Lets this process on all its CPUs again, which keeps off those that are measured."""
    cpus = os.sched_getaffinity(0)
    yield
    os.sched_setaffinity(0, cpus)


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.usefixtures("any_cpu")
def test_tables_of_each_server_and_its_events(threads: int, tmp_path: Path) -> None:
    runs = RUNS.replace("[my5624.base, my8033.base]", "[my8033.silent, my8033.events]")
    runs = runs.replace("base: my5624.base", "base: my8033.silent").replace("{steps", f"{{threads: {threads}, steps")
    job = job_of(tmp_path, runs)
    measure(job)
    results = {member.run.dbms: member.tables for member in job.members}
    for folder in results.values():
        for name, schema in TABLES.items():
            if name in MODE_TABLES or name in WORKLOAD_TABLES:
                continue
            frame = pl.read_parquet(folder / f"{name}.parquet")
            assert frame.schema == schema
            assert frame.is_empty() == (name == "cycles" and not IDLE_TIMES.exists())
        steps, slices = (pl.read_parquet(folder / f"{name}.parquet") for name in ("steps", "slices"))
        summed = slices.group_by("step", maintain_order=True).agg(
            pl.sum("operations", "server_cpu_us", "client_cpu_us")
        )
        assert steps["step"].to_list() == ["point-query", "update-index"]
        assert summed["operations"].to_list() == steps["operations"].to_list()
        for of_slices, of_step in zip(summed["server_cpu_us"] / 1e6, steps["server_cpu_s"], strict=True):
            assert 0 < of_slices <= of_step
        assert steps["host_cpu_user_s"].is_null().all(), "the host worked for both"
    silent, events = (
        pl.read_parquet(results[f"my8033.{config}"] / "status.parquet")
        .filter(name="events")
        .with_columns(pl.col("value").cast(pl.Int64))
        for config in ("silent", "events")
    )
    assert not any(silent["value"])
    statements = events.filter(object="statement/com/Execute").sort("step", "moment", descending=[False, True])
    steps = pl.read_parquet(results["my8033.events"] / "steps.parquet")
    for step, transactions in steps.select("step", "transactions").iter_rows():
        *before, after = statements.filter(step=step)["value"].to_list()
        assert after - sum(before) >= transactions, "its own, and those of its warm-up"


def test_a_table_of_one_server_that_is_not_as_asked_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare = Sysbench.prepare

    def spoilt(self: Sysbench, server: Server, parameters: Any) -> None:
        if server.name == "my8033.base":
            query(server.connect(), "DELETE FROM rqps.sbtest1 WHERE id = 7")
        prepare(self, server, parameters)

    monkeypatch.setattr(Sysbench, "prepare", spoilt)
    job = job_of(tmp_path, RUNS)
    with (
        pytest.raises(RqpsError, match=r"^my8033\.base: rqps\.sbtest1: rows: asked for 2000, found 1999"),
        serving(job),
    ):
        pass
    nothing_is_left(job)


def test_servers_that_want_to_lock_the_same_file_are_refused_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    runs = RUNS.replace("[my5624.base, my8033.base]", "[my5624.sharing, my5624.shared]").replace(
        "LOGS", str(tmp_path / "logs")
    )
    job = job_of(tmp_path, runs.replace("base: my5624.base", "base: my5624.sharing"))
    words = r"(?s)^my5624\.shar\w+ can't run beside the other servers of its duet: .*Unable to lock"
    with pytest.raises(RqpsError, match=words) as caught, serving(job):
        pass
    assert "method: rounds" in caught.value.fix
    nothing_is_left(job)


def test_a_disk_with_room_for_one_server_only_fails_the_duet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def copied(source: Path, target: Path, place: str) -> None:
        if source == job.beside[0].data:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(target))
        copy_folder(source, target, place)

    job = job_of(tmp_path, RUNS)
    monkeypatch.setattr(serve, "copy_folder", copied)
    with pytest.raises(OSError, match="No space left on device"), serving(job):
        pass
    nothing_is_left(job)


def nothing_is_left(job: Job) -> None:
    """No process and no data of the servers of a duet that failed."""
    keepers = [int(pid) for pid in (job.folder / "pids.txt").read_text().split()]
    assert keepers
    assert not any(map(is_running, keepers))
    assert not running_from(job.folder)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path, OLD)


def mysqlds(place: Place) -> list[int]:
    return [pid for pid in place.servers() if "mysqld" in (Path(f"/proc/{pid}") / "exe").readlink().name]


def in_a_step(place: Place) -> Any:
    """`rqps run`, with both servers up and a step under way."""
    process = place.start()
    place.wait("the first step", lambda: place.doing().startswith("point-query"), process)
    place.wait("both servers", lambda: len(mysqlds(place)) == 2, process)
    return process


def test_a_server_killed_in_a_slice_fails_the_run_with_its_name_and_the_next_call_does_it_again(place: Place) -> None:
    process = in_a_step(place)
    until(lambda: list(place.study.glob(".run=*.partial/logs/*point-query*")) or "1/2" in place.doing())
    os.kill(mysqlds(place)[0], signal.SIGKILL)
    output = ended(process, 1)
    assert re.search(r"the server my5624\.\w+ ended in the middle of it, by SIGKILL", output)
    assert re.search(r"failed at \S+ [12]/2: ", output)
    assert place.servers() == []
    (failed,) = place.study.glob("failed/run=*")
    assert sorted(path.parent.parent.name for path in failed.rglob("mysqld.err")) == ["my5624.base", "my5624.silent"]
    assert not list(place.study.glob("run=*"))
    place.run()
    (complete,) = place.study.glob("run=*")
    assert sorted(path.parent.name for path in complete.rglob("manifest.json")) == ["my5624.base", "my5624.silent"]


def test_a_budget_is_spent_on_rounds_and_health_and_the_next_run_goes_on(place: Place) -> None:
    place.ask(OLD.replace("rounds: 1", "rounds: 2\n    budget: 4m").replace("warmup_seconds: 1", "warmup_seconds: 0"))
    process = place.start()
    place.wait("the second round", lambda: list(place.study.glob("run=r01@*/*/manifest.json")), process)
    place.wait("its first step", lambda: place.doing().startswith("point-query"), process)
    process.send_signal(signal.SIGINT)
    output = ended(process, 130)
    assert re.search(r"small: 4 min 0 s are enough for about \d+ rounds? of 2 dbms in turns, ", output)
    assert "stopped by SIGINT" in output
    assert place.servers() == []
    first = {path: path.stat().st_mtime_ns for path in place.study.glob("run=*/*/manifest.json")}
    assert {path.parent.name for path in first} == {"my5624.base", "my5624.silent"}
    output = ended(place.start("--budget", "3m"), 0)
    assert re.search(r"small: 3 min 0 s are enough for about \d+ more rounds? of 2 dbms in turns, ", output)
    assert re.search(r"small: after 2 rounds, \d+ of \d+ comparisons are decided", output)
    assert all(path.stat().st_mtime_ns == at for path, at in first.items())
    rounds = sorted(path.name.partition("@")[0].removeprefix("run=") for path in place.study.glob("run=*"))
    assert rounds == ["r01", "r02"], "a budget so short is spent on what is asked"
    card = read_study_card(place.study)
    assert (card.rounds, card.budget_s) == (None, 180)
    assert card.looks >= 1


def test_a_killed_kernel_takes_all_its_servers_with_it(place: Place) -> None:
    process = in_a_step(place)
    pids = [int(pid) for file in place.study.glob(".run=*.partial/pids.txt") for pid in file.read_text().split()]
    os.kill(pids[0], signal.SIGKILL)
    assert "killed" in ended(process, 1).lower()
    assert place.servers() == []
    assert not list(place.study.glob("run=*"))


@pytest.mark.usefixtures("any_cpu")
def test_the_twin_of_the_base_is_a_server_of_its_own(tmp_path: Path) -> None:
    job = job_of(tmp_path, RUNS.replace("rounds: 1", "rounds: 4").replace("warmup_seconds: 1", "warmup_seconds: 0"))
    measure(job)
    sides = {member.run.side: read_manifest(member.tables) for member in job.members}
    assert {side: (item.dbms, item.twin) for side, item in sides.items()} == {
        "my5624.base": ("my5624.base", False),
        "my8033.base": ("my8033.base", False),
        "my5624.base.again": ("my5624.base", True),
    }
    base, twin = sides["my5624.base"], sides["my5624.base.again"]
    assert (base.identity, base.build_digest, base.options) == (twin.identity, twin.build_digest, twin.options)
    slices = {member.run.side: pl.read_parquet(member.tables / "slices.parquet") for member in job.members}
    assert all(table.filter(pl.col("operations") > 0).height == table.height > 0 for table in slices.values())
    numbers = pl.concat(table.filter(step="update-index")["slice"] for table in slices.values())
    assert numbers.sort().to_list() == list(range(numbers.len())), "each had its own turns"


@pytest.mark.usefixtures("any_cpu")
def test_point_lookups_in_turns_are_kept_with_the_generator_that_asked(tmp_path: Path) -> None:
    *above, _ = RUNS.replace("sysbench", "point-lookups").splitlines()
    asked_of = "{engines: [memory], kinds: [pk, cover-force], clients: [4], table_rows: 2000}"
    job = job_of(tmp_path, "\n".join([*above, f"    parameters: {asked_of}"]))
    measure(job)
    for member in job.members:
        assert {"sysbench", "mysqlslap"} & read_manifest(member.tables).tools.keys() == {"sysbench"}
        steps, slices = (pl.read_parquet(member.tables / f"{name}.parquet") for name in ("steps", "slices"))
        assert steps["step"].to_list() == ["memory.pk@4", "memory.cover-force@4"]
        assert steps["errors"].to_list() == [0, 0]
        assert steps["client_context_switches"].is_null().all(), "the generator worked for both"
        summed = slices.group_by("step", maintain_order=True).agg(pl.sum("operations"))
        assert summed["operations"].to_list() == steps["operations"].to_list()
