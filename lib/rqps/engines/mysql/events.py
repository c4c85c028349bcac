"""Verifies the settings of the performance schema around a step, and counts the events that it records."""

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager

from rqps.engines import CountOf, Status
from rqps.engines.mysql.instance import Connection, Server, query
from rqps.engines.mysql.perf_schema import EVENTS, MEMORY, State, class_of, classes
from rqps.engines.mysql.reports import (
    Found,
    explained,
    memory_status,
    read_further_status,
    read_setup,
    read_status,
    schema_rows,
)
from rqps.engines.mysql.scenario import Realised, built_in, is_always_on
from rqps.engines.mysql.written_bytes import seen_from_outside
from rqps.errors import RqpsError

DIGEST, ERROR = "digest", "error"
LOADS_USER = "root"
_COUNTS = {
    "events_waits_summary_{}_by_event_name": "event_name AS name, count_star AS count",
    "events_stages_summary_{}_by_event_name": "event_name AS name, count_star AS count",
    "events_statements_summary_{}_by_event_name": "event_name AS name, count_star AS count",
    "events_transactions_summary_{}_by_event_name": "event_name AS name, count_star AS count",
    "memory_summary_{}_by_event_name": "event_name AS name, count_alloc AS count",
    "events_errors_summary_{}_by_error": f"'{ERROR}' AS name, SUM(sum_error_raised) AS count",
    "events_statements_summary_by_digest": f"'{DIGEST}' AS name, SUM(count_star) AS count",
}
"""Maps each summary table of events to the columns to read; {} stands for `by_user` or `global`."""
FEWEST = 0.1
"""Minimum number of events per transaction, for kinds of instruments that every load uses, such as statements. With
fewer events, a kind counts as not recorded."""
SOCKET_EVENTS_OF_A_CONNECTION = 64
"""Maximum number of socket events per connection while socket instruments are off: even then, the server records some
events when a connection opens and closes."""
CLOSING_S = 0.5
CLOSING_PATIENCE_S = 10.0
"""Maximum wait for connections to close: a connection that does not belong to the load may stay open."""
LOOK_S = 0.02
MOST_SHOWN = 12
_LOCK = "rqps_proof"
"""The name of the user-level lock that is taken to see if metadata locks are recorded."""
_LOST_THREADS = "performance_schema_thread_instances_lost"
_METADATA_LOCK = "wait/lock/metadata/sql/mdl"


class StepWatch:
    """Reads the status before and after a step, and verifies that the events that the scenario asks for are recorded,
    and no others."""

    def __init__(self, connection: Connection, asked: Realised | None, step: str, server: Server) -> None:
        self._connection, self._asked, self._step, self._server = connection, asked, step, server
        self._before: dict[str | CountOf, str] = {}
        self._after: dict[str | CountOf, str] = {}
        if asked:
            verify(connection, asked, step, changed="before the step")

    def begin(self) -> Status:
        self._before = self._read()
        return self._before

    def end(self, transactions: int) -> Status:
        """The status after the step. Fails if the recorded events are not those that the scenario asks for, or if the
        performance schema's settings changed during the step."""
        wait_for_closing(self._connection)
        self._after = self._read()
        if self._asked:
            self._verify(self._asked, transactions)
            memory_bytes = memory_status(self._connection).get("performance_schema.memory", 0)
            self._after[MEMORY] = str(memory_bytes)
        return self._after

    def lost(self) -> Iterator[str]:
        """One message for each counter of lost events or objects of the performance schema that grew in the step."""
        for name in (name for name in self._after if isinstance(name, str)):
            counts = name.startswith("performance_schema_") and name.endswith("_lost")
            if counts and (lost := self._grew(name)):
                yield f"{name} grew by {lost}: those were not recorded"

    def _read(self) -> dict[str | CountOf, str]:
        status: dict[str | CountOf, str] = {}
        status |= read_status(self._connection).items()
        status |= read_further_status(self._connection)
        status |= seen_from_outside(self._server.pid, self._server.directory).items()
        events = recorded(self._connection, self._asked) if self._asked else {}
        status |= ((CountOf(EVENTS, name), str(count)) for name, count in events.items())
        return status

    def _grew(self, name: str | CountOf) -> int:
        return int(self._after.get(name, 0)) - int(self._before.get(name, 0))

    def _verify(self, asked: Realised, transactions: int) -> None:
        if lost := self._grew(_LOST_THREADS):
            raise RqpsError(
                f"{self._step}: the performance schema had no room for {lost} threads: their events are missing",
                fix="set performance_schema_max_thread_instances to the connections of the load and 100 more",
            )
        verify(self._connection, asked, self._step, changed="during the step")
        counts = (key for key in self._after if isinstance(key, CountOf) and key.name == EVENTS)
        events = {key.object: self._grew(key) for key in counts}
        texts = sum(count for name, count in events.items() if name.startswith("statement/sql/"))
        work = {"transactions": transactions, "connections": self._grew("connections"), "texts": texts}
        if wrong := list(mistaken(asked, by_kind(events), **work)):
            raise RqpsError(
                f"{self._step}: the performance schema did not record what was asked for:\n  " + "\n  ".join(wrong),
                fix=f"compare settings.parquet of this run with the scenario {asked.scenario.name!r}",
            )


