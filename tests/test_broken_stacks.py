"""Stacks that break off come under the root of their thread, by what was seen of the way, and no sample gets lost."""

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rqps.profile.broken_stacks import CALLERS_UNKNOWN, completeness, divide, repaired
from rqps.store.schemas import CALLERS, STACKS

ROOT = ["clone3", "start_thread"]
SERVER = {"do_command", "net_flush", "vio_write", "my_malloc", "row_search"}
KERNEL = {"do_syscall_64", "tcp_sendmsg"}


def module(name: str) -> str:
    return "mysqld" if name in SERVER else "[kernel]" if name in KERNEL else "libc.so.6"


Row = dict[str, object]


def row(*names: str, samples: int = 1, event: str = "cycles", step: str = "s", role: str = "connection") -> Row:
    weight = 0 if event == CALLERS else samples * 10
    modules = [module(name) for name in names]
    return {
        "host": "h", "dbms": "d", "engine": "mysql", "step": step, "role": role, "event": event,
        "frames": list(names), "modules": modules, "samples": samples, "weight": weight,
    }  # fmt: skip


def frame(*rows: Row) -> pl.DataFrame:
    return pl.DataFrame(rows, schema={"host": pl.String, "dbms": pl.String, "engine": pl.String, **STACKS})


def rows_of(stacks: pl.DataFrame) -> set[tuple[str, str, int, int]]:
    return {
        (" ".join(one["frames"]), one["ending"], one["samples"], one["weight"])
        for one in stacks.iter_rows(named=True)
    }


def way(*names: str, samples: int, **where: str) -> Row:
    return row(*ROOT, *names, samples=samples, event=CALLERS, **where)


def test_a_broken_stack_comes_under_the_path_that_was_seen_to_lead_to_it() -> None:
    stacks = frame(
        row("start_thread", "do_command", "row_search", samples=7),
        row("send", "do_syscall_64", "tcp_sendmsg", samples=5),
        row("send", samples=2),
        way("do_command", "net_flush", "vio_write", "send", samples=3),
    )
    to_send = "clone3 start_thread do_command net_flush vio_write send"
    assert rows_of(repaired(stacks)) == {
        ("start_thread do_command row_search", "root", 7, 70),
        (f"{to_send} do_syscall_64 tcp_sendmsg", "repaired", 5, 50),
        (to_send, "repaired", 2, 20),
    }


def test_threads_without_a_name_are_connections_where_they_serve_a_client() -> None:
    """As those of a server without symbols and with the performance schema off."""
    stacks = frame(
        row("[unknown]", "[unknown]", "do_command(THD*)", "row_search", samples=7, role="unknown"),
        row("[unknown]", "dispatch_command", samples=2, role="unknown"),
        row("[unknown]", "do_command_twice", samples=1, role="unknown"),
        row("[unknown]", "do_command", samples=3, role="main"),
    )
    rows = repaired(stacks).group_by("role").agg(pl.col("samples").sum())
    assert dict(rows.rows()) == {"connection": 9, "unknown": 1, "main": 3}


def test_several_paths_share_a_broken_stack_as_often_as_each_was_seen() -> None:
    stacks = frame(
        row("malloc", samples=40),
        way("do_command", "my_malloc", "malloc", samples=3),
        way("row_search", "malloc", samples=1),
    )
    assert rows_of(repaired(stacks)) == {
        ("clone3 start_thread do_command my_malloc malloc", "repaired", 30, 300),
        ("clone3 start_thread row_search malloc", "repaired", 10, 100),
    }


def test_another_step_of_the_same_dbms_shows_the_way_where_the_own_one_has_none() -> None:
    seen_elsewhere = way("do_command", "send", samples=1, step="other")
    assert rows_of(repaired(frame(row("send", samples=2), seen_elsewhere))) == {
        ("clone3 start_thread do_command send", "repaired", 2, 20)
    }
    nearer = way("net_flush", "send", samples=1)
    assert rows_of(repaired(frame(row("send", samples=2), seen_elsewhere, nearer))) == {
        ("clone3 start_thread net_flush send", "repaired", 2, 20)
    }


def test_where_no_way_is_known_it_comes_visibly_under_what_its_role_begins_with() -> None:
    stacks = frame(
        row("start_thread", "do_command", "row_search", samples=3),
        row("start_thread", "do_command", "net_flush", "vio_write", samples=3),
        row("free", samples=2),
        row("start_thread", "srv_master", role="master"),
        row("free", samples=4, role="purge"),
        row("free", samples=8, role="unknown"),
    )
    assert {one for one in rows_of(repaired(stacks)) if "free" in one[0]} == {
        (f"start_thread do_command {CALLERS_UNKNOWN} free", "repaired", 2, 20),
        ("free", "broken", 4, 40),
        ("free", "broken", 8, 80),
    }


