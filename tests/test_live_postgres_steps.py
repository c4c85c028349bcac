"""The sysbench microbenchmarks on real PostgreSQL servers: a duet of two releases, its tables, plans and counters."""

import os
import re
import signal
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import polars as pl
import psutil
import pytest
import rqps
from child import until
from live_study import Place, ended
from rqps.engines import Option, Start
from rqps.engines.asked import Connections
from rqps.engines.cache import copy_folder
from rqps.engines.postgres import dialect
from rqps.engines.postgres.engine import MeasuredServer, prepare
from rqps.errors import RqpsError
from rqps.measure.counters import read_processes
from rqps.workloads.sysbench.parameters import SysbenchParameters
from rqps.workloads.sysbench.steps import expand, find, is_measured, listed
from rqps.workloads.sysbench.workload import Sysbench, check_plan, flush
from test_live_postgres import Dbms

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("undrawn")]
STEPS = "point-query, update-nonindex, write-only, insert, read-only"
RUNS = f"""
builds:
  pg14: {{postgres: "14.0"}}
  pg18: {{postgres: "18.6"}}
configs:
  quick: {{shared_buffers: 64MB, jit: false, fsync: false, max_connections: 20}}
studies:
  small:
    question: Does it work?
    workload: sysbench
    dbms: [pg14.quick, pg18.quick]
    base: pg14.quick
    rounds: 1
    parameters: {{steps: [{STEPS}], table_rows: 20000, threads: THREADS, seconds: 1, warmup_seconds: 1}}
"""
ROWS = SysbenchParameters(table_rows=100_000)


@pytest.mark.parametrize("threads", [1, 2])
def test_two_releases_take_turns(threads: int, tmp_path: Path) -> None:
    runs = RUNS.replace("warmup_seconds: 1", "warmup_seconds: 0").replace("THREADS", str(threads))
    Place(tmp_path, runs).run()
    study = rqps.load("small", tmp_path / "data")
    steps = study.steps
    assert set(study.runs["version"]) == {"14.0", "18.6"}
    assert set(study.runs["engine"]) == {"postgres"}
    assert set(steps["step"]) == set(STEPS.split(", "))
    assert (steps["operations"] > 0).all()
    switches = steps["server_context_switches"].drop_nulls()  # none of a step in which a process of the server ended
    assert len(switches)
    assert (switches > 0).all()
    used = study.slices.collect().group_by("run", "step").agg(pl.col("server_cpu_us").sum() / 1e6)
    both = steps.join(used, on=["run", "step"])
    for row in both.iter_rows(named=True):  # the rest is what the background and the other slices cost
        assert 0.3 * row["server_cpu_s"] < row["server_cpu_us"] <= 1.02 * row["server_cpu_s"], row
    status = study.status.filter(step="insert", name="database.xact_commit").collect()
    for side in status.partition_by("run"):
        before, after = (int(side.filter(moment=moment)["value"][0]) for moment in ("before", "after"))
        assert after > before
    plans = study.plans.collect()
    assert set(plans["key"]) == {"PRIMARY"}


def backends(command: int) -> list[int]:
    """The processes of a load's connections to its first server, below a command that measures."""
    for child in psutil.Process(command).children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            words = " ".join(child.cmdline())
            if named := re.search(r"sysbench.* --servers=\S+?=(\d+)", words):
                of_server = psutil.Process(int(named[1])).children()
                return [one.pid for one in of_server if "postgres: rqps rqps [local]" in " ".join(one.cmdline())]
    return []


def test_a_backend_that_is_killed_in_a_slice_fails_the_run_which_says_so(tmp_path: Path) -> None:
    place = Place(tmp_path, RUNS.replace("THREADS", "1").replace("seconds: 1,", "seconds: 60,", 1))
    process = place.start()
    place.wait("slices", lambda: "point-query" in place.doing() and backends(process.pid), process)
    os.kill(backends(process.pid)[0], signal.SIGKILL)
    words = ended(process, 1)
    assert re.search(r"point-query: a process of the server pg1[48]\.quick died, and the server restarted all", words)
    assert not list(place.study.glob("run=*"))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MeasuredServer]:
    folder = tmp_path_factory.mktemp("s")
    asked = Dbms("18.6", {"shared_buffers": Option("256MB"), "fsync": Option(False)})
    ready, load = prepare(asked, lambda _: None), Sysbench()
    data = ready.loaded(load.data_name(ROWS), lambda server: load.load(server, ROWS), lambda _: None)
    copy_folder(data, folder / "data")
    with closing(ready.open(folder / "data", Start(folder / "log"))) as server:
        load.prepare(server, ROWS)
        yield server


@pytest.mark.parametrize("step", [name for name in listed() if ".warm" not in name and name not in ("flush", "all")])
def test_each_step_has_the_plan_that_it_is_named_for(step: str, server: MeasuredServer) -> None:
    if step.startswith("published"):
        return
    with closing(server.connect()) as connection:
        plans = check_plan(connection, find(step))
    assert plans or step.startswith("insert")


def test_a_plan_that_is_not_the_steps_own_fails(server: MeasuredServer) -> None:
    with closing(server.connect()) as connection:
        connection.query("SET enable_indexscan = off; SET enable_bitmapscan = off; SET enable_indexonlyscan = off")
        with pytest.raises(RqpsError, match="point-query: the server's plan uses no index, not PRIMARY"):
            check_plan(connection, find("point-query"))


VISIBLE = "SELECT relallvisible = relpages FROM pg_class WHERE relname = 'sbtest1'"


