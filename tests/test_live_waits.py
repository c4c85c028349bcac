"""Waits of real servers: all time of the threads that serve clients is recorded, and waits have the right stack."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
import rqps
from live_study import Place
from rqps.measure.perf_events import TRACING
from rqps.pages import waiting as page
from rqps.profile import waits
from rqps.show.claims import wrong
from rqps.store.read import Study
from rqps.store.schemas import SYSTEM_CALL

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("undrawn")]
CLIENTS = 4
RUNS = """
builds:
  my8033: {mysql: "8.0.33"}
  pg14: {postgres: "14.0"}
configs:
  my: {innodb_buffer_pool_size: 64M, innodb_redo_log_capacity: 32M, log_bin: OFF, ssl: OFF}
  pg: {shared_buffers: 64MB, jit: false, autovacuum: false, max_connections: 20}
studies:
  small:
    question: Where do they wait?
    workload: own
    dbms: [DBMS]
    base: DBMS
    rounds: 1
    waits_rounds: 1
    parameters:
      tables: {counts: {rows: 1000, columns: {id: key, n: 1..10}}}
      threads: CLIENTS
      seconds: 6 # time for perf to get ready on a busy machine
      warmup_seconds: 0
      steps:
        nap: SELECT SLEEP(0.05)
        one-row: "BEGIN; UPDATE counts SET n = n + 1 WHERE id = 1; SELECT SLEEP(0.02); COMMIT"
"""
HIDDEN = ("unshare", "--mount", "sh", "-c", f'mount -t tmpfs none {TRACING} && exec "$@"', "sh")
"""Runs a command where the kernel shows no tracepoints, as in many containers."""
SLEEPS = {"my": "SLEEP", "pg": "pg_sleep"}
LOCKS = {"my": "lock_wait_suspend_thread", "pg": "ProcSleep"}


@pytest.fixture(scope="module", autouse=True)
def tracepoints() -> Iterator[None]:
    """Mounts the kernel's tracepoints for these tests where the machine has not mounted them, as rqps advises."""
    if missing := not (TRACING / "events").exists():
        subprocess.run(["mount", "-t", "tracefs", "tracefs", str(TRACING)], check=True)
    yield
    if missing:
        subprocess.run(["umount", str(TRACING)], check=True)


DBMS = ["my8033.my", "pg14.pg"]


def place_of(path: Path, dbms: str) -> Place:
    runs = RUNS.replace("DBMS", dbms).replace("CLIENTS", str(CLIENTS))
    return Place(path, runs.replace("SLEEP", SLEEPS[dbms[-2:]]))


@pytest.fixture(scope="module", params=DBMS)
def study(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Study:
    path = tmp_path_factory.mktemp("waits")
    place_of(path, request.param).run()
    return rqps.load("small", data=path / "data")


@pytest.fixture(scope="module", params=DBMS)
def sampled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Study:
    path = tmp_path_factory.mktemp("sampled")
    process = place_of(path, request.param).start(under=HIDDEN)
    output = process.communicate()[0]
    assert process.returncode == 0, output
    return rqps.load("small", data=path / "data")


def test_all_time_of_connections_is_recorded(study: Study) -> None:
    """On the CPU and off it, by one record, for as many threads as there are clients."""
    recorded = rqps.load(study.place, mode="waits")
    lengths = recorded.threads.select("step", "elapsed_s").unique().collect()
    time = recorded.stacks.filter(role="connection").group_by("step").agg(s=pl.col("weight").sum() / 1e9).collect()
    for step, length_s, time_s in lengths.join(time, on="step").rows():
        assert time_s == pytest.approx(length_s * CLIENTS, rel=0.02), step
    assert set(time["step"]) == {"nap", "one-row"}


def test_a_record_agrees_with_the_kernels_own_count(study: Study) -> None:
    recorded = rqps.load(study.place, mode="waits")
    is_busy = {"step": "one-row", "role": "connection"}
    counted = recorded.threads.filter(**is_busy).collect().row(0, named=True)
    by_event = recorded.stacks.filter(**is_busy).group_by("event").agg(pl.col("weight").sum() / 1e9).collect()
    time = dict(by_event.rows())
    # On a loaded machine, perf loses events, and the two counts do not begin and end at the same moment.
    assert time["running"] == pytest.approx(counted["running_s"], rel=0.3, abs=0.1)
    assert time["ready"] == pytest.approx(counted["waiting_s"], rel=0.3, abs=0.2)


def test_a_statement_that_sleeps_and_one_that_waits_for_a_row_are_seen(study: Study) -> None:
    """Each kind of wait in the step that has it, with the engine's own function in the stack."""
    costs = waits.time_of_threads(study).filter(pl.col("stack").list.first() == "connection")
    kinds = costs.group_by("step", "component").agg(pl.col("cost").sum())
    share = {(step, kind): us / kinds.filter(step=step)["cost"].sum() for step, kind, us in kinds.rows()}
    assert share["nap", "a sleep"] > 0.5, share
    assert share["one-row", "a row lock"] > 0.3, share
    assert share["one-row", "a sleep"] > 0.05, share
    engine = study.card.base[-2:]
    waiting = waits.waiting(costs).filter(step="one-row", component="a row lock")
    has_function = pl.col("stack").list.contains(LOCKS[engine])
    with_function, every = (float(rows["cost"].sum()) for rows in (waiting.filter(has_function), waiting))
    assert with_function > 0.9 * every


def test_the_table_of_an_operation_adds_up(study: Study) -> None:
    time = waits.time_of_clients(study)
    complete = time.group_by("step").agg(pl.col("us").sum(), pl.col("all_us").first())
    assert complete["us"].to_list() == pytest.approx(complete["all_us"].to_list(), rel=1e-9)
    for sentence in page.findings(study, time).sentences:
        assert wrong(sentence, {page.FRAME: page.frame(study)}.__getitem__) == []
    unexplained = time.filter(pl.col("kind").is_in([waits.NOT_SEEN, waits.LEFT_OVER]))
    assert (unexplained["share"].abs() < 0.05).all(), unexplained


def test_waits_are_sampled_where_the_kernel_shows_no_tracepoints(sampled: Study) -> None:
    """All time of the clients has a kind. MySQL sleeps and waits for locks in a futex, PostgreSQL in epoll_wait."""
    time = waits.time_of_clients(sampled)
    unexplained = time.filter(pl.col("kind").is_in([waits.NOT_SEEN, waits.LEFT_OVER]))
    assert (unexplained["share"].abs() < 0.05).all(), unexplained
    wait, call = {"my": ("another thread", "futex"), "pg": ("a socket or pipe", "epoll_wait")}[sampled.card.base[-2:]]
    shares = {(step, kind): share for step, kind, share in time.select("step", "kind", "share").iter_rows()}
    assert min(shares["nap", wait], shares["one-row", wait]) > 0.8, shares
    costs = waits.time_of_threads(sampled).filter(pl.col("stack").list.first() == "connection", component=wait)
    assert costs.sort("cost")["stack"].to_list()[-1][2:4] == [SYSTEM_CALL, call]
    assert waits.SAMPLED in page.findings(sampled, time).sentences


def test_sampled_threads_ran_as_long_as_the_servers_processes(sampled: Study) -> None:
    in_waits = rqps.load(sampled.place, mode="waits")
    ran = in_waits.stacks.filter(event="running").group_by("step").agg(pl.col("weight").sum() / 1e9).collect()
    assert dict(ran.rows()) == pytest.approx(dict(in_waits.steps.select("step", "server_cpu_s").rows()), rel=0.1)
