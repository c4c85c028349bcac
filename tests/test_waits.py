"""Time of threads per operation: what they wait for by their stacks, and costs that add up to all recorded time."""

from pathlib import Path

import polars as pl
import pytest
import rqps
from rqps import stats
from rqps.pages import waiting as page
from rqps.profile import breakdown, flame_tree, waiting
from rqps.profile.waits import LEFT_OVER, NOT_SEEN, idle_waits, time_costs, time_of_clients, wait_of
from rqps.store import write_manifest, write_table
from rqps.store.manifest import read_manifest
from rqps.store.packing import unpack
from rqps.store.schemas import IDENTITY, STACKS, SYSTEM_CALL, THREADS
from synthetic_stacks import steps_of, whose

BASE, ME = "my5624.base", "my8033.base"
ROW_LOCK = ("start_thread", "do_command", "mysql_update", "lock_wait_suspend_thread", "pthread_cond_wait")
CLIENT = ("start_thread", "do_command", "vio_io_wait", "poll")
MS = 1_000_000
TIMES = [
    ("connection", "running", (), 20 * MS),
    ("connection", "ready", CLIENT, 5 * MS),
    ("connection", "off-cpu", ROW_LOCK, 40 * MS),
    ("connection", "off-cpu", CLIENT, 30 * MS),
    ("connection", "unseen", (), 4 * MS),
    ("connection", "lost", (), 1 * MS),
    ("purge", "off-cpu", ("start_thread", "clock_nanosleep"), 90 * MS),
]


