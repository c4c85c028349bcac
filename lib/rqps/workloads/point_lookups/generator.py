"""mysqlslap at work: held before its clients start and after they have gone, for counters to be read there.

The time is mysqlslap's own; the number of queries is counted by the server.
"""

import re
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self, Unpack

from rqps.engines.mysql.instance import Server, query
from rqps.errors import RqpsError
from rqps.workloads.load_generator import LoadGenerator, run_to_its_end
from rqps.workloads.point_lookups.mysqlslap import Slap
from rqps.workloads.point_lookups.steps import Step
from rqps.workloads.protocol import How

BEGIN, END = "rqps begin", "rqps end"
START_PATIENCE_S = 60
STALL_PATIENCE_S = 120
"""Without the server using any CPU."""
LOOK_S = 0.25
"""Between looks at whether all are still there. What mysqlslap says is heard at once."""
_CSV = re.compile(r"^[^,]*,[^,]*,(\d+\.\d{3}),(\d+\.\d{3}),(\d+\.\d{3}),(\d+),(\d+)$")


class Generator(LoadGenerator):
    """A running mysqlslap.

    It runs a shell command before its clients start and one after they have gone. Each says where it is and waits
    for a line of ours; both end when our end of the pipe is closed.
    """

    def __init__(self, slap: Slap, server: Server, step: Step, queries: int, **how: Unpack[How]) -> None:
        """Start it with so many queries of each client."""
        self.step = step
        self.queries = queries
        self.counted = Counted.of(server)
        """Counts of the server until now; when all is over, since mysqlslap was started."""
        self._words = {word: threading.Event() for word in (BEGIN, END)}
        self._began_ns = self._last_word_ns = 0
        shell = [f"--{when}-system=echo '{word}'; read -r go" for when, word in (("pre", BEGIN), ("post", END))]
        argv = [*slap.argv(server, step.database, step.kind.query, step.clients, queries), *shell]
        super().__init__(argv, slap.environment, server, step.name, how)

    def wait_for_begin(self) -> int:
        """Wait until mysqlslap has connected and is about to start its clients: they wait for `wait_for_end`."""
        deadline = time.monotonic() + START_PATIENCE_S
        self._wait_for(BEGIN, lambda: time.monotonic() < deadline, f"did not begin within {START_PATIENCE_S} s")
        return time.monotonic_ns()

    def wait_for_end(self) -> None:
        """Let the clients go, and wait until the last of them has gone."""
        self._began_ns = time.monotonic_ns()
        self._go_on()
        working = _Working(self.server.pid)
        self._wait_for(END, working, f"hangs: the server has done nothing for {STALL_PATIENCE_S} s")

    @property
    def elapsed_s(self) -> float:
        """Seconds from the word to go to the word that all clients have gone, by our own clock."""
        return (self._last_word_ns - self._began_ns) / 1e9

    def wait_until_gone(self) -> None:
        """Wait until mysqlslap has ended well, and ask the server how many queries it was."""
        self._go_on()
        try:
            code = self.process.wait(timeout=START_PATIENCE_S)
        except subprocess.TimeoutExpired:
            raise self.failure("did not end when all was done") from None
        if code != 0:
            raise self.failure("failed")
        self._reader.join()
        self.counted = Counted.of(self.server).since(self.counted)

    def heard(self, line: str) -> None:
        if (word := line.rstrip("\n")) in self._words:
            self._last_word_ns = time.monotonic_ns()
            self._words[word].set()

    def reason(self, how: str, *, running: bool) -> str:  # noqa: ARG002 a running one was ended by us
        said = "\n".join(complaints(self.lines)) or f"its exit code is {self.process.returncode}"
        return f"mysqlslap {how}: {said}"

    def _go_on(self) -> None:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write("\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise self.failure("ended too early") from None

    def _wait_for(self, word: str, patient: Callable[[], bool], else_: str) -> None:
        while not self._words[word].wait(LOOK_S):
            if self.gone:
                raise self.failure("ended too early")
            if not patient():
                raise self.failure(else_)


class _Working:
    """True as long as a process has used CPU lately."""

    def __init__(self, pid: int) -> None:
        self._clock = (~pid << 3) | 2  # the kernel's name for the scheduler's clock of a whole process
        self._used_ns, self._since = 0, time.monotonic()

    def __call__(self) -> bool:
        used_ns, now = time.clock_gettime_ns(self._clock), time.monotonic()
        if used_ns > self._used_ns:
            self._used_ns, self._since = used_ns, now
        return now - self._since < STALL_PATIENCE_S


def ask_once(slap: Slap, server: Server, step: Step, *, queries: int, cpus: tuple[int, ...]) -> float:
    """Seconds that one client takes to ask so often, before anything is measured.

    It shows that this mysqlslap can talk to this server.
    """
    began = time.monotonic()
    done = run_to_its_end(slap.argv(server, step.database, step.kind.query, 1, queries), slap.environment, cpus)
    lines = done.stdout.splitlines(keepends=True)
    if done.returncode != 0 or complaints(lines):
        said = "\n".join(complaints(lines)) or done.stdout.strip() or f"exit code {done.returncode}"
        raise RqpsError(
            f"{server.build.name}: mysqlslap {slap.version} can't put load on MySQL {server.build.version}: {said}",
            fix="give another mysqlslap in the study's parameters, a newer one mostly; all dbms are then asked by it",
        )
    return time.monotonic() - began


@dataclass(frozen=True)
class Report:
    """The line that mysqlslap writes: its time is from when its clients may connect until all have gone."""

    elapsed_s: float
    clients: int
    queries: int
    """Queries that each client was to do. mysqlslap does not check that it did."""


def read_report(lines: list[str]) -> Report | None:
    r"""Its one line of comma-separated values, if it came to that.

    >>> read_report(["rqps begin\n", ",mixed,1.234,1.234,1.234,4,2500\n"])
    Report(elapsed_s=1.234, clients=4, queries=2500)
    """
    for line in lines:
        if found := _CSV.match(line.rstrip("\n")):
            return Report(float(found[1]), int(found[4]), int(found[5]))
    return None


def complaints(lines: list[str]) -> list[str]:
    r"""Lines in which mysqlslap speaks of itself, each once.

    >>> complaints(["rqps begin\n", "/opt/bin/mysqlslap: Cannot run\n", "/opt/bin/mysqlslap: Cannot run\n"])
    ['mysqlslap: Cannot run']
    """
    said = (re.sub(r"^\S*mysqlslap: ", "mysqlslap: ", line.rstrip()) for line in lines)
    return list(dict.fromkeys(line for line in said if line.startswith("mysqlslap: ")))


def failed(lines: list[str]) -> int:
    """Queries that came back with an error: the last of a client, which then leaves."""
    return sum("mysqlslap: Cannot run query" in line for line in lines)


@dataclass(frozen=True)
class Counted:
    """Counts of the server."""

    selects: int
    """SELECT statements, failed ones too; none of ours for control is one."""
    refused: int
    """Connections. mysqlslap tries again a tenth of a second later, and says nothing if that goes well."""
    threads_ended: int
    """Threads of connections that are no more, neither at work nor kept for the next; their counters went, too."""

    @classmethod
    def of(cls, server: Server) -> Self:
        connection = server.connect()
        counts = dict(
            query(
                connection, "SHOW GLOBAL STATUS WHERE variable_name RLIKE '^(Com_select|Aborted_connects|Threads_)'"
            )
        )
        connection.close()
        there = int(counts["Threads_cached"]) + int(counts["Threads_connected"])
        return cls(int(counts["Com_select"]), int(counts["Aborted_connects"]), int(counts["Threads_created"]) - there)

    def since(self, earlier: Self) -> Self:
        return type(self)(
            self.selects - earlier.selects,
            self.refused - earlier.refused,
            self.threads_ended - earlier.threads_ended,
        )
