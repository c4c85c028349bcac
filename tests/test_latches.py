"""Waits for latches, as each release counts them: per operation, by kind of latch and by single latch."""

from contextlib import closing
from pathlib import Path

import polars as pl
import pytest
from live_server import run_of
from rqps.engines import OS_WAITS, SPIN_ROUNDS, SPIN_WAITS, CountOf, Start
from rqps.engines.cache import copy_folder
from rqps.engines.mysql.engine import prepare
from rqps.engines.mysql.reports import waits_for_latches
from rqps.measure.job import loaded_data
from rqps.stats import latch_waits
from rqps.workloads.sysbench.generator import Generator
from rqps.workloads.sysbench.parameters import SysbenchParameters
from rqps.workloads.sysbench.steps import find

OF_56 = """OS WAIT ARRAY INFO: reservation count 14
OS WAIT ARRAY INFO: signal count 9
Mutex spin waits 120, rounds 3600, OS waits 7
RW-shared spins 12, rounds 360, OS waits 5
RW-excl spins 1, rounds 30, OS waits 0
Spin rounds per wait: 30.00 mutex, 30.00 RW-shared, 30.00 RW-excl
"""


def test_a_kind_has_spins_and_sleeps_and_latches_of_one_name_are_one() -> None:
    rows = [("InnoDB", "log0log.cc:775", "os_waits=4"), ("InnoDB", "log0log.cc:775", "os_waits=3")]
    assert waits_for_latches(OF_56, rows) == {
        ("os_waits", "all"): "14",
        ("spin_waits", "all mutex"): "120",
        ("spin_rounds", "all mutex"): "3600",
        ("os_waits", "all mutex"): "7",
        ("spin_waits", "all rw-shared"): "12",
        ("spin_rounds", "all rw-shared"): "360",
        ("os_waits", "all rw-shared"): "5",
        ("spin_waits", "all rw-excl"): "1",
        ("spin_rounds", "all rw-excl"): "30",
        ("os_waits", "all rw-excl"): "0",
        ("os_waits", "log0log.cc:775"): "7",
    }


def test_later_releases_count_what_they_are_asked_to() -> None:
    rows = [
        ("InnoDB", "rwlock: dict0dict.cc:2687", "waits=2"),
        ("InnoDB", "LOG_SYS", "spins=9,waits=1,calls=5"),
    ]
    assert waits_for_latches("RW-sx spins 3, rounds 90, OS waits 1", rows) == {
        ("spin_waits", "all rw-sx"): "3",
        ("spin_rounds", "all rw-sx"): "90",
        ("os_waits", "all rw-sx"): "1",
        ("os_waits", "rwlock: dict0dict.cc:2687"): "2",
        ("spin_rounds", "log_sys"): "9",
        ("os_waits", "log_sys"): "1",
        ("spin_waits", "log_sys"): "5",
    }


def test_counts_are_per_operation_as_means_of_the_rounds() -> None:
    """The step's warm-up is as long as the step, so 10 operations were twice as many between the readings."""
    counts: dict[tuple[str, str | None], tuple[int | None, int]] = {
        ("spin_waits", "all mutex"): (10, 50),
        ("os_waits", "log.cc:1"): (None, 20),
        ("spin_waits", "b"): (5, 5),
    }
    counts |= {("os_waits", "idle"): (3, 3), ("questions", None): (0, 9)}
    runs = [{"host": "vm", "run": f"a{number}", "dbms": "a.x", "round": number, "step": "scan"} for number in (1, 2)]
    rows = [
        {**run, "name": name, "object": latch, "moment": moment, "value": str(value)}
        for run in runs
        for (name, latch), values in counts.items()
        for moment, value in zip(("before", "after"), values, strict=True)
        if value is not None
    ]
    of_step = {
        "position": 0,
        "operations": 10,
        "errors": 0,
        "operations_per_s": 5.0,
        "elapsed_s": 2.0,
        "warmup_s": 2.0,
    }
    result = latch_waits(pl.DataFrame(rows), pl.DataFrame([{**run, **of_step} for run in runs]))
    assert result.rows() == [
        ("vm", "scan", "a.x", "all mutex", 2.0, None, None, 2),
        ("vm", "scan", "a.x", "log.cc:1", None, None, 1.0, 2),
    ]
    assert latch_waits(pl.DataFrame(rows).filter(name="questions"), pl.DataFrame([{**runs[0], **of_step}])).is_empty()


@pytest.mark.live
@pytest.mark.parametrize("dbms", ["my5624.latches", "my5722.latches", "my8033.latches", "my97.latches"])
def test_each_release_counts_the_waits_for_single_latches(dbms: str, short: Path) -> None:
    few = SysbenchParameters(steps=("update-one",), table_rows=5000, seconds=2, warmup_seconds=0, threads=16)
    run = run_of(dbms, few, "busy-wait")
    prepared = prepare(run, print)
    copy_folder(loaded_data(run, prepared, print), short / "data")
    step, log = find("update-one"), short / "sysbench.log"
    with closing(prepared.open(short / "data", Start(log=short / "mysqld.err"))) as server:
        server.verify()
        with server.watching("update-one") as watch:
            before = watch.begin()
            with Generator((server,), step, few, seed=1, cpus=(), log=log) as load:
                load.wait_for_begin()
                load.wait_until_gone()
            after = watch.end(1)
    grew = {
        key: int(count) - int(before.get(key, 0))
        for key, count in after.items()
        if isinstance(key, CountOf) and key.name in (SPIN_WAITS, SPIN_ROUNDS, OS_WAITS)
    }
    assert grew[CountOf(OS_WAITS, "all")] > 0
    single = {key: count for key, count in grew.items() if not key.object.startswith("all")}
    counted = {key.name for key, count in single.items() if count > 0}
    assert counted == ({OS_WAITS} if dbms == "my5624.latches" else {SPIN_WAITS, SPIN_ROUNDS, OS_WAITS})
    assert min(grew.values()) >= 0
