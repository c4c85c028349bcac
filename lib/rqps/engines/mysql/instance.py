"""A running server: started under a keeper, on a private socket, and stopped in order."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias
from weakref import WeakSet

import pymysql

from rqps import keeper
from rqps.engines import Start
from rqps.engines.mysql.build import Build
from rqps.errors import RqpsError
from rqps.scratch import Scratch

START_PATIENCE_S = 180
GREETING_PATIENCE_S = 5
ANSWER_PATIENCE_S = 300.0
"""The longest wait for the answer to a statement of ours."""
WHOLE_TABLE_PATIENCE_S = 3600.0
"""The same for statements that make or read whole tables."""
LAST_LINES = 15
SEE_THE_LOG = "look in its error log for what ended it; if memory ran out, the kernel's log says so"
TABLE_IS_FULL = 1114
LONGEST_WORDS = 300
"""Characters of a server's own words on a statement, which may repeat all its rows."""
GOODBYE_PATIENCE_S = 10
Connection: TypeAlias = "pymysql.Connection[Any]"


class _ConnectionForControl(pymysql.Connection):
    """A connection that says so when the server does not answer, and is closed only when the server has heard of it,
    so that no step has its last command."""

    def __init__(self, server: str, patience_s: float, **how: Any) -> None:
        self.server, self.patience_s = server, patience_s
        super().__init__(read_timeout=patience_s, write_timeout=patience_s, **how)

    @property
    def dialect(self) -> ModuleType:
        """The functions for its server's SQL."""
        return import_module("rqps.engines.mysql.dialect")

    def connect(self, sock: Any = None) -> None:
        with self._in_time("a new connection"):
            super().connect(sock)

    def query(self, sql: str | bytes, unbuffered: bool = False) -> int:
        with self._in_time(sql if isinstance(sql, str) else sql.decode(errors="replace")):
            return super().query(sql, unbuffered)

    @contextmanager
    def _in_time(self, what: str) -> Iterator[None]:
        try:
            yield
        except pymysql.err.OperationalError as error:
            if not isinstance(error.__context__, TimeoutError):
                raise
            raise RqpsError(
                f"{self.server}: no answer within {self.patience_s:g} s to {what[:LONGEST_WORDS]}",
                fix="it hangs, or takes longer for that here: see its process list and its error log",
            ) from None

    def close(self) -> None:
        if not self.open:
            super().close()
            return
        with getattr(self, "_sock").dup() as line:  # noqa: B009 its types leave it out
            super().close()
            line.settimeout(GOODBYE_PATIENCE_S)
            with suppress(OSError):
                while line.recv(1024):
                    pass