def wait_for_closing(connection: Connection) -> None:
    """Waits until the server has closed all connections newer than this one, which takes some time after the clients
    of these connections have ended.

    Until then, 5.6 does not count the events of their sockets, and for a moment counts their statements twice.
    """
    deadline_s = time.monotonic() + CLOSING_PATIENCE_S
    while any(row[0] > connection.thread_id() for row in query(connection, "SHOW PROCESSLIST")):
        if time.monotonic() > deadline_s:
            return
        time.sleep(LOOK_S)


@contextmanager
def unrecorded(server: Server) -> Iterator[Connection]:
    """A connection whose events are not recorded. 5.5 can't disable recording for one thread: there, waits of the
    connection may be recorded, but not its statements, since 5.5 records no statements at all."""
    with closing(server.connect()) as connection:
        if server.build.number >= (5, 6):
            stop_recording(connection)
        yield connection


def stop_recording(connection: Connection) -> None:
    """Disables the recording of this connection's events."""
    ours = "WHERE processlist_id = CONNECTION_ID()"
    with explained(connection):
        query(connection, f"UPDATE performance_schema.threads SET instrumented = 'NO' {ours}")


def set_up(connection: Connection, asked: Realised, dbms: str) -> list[tuple[str, str, str]]:
    """Applies the settings that could not be set at the start, then verifies all settings. Returns a summary
    for `verify`: rows for kinds of instruments and for the consumers, with requested and reported states."""
    with explained(connection):
        for statement in asked.statements:
            query(connection, statement)
    reported = verify(connection, asked, dbms)
    wanted, seen = (in_short(state.instruments, state.consumers) for state in (asked, reported))
    return [(what, wanted.get(what, "none"), seen.get(what, "none")) for what in {**wanted, **seen}]


def in_short(instruments: Mapping[str, State], consumers: Mapping[str, bool]) -> dict[str, str]:
    """The number of enabled instruments of each kind, and the names of the enabled consumers.

    >>> in_short({"stage/sql/init": "timed", "stage/sql/end": "off"}, {"statements_digest": True})
    {'instruments stage': '1 of 2 enabled, 1 timed', 'consumers': 'statements_digest'}
    """
    kinds: dict[str, list[State]] = {}
    for name, state in instruments.items():
        kinds.setdefault(class_of(name) or name, []).append(state)
    counted = {
        f"instruments {kind}": f"{len(states) - states.count('off')} of {len(states)} enabled, "
        f"{states.count('timed')} timed"
        for kind, states in kinds.items()
    }
    return counted | {"consumers": ", ".join(name for name, on in consumers.items() if on) or "none"}


def verify(connection: Connection, asked: Realised, whose: str, *, changed: str = "") -> Found:
    """Reads the settings of the performance schema and fails if they are not those of the scenario. The error lists
    each wrong setting with the requested and the reported value. If an earlier check passed, `changed` is the part
    of the error that says when the settings changed, such as "during the step"."""
    reported = read_setup(connection)
    if reported.threads_unwatched:  # one of these threads may belong to a connection that is just being closed
        time.sleep(CLOSING_S)
        reported = read_setup(connection)
    wrong = [*differences(asked, reported), *_metadata_locks(connection, asked)]
    if not wrong:
        return reported
    what = f"was changed {changed}" if changed else f"is not what the scenario {asked.scenario.name} asks for"
    fix = "take another scenario: this server can't be set to this one"
    if changed:
        fix = "find out what else sets it: an event of the server, a monitoring agent or another user"
    raise RqpsError(f"{whose}: the performance schema {what}:\n  " + "\n  ".join(wrong), fix=fix)


def differences(asked: Realised, reported: Found) -> list[str]:
    """One line for each wrong setting, with the requested and the reported value; the first `MOST_SHOWN` lines.
    Instruments of one kind with the same two values share a line."""
    if asked.scenario.kind == "off":
        return (
            [f"asked for off, and {len(reported.instruments)} instruments are listed"] if reported.instruments else []
        )
    if asked.scenario.kind == "compiled-out":
        names = [name for name in reported.instruments if not built_in(name)]
        return [f"asked for none, and {len(names)} instruments are listed, such as {names[0]}"] if names else []
    every = list(_different(asked, reported))
    more = len(every) - MOST_SHOWN
    return [*every[:MOST_SHOWN], f"and {more} more"] if more > 1 else every


