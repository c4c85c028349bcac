"""Switches of threads become time: what a text of perf script says of each thread, and what it does not say."""

from collections.abc import Callable
from pathlib import Path

import pytest
from rqps.errors import RqpsError
from rqps.measure import perf_events, sampled_waits
from rqps.measure.doctor import waits_recording
from rqps.measure.off_cpu import Counted, doubts
from rqps.measure.recording import Switching, refuse_switches
from rqps.measure.sampled_waits import waits_are_sampled
from rqps.measure.stack_text import Frame, fold
from rqps.measure.switches import Switches

S = 1_000_000_000


def line(address: int, name: str, module: str) -> str:
    return f"\t{address:16x} {name} ({module})\n"


MAIN = line(0x2000, "main", "/opt/mysqld")
POLL = line(0x5000, "poll", "/lib/libc.so.6") + line(0x1000, "vio_read", "/opt/mysqld") + MAIN
BROKEN = line(0x3000, "__futex_wait", "/lib/libc.so.6")
COPY = BROKEN + line(0x4000, "lock", "/opt/mysqld") + MAIN
PLACE = "ffffffff813aa3e5 __schedule ([kernel.kallsyms])"
TO = "prev_prio=120 prev_state={} ==> next_comm=my d next_pid={} next_prio=120"


def at(seconds: float) -> str:
    return f"{int(seconds)}.{round(seconds % 1 * 1e9):09}"


def off(tid: int, seconds: float, state: str, to: int = 0, stack: str = POLL, ids: str = "") -> str:
    """A switch from a thread of process 7 to another thread."""
    who = f"my d {ids or f'7/{tid}'} {at(seconds)}:"
    return f"{who}   1 sched:sched_switch: prev_comm=my d prev_pid={tid} {TO.format(state, to)}\n{stack}\n"


def on(tid: int, seconds: float, ids: str = "") -> str:
    """Perf's own record of a thread that is put on a CPU."""
    who = f"  my d {ids or f'7/{tid}'}    {at(seconds)}:"
    return f"{who} PERF_RECORD_SWITCH_CPU_WIDE IN           prev pid/tid:     0/0    \n"


def wake(tid: int, seconds: float) -> str:
    where = f"prio=120 target_cpu=001 {PLACE}"
    return f":99  9/99  {at(seconds)}:          1   sched:sched_wakeup: comm=my d pid={tid} {where}\n"


def futex(tid: int, seconds: float) -> str:
    what = "uaddr: 0x7f, op: 0x00000189, val: 0x00000000"
    return f"my d 7/{tid} {at(seconds)}:          1 syscalls:sys_enter_futex: {what}\n{COPY}\n"


def folded(text: str, existed: tuple[int, ...] = (8,), piece: int = 1 << 16) -> Switches:
    """The switches of a text, from second 10 to second 20."""
    rest = text.encode()

    def read(_: int) -> bytes:
        nonlocal rest
        first, rest = rest[:piece], rest[piece:]
        return first

    switches = Switches(began_ns=10 * S, ended_ns=20 * S, existed=existed)
    fold(read, switches)
    return switches


def seconds(switches: Switches, tid: int = 8) -> dict[str, float]:
    """The time of a thread by event."""
    time: dict[str, float] = {}
    for stack in switches.stacks():
        if stack.thread.tid == tid:
            time[stack.event] = round(time.get(stack.event, 0) + stack.weight / S, 6)
    return time


WHOLE = on(8, 11) + off(8, 12, "S") + wake(8, 15) + on(8, 16) + off(8, 17, "R+") + on(8, 19)


@pytest.mark.parametrize("piece", [1 << 16, 7])
def test_all_time_of_a_thread_is_running_ready_waiting_or_unseen(piece: int) -> None:
    switches = folded(WHOLE, piece=piece)
    assert seconds(switches) == {"unseen": 1, "running": 3, "off-cpu": 3, "ready": 3}
    assert (switches.lost, switches.unreadable, switches.cut_off) == (0, 0, False)


def test_waits_and_ready_time_have_the_stack_of_the_switch_off_the_cpu() -> None:
    stacks = {stack.event: stack for stack in folded(WHOLE).stacks() if stack.frames}
    names = [frame.name for frame in stacks["off-cpu"].frames]
    assert names == ["main", "vio_read", "poll"]
    assert stacks["ready"].frames == stacks["off-cpu"].frames
    assert (stacks["off-cpu"].samples, stacks["ready"].samples) == (1, 2)


@pytest.mark.parametrize(
    ("text", "existed", "time"),
    [
        (off(8, 12, "S") + on(8, 15), (8,), {"running": 2 + 5, "off-cpu": 3}),  # ran when perf began
        (wake(8, 14) + on(8, 15) + off(8, 16, "S"), (8,), {"unseen": 4, "ready": 1, "running": 1, "off-cpu": 4}),
        (on(8, 14) + off(8, 15, "S"), (), {"running": 1, "off-cpu": 5}),  # began meanwhile
        (off(8, 9, "S") + on(8, 12) + off(8, 25, "S"), (8,), {"off-cpu": 2, "running": 8}),  # before and after
        (wake(8, 20.5) + on(8, 21) + off(8, 22, "S"), (8,), {}),  # after the record
        (off(8, 12, "D") + wake(8, 13) + wake(8, 14), (8,), {"running": 2, "off-cpu": 1, "ready": 7}),
    ],
)
def test_the_ends_of_a_record_cut_no_time_off(text: str, existed: tuple[int, ...], time: dict[str, float]) -> None:
    assert seconds(folded(text, existed)) == time


