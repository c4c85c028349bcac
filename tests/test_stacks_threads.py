"""Threads: their roles, their time by the kernel's count and by looks at them, and it adds up."""

import time

import polars as pl
import pytest
from child import SPINNING, Child, until
from rqps.engines import facts_of
from rqps.measure.stack_text import Frame, Stack, Thread
from rqps.measure.threads import (
    CALLS,
    KINDS,
    ThreadLooks,
    Used,
    role_of_frames,
    role_of_name,
    roles,
    threads_table,
    used_by_threads,
)
from rqps.profile import time_of_connections
from rqps.store.schemas import IDENTITY, STEPS, THREADS
from synthetic_stacks import whose

WAITING = """
    import socket, threading, time
    near, far = socket.socketpair()
    lock = threading.Lock(); lock.acquire()
    threading.Thread(target=lambda: near.recv(1), daemon=True).start()
    threading.Thread(target=lock.acquire, daemon=True).start()
    turn()
    time.sleep(600)
"""

ROLES = facts_of("mysql").roles


def seen_most(pid: int) -> list[str]:
    """The most frequent activity of each thread, by thread id."""
    looks = ThreadLooks(lambda: [pid])
    looks.begin()
    until(lambda: looks.seen and min(sum(one.values()) for one in looks.seen.values()) >= 10)
    looks.end()
    return [max(kinds, key=kinds.__getitem__) for _, kinds in sorted(looks.seen.items())]


def test_what_threads_wait_for_is_seen() -> None:
    with Child(WAITING) as process:
        process.send()
        until(lambda: seen_most(process.pid) == ["timer", "network", "lock"])


def test_the_system_call_and_the_function_of_the_kernel_are_seen() -> None:
    with Child(WAITING) as process:
        process.send()
        looks = ThreadLooks(lambda: [process.pid], places=True)
        looks.begin()
        until(lambda: looks.number >= 20)
        looks.end()
        (call, place), _ = looks.calls[process.pid].most_common(1)[0]
        assert (CALLS[call], b"nanosleep" in place) == ("clock_nanosleep", True)


def test_a_thread_that_runs_is_seen_to_run_and_its_time_is_counted() -> None:
    with Child(SPINNING) as process:
        process.send()
        first = used_by_threads([process.pid])
        assert seen_most(process.pid) == ["running"]
        last = used_by_threads([process.pid])
        assert last[process.pid].running_ns > first[process.pid].running_ns


def test_looking_at_a_process_that_has_ended_finds_nothing() -> None:
    looks = ThreadLooks(lambda: [2**22 + 1])  # above any process id
    looks.begin()
    time.sleep(0.1)
    looks.end()
    looks.end()
    assert looks.seen == {}


def test_threads_of_one_role_are_added_up_and_those_that_slept_all_the_time_left_out() -> None:
    second = 1_000_000_000
    frame = threads_table(
        "point-query",
        {1: "connection", 2: "connection", 3: "connection", 4: "io"},
        first={1: Used(second, 0), 2: Used(0, 0), 3: Used(5, 5)},
        last={1: Used(3 * second, second), 2: Used(second, 0), 3: Used(5, 5), 4: Used(second, 0), 5: Used(second, 0)},
        looks={1: {"running": 5, "lock": 2}, 2: {"network": 1}},
        elapsed_s=4.0,
    )
    assert frame.schema == THREADS
    assert frame.select("role", "threads", "running_s", "waiting_s", "seen_running", "seen_lock").rows() == [
        ("connection", 2, 3.0, 1.0, 5, 2),
        ("io", 1, 1.0, 0.0, None, None),
        ("unknown", 1, 1.0, 0.0, None, None),
    ]


def stack(*names: str, samples: int, tid: int) -> Stack:
    frames = tuple(Frame(name, "mysqld") for name in names)
    return Stack(Thread("t", 7, tid), "cpu-clock", frames, samples, samples)


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("thread/sql/one_connection", "connection"),
        ("connection", "connection"),
        ("thread/innodb/page_cleaner_thread", "page cleaner"),
        ("ib_pg_flush_co", "page cleaner"),
        ("ib_io_rd-3", "io"),
        ("thread/innodb/srv_purge_thread", "purge"),
        ("ib_srv_wkr-1", "purge"),
        ("ib_log_fl_notif", "log notifier"),
        ("thread/innodb/srv_master_thread", "master"),
        ("ib_src_main", "master"),
        ("thread/sql/signal_handler", "signal handler"),
        ("rpl_opt_tracker", "replication"),
        ("my own thread", None),
        ("", None),
    ],
)
def test_a_threads_name_means_a_role(name: str, role: str | None) -> None:
    assert role_of_name(name, ROLES) == role