def _different(asked: Realised, reported: Found) -> Iterator[str]:
    alike: dict[tuple[str, State, str], list[str]] = {}
    for name, state in asked.instruments.items():
        if (now := reported.instruments.get(name, "not listed")) != state:
            alike.setdefault((class_of(name) or "", state, now), []).append(name)
    for (kind, state, now), names in alike.items():
        many = f", and {len(names) - 1} more of {kind}" if len(names) > 1 else ""
        yield f"instrument {names[0]}{many}: asked for {state}, the server has {now}"
    for name, on in asked.consumers.items():
        if reported.consumers.get(name) != on:
            now = {True: "on", False: "off", None: "not listed"}[reported.consumers.get(name)]
            yield f"consumer {name}: asked for {'on' if on else 'off'}, the server has {now}"
    for row in sorted(set(asked.others) - set(reported.others)):
        yield f"{row}: the release has this row, and the server does not"
    for row in sorted(set(reported.others) - set(asked.others)):
        yield f"{row}: the server has this row, and the release does not"
    off = [name for name, on in reported.thread_classes.items() if not on]
    for what, threads in (("threads of the class", off), ("the thread", reported.threads_unwatched)):
        if threads:
            many = f" and {len(threads) - 1} more" if len(threads) > 1 else ""
            yield f"{what} {threads[0]}{many}: asked for on, the server has off"


def _metadata_locks(connection: Connection, asked: Realised) -> Iterator[str]:
    """Checks if the server records metadata locks as the scenario asks. No counter has the number of these locks,
    so this function takes a lock, looks it up and releases it."""
    if asked.scenario.kind != "on" or _METADATA_LOCK not in asked.instruments:
        return
    wanted = asked.instruments[_METADATA_LOCK] != "off" and asked.records
    query(connection, f"SELECT GET_LOCK('{_LOCK}', 0)")
    which = f"object_type = 'USER LEVEL LOCK' AND object_name = '{_LOCK}'"
    shown = int(query(connection, f"SELECT COUNT(*) FROM performance_schema.metadata_locks WHERE {which}")[0][0])
    query(connection, f"SELECT RELEASE_LOCK('{_LOCK}')")
    if bool(shown) != wanted:
        yield f"metadata locks: asked for {'on' if wanted else 'off'}, and {shown} of 1 lock was recorded"


def recorded(connection: Connection, asked: Realised) -> dict[str, int]:
    """Maps each instrument to the number of its events so far: those of the load's user if events are summarized by
    user, else those of all threads."""
    by_user = asked.is_on("thread_instrumentation")
    counts: dict[str, int] = {}
    for summary, columns in _COUNTS.items():
        which = f"WHERE user = '{LOADS_USER}'" if by_user and "{}" in summary else ""
        for row in schema_rows(connection, summary.format("by_user" if by_user else "global"), which, columns):
            if (row["count"] or row["name"] in (ERROR, DIGEST)) and not is_always_on(row["name"]):
                counts[row["name"]] = int(row["count"] or 0)
    return counts


def by_kind(events: Mapping[str, int]) -> Counter[str]:
    """Maps each kind of instruments to the number of its events.

    >>> by_kind({"stage/sql/init": 2, "stage/sql/end": 1, "digest": 3})
    Counter({'stage': 3, 'digest': 3})
    """
    counts = Counter[str]()
    for name, count in events.items():
        counts[class_of(name) or name] += count
    return counts


def mistaken(
    asked: Realised, events: Mapping[str, int], *, transactions: int, connections: int, texts: int
) -> Iterator[str]:
    """One message for each kind of instruments that is on and recorded too few events in a step, or is off and
    recorded events.

    `texts` is the number of statements that were sent as text. Only these are counted by statement digest, except in
    9.x, where executions of prepared statements are counted, too.
    """
    switched: dict[str, list[bool]] = {}
    for name, state in asked.instruments.items():
        if kind := class_of(name):
            switched.setdefault(kind, []).append(state != "off" and not is_always_on(name) and asked.records)
    if asked.scenario.kind != "on":
        switched = {kind: [False] for kind in events if kind != DIGEST}
    digests = [asked.is_on("statements_digest") and on for on in switched.get("statement", [False])]
    for kind, on in {**switched, DIGEST: digests}.items():
        count, due = events.get(kind, 0), f"{transactions} transactions"
        too_few = kind != DIGEST and classes().instruments[kind].loads and count < FEWEST * transactions
        # A load of prepared statements sends a few texts when it connects. They are too few to be checked.
        if kind == DIGEST:
            due, too_few = f"{texts} statements", texts > FEWEST * transactions and count < FEWEST * texts
        tolerated = SOCKET_EVENTS_OF_A_CONNECTION * connections if kind == "wait/io/socket" else 0
        if not any(on) and count > tolerated:
            yield f"{kind}: nothing was to be recorded, and {count} events were"
        if all(on) and too_few:
            yield f"{kind}: asked for, and {count} events were recorded in {due}"
