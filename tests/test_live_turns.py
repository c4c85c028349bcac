"""Servers that take turns by being stopped, each with a client of its own: the insert benchmark on two of them."""

import os
import signal
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest
import rqps
from child import Child, until
from live_study import OLD_AND_SMALL, Place, ended
from rqps.errors import RqpsError
from rqps.measure import turns
from rqps.measure.counters import read_idle_ns
from rqps.measure.turns import Side
from rqps.stats import measured, rounds

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("undrawn")]

RUNS = (
    OLD_AND_SMALL
    + """\
  lazy: {extends: base, innodb_flush_log_at_trx_commit: 2}
studies:
  small:
    question: What does a commit cost?
    workload: insert-benchmark
    dbms: [my5624.base, my5624.lazy]
    base: my5624.base
    rounds: 1
    parameters: {steps: [l.i0, l.x, l.i1, qp100], load_rows: 4000, write_rows: 2500, rates: [100], seconds: 2}
"""
)


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> rqps.Study:
    place = Place(tmp_path_factory.mktemp("turns"), RUNS)
    place.run()
    return rqps.load("small", data=place.path / "data")


def test_each_does_its_whole_step_in_seconds_of_its_own(study: rqps.Study) -> None:
    slices = study.slices.collect()
    steps = study.steps.join(
        slices.group_by("run", "step").agg(pl.col("busy_us", "server_cpu_us").sum()), on=["run", "step"]
    )
    assert steps.height == 8
    for step in steps.iter_rows(named=True):
        busy_s = step["busy_us"] / 1e6
        assert step["elapsed_s"] <= busy_s, "no second of others is counted"
        assert step["host_cpu_user_s"] + step["host_cpu_system_s"] >= step["server_cpu_s"] * 0.5
        # Outside its turns it did nothing: the kernel tells CPU time to the nanosecond.
        assert step["server_cpu_s"] == pytest.approx(step["server_cpu_us"] / 1e6, rel=0.02, abs=0.002)
    queries = steps.filter(step="qp100")
    assert all(elapsed_s > 1.5 for elapsed_s in queries["elapsed_s"]), "by its own clock"
    assert all(queries["operations"])


def test_cycles_are_two_orders_of_all_and_the_step_counts_as_a_whole(study: rqps.Study) -> None:
    slices = study.slices.filter(step="qp100").collect().sort("slice")
    assert slices["slice"].to_list() == list(range(slices.height))
    assert slices["operations"].null_count() == slices.height
    last_of_each = slices.group_by("dbms").agg(pl.col("cycle").max())["cycle"]
    of_both = slices.filter(pl.col("cycle") < last_of_each.min())
    assert set(of_both.group_by("cycle", "dbms").len()["len"]) == {2}
    rows = rounds(measured(study), study.runs, "my5624.base").filter(metric="operations_per_s")
    assert rows["cycles"].null_count() == rows.height == 4
    values = dict(study.steps.filter(step="l.i1").select("dbms", "operations_per_s").rows())
    (ratio,) = rows.filter(step="l.i1")["ratio"]
    assert ratio == pytest.approx(values["my5624.lazy"] / values["my5624.base"])


def test_both_have_the_cycles_of_the_same_time(study: rqps.Study) -> None:
    cycles = study.cycles.drop("run", "dbms", "config").collect()
    assert cycles.unique().height * 2 == cycles.height
    assert cycles.filter((pl.col("outside_us") < 0) | (pl.col("outside_us") > pl.col("cpu_us"))).is_empty()
    if read_idle_ns([0]):  # the kernel counts idle time exactly
        used = study.slices.select(pl.col("server_cpu_us") + pl.col("client_cpu_us")).sum().collect().item()
        assert (cycles["cpu_us"] - cycles["outside_us"]).sum() / 2 > 0.95 * used


def test_a_row_of_counters_is_a_second_of_its_own(study: rqps.Study) -> None:
    rows = study.counters.filter(step="qp100").collect()
    by_run = rows.group_by("run").agg(pl.col("interval_s", "server_cpu_s").sum(), pl.col("second").max())
    assert by_run["interval_s"].to_list() == pytest.approx(by_run["second"].to_list())
    used = study.steps.filter(step="qp100").join(by_run, on="run", suffix="_of_rows")
    assert used["server_cpu_s_of_rows"].to_list() == pytest.approx(used["server_cpu_s"].to_list())


@pytest.mark.parametrize("victim", ["server", "kernel", "rqps"])
def test_whoever_is_killed_nobody_stays_stopped(victim: str, tmp_path: Path) -> None:
    place = Place(tmp_path, RUNS.replace("load_rows: 4000", "load_rows: 400000"))
    process = place.start()
    place.wait("a turn", lambda: any(map(turns.stands_still, place.servers())) and "l.i0" in place.doing(), process)
    if victim == "server":
        servers = [pid for pid in place.servers() if "mysqld" in (Path(f"/proc/{pid}") / "exe").readlink().name]
        waiting = sorted(servers, key=turns.stands_still, reverse=True)
        os.kill(waiting[0], signal.SIGKILL)
        output = ended(process, 1)
        assert "the server my5624." in output
        assert "by SIGKILL" in output
    elif victim == "kernel":
        pids = [int(pid) for file in place.study.glob(".run=*.partial/pids.txt") for pid in file.read_text().split()]
        os.kill(pids[0], signal.SIGKILL)
        assert "killed" in ended(process, 1).lower()
    else:
        process.kill()
        process.wait()
        until(lambda: not place.servers())  # their keepers stop them
    assert place.servers() == []
    assert not list(place.study.glob("run=*"))


def test_a_load_that_fails_before_its_first_turn_leaves_nobody_stopped() -> None:
    def fail() -> int:
        raise RqpsError("no connection")

    with Child("turn()") as server, Child("turn()") as load, Child("turn()") as other:
        ready: Any = SimpleNamespace(pid=load.pid, wait_for_origin=time.monotonic_ns)
        failing: Any = SimpleNamespace(pid=other.pid, wait_for_origin=fail)
        sides = [Side(lambda: [server.pid], ready, None, "l.i0"), Side(lambda: [], failing, None, "l.i0")]
        with pytest.raises(RqpsError, match="no connection"), turns.stopped(sides):
            pass
        assert not any(map(turns.stands_still, (server.pid, load.pid, other.pid)))
