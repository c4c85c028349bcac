"""How many events of each kind the performance schema has recorded, and whether that is what was asked for."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from rqps.engines.mysql.instance import Connection, query
from rqps.engines.mysql.perf_schema.realise import Realised
from rqps.engines.mysql.perf_schema.tables import told
from rqps.study.perf_schema import class_of, classes, fits

DIGEST = "digest"
LOADS_USER = "root"
_SUMMARIES = {
    "events_waits_summary_{}_by_event_name": "count_star",
    "events_stages_summary_{}_by_event_name": "count_star",
    "events_statements_summary_{}_by_event_name": "count_star",
    "events_transactions_summary_{}_by_event_name": "count_star",
    "memory_summary_{}_by_event_name": "count_alloc",
}
_ERRORS = "events_errors_summary_{}_by_error"
_DIGESTS = "events_statements_summary_by_digest"

FEWEST = 0.1
"""Events for each transaction of the load, of a kind that every load has: fewer, and it was not recorded."""
SOCKET_EVENTS_OF_A_CONNECTION = 64
"""Sockets count bytes as a connection comes and goes, also while their instruments are off."""


@dataclass(frozen=True)
class Work:
    """What a load did while its events were recorded."""

    transactions: int
    connections: int
    texts: int
    """Statements that came as text, and so have a digest. One that was prepared before has none, but in 9.x."""


def tables(connection: Connection) -> frozenset[str]:
    """The tables of the performance schema."""
    with told(connection):
        return frozenset(str(name).lower() for (name,) in query(connection, "SHOW TABLES FROM performance_schema"))


def recorded(connection: Connection, there: Collection[str], asked: Realised) -> dict[str, int]:
    """Events so far by instrument: of the load's user where events are kept by user, else of all threads."""
    by_user = asked.is_on("thread_instrumentation")
    found: dict[str, int] = {}
    with told(connection):
        for summary, counted in _SUMMARIES.items():
            table, which = _one_of(summary, there, by_user)
            if table:
                rows = query(connection, f"SELECT event_name, {counted} FROM performance_schema.{table} {which}")
                found |= {str(name): int(count) for name, count in rows if count and not _always(str(name))}
        table, which = _one_of(_ERRORS, there, by_user)
        if table:
            found["error"] = _sum(connection, f"SUM(sum_error_raised) FROM performance_schema.{table} {which}")
        if _DIGESTS in there:
            found[DIGEST] = _sum(connection, f"SUM(count_star) FROM performance_schema.{_DIGESTS}")
    return found


def _one_of(summary: str, there: Collection[str], by_user: bool) -> tuple[str | None, str]:
    """The table of a summary that a version has, by user if it can be, and the rows of it that are meant."""
    of_user = summary.format("by_user")
    if by_user and of_user in there:
        return of_user, f"WHERE user = '{LOADS_USER}'"
    of_all = summary.format("global")
    return (of_all, "") if of_all in there else (None, "")


def _sum(connection: Connection, expression: str) -> int:
    return int(query(connection, f"SELECT {expression}")[0][0] or 0)


def by_kind(events: Mapping[str, int]) -> dict[str, int]:
    """Events of all instruments of a kind.

    >>> by_kind({"stage/sql/init": 2, "stage/sql/end": 1, "digest": 3})
    {'stage': 3, 'digest': 3}
    """
    found: dict[str, int] = {}
    for name, count in events.items():
        kind = class_of(name) or name
        found[kind] = found.get(kind, 0) + count
    return found


def texts(events: Mapping[str, int]) -> int:
    """Statements that came as text.

    >>> texts({"statement/sql/begin": 2, "statement/com/Execute": 9})
    2
    """
    return sum(count for name, count in events.items() if name.startswith("statement/sql/"))


def mistaken(asked: Realised, events: Mapping[str, int], of: Work) -> Iterator[str]:
    """What a step's events say against its scenario: kinds that are on and stayed still, or off and moved."""
    switched: dict[str, list[bool]] = {}
    for name, state in asked.instruments.items():
        if kind := class_of(name):
            switched.setdefault(kind, []).append(state != "off" and not _always(name) and asked.records)
    if asked.scenario.kind != "on":
        switched = {kind: [False] for kind in events if kind != DIGEST}
    digest_of = [asked.is_on("statements_digest") and on for on in switched.get("statement", [False])]
    for kind, on in {**switched, DIGEST: digest_of}.items():
        count, what = events.get(kind, 0), "statements" if kind == DIGEST else "transactions"
        due = of.texts if kind == DIGEST else of.transactions
        if not any(on) and count > _tolerated(kind, of):
            yield f"{kind}: nothing was to be recorded, and {count} events were"
        if all(on) and _made_by(kind, of) and count < FEWEST * due:
            yield f"{kind}: asked for, and {count} events were recorded in {due} {what}"


def _always(name: str) -> bool:
    return any(fits(pattern, name) for pattern in classes().always)


def _made_by(kind: str, of: Work) -> bool:
    """Whether a load makes such events; the few texts with which it connects make no load of texts."""
    return of.texts > FEWEST * of.transactions if kind == DIGEST else classes().instruments[kind].loads


def _tolerated(kind: str, of: Work) -> int:
    return SOCKET_EVENTS_OF_A_CONNECTION * of.connections if kind == "wait/io/socket" else 0
