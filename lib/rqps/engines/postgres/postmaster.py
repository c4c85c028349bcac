"""A running PostgreSQL server on a private socket: a postmaster that ends with us, and backends that come and go."""

import re
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from weakref import WeakSet

import psutil

from rqps import keeper
from rqps.engines import Start
from rqps.engines.postgres.build import Build
from rqps.engines.postgres.client import USER, Connection, StatementError
from rqps.engines.postgres.unprivileged import server_user
from rqps.errors import RqpsError
from rqps.scratch import Scratch

SOCKET = ".s.PGSQL.5432"
START_PATIENCE_S = 60.0
ANSWER_PATIENCE_S = 300.0
GREETING_PATIENCE_S = 5.0
STARTING, NO_DATABASE = "57P03", "3D000"
"""Codes of a server that does not answer yet, and of one that does before our database is made."""
LAST_LINES = 15
SEE_THE_LOG = "look in its log for what ended it; if memory ran out, the kernel's log says so"
_CRASH = re.compile(r"was terminated by signal|terminating any other active server processes")
_TITLE = re.compile(
    r"postgres: (?:\w+: )?(checkpointer|background writer|writer|walwriter|wal writer|autovacuum launcher"
    r"|autovacuum worker|stats collector|io worker|logical replication launcher|archiver|startup)\b"
)
_OLDER_TITLES = {"writer": "background writer", "wal writer": "walwriter"}


