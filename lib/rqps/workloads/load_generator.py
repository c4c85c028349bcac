"""Runs load generators as processes: starts them on their CPUs, reads their output, and ends them when rqps ends."""

import math
import re
import subprocess
import threading
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from typing import Any, Self

from rqps import keeper
from rqps.engines.sources.programs import sysbench
from rqps.errors import RqpsError
from rqps.numbers import sized
from rqps.workloads import How

DATABASE = "rqps"
SHARED_LUA = Path(str(files(__package__) / "lua"))
END_PATIENCE_S = 60
LOOK_S = 0.25
"""Seconds between checks that generator and servers still run. The generator's output is read as it comes."""
READY_S = 1
"""Seconds that a step without a warm-up waits before its measured part begins, so that its recorders can start."""
LONGEST_LINE = 600
STATEMENT = re.compile(r"(for query '(?:\w+ ){,3}\w*).*")
"""Matches the statement that sysbench quotes in an error message, to shorten it to its first words."""
Options = Mapping[str, str | int | float]


class LoadGenerator:
    """A running load generator and its output so far. Leaving its `with` block ends the process. `servers` is empty
    if the engine runs inside the generator's process.

    The generator reports by output lines `rqps MOMENT TIME`; the time is CLOCK_MONOTONIC in ns. For a line without
    a time, rqps takes the time when it reads the line. The moments are: `origin`, the begin of the measured part,
    which a generator that begins by itself reports in advance; `ready`, after which a generator that does not begin
    by itself waits for a line of input; `ended`, after which a generator waits until its input is closed, so that
    its counters can be read; and `failed`, which has in place of the time the position of the server on which a
    thread failed.
    """

    program = "sysbench"
    begins_by_itself = True
    start_patience_s = 120.0
    patience_s = math.inf
    slice_s = 0.05
    origin_ns = 0
    warmup_s = 0.0

    def __init__(
        self, call: tuple[Sequence[str], Mapping[str, str]], servers: Sequence[Any], step: str, threads: int, how: How
    ) -> None:
        """Starts the process; `call` is its command line and environment."""
        self.servers = servers
        self.name = step
        self.threads = threads
        self.log = how["log"]
        self.lines: list[str] = []
        self.moments_ns: defaultdict[str, list[int]] = defaultdict(list)
        self.failed = False
        """True once a thread has failed. The other threads end after their current statement, which may be long."""
        self._heard = threading.Event()
        self.process: subprocess.Popen[str] = subprocess.Popen(**_process(*call, how["cpus"]), stdin=subprocess.PIPE)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.end()

    @property
    def pid(self) -> int:
        return self.process.pid

    def wait_for_begin(self) -> int:
        """Wait until all threads have connected and warmed up; returns the time when the measured part begins."""
        if self.begins_by_itself:
            self.wait_for("origin", 1, self.start_patience_s)
            self.origin_ns = self.moments_ns["origin"][0]
            self.wait_until(self.origin_ns)
        else:
            self.wait_for("ready", self.threads, self.start_patience_s)
            self.origin_ns = time.monotonic_ns()
        return self.origin_ns

    def wait_for_end(self) -> None:
        """Let all threads begin, if they wait for a line of input, and wait until every thread has finished."""
        if not self.begins_by_itself:
            self.origin_ns = time.monotonic_ns()
            self.let_begin(self.threads)
        self.wait_for("ended", self.threads, self.patience_s)

    def let_begin(self, threads: int) -> None:
        """Write `threads` lines to the generator's input; each thread begins when it has read one line."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write("\n" * threads)
            self.process.stdin.flush()
        except BrokenPipeError:
            raise self.failure() from None

    def wait_until_gone(self) -> None:
        """Wait until the last statement and the process have ended; raises an error if the process failed."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            code = self.process.wait(timeout=END_PATIENCE_S)
        except subprocess.TimeoutExpired:
            raise self.failure(f"did not end within {END_PATIENCE_S} s of the measured part's end") from None
        if code != 0:
            raise self.failure()
        self._reader.join()

    def wait_for_all(self) -> None:
        """Run an unmeasured load from its begin to its end."""
        self.wait_for_begin()
        self.wait_for_end()
        self.wait_until_gone()

    def wait_for(self, moment: str, threads: int, patience_s: float) -> None:
        """Wait until `threads` threads have reported `moment`; raises an error after `patience_s` seconds."""
        deadline = time.monotonic() + patience_s
        while not self.came_to(moment, threads):
            if time.monotonic() > deadline:
                raise self.failure(f"did not get to {moment!r} within {sized(patience_s)} s")
            self._heard.wait(LOOK_S)
            self._heard.clear()

    def came_to(self, moment: str, threads: int) -> bool:
        """True if `threads` threads have reported `moment`; raises an error if the load failed before that."""
        if len(self.moments_ns[moment]) >= threads:
            return True
        if self.failed or self.process.poll() is not None or self._lost():
            raise self.failure()
        return False

    def ended_within(self, seconds: float) -> bool:
        """Wait until all threads have ended, but no longer than `seconds`; True if they have ended."""
        deadline = time.monotonic() + seconds
        while not (ended := self.came_to("ended", self.threads)) and (left_s := deadline - time.monotonic()) > 0:
            self._heard.wait(left_s)
            self._heard.clear()
        return ended

    def operations(self) -> int | None:
        return None

    def wait_until(self, moment_ns: int) -> None:
        """Wait until this time of CLOCK_MONOTONIC; raises an error if the generator or a server fails meanwhile."""
        while (left_s := (moment_ns - time.monotonic_ns()) / 1e9) > 0:
            if self.failed or self.process.poll() not in (None, 0) or self._lost():
                raise self.failure()
            time.sleep(min(left_s, LOOK_S))

    @property
    def elapsed_s(self) -> float:
        """Seconds from the begin of the measured part until the last thread ended its last transaction."""
        return (max(self.moments_ns["ended"]) - self.origin_ns) / 1e9

    def end(self) -> None:
        """End the process if it still runs, and write its output into its log."""
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # a line for a process that has ended may still be buffered
            self.process.stdin.close()
        self.process.kill()
        self.process.wait()
        self._reader.join()
        self.log.write_text("".join(self.lines))

    def failure(self, late: str = "") -> RqpsError:
        """The error of a failed load, or of a server that has ended, which makes the load fail."""
        if lost := self._lost(within_s=1):
            ended: RqpsError = lost.end_of(self.name)
            return ended
        if not (late or self.failed):
            # A process that fails usually ends by itself within this second; then its exit code is known.
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(1)
        running = self.process.poll() is None
        self.end()
        reason = late or ("failed in a thread" if running else f"ended with code {self.process.returncode}")
        of = [self.servers[side].name for side in self.moments_ns["failed"][:1]]
        of += [server.name for server in self.servers if late and not server.answers()]
        reason += f" on {', '.join(of)}" * bool(of)
        message = "\n".join(self.complaints())
        fix = f"read all of {self.log.name}" + "; see the server's process list while a statement hangs" * bool(late)
        return RqpsError(f"{self.name}: {self.program} {reason}" + f": {message}" * bool(message), fix=fix)

    def _lost(self, within_s: float = 0) -> Any | None:
        return next((server for server in self.servers if server.ended(within_s / len(self.servers))), None)

    def complaints(self) -> list[str]:
        """The last lines about an error."""
        return complaints(self.lines)

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line)
            if line.startswith("rqps "):
                _, name, *at_ns = line.split()
                self.moments_ns[name].append(int(at_ns[0]) if at_ns else time.monotonic_ns())
            self.failed = self.failed or line.startswith("FATAL")
            self._heard.set()


