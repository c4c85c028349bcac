"""Holding a server to its scenario while it is measured: what is set and what is recorded, around a step."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from rqps.engines.mysql.instance import Connection, Server, query
from rqps.engines.mysql.perf_schema.differences import differences
from rqps.engines.mysql.perf_schema.events import Work, by_kind, mistaken, recorded, tables, texts
from rqps.engines.mysql.perf_schema.realise import Realised
from rqps.engines.mysql.perf_schema.tables import Found, read_setup, told
from rqps.errors import RqpsError

_LOCK = "rqps_proof"
_STATUS = "perf_schema/"
"""In front of the names of events, among the server's own status variables."""
_LOST_THREADS = "performance_schema_thread_instances_lost"


def apply(connection: Connection, asked: Realised) -> None:
    """Tells a running server what it could not be told at its start."""
    with told(connection):
        for statement in asked.statements:
            query(connection, statement)


def verify(connection: Connection, asked: Realised, whose: str, *, changed: str = "") -> Found:
    """Fails with both values of all that is not as asked for; `changed` says since when, if it was so before."""
    found = read_setup(connection)
    wrong = [*differences(asked, found), *_metadata_locks(connection, asked)]
    if not wrong:
        return found
    what = f"was set otherwise {changed}" if changed else f"is not what the scenario {asked.scenario.name} asks for"
    fix = "this server can't do that; take another scenario"
    if changed:
        fix = "look for who else sets it: an event of the server, a monitoring agent, somebody at work"
    raise RqpsError(f"{whose}: the performance schema {what}:\n  " + "\n  ".join(wrong), fix=fix)


class Watch:
    """From before a step until after it, on a connection of our own whose events are not recorded."""

    def __init__(self, connection: Connection, asked: Realised, step: str) -> None:
        self.connection = connection
        self._asked = asked
        self._step = step
        self._tables = tables(connection)
        verify(connection, asked, step, changed="before it")
        self._before: dict[str, int] = {}

    def begin(self) -> dict[str, str]:
        """Reads what has been recorded so far, when nothing of ours comes any more; as rows of the status."""
        self._before = recorded(self.connection, self._tables, self._asked)
        return _status(self._before)

    def end(self, transactions: int, connections: int) -> dict[str, str]:
        """Fails unless what was asked for was recorded, nothing else, and nobody changed it; rows of the status."""
        after = recorded(self.connection, self._tables, self._asked)
        verify(self.connection, self._asked, self._step, changed="in the middle of it")
        events = {name: count - self._before.get(name, 0) for name, count in after.items()}
        done = Work(transactions, connections, texts(events))
        if wrong := list(mistaken(self._asked, by_kind(events), done)):
            raise RqpsError(
                f"{self._step}: the performance schema did not record what was asked for:\n  " + "\n  ".join(wrong),
                fix=f"compare settings.parquet of this run with the scenario {self._asked.scenario.name!r}",
            )
        return {**_status(after), f"{_STATUS}memory_bytes": str(memory_bytes(self.connection))}

    def refuse_lost_threads(self, before: Mapping[str, str], after: Mapping[str, str]) -> None:
        """Fails where connections of the load were not watched, since there was no room for more."""
        lost = int(after.get(_LOST_THREADS, 0)) - int(before.get(_LOST_THREADS, 0))
        if lost:
            raise RqpsError(
                f"{self._step}: the performance schema knows no more threads: {lost} were not watched",
                fix="set performance_schema_max_thread_instances to the connections of the load and 100 more",
            )


@contextmanager
def watching(server: Server, asked: Realised, step: str) -> Iterator[Watch]:
    """A watch on a connection that does not count: made before the step and closed after it."""
    with unheard(server) as connection:
        yield Watch(connection, asked, step)


@contextmanager
def unheard(server: Server) -> Iterator[Connection]:
    """A connection of which nothing is recorded. In 5.5 threads can't be told apart; it records no statements."""
    connection = server.connect()
    try:
        if server.build.number >= (5, 6):
            silence(connection)
        yield connection
    finally:
        connection.close()


def silence(connection: Connection) -> None:
    """Lets no event of this connection be recorded from now on."""
    ours = "WHERE processlist_id = CONNECTION_ID()"
    with told(connection):
        query(connection, f"UPDATE performance_schema.threads SET instrumented = 'NO' {ours}")


def memory_bytes(connection: Connection) -> int:
    """What the performance schema has allocated for itself."""
    for _, name, value in query(connection, "SHOW ENGINE PERFORMANCE_SCHEMA STATUS"):
        if name == "performance_schema.memory":
            return int(value)
    return 0


def _status(events: dict[str, int]) -> dict[str, str]:
    return {f"{_STATUS}{name}": str(count) for name, count in events.items()}


def _metadata_locks(connection: Connection, asked: Realised) -> Iterator[str]:
    """Whether a metadata lock shows, which has no counter: one is taken, looked for, and let go of."""
    if asked.scenario.kind != "on" or "wait/lock/metadata/sql/mdl" not in asked.instruments:
        return
    wanted = asked.instruments["wait/lock/metadata/sql/mdl"] != "off" and asked.records
    query(connection, f"SELECT GET_LOCK('{_LOCK}', 0)")
    which = f"object_type = 'USER LEVEL LOCK' AND object_name = '{_LOCK}'"
    shown = int(query(connection, f"SELECT COUNT(*) FROM performance_schema.metadata_locks WHERE {which}")[0][0])
    query(connection, f"SELECT RELEASE_LOCK('{_LOCK}')")
    if bool(shown) != wanted:
        yield f"metadata locks: asked for {'on' if wanted else 'off'}, and {shown} of 1 shows"