def test_what_was_taken_for_addresses_is_left_out_of_a_repaired_stack() -> None:
    stacks = frame(
        row("send", samples=2)
        | {"frames": ["[unknown]", "[unknown]", "send"], "modules": ["[data]", "[unknown]", "libc.so.6"]},
        way("do_command", "send", samples=1),
    )
    assert rows_of(repaired(stacks)) == {("clone3 start_thread do_command send", "repaired", 2, 20)}


@pytest.mark.parametrize(
    ("frames", "modules", "ending"),
    [
        (["start_thread", "f"], ["libc.so.6", "mysqld"], "root"),
        (["_start", "__libc_start_main", "main"], ["mysqld", "libc.so.6", "mysqld"], "root"),
        (["[unknown]", "[unknown]", "f"], ["libc.so.6", "mysqld", "mysqld"], "root"),
        (["[unknown]", "std::thread::_M_run"], ["libstdc++.so.6.0.30", "mysqld"], "root"),
        (["[unknown]", "do_syscall_64"], ["libc.so.6", "[kernel]"], "broken"),
        (["[unknown]", "malloc"], ["libc.so.6", "libc.so.6"], "broken"),
        (["[unknown]"], ["libc.so.6"], "broken"),
        (["f"], ["mysqld"], "broken"),
        ([], [], "broken"),
    ],
)
def test_a_stack_is_whole_that_begins_as_threads_do(frames: list[str], modules: list[str], ending: str) -> None:
    one = frame(row("x", role="unknown") | {"frames": frames, "modules": modules})
    assert repaired(one)["ending"].to_list() == [ending]


def test_completeness_has_the_shares_of_each_step() -> None:
    stacks = frame(
        row("start_thread", "do_command", samples=6),
        row("send", samples=3),
        row("send", samples=1, role="unknown"),
        way("do_command", "send", samples=9),
        row("start_thread", "[unknown]", samples=4, step="t"),
    )
    assert completeness(stacks).drop("host").rows(named=True) == [
        {"dbms": "d", "step": "s", "samples": 10, "root": 0.6, "repaired": 0.3, "broken": 0.1, "unnamed": 0.0},
        {"dbms": "d", "step": "t", "samples": 4, "root": 1.0, "repaired": 0.0, "broken": 0.0, "unnamed": 1.0},
    ]
    assert completeness(frame()).is_empty()
    assert repaired(frame()).is_empty()


@given(st.lists(st.integers(0, 50), max_size=20), st.lists(st.integers(1, 40), min_size=1, max_size=8))
def test_what_is_divided_adds_up_and_keeps_the_proportion(amounts: list[int], shares: list[int]) -> None:
    parts = divide(amounts, shares)
    assert [sum(one) for one in parts] == amounts
    assert all(part >= 0 for one in parts for part in one)
    for at, share in enumerate(shares):
        fair = sum(amounts) * share / sum(shares)
        assert abs(sum(one[at] for one in parts) - fair) < len(shares)


PATHS = st.lists(st.sampled_from(["start_thread", "send", "malloc", "do_command", "row_search"]), max_size=4)
ROWS = st.builds(
    lambda names, samples, event, step, role: row(*names, samples=samples, event=event, step=step, role=role),
    PATHS,
    st.integers(1, 20),
    st.sampled_from(["cycles", "cycles", CALLERS]),
    st.sampled_from(["s", "t"]),
    st.sampled_from(["connection", "purge", "unknown"]),
)


@given(st.lists(ROWS, max_size=15))
def test_mending_loses_and_adds_nothing(rows: list[Row]) -> None:
    stacks = frame(*rows)
    serves = (pl.col("role") == "unknown") & pl.col("frames").list.contains("do_command")
    known = pl.when(serves).then(pl.lit("connection")).otherwise("role").alias("role")
    sampled = stacks.filter(pl.col("event") != CALLERS).with_columns(known)
    where = ["step", "role"]
    counted = [pl.col("samples").sum(), pl.col("weight").sum()]
    complete = repaired(stacks)
    assert complete.group_by(where).agg(counted).sort(where).equals(sampled.group_by(where).agg(counted).sort(where))
    assert (complete["frames"].list.len() == complete["modules"].list.len()).all()
    assert complete.filter(pl.col("samples") <= 0).is_empty()
    assert set(complete["ending"]) <= {"root", "repaired", "broken"}
