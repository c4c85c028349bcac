"""Events that the performance schema has recorded in a step, by kind, against what its scenario asks for."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from rqps.engines.mysql.instance import Connection, query
from rqps.engines.mysql.perf_schema.scenario import Realised, is_always_on
from rqps.engines.mysql.perf_schema.setup import explained
from rqps.study.perf_schema import class_of, classes

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
    """The work of a load while its events were recorded."""

    transactions: int
    connections: int
    texts: int
    """Statements that came as text, and so have a digest. One that was prepared before has none, but in 9.x."""


def recorded(connection: Connection, there: Collection[str], asked: Realised) -> dict[str, int]:
    """Events so far by instrument: of the load's user where events are kept by user, else of all threads."""
    by_user = asked.is_on("thread_instrumentation")
    found: dict[str, int] = {}
    with explained(connection):
        for summary, counted in _SUMMARIES.items():
            if table := _one_of(summary, there, by_user):
                rows = query(connection, f"SELECT event_name, {counted} FROM performance_schema.{table}")
                found |= {str(name): int(count) for name, count in rows if count and not is_always_on(str(name))}
        if table := _one_of(_ERRORS, there, by_user):
            found["error"] = _sum(connection, f"SUM(sum_error_raised) FROM performance_schema.{table}")
        if _DIGESTS in there:
            found[DIGEST] = _sum(connection, f"SUM(count_star) FROM performance_schema.{_DIGESTS}")
    return found


def _one_of(summary: str, there: Collection[str], by_user: bool) -> str | None:
    """The table of a summary that a version has, with the rows that count: of the load's user if they can be had."""
    of_user, of_all = summary.format("by_user"), summary.format("global")
    if by_user and of_user in there:
        return f"{of_user} WHERE user = '{LOADS_USER}'"
    return of_all if of_all in there else None


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


def mistaken(asked: Realised, events: Mapping[str, int], of: Work) -> Iterator[str]:
    """The kinds that are on and did not move in a step, and those that are off and did."""
    switched: dict[str, list[bool]] = {}
    for name, state in asked.instruments.items():
        if kind := class_of(name):
            switched.setdefault(kind, []).append(state != "off" and not is_always_on(name) and asked.records)
    if asked.scenario.kind != "on":
        switched = {kind: [False] for kind in events if kind != DIGEST}
    digest_of = [asked.is_on("statements_digest") and on for on in switched.get("statement", [False])]
    for kind, on in {**switched, DIGEST: digest_of}.items():
        count, what = events.get(kind, 0), "statements" if kind == DIGEST else "transactions"
        due = of.texts if kind == DIGEST else of.transactions
        tolerated = SOCKET_EVENTS_OF_A_CONNECTION * of.connections if kind == "wait/io/socket" else 0
        if not any(on) and count > tolerated:
            yield f"{kind}: nothing was to be recorded, and {count} events were"
        if all(on) and _made_by(kind, of) and count < FEWEST * due:
            yield f"{kind}: asked for, and {count} events were recorded in {due} {what}"


def _made_by(kind: str, of: Work) -> bool:
    """True if a load makes such events; the few texts with which it connects make no load of texts."""
    return of.texts > FEWEST * of.transactions if kind == DIGEST else classes().instruments[kind].loads
