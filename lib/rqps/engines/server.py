"""The code that all engines with servers share: server processes on private sockets, each with a second process, its
keeper, which stops the server when rqps ends."""

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
"""Maximum length, in characters, of a server's message about a statement. Longer messages, which may repeat all rows
of an INSERT, are cut off."""
SECONDS_BETWEEN_TRIES = 0.02
SEE_THE_LOG = "look in its log for what ended it; if memory ran out, the kernel's log says so"


@dataclass(frozen=True)
class KeptServer:
    """A running server. `pid` is its first process; `keeper` is the process that stops it when rqps has ended."""

    build: Build
    pid: int
    socket: Path
    directory: Path
    error_log: Path
    private: Scratch
    """The folder of the server's socket."""
    keeper: "subprocess.Popen[bytes]"
    connections: "WeakSet[Any]" = field(default_factory=WeakSet, repr=False, compare=False)
    """The connections that this object has opened."""

    SOCKET: ClassVar[str]
    """The file name of the server's socket."""
    REFUSALS: ClassVar[tuple[type[Exception], ...]] = ()
    """The exceptions that the client library raises when the server refuses a statement."""
    STOP: ClassVar[int] = signal.SIGTERM
    """The signal that asks the server for an immediate clean shutdown."""
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
        """Starts a server and waits until it answers. `argv` returns the command line for the path of the socket."""
        private = Scratch()
        socket = private.socket(cls.SOCKET)
        folders = tuple(str(folder) for folder in (private.path, *asked.scratch))
        process = subprocess.Popen(
            keeper.command("guard", list(argv(socket)), cpus=asked.cpus, scratch=folders, stop=cls.STOP),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=asked.log.open("ab"),  # for errors from before the server opens its log by itself
            env={"PATH": "/usr/bin:/bin", **(environment or {}), **build.environment, **asked.environment},
            cwd=private.path,
            bufsize=0,  # a buffered read of the keeper's first line may also take its last line, which `_end` needs
            start_new_session=True,  # Ctrl-C must reach only rqps, which then tells the keeper to stop the server
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
            # Wait for the file: after a refused attempt, a Python socket stays open until garbage collection.
            if self.socket.exists() and self.answers(left_s):
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
        """The server's name, which tells apart the servers that are up at the same time."""
        return self.build.name

    @property
    def pids(self) -> tuple[int, ...]:
        """The server's first process and its current child processes."""
        try:
            return (self.pid, *(child.pid for child in psutil.Process(self.pid).children(recursive=True)))
        except psutil.NoSuchProcess:
            return (self.pid,)

    @property
    def places(self) -> Mapping[str, str]:
        """Maps paths of this machine that occur in the server's settings to the placeholders that replace them: with
        placeholders, the settings of two runs can be compared."""
        scratch, private, build = self.directory.parent, self.socket.parent, self.build.directory
        return {str(scratch): "<scratch>", str(private): "<private>", str(build): "<build>"}

    def refuse(self, wrong: Sequence[str], config: str) -> None:
        """Fails if the server differs from what the config asked for; `wrong` lists the differences."""
        if wrong:
            raise RqpsError(
                f"{self.name}: the server does not have what was asked for:\n  " + "\n  ".join(wrong),
                fix=f"change config {config!r} in runs.yaml to what this server and host can do",
            )

    def answers(self, patience_s: float = GREETING_PATIENCE_S) -> bool:
        """True if the server accepts a connection within `patience_s`."""
        raise NotImplementedError

    def close(self) -> str:
        """Asks the server to stop and waits for its end; the keeper kills a server that does not stop. Returns an
        empty text if the server stopped cleanly, else how it ended, in words."""
        for connection in list(self.connections):  # a server may not stop before its clients disconnect
            with suppress(*self.REFUSALS):  # raised if the connection is closed already
                self.leave(connection)
        code, how = self._end()
        self._end_what_outlived_it()
        self.private.remove()
        return "" if code == 0 else f"{self.name}: the server did not stop in order, it ended {how}"

    def leave(self, connection: Any) -> None:
        """Closes one of `connections`."""
        connection.close()

    def _end_what_outlived_it(self) -> None:
        """Kills processes of the server that its keeper could not reach."""

    def ended(self, within_s: float = 0) -> bool:
        """True if the server and its keeper have ended. The keeper ends a moment after the connections to the server
        break, so `within_s` is the maximum wait for the keeper's end."""
        try:
            self.keeper.wait(within_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def _end(self) -> tuple[int, str]:
        """Waits for the end of the server. Returns the server's exit code (negative for a signal), and a text that
        says how the server ended."""
        reported = self.keeper.communicate()[0].split()
        code = int(reported[-1]) if reported else self.keeper.returncode
        how = f"by {signal.Signals(-code).name}" if code < 0 else f"with code {code}"
        return code or self.keeper.returncode, how if reported else f"with its keeper, which ended {how}"

    def end_of(self, what: str) -> RqpsError:
        """The error to raise if the server ended during `what`, with the exit code or the signal that ended it."""
        how = f"the server {self.name} ended in the middle of it, {self._end()[1]}"
        return RqpsError(f"{what}: {how}; {self._in_its_log()}", fix=SEE_THE_LOG)

    def _in_its_log(self) -> str:
        lines = "\n".join(self.telling_lines()[-LAST_LINES:])
        return f"the end of its log, {self.error_log}:\n{lines}" if lines else "it wrote nothing into its log"

    def log_lines(self) -> list[str]:
        log = self.error_log  # does not exist if the run's folder was removed
        return log.read_text(errors="replace").splitlines() if log.exists() else []

    def telling_lines(self) -> list[str]:
        """The lines of the server's log that may explain an error; the last lines matter most."""
        return self.log_lines()

    @contextmanager
    def explaining(self, what: str) -> Iterator[None]:
        """Replaces an error in the block by one that begins with `what`, the activity that failed. If the server has
        ended, the error also says how it ended."""
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
        """A description of an event, such as a crash of one process, that explains errors of a server that is still
        up; empty if there was no such event."""
        return ""

    def remedy(self, error: Exception) -> str:  # noqa: ARG002
        """Advice to print with an error of a statement; empty if rqps knows no advice for this error."""
        return ""

    @contextmanager
    def making(self, what: str) -> Iterator[Self]:
        """Yields the server and closes it after the block. Fails if the server does not stop cleanly."""
        try:
            with self.explaining(what):
                yield self
        finally:
            disorder = self.close()
        if disorder:
            raise RqpsError(disorder, fix=f"read its log, {self.error_log}; then run the same command again")
