"""A running MySQL server on a private socket. A second process, the keeper, stops it even if rqps is killed."""

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
"""Maximum wait for the answer to a statement on a control connection."""
WHOLE_TABLE_PATIENCE_S = 3600.0
"""Maximum wait for the answer to a statement that makes or reads whole tables."""
TABLE_IS_FULL = 1114
REPEATED_AFTER = "1213,1205,1020"
"""Error numbers after which sysbench repeats a transaction: a deadlock, a lock wait timeout, a row that another
transaction changed. These are sysbench's default and the setting of the published benchmarks."""
GOODBYE_PATIENCE_S = 10
Connection: TypeAlias = "pymysql.Connection[Any]"


class _ConnectionForControl(pymysql.Connection):
    """A connection for control. It raises a clear error when the server does not answer in time. `close` waits until
    the server has closed its end, so that the connection's last command does not fall into a step."""

    def __init__(self, server: str, patience_s: float, **how: Any) -> None:
        self.server, self.patience_s = server, patience_s
        super().__init__(read_timeout=patience_s, write_timeout=patience_s, **how)

    @property
    def dialect(self) -> ModuleType:
        """The module with the functions for the server's SQL."""
        return import_module("rqps.engines.mysql.dialect")

    def connect(self, sock: Any = None) -> None:
        with self._in_time("a new connection"):
            super().connect(sock)

    def query(self, sql: str | bytes, unbuffered: bool = False) -> int:
        with self._in_time(sql if isinstance(sql, str) else sql.decode(errors="replace")):
            # A statement of a log may have bytes that are not UTF-8.
            text = sql.encode(self.encoding, "surrogateescape") if isinstance(sql, str) else sql
            return super().query(text, unbuffered)

    @contextmanager
    def _in_time(self, what: str) -> Iterator[None]:
        try:
            yield
        except pymysql.err.OperationalError as error:
            if not isinstance(error.__context__, TimeoutError):
                raise
            raise RqpsError(
                f"{self.server}: no answer within {self.patience_s:g} s to {what[:LONGEST_WORDS]}",
                fix="see the server's process list and error log: the statement may wait, or be slow on this machine",
            ) from None

    def close(self) -> None:
        if not self.open:
            super().close()
            return
        with getattr(self, "_sock").dup() as line:  # noqa: B009 pymysql's types lack _sock
            super().close()
            line.settimeout(GOODBYE_PATIENCE_S)
            with suppress(OSError):
                while line.recv(1024):
                    pass


@dataclass(frozen=True)
class Server(KeptServer):
    """A running mysqld."""

    build: Build

    SOCKET = "mysqld.sock"
    START_PATIENCE_S = 180.0
    REFUSALS = (pymysql.err.Error,)

    def connect(self, database: str | None = None, patience_s: float | None = None) -> Connection:
        """A new connection for control, never for load: without TLS, with autocommit."""
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
        """The sysbench options that connect to one server, or spread the connections over several servers."""
        sockets = ",".join(str(server.socket) for server in servers)
        where = {"mysql-socket": sockets, "mysql-user": "root", "mysql-db": database}
        return {"db-driver": "mysql", **where, "mysql-ignore-errors": REPEATED_AFTER}

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
        """The error lines of the log; all lines if none is an error. The last lines alone are not enough: 5.6 adds
        many lines when its plugins shut down."""
        lines = self.log_lines()
        return [line for line in lines if "[ERROR]" in line] or lines


def query(connection: Connection, sql: str) -> list[tuple[Any, ...]]:
    """All rows of one statement."""
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return list(cursor.fetchall())


def start(build: Build, data: Path, asked: Start, arguments: tuple[str, ...] = ()) -> Server:
    """Starts a server and waits until it answers."""

    def argv(socket: Path) -> list[str]:
        return [
            *(*asked.under, *mysqld(build, data)),
            *(f"--socket={socket}", f"--pid-file={socket.parent / 'mysqld.pid'}", f"--log-error={asked.log}"),
            *("--skip-networking", "--loose-mysqlx=OFF", f"--tmpdir={data.parent}"),
            *arguments,  # the config's options come after the package's and override them
        ]

    return Server.begin(build, data, asked, argv)


def mysqld(build: Build, data: Path) -> list[str]:
    """The beginning of the command line for every start on a data directory. As root, mysqld requires
    `--user=root`."""
    as_root = ("--user=root",) if os.geteuid() == 0 else ()
    return [
        *(*build.argv, "--no-defaults", f"--basedir={build.directory}"),
        *(*build.options, f"--datadir={data}", *as_root),
    ]