@dataclass(frozen=True)
class Server:
    """A server that answers. `pid` is mysqld's own, `keeper` the process that stops it when we are gone."""

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

    def connect(self, database: str | None = None, patience_s: float | None = None) -> Connection:
        """A connection for control, never for load: without TLS, autocommitting."""
        connection = _ConnectionForControl(
            self.name,
            patience_s or ANSWER_PATIENCE_S,
            unix_socket=str(self.socket),
            user="root",
            database=database,
            charset="utf8mb4" if self.build.number >= (5, 5, 3) else "utf8",
            autocommit=True,
            ssl_disabled=True,
            connect_timeout=10,
        )
        self.connections.add(connection)
        return connection

    @property
    def name(self) -> str:
        """Its name among servers that are up at the same time."""
        return self.build.name

    @property
    def pids(self) -> tuple[int, ...]:
        return (self.pid,)

    @staticmethod
    def sysbench_options(servers: "Sequence[Server]", database: str) -> dict[str, str]:
        """The options by which sysbench connects to one of these servers, or to several in turns."""
        sockets = ",".join(str(server.socket) for server in servers)
        return {"db-driver": "mysql", "mysql-socket": sockets, "mysql-user": "root", "mysql-db": database}

    def answers(self) -> bool:
        """False if it does not even greet us."""
        try:
            self.connect(patience_s=GREETING_PATIENCE_S).close()
        except (pymysql.err.MySQLError, RqpsError):
            return False
        return True

    def close(self) -> str:
        """Asks the server to shut down and waits for it; the keeper kills it if it does not. The way it ended, in
        words, where that was out of order."""
        for connection in list(self.connections):  # a server gives those that are connected two seconds to go
            if connection.open:
                connection.close()
        code, how = self._end()
        self.private.remove()
        return "" if code == 0 else f"{self.name}: the server did not stop in order, it ended {how}"

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

    def no_start(self, patience_s: float) -> RqpsError:
        """The error for a server that never answered."""
        how = (
            f"did not start, it ended {self._end()[1]}" if self.ended() else f"did not answer within {patience_s:g} s"
        )
        return RqpsError(f"{self.build.name} ({self.build.version}) {how}; {self._in_its_log()}", fix=SEE_THE_LOG)

    def _in_its_log(self) -> str:
        words = self.last_words()
        return (
            f"the end of its error log, {self.error_log}:\n{words}"
            if words
            else "it wrote nothing into its error log"
        )

    @contextmanager
    def explaining(self, what: str) -> Iterator[None]:
        """Turns an error of a statement into one that says so, or how the server ended."""
        try:
            yield
        except (pymysql.err.Error, RqpsError) as error:
            if self.ended(within_s=1):
                raise self.end_of(what) from None
            if isinstance(error, RqpsError):
                raise
            words = ", ".join(map(str, error.args))[:LONGEST_WORDS]
            fix = f"see {self.error_log}"
            if error.args[:1] == (TABLE_IS_FULL,):
                fix = "set max_heap_table_size in the config to more if it is a MEMORY table, or ask for fewer rows"
            raise RqpsError(f"{what}: the server {self.name} refused a statement: {words}", fix=fix) from None

    def last_words(self) -> str:
        """The errors in its log, which 5.6 buries under its plugins' good-byes, or else its end."""
        log = self.error_log  # whose folder may be gone
        lines = log.read_text(errors="replace").splitlines() if log.exists() else []
        errors = [line for line in lines if "[ERROR]" in line]
        return "\n".join((errors or lines)[-LAST_LINES:])


def query(connection: Connection, sql: str) -> list[tuple[Any, ...]]:
    """All rows of one statement."""
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return list(cursor.fetchall())


@contextmanager
def running(build: Build, data: Path, *, arguments: tuple[str, ...] = (), log: Path) -> Iterator[Server]:
    """A server on `data` for as long as the block lasts, which has to stop in order."""
    server = start(build, data, Start(log), arguments)
    with closing(server), server.explaining(f"making data of {build.name}"):
        yield server
    if disorder := server.close():
        raise RqpsError(disorder, fix=f"read its error log, {log}; then run the same command again")


def start(build: Build, data: Path, asked: Start, arguments: tuple[str, ...] = ()) -> Server:
    """Starts a server and waits until it answers."""
    private = Scratch()
    socket = private.socket("mysqld.sock")
    argv = [
        *(*asked.under, *mysqld(build, data)),
        *(f"--socket={socket}", f"--pid-file={private.path / 'mysqld.pid'}", f"--log-error={asked.log}"),
        *("--skip-networking", "--loose-mysqlx=OFF", f"--tmpdir={data.parent}"),
        *arguments,  # those of the config come after those of the package, which may differ
    ]
    folders = tuple(str(folder) for folder in (private.path, *asked.scratch))
    process = subprocess.Popen(
        keeper.command("guard", argv, cpus=asked.cpus, scratch=folders),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=asked.log.open("ab"),  # where the server writes by itself, once it can
        env={"PATH": "/usr/bin:/bin", **build.environment, **asked.environment},
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


def mysqld(build: Build, data: Path) -> list[str]:
    """The part of a command line that every start on a data directory has. As root, mysqld insists on an option."""
    as_root = ("--user=root",) if os.geteuid() == 0 else ()
    return [
        *(*build.argv, "--no-defaults", f"--basedir={build.directory}"),
        *(*build.options, f"--datadir={data}", *as_root),
    ]


def _wait_until_it_answers(server: Server, patience_s: float) -> None:
    deadline = time.monotonic() + patience_s
    while (left_s := deadline - time.monotonic()) > 0 and not server.ended():
        try:
            server.connect(patience_s=left_s).close()
            return
        except (pymysql.err.OperationalError, RqpsError):
            time.sleep(0.05)
    raise server.no_start(patience_s)
