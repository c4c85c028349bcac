"""Processes in tests: those of a folder, waits for a condition, and a Python child that stops at its turns."""

import os
import select
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

import pytest
from rqps.cli import main
from rqps.measure.turns import stands_still

PATIENCE_S = 240.0
"""For what takes a second on a machine that has nothing else to do."""


def until(met: Callable[[], object], patience_s: float = PATIENCE_S, why: Callable[[], str] = lambda: "") -> None:
    """Waits for a condition; `why` gives the words of the failure where it never comes."""
    deadline_s = time.monotonic() + patience_s
    while not met():
        assert time.monotonic() < deadline_s, why()
        time.sleep(0.02)


def next_of(file: int, most: int = 4096) -> bytes:
    """The next bytes of a pipe or terminal; a failure where none come, and the file does not end."""
    readable = select.poll()
    readable.register(file, select.POLLIN)
    assert readable.poll(PATIENCE_S * 1000), f"nothing came for {PATIENCE_S:.0f} s"
    return os.read(file, most)


def share_cache(own: Path, users: Path, *more: str) -> None:
    """Puts links to what is in the user's cache into another one. All else that has for itself: no study there waits
    for one that is measured elsewhere."""
    shared = ("apt", "builds", "debian", "facts", "made", "maven", "npm", "sources", "tools")
    for name in (*shared, *more):
        (users / name).mkdir(parents=True, exist_ok=True)
        if not (own / name).exists():
            (own / name).symlink_to(users / name)


class Done(NamedTuple):
    returncode: str | int | None
    stdout: str
    stderr: str


def rqps(*words: str, cwd: Path, **environment: str) -> Done:
    """The command from a folder, in this process: of its own it would take half a second of CPU."""
    with (
        chdir(cwd),
        pytest.MonkeyPatch.context() as patch,
        redirect_stdout(StringIO()) as out,
        redirect_stderr(StringIO()) as err,
    ):
        patch.delenv("RQPS_DATA", raising=False)
        for name, value in environment.items():
            patch.setenv(name, value)
        try:
            code: str | int | None = main(words)
        except SystemExit as ended:
            code = ended.code
    return Done(code, out.getvalue(), err.getvalue())


@contextmanager
def small_disk(folder: Path, size_bytes: int) -> Iterator[bool]:
    """The folder on a file system of this size, and true, where we may mount one; else the folder as it is."""
    folder.mkdir(exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size_bytes}", "none", str(folder)]
    is_small = os.geteuid() == 0 and subprocess.run(mount, stderr=subprocess.DEVNULL).returncode == 0
    try:
        yield is_small
    finally:
        if is_small:
            subprocess.run(["umount", str(folder)], check=True)


def is_running(pid: int) -> bool:
    """True for a process that has not ended; one that nobody has waited for has."""
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_for_end(pid: int) -> None:
    until(lambda: not is_running(pid), why=lambda: f"process {pid} has not ended")


@contextmanager
def stopping(pid: int) -> Iterator[None]:
    """The process has stopped in the block: a signal takes effect only when the process gets a CPU."""
    os.kill(pid, signal.SIGSTOP)
    try:
        until(lambda: stands_still(pid), why=lambda: f"process {pid} has not stopped")
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def running_from(folder: Path) -> dict[int, str]:
    """Processes that have to do with this folder, by id, with their command lines; not ourselves."""
    results = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            traces = [(process / name).read_bytes() for name in ("cmdline", "environ")]
            traces.append(os.fsencode((process / "cwd").readlink()))
        except OSError:  # ended meanwhile, or somebody else's
            continue
        if any(os.fsencode(folder) in trace for trace in traces) and int(process.name) != os.getpid():
            results[int(process.name)] = traces[0].replace(b"\0", b" ").decode(errors="replace")
    return results


_TURN = "def turn(*said): print(*said, flush=True); input()\n"


class Child:
    """Runs a script that calls `turn()`: there it stops until `go_on()`, which waits for the next `turn()`.

    What a script says with `turn(...)` is what `go_on()` returns.
    """

    def __init__(self, script: str) -> None:
        self.said = ""
        self._process = subprocess.Popen(
            [sys.executable, "-c", _TURN + textwrap.dedent(script)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.pid = self._process.pid

    def __enter__(self) -> Self:
        self._listen()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def go_on(self) -> str:
        self.send()
        return self._listen()

    def send(self) -> None:
        """Let it go on without waiting for its next turn."""
        assert self._process.stdin
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()

    def _listen(self) -> str:
        assert self._process.stdout
        line = self._process.stdout.readline()
        assert line, "the child ended before its turn"
        self.said = line.strip()
        return self.said


def waiting_threads(count: int) -> str:
    """A script of a process with `count` threads more that wait, and end in its second turn."""
    return f"""
        import threading
        go = threading.Event()
        threads = [threading.Thread(target=go.wait) for _ in range({count})]
        for thread in threads: thread.start()
        turn()
        go.set()
        for thread in threads: thread.join()
        turn()
    """


def wait_for_threads(pid: int, count: int) -> None:
    """Python says that a thread has been joined a moment before the kernel has seen it off."""
    until(lambda: len(list(Path(f"/proc/{pid}/task").iterdir())) == count)


SPINNING = """
    turn()
    while True: pass
"""
