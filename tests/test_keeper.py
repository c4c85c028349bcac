"""A program that we start never outlives us."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rqps.engines import keeper

STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(600)"


def guarded(argv: list[str], *scratch: Path, patience_s: float = 60) -> "subprocess.Popen[bytes]":
    command = keeper.command("guard", argv, cpus=(), scratch=tuple(map(str, scratch)), patience_s=patience_s)
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)


def read(process: "subprocess.Popen[bytes]") -> list[bytes]:
    assert process.stdout is not None
    return process.stdout.readline().split()


def gone(pid: int) -> bool:
    """True if a process ended, within patience: nobody but its parent can wait for it."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            if "Z" in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]:
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.02)
    return False


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
    assert gone(pid)
    assert not scratch.exists()


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_the_keeper_stops_the_program_in_order(sent: signal.Signals) -> None:
    process = guarded(["/bin/sleep", "600"])
    pid = int(read(process)[1])
    process.send_signal(sent)
    assert read(process)[0] == b"exit"
    assert gone(pid)


def test_a_program_that_does_not_stop_is_killed() -> None:
    process = guarded([sys.executable, "-c", STUBBORN], patience_s=0.2)
    pid = int(read(process)[1])
    time.sleep(0.5)  # until it ignores the signal
    assert process.stdin is not None
    process.stdin.close()
    assert read(process) == [b"exit", b"-9"]
    assert gone(pid)


def test_a_program_that_ends_by_itself_is_reported_with_its_code() -> None:
    process = guarded(["/bin/sh", "-c", "exit 7"])
    assert [read(process)[0], read(process)] == [b"pid", [b"exit", b"7"]]


def test_a_program_that_is_not_there_is_reported() -> None:
    process = guarded(["/no/such/mysqld"])
    assert [read(process)[0], read(process)] == [b"pid", [b"exit", b"127"]]


@pytest.mark.parametrize("mode", ["guard", "exec"])
def test_the_program_ends_when_its_owner_is_killed(mode: str, tmp_path: Path) -> None:
    code = (
        "import subprocess, sys, time; from rqps.engines import keeper\n"
        f"command = keeper.command({mode!r}, ['/bin/sleep', '600'], cpus=(), scratch=({str(tmp_path / 's')!r},))\n"
        "process = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)\n"
        "print('keeper', process.pid, flush=True); time.sleep(600)"
    )
    (tmp_path / "s").mkdir()
    owner = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    words = dict([read(owner)] + ([read(owner)] if mode == "guard" else []))
    if mode == "exec":
        time.sleep(0.5)  # until the keeper has become the program
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    assert all(gone(int(pid)) for pid in words.values())
    assert (tmp_path / "s").exists() == (mode == "exec")


def test_the_program_ends_when_its_keeper_is_killed() -> None:
    process = guarded(["/bin/sleep", "600"])
    pid = int(read(process)[1])
    process.kill()
    process.wait()
    assert gone(pid)


def test_the_program_runs_on_its_cpus_alone() -> None:
    cpu = max(os.sched_getaffinity(0))
    command = keeper.command("exec", ["/bin/cat", "/proc/self/status"], cpus=(cpu,))
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert f"Cpus_allowed_list:\t{cpu}\n" in said