@dataclass(frozen=True)
class Server:
    """A server that answers. `pid` is its postmaster's, `keeper` the process that stops it when we are gone."""

    build: Build
    pid: int
    socket: Path
    directory: Path
    error_log: Path
    private: Scratch
    """The folder of its socket."""
    keeper: "subprocess.Popen[bytes]"
    connections: "WeakSet[Connection]" = field(default_factory=WeakSet, repr=False, compare=False)
    """That were given out."""

    def connect(self, schema: str | None = None, patience_s: float | None = None) -> Connection:
        """A connection for control, never for load."""
        connection = Connection(self.socket, patience_s or ANSWER_PATIENCE_S, schema=schema)
        self.connections.add(connection)
        return connection

    @property
    def name(self) -> str:
        """Its name among servers that are up at the same time."""
        return self.build.name

    @property
    def pids(self) -> tuple[int, ...]:
        """The postmaster and its children, which come and go."""
        try:
            return (self.pid, *(child.pid for child in psutil.Process(self.pid).children(recursive=True)))
        except psutil.NoSuchProcess:
            return (self.pid,)

    @staticmethod
    def sysbench_options(servers: "Sequence[Server]", database: str) -> dict[str, str]:
        """The options by which sysbench connects to one of these servers. It takes one host: with several, our script
        sets PGHOST before each connection."""
        host = str(servers[0].socket.parent) if len(servers) == 1 else ""
        return {"db-driver": "pgsql", "pgsql-host": host, "pgsql-user": USER, "pgsql-db": database}

    def process_roles(self) -> dict[int, str]:
        """Names of its processes by id: the server's own from 10 on, and their titles."""
        names = {self.pid: "postmaster"}
        for pid in self.pids[1:]:
            with suppress(psutil.NoSuchProcess):
                title = _TITLE.match(" ".join(psutil.Process(pid).cmdline()))
                names[pid] = _OLDER_TITLES.get(title[1], title[1]) if title else "client backend"
        with self.connect() as connection:
            if self.build.number >= (10,):
                rows = connection.query(
                    "SELECT pid, backend_type FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
                )
                names |= {int(str(pid)): str(name) for pid, name in rows}
        return names

    def answers(self) -> bool:
        """False if it does not even greet us."""
        try:
            self.connect(patience_s=GREETING_PATIENCE_S).close()
        except (OSError, StatementError):
            return False
        return True

    def close(self) -> str:
        """Stops it and waits for it. The way it ended, in words, where that was out of order."""
        for connection in list(self.connections):
            connection.close(GREETING_PATIENCE_S)  # a backend that is stopped says nothing
        code, how = self._end()
        for outliving in self._outliving():  # where its keeper was killed
            outliving.kill()
            outliving.wait()
        self.private.remove()
        return "" if code == 0 else f"{self.name}: the server did not stop in order, it ended {how}"

    def _outliving(self) -> Iterator[psutil.Process]:
        """Processes that still work in its data directory. One that is stuck, or was stopped for the turns of others,
        does not notice that its postmaster has ended."""
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.cwd() == str(self.directory):
                    yield process

    def ended(self, within_s: float = 0) -> bool:
        """True if it has ended; its keeper reports that a moment later than a broken connection does."""
        try:
            self.keeper.wait(within_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def _end(self) -> tuple[int, str]:
        reported = self.keeper.communicate()[0].split()
        code = int(reported[-1]) if reported else self.keeper.returncode
        how = f"by {signal.Signals(-code).name}" if code < 0 else f"with code {code}"
        return code or self.keeper.returncode, how if reported else f"with its keeper, which ended {how}"

    def end_of(self, what: str) -> RqpsError:
        """The error for something that the server did not live through."""
        how = f"the server {self.name} ended in the middle of it, {self._end()[1]}"
        return RqpsError(f"{what}: {how}; {self._in_its_log()}", fix=SEE_THE_LOG)

    def no_start(self, patience_s: float) -> RqpsError:
        """The error for a server that never answered."""
        how = (
            f"did not start, it ended {self._end()[1]}" if self.ended() else f"did not answer within {patience_s:g} s"
        )
        return RqpsError(f"{self.build.name} ({self.build.version}) {how}; {self._in_its_log()}", fix=SEE_THE_LOG)

    def _in_its_log(self) -> str:
        words = "\n".join(self._log_lines()[-LAST_LINES:])
        return f"the end of its log, {self.error_log}:\n{words}" if words else "it wrote nothing into its log"

    def _log_lines(self) -> list[str]:
        log = self.error_log  # whose folder may be gone
        return log.read_text(errors="replace").splitlines() if log.exists() else []

    @contextmanager
    def explaining(self, what: str) -> Iterator[None]:
        """Turns an error into one that says so, or how the server ended or lost a process."""
        try:
            yield
        except (StatementError, OSError, RqpsError) as error:
            if self.ended(within_s=1):
                raise self.end_of(what) from None
            if crash := next((line for line in self._log_lines() if _CRASH.search(line)), None):
                raise RqpsError(
                    f"{what}: a process of the server {self.name} died, and the server restarted all: {crash}",
                    fix=SEE_THE_LOG,
                ) from error
            if isinstance(error, RqpsError):
                raise
            raise RqpsError(
                f"{what}: the server {self.name} refused a statement: {error}", fix=f"see {self.error_log}"
            ) from None


def start(build: Build, data: Path, asked: Start, arguments: Sequence[str] = ()) -> Server:
    """Starts a server and waits until it answers. As root it runs as another user, who gets the data."""
    _refuse_other_major(build, data)
    private, user = Scratch(), server_user()
    socket = private.socket(SOCKET)
    if user:
        user.own(data)
    argv = [
        *(*(user.prefix if user else ()), *asked.under, *build.argv, "-D", str(data)),
        *("-c", f"unix_socket_directories={private.path}", "-c", "listen_addresses="),
        *("-c", "logging_collector=off", "-c", "log_destination=stderr", *arguments),
    ]
    folders = tuple(str(folder) for folder in (private.path, *asked.scratch))
    process = subprocess.Popen(
        # by SIGTERM it would wait for its clients
        keeper.command("guard", argv, cpus=asked.cpus, scratch=folders, stop=signal.SIGINT),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=asked.log.open("ab"),
        env={"PATH": "/usr/bin:/bin", "TZ": "UTC", **build.environment, **asked.environment},
        cwd=private.path,
        bufsize=0,  # or what its keeper says of its end may be read with the beginning
        start_new_session=True,  # a Ctrl-C in the terminal is for us: the keeper stops the server when we say so
    )
    asked.started(process.pid)
    assert process.stdout is not None
    reported = process.stdout.readline().split()
    server = Server(build, int(reported[1]) if reported else 0, socket, data, asked.log, private, process)
    try:
        _wait_until_it_answers(server, asked.patience_s or START_PATIENCE_S)
    except BaseException:
        server.close()
        raise
    return server


def _refuse_other_major(build: Build, data: Path) -> None:
    file = data / "PG_VERSION"
    made_by = file.read_text().strip() if file.exists() else "no release"
    if made_by != build.major:
        raise RqpsError(
            f"{build.name} ({build.version}): the data directory {data} is of PostgreSQL {made_by}",
            fix="take a build of that release, or remove these data from the cache; they are made again",
        )


def _wait_until_it_answers(server: Server, patience_s: float) -> None:
    deadline = time.monotonic() + patience_s
    while (left_s := deadline - time.monotonic()) > 0 and not server.ended():
        try:
            server.connect(patience_s=left_s).close()
        except StatementError as error:
            if error.code == NO_DATABASE:
                return
            if error.code != STARTING:
                raise server.no_start(patience_s) from error
        except OSError:
            pass
        else:
            return
        time.sleep(0.02)
    raise server.no_start(patience_s)
