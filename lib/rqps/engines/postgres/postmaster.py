"""A running PostgreSQL server on a private socket: a postmaster that ends when rqps ends, and backends that start and
end with their connections."""

import re
import signal
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import psutil

from rqps.engines import Start
from rqps.engines.postgres.build import Build
from rqps.engines.postgres.client import USER, Connection, StatementError
from rqps.engines.postgres.unprivileged import server_user
from rqps.engines.server import KeptServer
from rqps.errors import RqpsError

ANSWER_PATIENCE_S = 300.0
NO_DATABASE = "3D000"
"""The error code of a server that answers before the database of rqps is created."""
_CRASH = re.compile(r"was terminated by signal|terminating any other active server processes")
_TITLE = re.compile(
    r"postgres: (?:\w+: )?(checkpointer|background writer|writer|walwriter|wal writer|autovacuum launcher"
    r"|autovacuum worker|stats collector|io worker|logical replication launcher|archiver|startup)\b"
)
_OLDER_TITLES = {"writer": "background writer", "wal writer": "walwriter"}


@dataclass(frozen=True)
class Server(KeptServer):
    """A server that answers connections. `pid` is the process id of its postmaster."""

    build: Build
    reusable: list[Connection] | None = field(default=None, repr=False, compare=False)
    """Control connections that are free for reuse. None except under callgrind, where the start of a backend takes
    seconds."""

    SOCKET = ".s.PGSQL.5432"
    REFUSALS = (StatementError, OSError)
    STOP = signal.SIGINT  # on SIGTERM the server would wait until its clients disconnect

    def connect(self, schema: str | None = None, patience_s: float | None = None) -> Connection:
        """A connection for control, never for load."""
        patience_s = patience_s or ANSWER_PATIENCE_S
        reusable = None if schema else self.reusable
        if reusable:
            return reusable.pop().wait_at_most(patience_s)
        connection = Connection(self.socket, patience_s, schema=schema, reusable=reusable)
        self.connections.add(connection)
        return connection

    @staticmethod
    def sysbench_options(servers: "Sequence[Server]", database: str) -> dict[str, str]:
        """The options by which sysbench connects to one of these servers. sysbench takes only one host: for several
        servers, rqps's Lua script for sysbench sets PGHOST before each connection."""
        host = str(servers[0].socket.parent) if len(servers) == 1 else ""
        return {"db-driver": "pgsql", "pgsql-host": host, "pgsql-user": USER, "pgsql-db": database}

    def process_roles(self) -> dict[int, str]:
        """Maps the id of each process of the server to its name, such as `checkpointer`: from release 10 on by
        pg_stat_activity, in older releases by the process title."""
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

    def answers(self, patience_s: float = KeptServer.GREETING_PATIENCE_S) -> bool:
        """True if the server answers a connection, even if the database of rqps does not exist yet."""
        try:
            self.connect(patience_s=patience_s).close()
        except StatementError as error:
            return error.code == NO_DATABASE
        except OSError:
            return False
        return True

    def leave(self, connection: Connection) -> None:
        """Closes a connection and waits only briefly for the server, since a stopped backend does not answer."""
        connection.end(self.GREETING_PATIENCE_S)

    def _end_what_outlived_it(self) -> None:
        """Kills processes that still work in the server's data directory after its keeper was killed. A backend that
        hangs, or that was stopped during slices of other servers, does not notice that its postmaster has ended."""
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.cwd() == str(self.directory):
                    process.kill()
                    process.wait()

    def harm(self) -> str:
        crash = next((line for line in self.log_lines() if _CRASH.search(line)), "")
        return f"a process of the server {self.name} died, and the server restarted all: {crash}" if crash else ""


def start(build: Build, data: Path, asked: Start, arguments: Sequence[str] = ()) -> Server:
    """Starts a server and waits until it answers. If rqps runs as root, the server runs as another user, who becomes
    the owner of its data."""
    _refuse_other_major(build, data)
    if user := server_user():
        user.own(data)

    def argv(socket: Path) -> list[str]:
        return [
            *(*(user.prefix if user else ()), *asked.under, *build.argv, "-D", str(data)),
            *("-c", f"unix_socket_directories={socket.parent}", "-c", "listen_addresses="),
            *("-c", "logging_collector=off", "-c", "log_destination=stderr", *arguments),
        ]

    server = Server.begin(build, data, asked, argv, {"TZ": "UTC"})
    return replace(server, reusable=[]) if asked.under else server


def _refuse_other_major(build: Build, data: Path) -> None:
    file = data / "PG_VERSION"
    made_by = file.read_text().strip() if file.exists() else "no release"
    if made_by != build.major:
        raise RqpsError(
            f"{build.name} ({build.version}): the data directory {data} is of PostgreSQL {made_by}",
            fix="take a build of that release, or remove these data from the cache; they are made again",
        )