def times_of(dbms: str, slower: int = 1) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Stacks, threads and steps of a run: 100 ms of a step of 200 ms with 100 operations were recorded."""
    names = {**whose(dbms, 1, "w"), "step": "point-query"}
    rows = [
        {
            **names,
            "role": role,
            "event": event,
            "frames": list(frames),
            "modules": ["mysqld"] * len(frames),
            "samples": 10,
            "weight": ns * (slower if frames == ROW_LOCK else 1),
        }
        for role, event, frames, ns in TIMES
    ]
    stacks = pl.DataFrame(rows, schema={**IDENTITY, **STACKS}).with_columns(engine=pl.lit("mysql"))
    threads = pl.DataFrame([{**names, "role": "connection", "elapsed_s": 0.1}], schema={**IDENTITY, **THREADS})
    steps = steps_of(dbms, 1, 50, operations=100, elapsed_s=0.2).with_columns(run=pl.lit(names["run"]))
    return stacks, threads, steps


@pytest.fixture(scope="module")
def costs() -> pl.DataFrame:
    sides = [times_of(BASE), times_of(ME, slower=2)]
    return time_costs(*(pl.concat(frames) for frames in zip(*sides, strict=True)))


def test_all_time_is_in_the_costs(costs: pl.DataFrame) -> None:
    """What was recorded in half of a step stands for all of it."""
    of_base = costs.filter(dbms=BASE)
    by_kind = dict(of_base.group_by("component").agg(pl.col("cost").sum().round(6)).rows())
    assert by_kind == {
        "running": 400,
        "ready without a CPU": 100,
        "a row lock": 800,
        "the client": 600,
        "not seen": 100,
        "work": 1800,
    }


def test_a_stack_begins_with_the_role_and_the_kind_of_its_time(costs: pl.DataFrame) -> None:
    (stack,) = costs.filter(component="a row lock", dbms=BASE)["stack"].to_list()
    assert stack[:2] == ["connection", "a row lock"]
    assert stack[-2:] == ["lock_wait_suspend_thread", "pthread_cond_wait"]


def test_only_waits_that_cost_something_are_waiting(costs: pl.DataFrame) -> None:
    assert set(waiting(costs)["component"]) == {"a row lock"}
    assert set(idle_waits()) == {"the client", "work"}


def test_differences_of_waiting_are_those_of_any_cost(costs: pl.DataFrame) -> None:
    of_waits = waiting(costs)
    parts = breakdown(of_waits, BASE, "component").filter(part="a row lock")
    assert parts.select("base_estimate", "me_estimate").row(0) == pytest.approx((800, 1600))
    tree = flame_tree(of_waits, BASE, ME, "point-query")
    assert tree.row(0, named=True)["me_total"] == pytest.approx(1600)
    assert "a row lock" in set(tree["name"])


@pytest.mark.parametrize(
    ("engine", "stack", "wait"),
    [
        ("mysql", "connection log_write_up_to os_event::wait_low pthread_cond_wait", "the log"),
        ("mysql", "connection log_write_up_to pthread_mutex_lock __lll_lock_wait", "a mutex or rw-lock"),
        ("mysql", "connection Item_func_sleep::val_int pthread_cond_timedwait", "a sleep"),
        ("mysql", "log writer log_writer os_event::wait_low", "work"),
        ("mysql", "connection no_such_function pthread_cond_wait", "another thread"),
        ("mysql", "purge no_such_function pthread_cond_wait", "work"),
        ("mysql", "connection no_such_function", "something else"),
        ("mysql", "connection", "something else"),
        ("postgres", "connection secure_read WaitEventSetWait epoll_wait", "the client"),
        ("postgres", "connection XactLockTableWait LockAcquire ProcSleep WaitLatch epoll_wait", "a row lock"),
        ("postgres", "connection XLogFlush issue_xlog_fsync fdatasync", "the log"),
        ("rocksdb", "writer rocksdb::WriteThread::JoinBatchGroup pthread_cond_wait", "the group of writers"),
    ],
)
def test_the_innermost_known_function_says_what_a_thread_waits_for(engine: str, stack: str, wait: str) -> None:
    role, *names = stack.replace("log writer", "log-writer").split(" ")
    assert wait_of(engine, [role, *names]) == wait


@pytest.mark.parametrize(
    ("engine", "role", "names", "wait"),
    [
        ("mysql", "connection", ["ppoll", "do_poll_[k]"], "the client"),
        ("mysql", "connection", ["futex", "futex_do_wait_[k]"], "another thread"),
        ("mysql", "connection", ["fsync", "jbd2_log_wait_commit_[k]"], "the disk"),
        ("mysql", "main", ["ppoll", "do_poll_[k]"], "work"),
        ("mysql", "purge", ["futex"], "work"),
        ("mysql", "page cleaner", ["pwrite64"], "the disk"),
        ("postgres", "connection", ["epoll_wait", "ep_poll_[k]"], "a socket or pipe"),
        ("postgres", "connection", ["none"], "something else"),
    ],
)
def test_a_stack_without_functions_waits_by_its_system_call(
    engine: str, role: str, names: list[str], wait: str
) -> None:
    assert wait_of(engine, [role, SYSTEM_CALL, *names]) == wait


def test_a_round_that_was_hardly_recorded_does_not_count() -> None:
    stacks, threads, steps = (pl.concat(frames) for frames in zip(times_of(BASE), times_of(ME), strict=True))
    hardly = pl.when(pl.col("dbms") == ME).then(0.09).otherwise("elapsed_s")
    assert set(time_costs(stacks, threads, steps)["dbms"]) == {BASE, ME}
    assert set(time_costs(stacks, threads.with_columns(elapsed_s=hardly), steps)["dbms"]) == {BASE}
    assert set(time_costs(stacks, threads.filter(dbms=BASE), steps)["dbms"]) == {BASE}


def test_unexplained_is_all_time_without_a_kind(samples: Path) -> None:
    study = rqps.load("waits-of-updates", samples)
    time = time_of_clients(study)
    explained = time.filter(~pl.col("kind").is_in([NOT_SEEN, LEFT_OVER]))
    shares = explained.group_by("step", "dbms").agg(left=1 - pl.col("us").sum() / pl.col("all_us").first())
    sentences = page.findings(study, time).sentences
    for share in (min(shares["left"].to_list()), max(shares["left"].to_list())):
        assert f"{100 * share:.1f} %" in next(one for one in sentences if "unexplained" in one)


def test_the_page_names_the_rounds_that_are_left_out(samples: Path, tmp_path: Path) -> None:
    (folder,) = unpack(str(samples / "sample/study=waits-of-updates"), tmp_path / "raw")
    base = rqps.load(folder).card.base
    for run in sorted(folder.glob(f"run=w0[123]@{base}@*")):
        tenth = pl.when(pl.col("step") == "insert").then(pl.col("elapsed_s") / 10).otherwise("elapsed_s")
        write_table(run, "threads", pl.read_parquet(run / "threads.parquet").with_columns(elapsed_s=tenth))
        write_manifest(run, read_manifest(run))
    study = rqps.load(folder)
    time = time_of_clients(study)
    name = stats.short_names(study)[base]
    left_out = f"Left out: 3 of 4 rounds of {name} in insert, since perf recorded less than half of the step."
    assert left_out in page.findings(study, time).sentences
    assert set(time.filter(step="insert", dbms=base)["n"]) == {1}
    every = page.findings(study, time.clear()).sentences
    assert left_out in every
    assert not any("waits_rounds" in sentence for sentence in every)