@pytest.mark.parametrize("version", ["9.6.10", "14.0"])
def test_all_pages_are_visible_after_a_load_and_after_a_flush_of_quick_commits(version: str, short: Path) -> None:
    few, load = SysbenchParameters(steps=("point-query",), table_rows=3000), Sysbench()
    asked = Dbms(version, {"autovacuum": Option(False), "synchronous_commit": Option(False)})
    ready = prepare(asked, lambda _: None)
    data = ready.loaded("just-now", lambda server: load.load(server, few), lambda _: None)
    copy_folder(data, short / "data")
    with closing(ready.open(short / "data", Start(short / "log"))) as server, server.connect() as connection:
        assert connection.query(VISIBLE) == [("t",)]
        for _ in range(3):
            connection.query("UPDATE rqps.sbtest1 SET c = 'new'")
            flush(server, few)
            assert connection.query(VISIBLE) == [("t",)]


def test_a_flush_leaves_no_dead_rows_and_has_a_limit(server: MeasuredServer) -> None:
    with closing(server.connect()) as connection:
        connection.query("UPDATE rqps.sbtest1 SET k = k WHERE id <= 20000")
    flush(server, ROWS)
    with closing(server.connect()) as connection:
        ((dead,),) = connection.query("SELECT n_dead_tup FROM pg_stat_user_tables")
        assert int(str(dead)) < 100
        with pytest.raises(RqpsError, match="max_connections is 100; 99 threads and"):
            dialect.check_connections(connection, Connections("threads", 99, 2))
    with closing(dialect.settling(server, ["rqps.sbtest1"], change=("k", "id"), limit_s=0.001)) as debts:
        assert next(debts) == ({}, "vacuum and checkpoint are not done")


def test_the_text_of_an_update_is_whole(server: MeasuredServer, tmp_path: Path) -> None:
    asked: Any = SysbenchParameters(table_rows=100_000, steps=("update-nonindex",), seconds=1, warmup_seconds=0)
    with (
        closing(server.connect()) as connection,
        Sysbench().generating([server], "update-nonindex", asked, seed=1, cpus=(), log=tmp_path / "log") as load,
    ):
        load.wait_for_begin()
        load.wait_for_end()
        first = read_processes(server.pids)
        load.wait_until_gone()
        ((shortest, longest),) = connection.query(
            "SELECT min(length(c)), max(length(c)) FROM rqps.sbtest1"  # of CHAR, without the blanks at its end
        )
    assert first is not None
    assert (shortest, longest) == ("119", "119")


READ_AND_WRITTEN = """
SELECT seq_scan + coalesce(idx_scan, 0), n_tup_ins + n_tup_upd + n_tup_del
FROM pg_stat_user_tables WHERE relname = 'sbtest1'"""


@pytest.mark.parametrize("step", [name for name in expand(("all",)) if is_measured(name)])
def test_each_step_does_its_transactions(step: str, server: MeasuredServer, tmp_path: Path) -> None:
    few = SysbenchParameters(table_rows=100_000, steps=(step,), counted_operations=200)
    load_of, transactions = Sysbench(), few.transactions_of(find(step))
    how: Any = {"seed": 1, "cpus": (), "log": tmp_path / "log", "counted": True}
    with closing(server.connect()) as connection:

        def counts() -> list[int]:
            return [int(str(count)) for count in connection.query(READ_AND_WRITTEN)[0]]

        before = counts()
        with load_of.generating([server], step, few, **how) as load:
            load.wait_for_begin()
            load.wait_for_end()
            load.wait_until_gone()
        (answer,) = load_of.answers(step, few, load)
        assert answer.columns["operations"] == transactions * load.per_transaction
        assert (answer.columns["errors"], answer.columns["retries"]) == (0, 0)
        until(lambda: sum(counts()) - sum(before) >= transactions, patience_s=30)  # of a process that has ended
        if find(step).writes:
            assert counts()[1] - before[1] >= transactions


def test_instructions_of_a_connections_process_are_counted_alike_and_stacks_have_roles(tmp_path: Path) -> None:
    asked = "method: rounds\n    stacks_rounds: 1\n    instructions_rounds: 2"
    runs = RUNS.replace("rounds: 1", f"rounds: 0\n    {asked}").replace("[pg14.quick, pg18.quick]", "[pg14.quick]")
    runs = runs.replace("fsync: false", "fsync: false, autovacuum: false")  # it makes backends read catalogs again
    few = "steps: [point-query], table_rows: 2000, counted_operations: 2000"
    runs = runs.replace(" seconds: 1,", " seconds: 3,")  # time for perf to get ready on a slow machine
    place = Place(tmp_path, runs.replace(f"steps: [{STEPS}], table_rows: 20000", few).replace("THREADS", "1"))
    place.run()
    counts = []
    for folder in sorted(place.study.glob("run=i*")):
        rows = pl.read_parquet(folder / "instructions.parquet")
        assert set(rows["frames"].list.first()) == {"PostgresMain"}
        assert rows.filter(pl.col("frames").list.contains("_bt_search"))["instructions"].sum() > 0
        counts.append(rows["instructions"].sum())
    assert len(counts) == 2
    assert counts[0] == pytest.approx(counts[1], rel=0.003)  # the rounds draw other ids
    assert counts[0] > 2000 * 10_000
    (stacks,) = place.study.glob("run=s*/stacks.parquet")
    sampled = pl.read_parquet(stacks)
    assert "connection" in set(sampled["role"])
    frames = sampled.filter(role="connection")["frames"]
    assert frames.list.contains("PostgresMain").any()
    (threads,) = place.study.glob("run=s*/threads.parquet")
    assert "connection" in set(pl.read_parquet(threads)["role"])
