"""Parameters of the point lookups that a study may set."""

import os
import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, Field, WithJsonSchema, field_validator, model_validator

from rqps.study import BuildSpec, Connections, Count, Parameters, Some, one_of
from rqps.workloads.point_lookups.steps import ALONE, KINDS, PUBLISHED, UNHINTED, VOLATILE, Step, find, possible_rows

LOOKUP_US = 30.0
"""CPU time of a query in µs, of server and mysqlslap together, on a current CPU: to estimate a study's duration."""
SCANNED_ROW_US = 0.08
"""CPU time in µs per row of a full table scan."""
COUNTED_OPERATIONS, COUNTED_OF_A_CLIENT = 2000, 1000
ROWS_LIKE_A_QUERY = 100
QUERIES = 100_000
WARMUP_QUERIES = 1000
MYSQLSLAP = "8.0.33"
DUET_SECONDS = 1
OTHER_CONNECTIONS = 3
"""Number of connections in addition to the clients': one of mysqlslap itself, and two for control."""
STEP_S = 0.25
"""Seconds to start the load generator and to read the plan."""


ENGINE = r"[a-z][a-z0-9_]*"
SLAP = r"\d+\.\d+\.\d+|[/~].*"


def _matches(form: str, otherwise: str) -> Any:
    """Validates that a text matches a regular expression; the error is the text, followed by `otherwise`."""

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
    """Storage engines, by their names in SHOW ENGINES, in small letters; for PostgreSQL, `heap`."""
    kinds: Some[KindName] = PUBLISHED
    """Kinds of query. Each kind runs on every storage engine with every number of clients. If not given: the five
    published kinds; for PostgreSQL, the kinds without an index hint, including nocover-noforce."""
    clients: Some[Count] = (1, 4, 32)
    """Numbers of concurrent clients; every kind of query runs with each number."""
    seconds: Count | None = None
    """For duets, and for PostgreSQL (`engines: [heap]`), where sysbench runs the load: duration of the measured part
    of a step, in seconds per server; 1 if not given."""
    warmup_seconds: Annotated[int, Field(ge=0)] | None = None
    """For duets, and for PostgreSQL: duration of the warm-up before the measured part of every step, in seconds per
    server; 0 if not given."""
    slice_ms: Count | None = None
    """For duets: length of a slice, in milliseconds, in which one server has all the load; 20 if not given."""
    queries: Count | None = None
    """For MySQL with `method: rounds`, where mysqlslap runs the load on one server: number of queries per client in a
    step; 100,000 if not given."""
    most_queries: Count | None = None
    """For mysqlslap: maximum number of queries of all clients together in a step."""
    scan_queries: Count | None = None
    """For mysqlslap: maximum number of queries of all clients together in a step whose queries read all rows."""
    warmup_queries: Annotated[int, Field(ge=0)] | None = None
    """For mysqlslap: number of unmeasured queries that one client runs before each step; 1000 if not given."""
    mysqlslap: Program | None = None
    """The mysqlslap that runs the load on all servers of the study, as a version in the catalogue or a path; 8.0.33
    if not given."""
    counted_operations: Count | None = None
    """Number of queries of all clients together in a step whose instructions are counted, the same for every dbms; if
    not given, 2000, or 1000 per client if that is more. A step whose queries read all rows executes fewer of them:
    every hundred rows read count as one more query."""
    table_rows: Count = 64_000
    """Number of rows of the table: 1000, doubled any number of times."""

    @model_validator(mode="before")
    @classmethod
    def _kinds_without_hints(cls, given: Any) -> Any:
        """Selects the kinds without hints if `kinds` is not given and the server takes no hints."""
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
        """The names of the steps, by engine, then number of clients, then kind, since the kinds are compared."""
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
        """True if sysbench runs the load even on a single server, because mysqlslap works only with MySQL."""
        return ALONE in self.engines

    @property
    def program(self) -> str:
        return self.mysqlslap or MYSQLSLAP

    @property
    def duet_seconds(self) -> int:
        return self.seconds or DUET_SECONDS

    def warmup_of(self, scans: bool) -> int:
        """The number of warm-up queries that one client runs before a step."""
        usual = WARMUP_QUERIES if self.warmup_queries is None else self.warmup_queries
        return min(usual, 1) if scans else usual

    def queries_of(self, clients: int, scans: bool) -> int:
        limits = [self.most_queries, self.scan_queries if scans else None]
        return min([self.queries or QUERIES, *(max(1, limit // clients) for limit in limits if limit is not None)])

    def counted_of(self, clients: int, scans: bool) -> int:
        """The number of queries per client in a step whose instructions are counted.

        >>> PointLookupsParameters().counted_of(4, False), PointLookupsParameters().counted_of(4, True)
        (1000, 1)
        """
        weight = 1 + self.table_rows / ROWS_LIKE_A_QUERY if scans else 1
        usual = COUNTED_OPERATIONS if scans else max(COUNTED_OPERATIONS, COUNTED_OF_A_CLIENT * clients)
        return max(1, round((self.counted_operations or usual) / weight / clients))

    @property
    def estimated_seconds(self) -> float:
        """Duration of a run's steps. Assumes that the clients share this machine's CPUs, and that a query reads one
        row unless its plan is known to be a scan."""

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
