"""sysbench as a process with a script of ours: started on its CPUs, read while it runs, and never outliving us."""

import subprocess
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from rqps.engines import keeper
from rqps.engines.instance import Server
from rqps.engines.tools import sysbench
from rqps.errors import RqpsError
from rqps.workloads.sysbench.answer import read_end, read_origin

DATABASE = "rqps"
START_PATIENCE_S = 120
STATEMENT_PATIENCE_S = 60
LONGEST_SAID = 600
"""Of a line in an error: sysbench repeats the statement, which may have thousands of rows."""
Options = Mapping[str, str | int | float]


class Process:
    """A running sysbench, and what it has written so far."""

    def __init__(self, process: "subprocess.Popen[str]", server: Server, step: str, threads: int, log: Path) -> None:
        self.process = process
        self.server = server
        self.name = step
        self.threads = threads
        self.log = log
        self.lines: list[str] = []
        self.failed = False
        """Whether a thread has: the others end when they notice, which a long statement may keep them from."""
        self._origin_ns: int | None = None
        self._ends_ns: list[int] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self.process.pid

    def wait_for_begin(self) -> int:
        """Waits until all threads have connected and warmed up; the origin of the measured part."""
        deadline = time.monotonic() + START_PATIENCE_S
        while self._origin_ns is None:
            if self.process.poll() is not None or self.server.ended():
                raise self._failure()
            if time.monotonic() > deadline:
                raise RqpsError(
                    f"{self.name}: sysbench did not begin within {START_PATIENCE_S} s",
                    fix=f"see {self.log.name}",
                )
            time.sleep(0.01)
        self._wait_until(self._origin_ns)
        return self._origin_ns

    def wait_until_gone(self) -> None:
        """Waits until the last statement came to its end and sysbench ended well."""
        assert self.process.stdin is not None
        self.process.stdin.close()  # threads that have ended wait for it, so that their counters could be read
        try:
            code = self.process.wait(timeout=STATEMENT_PATIENCE_S)
        except subprocess.TimeoutExpired:
            raise self._hangs(STATEMENT_PATIENCE_S) from None
        if code != 0:
            raise self._failure()
        self._reader.join()

    def end(self) -> None:
        """Ends it, if it has not, and keeps what it said."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.kill()
        self.process.wait()
        self._reader.join()
        self.log.write_text("".join(self.lines))

    def _wait_until(self, moment_ns: int) -> None:
        """Waits for a moment of CLOCK_MONOTONIC, with an eye on both processes."""
        while (left_s := (moment_ns - time.monotonic_ns()) / 1e9) > 0:
            if self.process.poll() not in (None, 0) or self.server.ended():
                raise self._failure()
            time.sleep(min(left_s, 0.25))

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line)
            self.failed = self.failed or line.startswith("FATAL")
            if self._origin_ns is None:
                self._origin_ns = read_origin(line)
            if (end_ns := read_end(line)) is not None:
                self._ends_ns.append(end_ns)

    def _hangs(self, patience_s: int) -> RqpsError:
        return RqpsError(
            f"{self.name}: sysbench did not end within {patience_s} s of the measured part's end",
            fix="a statement hangs: see the server's process list while it runs",
        )

    def _failure(self) -> RqpsError:
        """Why it ended: the server's end comes first, since sysbench only tells that it lost it."""
        if self.server.ended(within_s=1):
            return self.server.end_of(self.name)
        code = self.process.poll()
        how = "a thread of sysbench failed" if code is None else f"sysbench ended with code {code}"
        self.end()
        said = [line.rstrip()[:LONGEST_SAID] for line in self.lines if "FATAL" in line or "rror" in line][-5:]
        return RqpsError(
            f"{self.name}: {how}: " + "\n".join(said),
            fix=f"read the whole of what it said, {self.log.name}",
        )


def started(script: Path, server: Server, options: Options, *, cpus: tuple[int, ...]) -> "subprocess.Popen[str]":
    """sysbench with a script, until its process is told to end."""
    return subprocess.Popen(
        keeper.command("exec", _argv(script, server, options), cpus=cpus),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=_environment(script),
        start_new_session=True,  # a Ctrl-C in the terminal is for us, who end it in order
    )


def done(script: Path, server: Server, options: Options) -> "subprocess.CompletedProcess[str]":
    """sysbench with a script that has been waited for."""
    return subprocess.run(
        keeper.command("exec", _argv(script, server, options), cpus=()),
        capture_output=True,
        text=True,
        env=_environment(script),
        start_new_session=True,
        check=False,
    )


def _argv(script: Path, server: Server, options: Options) -> list[str]:
    usual: dict[str, str | int | float] = {
        "db-driver": "mysql",
        "mysql-socket": str(server.socket),
        "mysql-user": "root",
        "mysql-db": DATABASE,
    }
    return [
        *sysbench().argv,
        str(script),
        *(f"--{name}={value}" for name, value in {**usual, **options}.items()),
        "run",
    ]


def _environment(script: Path) -> dict[str, str]:
    given = sysbench().environment
    return {"PATH": "/usr/bin:/bin", **given, "LUA_PATH": f"{script.parent}/?.lua;{given.get('LUA_PATH', ';')}"}


def switch(on: bool) -> str:
    return "on" if on else "off"
