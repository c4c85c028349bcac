"""What speaks against a profile is said, and travels with the number; a profile of something else is an error."""

import os
import struct
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from rqps.engines.sources import programs
from rqps.errors import RqpsError
from rqps.observe.stacks.fold import Folded, Frame, Stack, Thread
from rqps.observe.stacks.profiling import Expected, doubts
from rqps.observe.stacks.recording import CALLERS_PER_S, PROLOGUE, Sampling, event, has_frame_pointers
from rqps.observe.stacks.threads import role_of_frames, role_of_name, roles

SAMPLING = Sampling("cpu-clock", 1000, CALLERS_PER_S, "frame pointers", large_buffer=True)
BUSY = Expected(pid=7, program="mysqld", elapsed_s=10, sampled_s=10, server_cpu_s=1)


def stack(*names: str, samples: int, module: str = "mysqld", tid: int = 8) -> Stack:
    return Stack(Thread("t", 7, tid), "cpu-clock", tuple(Frame(name, module) for name in names), samples, samples)


def said(stacks: Iterable[Stack], expected: Expected = BUSY, folded: Folded | None = None) -> list[str]:
    found = list(doubts(list(stacks), folded or Folded(), SAMPLING, expected))
    assert {warning.kind for warning in found} <= {"stacks"}
    return [warning.text for warning in found]


def test_nothing_is_said_against_a_good_profile() -> None:
    assert said([stack("main", "f", samples=960)]) == []


def test_a_step_too_short_for_samples_and_an_idle_server_are_told() -> None:
    idle = replace(BUSY, server_cpu_s=0.001)
    assert said([], idle) == [
        "no samples: the server used 0.001 s of CPU in 10.0 s, so it was idle or the step too short"
    ]
    assert said([stack("f", samples=3)], idle) == ["only 3 samples: a longer step or more rounds would tell more"]


def test_a_profile_of_something_else_is_an_error() -> None:
    with pytest.raises(RqpsError, match=r"no sample is of the server \(process 7\), though .* used 1\.000 s of CPU"):
        said([])


def test_cpu_that_was_not_seen_is_told() -> None:
    assert said([stack("f", samples=500)]) == [
        "the samples stand for 0.50 s of CPU, but the server used 1.00 s meanwhile"
    ]


def test_time_before_perf_was_ready_is_told_and_not_taken_for_cpu_that_was_not_seen() -> None:
    assert said([stack("f", samples=500)], replace(BUSY, sampled_s=5)) == [
        "only 50% of the measured time was sampled, since perf was not ready before"
    ]


def test_lost_and_unreadable_samples_are_told() -> None:
    folded = Folded(lost=12, unreadable=3)
    assert said([stack("f", samples=1000)], folded=folded) == [
        "perf lost 12 records, since it could not write as fast as they came",
        "3 pieces of what perf script wrote are no samples, and are left out",
    ]


def test_functions_without_names_are_told_with_their_share() -> None:
    mixed = [stack("main", "f", samples=900), stack("main", "f", "[unknown]", samples=100)]
    assert said(mixed) == ["10% of the samples are in functions without a name"]
    assert said([stack("main", "[unknown]", "f", samples=1000)]) == []


def test_a_stripped_server_is_told() -> None:
    stripped = [stack("[unknown]", "[unknown]", samples=990), stack("f", samples=10, module="libc.so.6")]
    [text] = said(stripped)
    assert text.startswith("mysqld has no symbols: 100% of its frames have no name")


def test_whoever_may_not_profile_is_told_what_to_set() -> None:
    """Tried as the user that may least, where we may become that one."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    told, tell = os.pipe()
    child = os.fork()
    if child == 0:
        os.setuid(65534)
        try:
            answer = f"may sample {event()}"
        except RqpsError as error:
            answer = str(error)
        os.write(tell, answer.encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(tell)
    answer = os.read(told, 4096).decode()
    os.close(told)
    paranoid = int(Path("/proc/sys/kernel/perf_event_paranoid").read_text())
    if paranoid > 0:
        assert f"kernel.perf_event_paranoid is {paranoid}" in answer
        assert "what to do: as root: sysctl kernel.perf_event_paranoid=-1" in answer
    else:
        assert answer.startswith("may sample")


def test_a_missing_perf_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("RQPS_CACHE", str(tmp_path / "cache"))
    with pytest.raises(RqpsError, match="linux-perf is missing here, and fetching it failed") as caught:
        programs.perf()
    assert "install perf and try again: linux-perf on Debian" in caught.value.fix


def test_a_perf_that_only_says_what_to_install_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As Ubuntu's, where there is none for the running kernel."""
    (tmp_path / "perf").write_text("#!/bin/sh\necho WARNING: perf not found for kernel 6.8.0-31 >&2; exit 2\n")
    (tmp_path / "perf").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("RQPS_CACHE", str(tmp_path / "cache"))
    with pytest.raises(RqpsError, match="linux-perf is missing here"):
        programs.perf()


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
def test_threads_names_tell_their_roles(name: str, role: str | None) -> None:
    assert role_of_name(name) == role


def test_the_first_function_tells_the_role_of_a_thread_without_a_name() -> None:
    assert (
        role_of_frames(["clone3", "start_thread", "pfs_spawn_thread(void*)", "handle_one_connection"]) == "connection"
    )
    assert role_of_frames(["start_thread", "srv_master_thread"]) == "master"
    assert role_of_frames(["start_thread", "buf_flush_page_cleaner_thread"]) == "page cleaner"
    stripped = ["[unknown]", "[unknown]", "[unknown]", "do_command(THD*)", "dispatch_command(THD*, COM_DATA const*)"]
    assert role_of_frames(stripped) == "connection"
    assert role_of_frames(["__send", "do_syscall_64"]) is None


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
    told = {12: "thread/innodb/srv_purge_thread"}
    named = {11: "mysqld", 12: "ib_log_writer", 13: "ib_log_writer", 14: "my own", 7: "mysqld"}
    assert roles(stacks, told, named, main=7) == {
        11: "connection",
        12: "purge",
        13: "log writer",
        14: "my own",
        15: "unknown",
        7: "main",
    }


@pytest.mark.parametrize(("functions", "kept"), [(64, True), (1, False)])
def test_frame_pointers_are_seen_in_the_code(functions: int, kept: bool, tmp_path: Path) -> None:
    """In 64 KB of code, behind as many bytes that are not code and look as if they were full of functions."""
    code = (PROLOGUE * functions).ljust(65536, b"\x90")
    header = b"\x7fELF".ljust(32, b"\0") + struct.pack("<QQIHHH", 64, 0, 0, 64, 56, 2)
    segments = [(1, 4, 4096, 65536), (1, 5, 4096 + 65536, 65536)]  # readable, and executable as well
    table = b"".join(
        struct.pack("<IIQQQQQQ", kind, flags, at, 0, 0, size, size, 0) for kind, flags, at, size in segments
    )
    program = tmp_path / "mysqld"
    program.write_bytes((header.ljust(64, b"\0") + table).ljust(4096, b"\0") + PROLOGUE * 16384 + code)
    assert has_frame_pointers(program) is kept