def test_a_thread_without_a_name_has_the_role_of_its_first_function() -> None:
    assert (
        role_of_frames(["clone3", "start_thread", "pfs_spawn_thread(void*)", "handle_one_connection"], ROLES)
        == "connection"
    )
    assert role_of_frames(["start_thread", "srv_master_thread"], ROLES) == "master"
    assert role_of_frames(["start_thread", "buf_flush_page_cleaner_thread"], ROLES) == "page cleaner"
    stripped = ["[unknown]", "[unknown]", "[unknown]", "do_command(THD*)", "dispatch_command(THD*, COM_DATA const*)"]
    assert role_of_frames(stripped, ROLES) == "connection"
    assert role_of_frames(["__send", "do_syscall_64"], ROLES) is None


def test_a_backend_that_has_ended_is_still_a_connection() -> None:
    began = ["_start", "__libc_start_main_impl", "__libc_start_call_main", "main", "PostmasterMain", "ServerLoop"]
    frames = [*began, "BackendStartup", "BackendRun", "PostgresMain", "exec_simple_query"]
    stacks = [stack(*frames, samples=5, tid=11), stack(*began[:4], "CheckpointerMain", samples=5, tid=12)]
    named = {12: "checkpointer"}
    of = facts_of("postgres").roles
    assert roles(stacks, {}, named, 7, of) == {12: "checkpointer", 11: "connection", 7: "main"}


def test_roles_come_from_the_surest_source() -> None:
    connection = ["start_thread", "handle_one_connection", "do_command"]
    stacks = [
        stack(*connection, samples=5, tid=11),  # no name: 5.6, where each has that of the process
        stack("__send", samples=9, tid=11),
        stack(*connection, samples=5, tid=12),
        stack("f", samples=5, tid=13),
        stack("f", samples=5, tid=14),
        stack("f", samples=5, tid=15),
        stack("f", samples=5, tid=7),
    ]
    reported = {12: "thread/innodb/srv_purge_thread"}
    named = {11: "mysqld", 12: "ib_log_writer", 13: "ib_log_writer", 14: "my own", 7: "mysqld"}
    result = roles(stacks, reported, named, 7, ROLES)
    assert result == {11: "connection", 12: "purge", 13: "log writer", 14: "my own", 15: "unknown", 7: "main"}


def of_step(**values: float | int | str | None) -> pl.DataFrame:
    usual = {"step": "s", "role": "connection", "threads": 2, "elapsed_s": 10.0, "running_s": 6.0, "waiting_s": 1.0}
    return pl.DataFrame([{**whose("my1.base", 1), **usual, **values}], schema={**IDENTITY, **THREADS})


DONE = {"step": "s", "elapsed_s": 10.0, "operations": 1_000_000, "operations_per_s": 1e5, "errors": 0}
STEP = pl.DataFrame([{**whose("my1.base", 1), **DONE}], schema={**IDENTITY, **STEPS})


def microseconds(threads: pl.DataFrame) -> dict[str, float]:
    frame = time_of_connections(threads, STEP)
    assert frame["share"].sum() == pytest.approx(1)
    return {str(kind): round(us, 6) for kind, us in frame.select("kind", "us_per_operation").rows()}


def test_the_time_of_a_connection_is_divided_and_adds_up() -> None:
    looks = dict.fromkeys((f"seen_{kind}" for kind in KINDS), 0)
    seen = {**looks, "seen_running": 100, "seen_network": 30, "seen_lock": 10}
    assert microseconds(of_step(**seen)) == {
        "running": 6.0,
        "waiting for a CPU": 1.0,
        "waiting for the client": 9.75,
        "waiting for a lock": 3.25,
    }


def test_what_threads_wait_for_stays_open_where_we_may_not_look() -> None:
    assert microseconds(of_step()) == {"running": 6.0, "waiting for a CPU": 1.0, "waiting": 13.0}


def test_only_threads_of_connections_serve_operations() -> None:
    assert time_of_connections(of_step(role="purge"), STEP).is_empty()
