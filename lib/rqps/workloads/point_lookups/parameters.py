"""Parameters of the point lookups that a study may set."""

import os
import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, Field, WithJsonSchema, field_validator, model_validator

from rqps.study import BuildSpec, Connections, Count, Parameters, Some, one_of
from rqps.workloads.point_lookups.steps import (
    ALONE,
    KINDS,
    PUBLISHED,
    UNHINTED,
    VOLATILE,
    Step,
    find,
    possible_rows,
)

LOOKUP_US = 30.0
"""CPU time of a query, server and mysqlslap together: for the estimate of a study's time, on a CPU of today."""
SCANNED_ROW_US = 0.08
"""CPU time per row of a table that is read to its end."""
COUNTED_OPERATIONS, COUNTED_OF_A_CLIENT = 2000, 1000
ROWS_LIKE_A_QUERY = 100
QUERIES = 100_000
WARMUP_QUERIES = 1000
MYSQLSLAP = "8.0.33"
DUET_SECONDS = 1
OTHER_CONNECTIONS = 3
"""Connections beside the clients': mysqlslap has one more, and two are for control."""
STEP_S = 0.25
"""Time to start the load generator and to look at the plan."""


ENGINE = r"[a-z][a-z0-9_]*"
SLAP = r"\d+\.\d+\.\d+|[/~].*"


def _matches(form: str, otherwise: str) -> Any:
    """A text of this form, or an error with its words after the text."""

    def check(given: str) -> str:
        if not re.fullmatch(form, given):
            raise ValueError(f"{given!r} {otherwise}")
        return given

    return AfterValidator(check)


Engine = Annotated[
    str,
    _matches(ENGINE, "can't be an engine; write its name in small letters, such as innodb or memory"),
    WithJsonSchema({"type": "string", "pattern": f"^{ENGINE}$"}),
]
KindName = Annotated[str, *one_of(KINDS, "kind")]
Program = Annotated[
    str,
    _matches(SLAP, 'is neither a version, such as "8.0.33", nor a path, such as /opt/mysql/bin/mysqlslap'),
    WithJsonSchema({"type": "string", "pattern": f"^({SLAP})$"}),
]