@pytest.mark.parametrize("state", ["X", "Z"])
def test_a_thread_that_is_killed_while_it_waits_has_no_time_after_its_end(state: str) -> None:
    text = off(8, 12, "S") + wake(8, 13) + on(8, 14) + off(8, 15, state, ids="-1/-1") + wake(8, 16)
    assert seconds(folded(text)) == {"running": 3, "off-cpu": 1, "ready": 1}


@pytest.mark.parametrize(
    ("text", "time"),
    [
        (off(8, 12, "S") + off(8, 14, "S") + on(8, 15), {"running": 7, "lost": 2, "off-cpu": 1}),
        (off(8, 10, "S") + on(8, 11) + on(8, 13) + off(8, 14, "S"), {"lost": 2, "running": 1, "off-cpu": 7}),
    ],
)
def test_time_between_switches_that_do_not_fit_together_is_lost(text: str, time: dict[str, float]) -> None:
    message = "mysqld 7/8 12.000000000: PERF_RECORD_LOST lost 31\n"
    switches = folded(message + text)
    assert seconds(switches) == time
    assert switches.lost == 31


def test_a_wait_for_a_futex_has_the_copied_stack() -> None:
    """The functions of the C library have no frame pointers: what the switch lacks, the copy at the call has."""
    switches = folded(futex(8, 11) + off(8, 12, "S", stack=BROKEN) + on(8, 13) + off(8, 14, "S"))
    first, second = [stack for stack in switches.stacks() if stack.event == "off-cpu"]
    assert [frame.name for frame in first.frames] == ["main", "lock", "__futex_wait"]
    assert first.frames[0] == Frame("main", "mysqld")
    assert second.frames[-1].name == "poll"


def test_a_call_for_a_futex_that_returns_at_once_gives_no_stack_to_the_next_wait() -> None:
    switches = folded(futex(8, 11) + off(8, 12, "S") + on(8, 13))
    assert [stack.frames[-1].name for stack in switches.stacks() if stack.event == "off-cpu"] == ["poll"]


def test_other_ids_inside_a_container_and_the_plugins_format_are_understood() -> None:
    """The kernel's own ids are those of the host; what libtraceevent's plugin writes is shorter."""
    text = off(1008, 12, "S", ids="7/8") + wake(1008, 14) + on(1008, 15, ids="7/8")
    text += "my d 7/8 16.000000000: 1 sched:sched_switch: my d:1008 [120] R ==> swapper/1:0 [120]\n\n"
    text += on(1008, 17, ids="7/8")
    assert seconds(folded(text)) == {"running": 6, "off-cpu": 2, "ready": 2}


def test_a_text_that_ends_in_a_sample_is_cut_off() -> None:
    assert folded(WHOLE + off(8, 19.5, "S").rstrip("\n")).cut_off
    assert not folded(WHOLE + wake(8, 19.5)).cut_off
    assert folded("what is this\n\tnone\n\n" + WHOLE).unreadable == 1


def test_doubts_are_warnings() -> None:
    stacks = list(folded(WHOLE).stacks())
    sure = Counted(recorded_share=1, running_s=3.05, program="mysqld")
    assert list(doubts(stacks, sure)) == []
    texts = [*doubts(stacks, sure._replace(running_s=4)), *doubts(stacks, sure._replace(recorded_share=0.5))]
    assert texts == [
        "threads ran 3 s by their switches, but used 4 s of CPU meanwhile",
        "only 50 % of the measured time was recorded, since perf was not ready before",
    ]
    lost = list(folded(off(8, 12, "S") + off(8, 14, "S")).stacks())
    assert list(doubts(lost, sure._replace(running_s=2))) == [
        "20 % of the threads' time is between switches that do not fit together"
    ]


def no_folder(tracing: Path) -> None:
    tracing.rmdir()


def odd_place(tracing: Path) -> None:
    """Numbers that no tracepoint has."""
    for name in perf_events.SWITCHES:
        place = tracing / "events" / name.replace(":", "/")
        place.mkdir(parents=True)
        (place / "id").write_text("99999999\n")


@pytest.mark.parametrize(
    ("make", "words"),
    [(no_folder, "the kernel shows no tracepoints in"), (odd_place, "the kernel refuses to record")],
)
def test_refused_tracepoints_are_said_by_the_error_and_the_doctor(
    make: Callable[[Path], None], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracing = tmp_path / "tracing"
    tracing.mkdir()
    make(tracing)
    monkeypatch.setattr(perf_events, "TRACING", tracing)
    with pytest.raises(RqpsError, match=rf"(?s)waits: {words}.*leave waits_rounds out of the study"):
        refuse_switches()
    assert waits_are_sampled()
    result = waits_recording()
    assert result.level == "note"
    assert result.observed.startswith(words)
    monkeypatch.setattr(sampled_waits, "used_by_threads", lambda _: {})  # a kernel that counts no time of threads
    with pytest.raises(RqpsError, match="leave waits_rounds out of the study"):
        waits_are_sampled()


def test_switches_of_other_programs_are_not_recorded() -> None:
    by_pointers = Switching("frame pointers", ("ib*", "my d")).arguments()
    of_these = '(prev_comm ~ "ib*" || prev_comm == "my d")'
    assert of_these in by_pointers
    assert sum("dwarf" in argument for argument in by_pointers) == 1
    of_copies = Switching("DWARF").arguments()
    assert not any("futex" in argument for argument in of_copies)
    assert "--filter" not in of_copies
