"""The scenario of a run: told to its server, verified, and held to around every step."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol

from rqps.engines import perf_schema
from rqps.engines.build import Build
from rqps.engines.data import origin
from rqps.engines.instance import Server
from rqps.engines.options import Translated
from rqps.engines.perf_schema import Realised
from rqps.engines.perf_schema.differences import in_short
from rqps.engines.perf_schema.memory import refuse_too_large
from rqps.errors import RqpsError
from rqps.observe.status import read_status
from rqps.store.manifest import Warning_
from rqps.study import Run
from rqps.study.perf_schema import absent

Say = Callable[[str], None]


class Watch(Protocol):
    """What the server says of itself around a step: its status, and the events of its performance schema."""

    def begin(self) -> dict[str, str]:
        """When nothing but the load comes any more."""

    def end(self, transactions: int, connections: int) -> dict[str, str]:
        """When the load is gone; fails where what was recorded is not what was asked for."""


class _Unwatched:
    """Where a config names no scenario, only the status is asked for."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def begin(self) -> dict[str, str]:
        connection = self._server.connect()
        status = read_status(connection)
        connection.close()
        return status

    def end(self, _transactions: int, _connections: int) -> dict[str, str]:
        return self.begin()


class _Watched:
    """On one connection, of which nothing is recorded."""

    def __init__(self, watch: perf_schema.Watch) -> None:
        self._watch = watch
        self._status: dict[str, str] = {}

    def begin(self) -> dict[str, str]:
        self._status = read_status(self._watch.connection)
        return self._status | self._watch.begin()

    def end(self, transactions: int, connections: int) -> dict[str, str]:
        status = read_status(self._watch.connection)
        self._watch.refuse_lost_threads(self._status, status)
        return status | self._watch.end(transactions, connections)


def scenario_of(run: Run, build: Build, translated: Translated, say: Say) -> Realised | None:
    """What the build of a run is told for its scenario; RqpsError with all that it can't do."""
    if run.perf_schema is None:
        return None
    if reason := absent(build.version, run.perf_schema):
        raise RqpsError(
            f"{run.dbms}: the scenario {run.perf_schema.name} is not in this version: {reason}",
            fix=f'write mysql: "{build.version}" beside the source of build {run.build!r}, and its runs are left out',
        )
    known = perf_schema.known(origin(build, run.options), say)
    realised = perf_schema.realise(run.perf_schema, build, known, config=run.config)
    refuse_too_large(translated.expected, known, run.dbms)
    return realised


def tell(server: Server, asked: Realised | None, whose: str) -> list[tuple[str, str, str]]:
    """Tells a server that has just started what it could not be told before, and verifies all of it: what, as asked,
    as found."""
    if asked is None:
        return []
    with perf_schema.unheard(server) as connection:
        perf_schema.apply(connection, asked)
        found = perf_schema.verify(connection, asked, whose)
    wanted, there = (in_short(each.instruments, each.consumers) for each in (asked, found))
    return [(what, wanted.get(what, "none"), there.get(what, "none")) for what in {**wanted, **there}]


@contextmanager
def watched(server: Server, asked: Realised | None, step: str) -> Iterator[Watch]:
    """From before a step until after it: what is set, verified at both ends, and what is recorded."""
    if asked is None:
        yield _Unwatched(server)
        return
    with perf_schema.watching(server, asked, step) as watch:
        yield _Watched(watch)


def lost_events(before: Mapping[str, str], after: Mapping[str, str], step: str) -> Iterator[Warning_]:
    """A warning for what the performance schema had no room for."""
    for name in after:
        if name.startswith("performance_schema_") and name.endswith("_lost"):
            lost = int(after[name]) - int(before.get(name, 0))
            text = f"{name} grew by {lost}: those were not recorded"
            yield from [Warning_(kind="lost events", text=text, step=step)] if lost else []