class PointLookupsParameters(Parameters):
    of_engines: ClassVar[tuple[str, ...]] = ("mysql", "postgres")

    engines: Some[Engine] = ("innodb", "memory")
    """Storage engines, as SHOW ENGINES of the servers names them, in small letters; `heap` of PostgreSQL."""
    kinds: Some[KindName] = PUBLISHED
    """Kinds of query. Each is done on every engine, from every number of clients. The published five if not given, on
    heap those without a hint and nocover-noforce."""
    clients: Some[Count] = (1, 4, 32)
    """Numbers of clients that ask at once."""
    seconds: Count | None = None
    """For duets and heap, where sysbench asks: the measured part of a step, for each server; 1 if not given."""
    warmup_seconds: Annotated[int, Field(ge=0)] | None = None
    """For duets and heap: before the measured part of every step, not measured; none if not given."""
    slice_ms: Count | None = None
    """For duets: milliseconds of a slice, in which one of the servers has all the load; 20 if not given."""
    queries: Count | None = None
    """For rounds, where mysqlslap asks one server: queries of each client in a step; 100,000 if not given."""
    most_queries: Count | None = None
    """For rounds: queries of all clients together in a step, where that is fewer."""
    scan_queries: Count | None = None
    """For rounds: the same for a step whose plan reads all rows for each query."""
    warmup_queries: Annotated[int, Field(ge=0)] | None = None
    """For rounds: queries of one client before each step, not measured; 1000 if not given."""
    mysqlslap: Program | None = None
    """For rounds: the program that puts the load on all servers of the study, a version in the catalogue or a path;
    8.0.33 if not given."""
    counted_operations: Count | None = None
    """Queries of all clients together in a step whose instructions are counted, 2000 or 1000 a client if not given;
    fewer where all rows are read, of which a hundred weigh as much as a query. The same for every dbms."""
    table_rows: Count = 64_000
    """1000 rows, doubled as often as it takes."""

    @model_validator(mode="before")
    @classmethod
    def _kinds_without_hints(cls, given: Any) -> Any:
        """The kinds of a server that takes no hints, where none are asked for."""
        if isinstance(given, dict) and "kinds" not in given and given.get("engines") in ([ALONE], (ALONE,)):
            return {**given, "kinds": UNHINTED}
        return given

    @model_validator(mode="after")
    def _no_hints_on_heap(self) -> "PointLookupsParameters":
        hinted = [kind for kind in self.kinds if KINDS[kind].hinted]
        if ALONE in self.engines and hinted:
            raise ValueError(
                f"kinds: {', '.join(hinted)} tell the server which index to use, and the server of engine {ALONE} "
                f"takes no hints; write some of {', '.join(UNHINTED)}"
            )
        return self

    @field_validator("table_rows")
    @classmethod
    def _rows_can_be_made(cls, rows: int) -> int:
        if rows not in (near := possible_rows(rows)):
            raise ValueError(f"{rows} rows can't be made by doubling 1000; write {' or '.join(map(str, near))}")
        return rows

    @model_validator(mode="after")
    def _a_cycle_fits(self) -> "PointLookupsParameters":
        most = 1000 * self.duet_seconds // 2
        if self.slice_ms and self.slice_ms > most:
            raise ValueError(
                f"slice_ms is {self.slice_ms}: each server has two slices of a cycle, and a step of "
                f"{self.duet_seconds} s no room for them; write {most} or less, or ask for more seconds"
            )
        return self

    @property
    def steps(self) -> tuple[str, ...]:
        """Engines, of each its numbers of clients, of each the kinds: these are compared, so they are neighbours."""
        return tuple(
            f"{engine}.{kind}@{clients}" for engine in self.engines for clients in self.clients for kind in self.kinds
        )

    @property
    def connections(self) -> Connections:
        return Connections("clients", max(self.clients), OTHER_CONNECTIONS)

    def refused(self, builds: Mapping[str, BuildSpec], duet: bool) -> str | None:  # noqa: ARG002
        others = [name for name, spec in builds.items() if (spec.engine == "postgres") != (self.engines == (ALONE,))]
        if others:
            return (
                f"point-lookups: {', '.join(others)} can't have tables of the engines {', '.join(self.engines)}; "
                f"write engines: [{ALONE}] in the parameters for PostgreSQL, and others, such as innodb, for MySQL"
            )
        return None

    @property
    def by_sysbench(self) -> bool:
        """True if sysbench asks single servers, too: mysqlslap can't."""
        return ALONE in self.engines

    @property
    def program(self) -> str:
        return self.mysqlslap or MYSQLSLAP

    @property
    def duet_seconds(self) -> int:
        return self.seconds or DUET_SECONDS

    def warmup_of(self, scans: bool) -> int:
        """Queries of one client before a step."""
        usual = WARMUP_QUERIES if self.warmup_queries is None else self.warmup_queries
        return min(usual, 1) if scans else usual

    def queries_of(self, clients: int, scans: bool) -> int:
        limits = [self.most_queries, self.scan_queries if scans else None]
        return min([self.queries or QUERIES, *(max(1, limit // clients) for limit in limits if limit is not None)])

    def counted_of(self, clients: int, scans: bool) -> int:
        """Queries of each client in a step whose instructions are counted.

        >>> PointLookupsParameters().counted_of(4, False), PointLookupsParameters().counted_of(4, True)
        (1000, 1)
        """
        weight = 1 + self.table_rows / ROWS_LIKE_A_QUERY if scans else 1
        usual = COUNTED_OPERATIONS if scans else max(COUNTED_OPERATIONS, COUNTED_OF_A_CLIENT * clients)
        return max(1, round((self.counted_operations or usual) / weight / clients))

    @property
    def estimated_seconds(self) -> float:
        """The rows count where a query is known to read all of them; clients share this host's CPUs."""

        def seconds_of(step: Step) -> float:
            scans = step.engine in VOLATILE and step.kind is KINDS["cover-force"]
            each_us = LOOKUP_US + (SCANNED_ROW_US * self.table_rows if scans else 0)
            at_once = min(step.clients, len(os.sched_getaffinity(0)))
            queries = step.clients * self.queries_of(step.clients, scans)
            return (queries / at_once + self.warmup_of(scans)) * each_us / 1e6

        if self.by_sysbench:
            return self.estimated_duet_seconds
        return sum(STEP_S + seconds_of(find(name)) for name in self.steps)

    @property
    def estimated_duet_seconds(self) -> float:
        return len(self.steps) * (STEP_S + self.duet_seconds + (self.warmup_seconds or 0))


PARAMETERS = PointLookupsParameters
