"""mysqlslap as a process: held before its clients start and after they have gone, for counters to be read there."""

import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rqps.engines import keeper
from rqps.engines.instance import Server
from rqps.errors import RqpsError
from rqps.workloads.point_lookups.answer import Counted, complaints
from rqps.workloads.point_lookups.mysqlslap import Slap
from rqps.workloads.point_lookups.steps import Step

BEGIN, END = "rqps begin", "rqps end"
START_PATIENCE_S = 60
STALL_PATIENCE_S = 120
"""Without the server using any CPU."""
LOOK_S = 0.25
"""Between looks at whether all are still there. What mysqlslap says is heard at once."""


class Generator:
    """A running mysqlslap, and what it has written so far.

    It runs a shell command before its clients start and one after they have gone. Each says where it is and waits
    for a line of ours; both end when our end of the pipe is closed.
    """

    def __init__(
        self,
        process: "subprocess.Popen[str]",
        server: Server,
        step: Step,
        *,
        queries: int,
        counted: Counted,
        log: Path,
    ) -> None:
        self.process = process
        self.server = server
        self.step = step
        self.queries = queries
        self.log = log
        self.lines: list[str] = []
        self.warmup_s = 0.0
        self.counted = counted
        """By the server until now; when all is over, since mysqlslap was started."""
        self._said = {word: threading.Event() for word in (BEGIN, END)}
        self._began_ns = self._told_ns = 0
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self.process.pid

    def wait_for_begin(self) -> int:
        """Waits until mysqlslap has connected and is about to start its clients: they wait for `wait_for_end`."""
        deadline = time.monotonic() + START_PATIENCE_S
        self._wait_for(BEGIN, lambda: time.monotonic() < deadline, f"did not begin within {START_PATIENCE_S} s")
        return time.monotonic_ns()

    def wait_for_end(self) -> None:
        """Lets the clients go, and waits until the last of them has gone."""
        self._began_ns = time.monotonic_ns()
        self._go_on()
        working = _Working(self.server.pid)
        self._wait_for(END, working, f"hangs: the server has done nothing for {STALL_PATIENCE_S} s")

    @property
    def elapsed_s(self) -> float:
        """From the word to go to the word that all clients have gone, by our own clock."""
        return (self._told_ns - self._began_ns) / 1e9

    def wait_until_gone(self) -> None:
        """Waits until mysqlslap has ended well, and asks the server how many queries it was."""
        self._go_on()
        try:
            code = self.process.wait(timeout=START_PATIENCE_S)
        except subprocess.TimeoutExpired:
            raise self._failure("did not end when all was done") from None
        if code != 0:
            raise self._failure("failed")
        self._reader.join()
        self.counted = Counted.of(self.server).since(self.counted)

    def end(self) -> None:
        """Ends it, if it has not, and keeps what it said."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.kill()
        self.process.wait()
        self._reader.join()
        self.log.write_text("".join(self.lines))

    def complaints(self) -> list[str]:
        """What it said of errors; it ends with success all the same."""
        return complaints(self.lines)

    def _go_on(self) -> None:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write("\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise self._failure("ended too early") from None

    def _wait_for(self, word: str, patient: Callable[[], bool], else_: str) -> None:
        while not self._said[word].wait(LOOK_S):
            if self.process.poll() is not None or self.server.ended():
                raise self._failure("ended too early")
            if not patient():
                raise self._failure(else_)

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line)
            if line.rstrip("\n") in self._said:
                self._told_ns = time.monotonic_ns()
                self._said[line.rstrip("\n")].set()

    def _failure(self, how: str) -> RqpsError:
        """Why it ended: the server's end comes first, since mysqlslap only tells that it lost it."""
        if self.server.ended(within_s=1):
            return self.server.end_of(self.step.name)
        self.end()
        code = self.process.returncode
        said = "\n".join(self.complaints()) or f"its exit code is {code}"
        return RqpsError(f"{self.step.name}: mysqlslap {how}: {said}", fix=f"read all that it said, {self.log.name}")


class _Working:
    """Whether a process has used CPU lately."""

    def __init__(self, pid: int) -> None:
        self._clock = (~pid << 3) | 2  # the kernel's name for the scheduler's clock of a whole process
        self._used_ns, self._since = 0, time.monotonic()

    def __call__(self) -> bool:
        used_ns, now = time.clock_gettime_ns(self._clock), time.monotonic()
        if used_ns > self._used_ns:
            self._used_ns, self._since = used_ns, now
        return now - self._since < STALL_PATIENCE_S


@contextmanager
def generating(
    slap: Slap, server: Server, step: Step, *, queries: int, cpus: tuple[int, ...], log: Path
) -> Iterator[Generator]:
    """mysqlslap putting the load of one step: so many queries of each client."""
    argv = slap.argv(server, step.database, step.kind.query, step.clients, queries)
    counted = Counted.of(server)
    process = subprocess.Popen(
        keeper.command("exec", [*argv, *_held()], cpus=cpus),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=_environment(slap),
        start_new_session=True,  # a Ctrl-C in the terminal is for us, who end it in order
    )
    generator = Generator(process, server, step, queries=queries, counted=counted, log=log)
    try:
        yield generator
    finally:
        generator.end()


def ask_once(slap: Slap, server: Server, step: Step, *, queries: int, cpus: tuple[int, ...]) -> float:
    """One client that asks so often, before anything is measured; how long it took.

    It shows that this mysqlslap can talk to this server.
    """
    began = time.monotonic()
    argv = slap.argv(server, step.database, step.kind.query, 1, queries)
    done = subprocess.run(
        keeper.command("exec", argv, cpus=cpus),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=_environment(slap),
        start_new_session=True,
        check=False,
    )
    lines = done.stdout.splitlines(keepends=True)
    if done.returncode != 0 or complaints(lines):
        said = "\n".join(complaints(lines)) or done.stdout.strip() or f"exit code {done.returncode}"
        raise RqpsError(
            f"{server.build.name}: mysqlslap {slap.version} can't put load on MySQL {server.build.version}: {said}",
            fix="give another mysqlslap in the study's parameters, a newer one mostly; all dbms are then asked by it",
        )
    return time.monotonic() - began


def _held() -> list[str]:
    """Commands that a shell runs before the clients start and after they have ended."""
    return [f"--{when}-system=echo '{word}'; read -r go" for when, word in (("pre", BEGIN), ("post", END))]


def _environment(slap: Slap) -> dict[str, str]:
    return {"PATH": "/usr/bin:/bin", **slap.environment}
