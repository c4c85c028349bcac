"""Servers as processes under a keeper, each on a private socket: what is alike in all engines that are servers."""

import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Self
from weakref import WeakSet

import psutil

from rqps import keeper
from rqps.engines import Build, Start
from rqps.errors import RqpsError
from rqps.scratch import Scratch

LAST_LINES = 15
LONGEST_WORDS = 300
"""Characters of a server's own words on a statement, which may repeat all its rows."""
SECONDS_BETWEEN_TRIES = 0.02
SEE_THE_LOG = "look in its log for what ended it; if memory ran out, the kernel's log says so"


@dataclass(frozen=True)
class KeptServer:
    """A server that answers. `pid` is its first process, `keeper` the process that stops it when we are gone."""

    build: Build
    pid: int
    socket: Path
    directory: Path
    error_log: Path
    private: Scratch
    """The folder of its socket."""
    keeper: "subprocess.Popen[bytes]"
    connections: "WeakSet[Any]" = field(default_factory=WeakSet, repr=False, compare=False)
    """That were given out."""

    SOCKET: ClassVar[str]
    """The name of its socket."""
    REFUSALS: ClassVar[tuple[type[Exception], ...]] = ()
    """The errors of its client where it refuses a statement."""
    STOP: ClassVar[int] = signal.SIGTERM
    """The signal that asks it to stop at once and in order."""
    START_PATIENCE_S: ClassVar[float] = 60.0
    GREETING_PATIENCE_S: ClassVar[float] = 5.0

    @classmethod
    def begin(
        cls,
        build: Build,
        data: Path,
        asked: Start,
        argv: Callable[[Path], Sequence[str]],
        environment: Mapping[str, str] | None = None,
    ) -> Self:
        """Starts a server and waits until it answers. `argv` gives its command line for the path of its socket."""
        private = Scratch()
        socket = private.socket(cls.SOCKET)
        folders = tuple(str(folder) for folder in (private.path, *asked.scratch))
        process = subprocess.Popen(
            keeper.command("guard", list(argv(socket)), cpus=asked.cpus, scratch=folders, stop=cls.STOP),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=asked.log.open("ab"),  # where the server writes by itself, once it can
            env={"PATH": "/usr/bin:/bin", **(environment or {}), **build.environment, **asked.environment},
            cwd=private.path,
            bufsize=0,  # or what its keeper says of its end may be read with the beginning
            start_new_session=True,  # a Ctrl-C in the terminal is for us: the keeper stops the server when we say so
        )
        asked.started(process.pid)
        assert process.stdout is not None
        reported = process.stdout.readline().split()
        server = cls(build, int(reported[1]) if reported else 0, socket, data, asked.log, private, process)
        try:
            server._wait_until_it_answers(asked.patience_s or cls.START_PATIENCE_S)
        except BaseException:
            server.close()
            raise
        return server

    def _wait_until_it_answers(self, patience_s: float) -> None:
        deadline = time.monotonic() + patience_s
        while (left_s := deadline - time.monotonic()) > 0 and not self.ended():
            if self.answers(left_s):
                return
            time.sleep(SECONDS_BETWEEN_TRIES)
        ended = f"did not start, it ended {self._end()[1]}" if self.ended() else ""
        raise RqpsError(
            f"{self.build.name} ({self.build.version}) {ended or f'did not answer within {patience_s:g} s'}; "
            f"{self._in_its_log()}",
            fix=SEE_THE_LOG,
        )

    @property
    def name(self) -> str:
        """Its name among servers that are up at the same time."""
        return self.build.name

    @property
    def pids(self) -> tuple[int, ...]:
        """Its first process and the children of that one, which come and go."""
        try:
            return (self.pid, *(child.pid for child in psutil.Process(self.pid).children(recursive=True)))
        except psutil.NoSuchProcess:
            return (self.pid,)

    @property
    def places(self) -> Mapping[str, str]:
        """Paths of this machine that stand in its settings and say nothing of it, each with a word instead."""
        scratch, private, build = self.directory.parent, self.socket.parent, self.build.directory
        return {str(scratch): "<scratch>", str(private): "<private>", str(build): "<build>"}

    def refuse(self, wrong: Sequence[str], config: str) -> None:
        """Fails if anything is wrong with what a config asked for."""
        if wrong:
            raise RqpsError(
                f"{self.name}: the server does not have what was asked for:\n  " + "\n  ".join(wrong),
                fix=f"change config {config!r} in runs.yaml to what this server and host can do",
            )

    def answers(self, patience_s: float = GREETING_PATIENCE_S) -> bool:
        """False if it does not even greet us."""
        raise NotImplementedError

    def close(self) -> str:
        """Asks the server to stop and waits for it; the keeper kills it if it does not. The way it ended, in words,
        where that was out of order."""
        for connection in list(self.connections):  # a server may wait for those that are connected
            with suppress(*self.REFUSALS):  # it is closed already
                self.leave(connection)
        code, how = self._end()
        self._end_what_outlived_it()
        self.private.remove()
        return "" if code == 0 else f"{self.name}: the server did not stop in order, it ended {how}"

    def leave(self, connection: Any) -> None:
        """Closes a connection that was given out."""
        connection.close()

    def _end_what_outlived_it(self) -> None:
        """Kills processes of the server that its keeper could not reach."""

    def ended(self, within_s: float = 0) -> bool:
        """True if it has ended; its keeper reports that a moment later than a broken connection does."""
        try:
            self.keeper.wait(within_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def _end(self) -> tuple[int, str]:
        """The code of its end, and that in words; waits for it."""
        reported = self.keeper.communicate()[0].split()
        code = int(reported[-1]) if reported else self.keeper.returncode
        how = f"by {signal.Signals(-code).name}" if code < 0 else f"with code {code}"
        return code or self.keeper.returncode, how if reported else f"with its keeper, which ended {how}"

    def end_of(self, what: str) -> RqpsError:
        """The error for something that the server did not live through, with the code or signal that ended it."""
        how = f"the server {self.name} ended in the middle of it, {self._end()[1]}"
        return RqpsError(f"{what}: {how}; {self._in_its_log()}", fix=SEE_THE_LOG)

    def _in_its_log(self) -> str:
        lines = "\n".join(self.telling_lines()[-LAST_LINES:])
        return f"the end of its log, {self.error_log}:\n{lines}" if lines else "it wrote nothing into its log"

    def log_lines(self) -> list[str]:
        log = self.error_log  # whose folder may be gone
        return log.read_text(errors="replace").splitlines() if log.exists() else []

    def telling_lines(self) -> list[str]:
        """The lines of its log that say what happened, the last ones of most interest."""
        return self.log_lines()

    @contextmanager
    def explaining(self, what: str) -> Iterator[None]:
        """Turns an error of a statement into one that says so, or how the server ended."""
        errors: tuple[type[Exception], ...] = (*self.REFUSALS, RqpsError)
        try:
            yield
        except errors as error:
            if self.ended(within_s=1):
                raise self.end_of(what) from None
            if harm := self.harm():
                raise RqpsError(f"{what}: {harm}", fix=SEE_THE_LOG) from error
            if isinstance(error, RqpsError):
                raise
            words = ", ".join(map(str, error.args))[:LONGEST_WORDS]
            raise RqpsError(
                f"{what}: the server {self.name} refused a statement: {words}",
                fix=self.remedy(error) or f"see {self.error_log}",
            ) from None

    def harm(self) -> str:
        """The event behind an error of a server that is still up, in words; empty if there is none."""
        return ""

    def remedy(self, error: Exception) -> str:  # noqa: ARG002
        """The next step after a refusal, where more than its words are known."""
        return ""

    @contextmanager
    def making(self, what: str) -> Iterator[Self]:
        """The server for as long as the block lasts, after which it has to stop in order."""
        try:
            with self.explaining(what):
                yield self
        finally:
            disorder = self.close()
        if disorder:
            raise RqpsError(disorder, fix=f"read its log, {self.error_log}; then run the same command again")
