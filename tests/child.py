"""A Python process that a test can watch: it does what its script says between one turn and the next."""

import subprocess
import sys
import textwrap
import time
from pathlib import Path
from types import TracebackType
from typing import Self

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
    deadline_s = time.monotonic() + 10
    while len(list(Path(f"/proc/{pid}/task").iterdir())) != count:
        assert time.monotonic() < deadline_s
        time.sleep(0.001)


SPINNING = """
    turn()
    while True: pass
"""
