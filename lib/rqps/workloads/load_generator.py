"""Load generators as processes: started on their CPUs, read while they run, and never outliving us."""

import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from rqps.engines import keeper
from rqps.engines.mysql.instance import Server
from rqps.engines.sources.programs import sysbench
from rqps.errors import RqpsError
from rqps.workloads import How
from rqps.workloads.answers import read_moment

DATABASE = "rqps"
START_PATIENCE_S = 120
STATEMENT_PATIENCE_S = 60
READY_S = 1
"""Before a step without a warm-up of its own, for whoever observes it."""
DONE_AGAIN = "1213,1205,1020"
"""Errors after which a transaction is done again: a deadlock, a lock wait that took too long, a row that changed
meanwhile. sysbench's own choice, and the published one."""
LONGEST_LINE = 600
"""The longest part of a line in an error: sysbench repeats the statement, which may have thousands of rows."""
Options = Mapping[str, str | int | float]


class LoadGenerator:
    """A running load generator and the lines that it has written so far. Its `with` block ends it."""

    warmup_s = 0.0

    def __init__(
        self, argv: Sequence[str], environment: Mapping[str, str], server: Server, step: str, how: How
    ) -> None:
        self.server = server
        self.name = step
        self.log = how["log"]
        self.lines: list[str] = []
        self.process: subprocess.Popen[str] = subprocess.Popen(
            **_process(argv, environment, how["cpus"]), stdin=subprocess.PIPE
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.end()

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def gone(self) -> bool:
        return self.process.poll() is not None or self.server.ended()

    def end(self) -> None:
        """End the process, if it has not ended, and write what it said into its log."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.kill()
        self.process.wait()
        self._reader.join()
        self.log.write_text("".join(self.lines))

    def heard(self, line: str) -> None:
        """Take in a line as soon as it is written."""

    def failure(self, how: str = "") -> RqpsError:
        """The reason for the load's end. A server that ended comes first: its generator only reports the loss."""
        if self.server.ended(within_s=1):
            return self.server.end_of(self.name)
        running = self.process.poll() is None
        self.end()
        return RqpsError(f"{self.name}: {self.reason(how, running=running)}", fix=f"read all of {self.log.name}")

    def reason(self, how: str, *, running: bool) -> str:
        raise NotImplementedError

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line)
            self.heard(line)


class Sysbench(LoadGenerator):
    """A running sysbench with a script of ours."""

    def __init__(self, script: Path, options: Options, server: Server, step: str, threads: int, how: How) -> None:
        self.threads = threads
        self.failed = False
        """True when a thread has failed. The others end when they notice, which a long statement may delay."""
        self._origin_ns: int | None = None
        self._ends_ns: list[int] = []
        super().__init__(*sysbench_call(script, server, options), server, step, how)

    def wait_for_begin(self) -> int:
        """Wait until all threads have connected and warmed up; gives the origin of the measured part."""
        deadline = time.monotonic() + START_PATIENCE_S
        while self._origin_ns is None:
            if self.gone:
                raise self.failure()
            if time.monotonic() > deadline:
                text = f"{self.name}: sysbench did not begin within {START_PATIENCE_S} s"
                raise RqpsError(text, fix=f"see {self.log.name}")
            time.sleep(0.01)
        self.wait_until(self._origin_ns)
        return self._origin_ns

    def wait_until(self, moment_ns: int) -> None:
        """Wait for a moment of CLOCK_MONOTONIC, with an eye on both processes."""
        while (left_s := (moment_ns - time.monotonic_ns()) / 1e9) > 0:
            if self.process.poll() not in (None, 0) or self.server.ended():
                raise self.failure()
            time.sleep(min(left_s, 0.25))

    def wait_until_gone(self) -> None:
        """Wait until the last statement came to its end and sysbench ended well."""
        assert self.process.stdin is not None
        self.process.stdin.close()  # threads that have ended wait for it, so that their counters could be read
        try:
            code = self.process.wait(timeout=STATEMENT_PATIENCE_S)
        except subprocess.TimeoutExpired:
            raise self.hangs(STATEMENT_PATIENCE_S) from None
        if code != 0:
            raise self.failure()
        self._reader.join()

    @property
    def elapsed_s(self) -> float:
        """Seconds from the origin until the last thread ended its last transaction."""
        assert self._origin_ns is not None
        return (max(self._ends_ns) - self._origin_ns) / 1e9

    def heard(self, line: str) -> None:
        self.failed = self.failed or line.startswith("FATAL")
        if self._origin_ns is None:
            self._origin_ns = read_moment(line, "origin_ns")
        if (end_ns := read_moment(line, "ended_ns")) is not None:
            self._ends_ns.append(end_ns)

    def hangs(self, patience_s: int) -> RqpsError:
        return RqpsError(
            f"{self.name}: sysbench did not end within {patience_s} s of the measured part's end",
            fix="a statement hangs: see the server's process list while it runs",
        )

    def reason(self, how: str, *, running: bool) -> str:
        how = how or ("a thread of sysbench failed" if running else f"sysbench ended with code {self.process.poll()}")
        said = [line.rstrip()[:LONGEST_LINE] for line in self.lines if "FATAL" in line or "rror" in line][-5:]
        return f"{how}: " + "\n".join(said)


def run_to_its_end(
    argv: Sequence[str], environment: Mapping[str, str], cpus: tuple[int, ...] = ()
) -> "subprocess.CompletedProcess[str]":
    """A load generator that has been waited for, before anything is measured."""
    return subprocess.run(**_process(argv, environment, cpus), stdin=subprocess.DEVNULL, check=False)


def _process(argv: Sequence[str], environment: Mapping[str, str], cpus: tuple[int, ...]) -> dict[str, Any]:
    return {
        "args": keeper.command("exec", list(argv), cpus=cpus),
        "stdout": subprocess.PIPE,
        "stderr": subprocess.STDOUT,
        "text": True,
        "errors": "replace",
        "env": {"PATH": "/usr/bin:/bin", **environment},
        "start_new_session": True,  # a Ctrl-C in the terminal is for us, who end it in order
    }


def sysbench_call(script: Path, server: Server, options: Options) -> tuple[list[str], dict[str, str]]:
    """The command line and the environment of sysbench with a script of ours."""
    program = sysbench()
    usual: Options = {
        "db-driver": "mysql",
        "mysql-socket": str(server.socket),
        "mysql-user": "root",
        "mysql-db": DATABASE,
    }
    given = (f"--{name}={value}" for name, value in {**usual, **options}.items())
    lua_path = f"{script.parent}/?.lua;{program.environment.get('LUA_PATH', ';')}"
    return [*program.argv, str(script), *given, "run"], {**program.environment, "LUA_PATH": lua_path}


def switch(on: bool) -> str:
    return "on" if on else "off"
