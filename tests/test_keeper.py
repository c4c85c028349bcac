"""A program that we start never outlives us."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from child import until, wait_for_end
from rqps import keeper

STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(600)"


def guarded(argv: list[str], *scratch: Path, patience_s: float = 60) -> "subprocess.Popen[bytes]":
    command = keeper.command("guard", argv, cpus=(), scratch=tuple(map(str, scratch)), patience_s=patience_s)
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)


def read(process: "subprocess.Popen[bytes]") -> list[bytes]:
    assert process.stdout is not None
    return process.stdout.readline().split()


def status(pid: int, name: str) -> str:
    """A line of what the kernel says about a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(line for line in lines if line.startswith(f"{name}:")).split()[1]


def test_letting_go_of_the_pipe_stops_the_program_and_removes_its_scratch(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    (scratch / "ibdata1").write_text("rows")
    process = guarded(["/bin/sleep", "600"], scratch)
    pid = int(read(process)[1])
    assert process.stdin is not None
    process.stdin.close()
    assert read(process) == [b"exit", str(-signal.SIGTERM).encode()]
    assert process.wait() == 0
    wait_for_end(pid)
    assert not scratch.exists()


def test_a_program_that_waits_for_its_turn_stops_in_order() -> None:
    process = guarded(["/bin/sleep", "600"])
    pid = int(read(process)[1])
    os.kill(pid, signal.SIGSTOP)
    assert process.stdin is not None
    process.stdin.close()
    assert read(process) == [b"exit", str(-signal.SIGTERM).encode()]
    wait_for_end(pid)


PARENT = """
import os, sys, time
child = os.fork()
if child == 0:
    os.setsid()
    time.sleep(600)
print(child, file=open(sys.argv[1], "w"), flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("end", ["let go", "killed", "stopped child"])
def test_nothing_that_the_program_started_outlives_it(end: str, tmp_path: Path) -> None:
    process = guarded([sys.executable, "-c", PARENT, str(tmp_path / "pid")])
    pid = int(read(process)[1])
    until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
    child = int((tmp_path / "pid").read_text())
    if end == "stopped child":
        os.kill(child, signal.SIGSTOP)
    if end == "killed":
        os.kill(pid, signal.SIGKILL)
    else:
        assert process.stdin is not None
        process.stdin.close()
    assert read(process)[0] == b"exit"
    assert not Path(f"/proc/{child}").exists()


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_the_keeper_stops_the_program_in_order(sent: signal.Signals) -> None:
    process = guarded(["/bin/sleep", "600"])
    pid = int(read(process)[1])
    process.send_signal(sent)
    assert read(process)[0] == b"exit"
    wait_for_end(pid)


def test_a_program_that_does_not_stop_is_killed() -> None:
    process = guarded([sys.executable, "-c", STUBBORN], patience_s=0.2)
    pid = int(read(process)[1])
    until(lambda: int(status(pid, "SigIgn"), 16) & 1 << signal.SIGTERM - 1)
    assert process.stdin is not None
    process.stdin.close()
    assert read(process) == [b"exit", b"-9"]
    wait_for_end(pid)


def test_a_program_that_ends_by_itself_is_reported_with_its_code() -> None:
    process = guarded(["/bin/sh", "-c", "exit 7"])
    assert [read(process)[0], read(process)] == [b"pid", [b"exit", b"7"]]


def test_a_program_that_is_not_there_is_reported() -> None:
    process = guarded(["/no/such/mysqld"])
    assert [read(process)[0], read(process)] == [b"pid", [b"exit", b"127"]]


@pytest.mark.parametrize("mode", ["guard", "exec"])
def test_the_program_ends_when_its_owner_is_killed(mode: str, tmp_path: Path) -> None:
    code = (
        "import subprocess, sys, time; from rqps import keeper\n"
        f"command = keeper.command({mode!r}, ['/bin/sleep', '600'], cpus=(), scratch=({str(tmp_path / 's')!r},))\n"
        "process = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)\n"
        "print('keeper', process.pid, flush=True); time.sleep(600)"
    )
    (tmp_path / "s").mkdir()
    owner = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    words = dict([read(owner)] + ([read(owner)] if mode == "guard" else []))
    if mode == "exec":
        until(lambda: status(int(words[b"keeper"]), "Name") == "sleep")
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    for pid in words.values():
        wait_for_end(int(pid))
    assert (tmp_path / "s").exists() == (mode == "exec")


def test_the_program_ends_when_its_keeper_is_killed() -> None:
    process = guarded(["/bin/sleep", "600"])
    pid = int(read(process)[1])
    process.kill()
    process.wait()
    wait_for_end(pid)


def test_the_program_runs_on_its_cpus_alone() -> None:
    cpu = max(os.sched_getaffinity(0))
    command = keeper.command("exec", ["/bin/cat", "/proc/self/status"], cpus=(cpu,))
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert f"Cpus_allowed_list:\t{cpu}\n" in output