def complaints(lines: Sequence[str]) -> list[str]:
    """The last lines about an error, without the rows of a statement.

    >>> complaints(["FATAL: error 2013 (Lost connection) for query 'INSERT INTO sbtest1(k) VALUES (501),(7)'"])
    ["FATAL: error 2013 (Lost connection) for query 'INSERT INTO sbtest1…"]
    """
    errors = [line.rstrip() for line in lines if "FATAL" in line or "rror" in line]
    return [STATEMENT.sub(r"\1…", line)[:LONGEST_LINE] for line in errors[-5:]]


def run_to_its_end(
    argv: Sequence[str], environment: Mapping[str, str], cpus: tuple[int, ...] = ()
) -> "subprocess.CompletedProcess[str]":
    """Runs a load generator to its end, before anything is measured."""
    return subprocess.run(**_process(argv, environment, cpus), stdin=subprocess.DEVNULL, check=False)


def _process(argv: Sequence[str], environment: Mapping[str, str], cpus: tuple[int, ...]) -> dict[str, Any]:
    return {
        "args": keeper.command("exec", list(argv), cpus=cpus),
        "stdout": subprocess.PIPE,
        "stderr": subprocess.STDOUT,
        "text": True,
        "errors": "replace",
        "env": {"PATH": "/usr/bin:/bin", **environment},
        "start_new_session": True,  # Ctrl-C in the terminal reaches only rqps, which then ends the generator
    }


def sysbench_call(script: Path, servers: Sequence[Any], options: Options) -> tuple[list[str], dict[str, str]]:
    """The command line and environment of sysbench with one of rqps's Lua scripts."""
    program = sysbench()
    of_servers = servers[0].sysbench_options(servers, DATABASE)
    given = (f"--{name}={value}" for name, value in {**of_servers, **options}.items())
    lua_path = f"{script.parent}/?.lua;{SHARED_LUA}/?.lua;{program.environment.get('LUA_PATH', ';')}"
    return [*program.argv, str(script), *given, "run"], {**program.environment, "LUA_PATH": lua_path}


def switch(on: bool) -> str:
    return "on" if on else "off"
