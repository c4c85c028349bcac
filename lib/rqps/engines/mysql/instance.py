"""A running server: started under a keeper, on a private socket, and stopped in order."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

import pymysql

from rqps.engines import Start
from rqps.engines.mysql.build import Build
from rqps.engines.server import LONGEST_WORDS, KeptServer
from rqps.errors import RqpsError

ANSWER_PATIENCE_S = 300.0
"""The longest wait for the answer to a statement of ours."""
WHOLE_TABLE_PATIENCE_S = 3600.0
"""The same for statements that make or read whole tables."""
TABLE_IS_FULL = 1114
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
class Server(KeptServer):
    """A mysqld that answers."""

    build: Build

    SOCKET = "mysqld.sock"
    START_PATIENCE_S = 180.0
    REFUSALS = (pymysql.err.Error,)

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
    def pids(self) -> tuple[int, ...]:
        return (self.pid,)

    @staticmethod
    def sysbench_options(servers: "Sequence[Server]", database: str) -> dict[str, str]:
        """The options by which sysbench connects to one of these servers, or to several in turns."""
        sockets = ",".join(str(server.socket) for server in servers)
        return {"db-driver": "mysql", "mysql-socket": sockets, "mysql-user": "root", "mysql-db": database}

    def answers(self, patience_s: float = KeptServer.GREETING_PATIENCE_S) -> bool:
        try:
            self.connect(patience_s=patience_s).close()
        except (pymysql.err.MySQLError, RqpsError):
            return False
        return True

    def remedy(self, error: Exception) -> str:
        if error.args[:1] == (TABLE_IS_FULL,):
            return "set max_heap_table_size in the config to more if it is a MEMORY table, or ask for fewer rows"
        return ""

    def telling_lines(self) -> list[str]:
        """The errors in its log, which 5.6 buries under its plugins' good-byes, or else all of it."""
        lines = self.log_lines()
        return [line for line in lines if "[ERROR]" in line] or lines


def query(connection: Connection, sql: str) -> list[tuple[Any, ...]]:
    """All rows of one statement."""
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return list(cursor.fetchall())


@contextmanager
def running(build: Build, data: Path, *, arguments: tuple[str, ...] = (), log: Path) -> Iterator[Server]:
    """A server on `data` for as long as the block lasts, which has to stop in order."""
    with start(build, data, Start(log), arguments).making(f"making data of {build.name}") as server:
        yield server


def start(build: Build, data: Path, asked: Start, arguments: tuple[str, ...] = ()) -> Server:
    """Starts a server and waits until it answers."""

    def argv(socket: Path) -> list[str]:
        return [
            *(*asked.under, *mysqld(build, data)),
            *(f"--socket={socket}", f"--pid-file={socket.parent / 'mysqld.pid'}", f"--log-error={asked.log}"),
            *("--skip-networking", "--loose-mysqlx=OFF", f"--tmpdir={data.parent}"),
            *arguments,  # those of the config come after those of the package, which may differ
        ]

    return Server.begin(build, data, asked, argv)


def mysqld(build: Build, data: Path) -> list[str]:
    """The part of a command line that every start on a data directory has. As root, mysqld insists on an option."""
    as_root = ("--user=root",) if os.geteuid() == 0 else ()
    return [
        *(*build.argv, "--no-defaults", f"--basedir={build.directory}"),
        *(*build.options, f"--datadir={data}", *as_root),
    ]
