"""Parameters of the insert benchmark that a study may set."""

import os
import re
from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from rqps.engines import facts_of
from rqps.study import BuildSpec, Connections, Count, DeviceSpeed, Parameters
from rqps.workloads.insert_benchmark.steps import INDEX, LOAD, Step, find, names, part

Form = Literal["current", "2023", "2021"]
MOST_AHEAD = 8
"""Maximum number of statements by which a client's inserts may be ahead of its deletes, or its deletes ahead of its
inserts, as in the published client."""
OUR_CONNECTIONS = 2
"""Number of control connections, in addition to the clients' connections."""
ROW_US = {"l.i0": 4.5, "l.x": 5.0, "l.i1": 95.0, "l.i2": 105.0}
"""CPU time per row of each step in µs, for server and load generator together, on a current CPU: to estimate the
duration of a study."""
SETTLING_S = 5.0
BYTES_OF_A_ROW = 250
"""Approximate size of a row with its entries in the indexes, after random inserts."""
PAGES_OF_A_ROW = 6
"""Number of random pages that an insert and a delete of one row change together: a page in three indexes each."""
WRITES_OF_A_PAGE = 2
"""The number of times that a changed page is written: to the doublewrite buffer, and to its place in the file."""
SMALLER_WRITES = 5
"""The step l.i2, in versions of the benchmark that have it, inserts `write_rows` divided by this number."""


class InsertBenchmarkParameters(Parameters):
    of_engines: ClassVar[tuple[str, ...]] = ("mysql", "postgres")

    form: Form = "current"
    """The published version of the benchmark: `current` (since the end of 2023), `2023` (range queries only), or
    `2021` (without deletes, two steps for each rate)."""
    steps: tuple[str, ...] | None = Field(default=None, strict=False)
    """Steps of the version that `form` names, in that version's order and beginning with l.i0 (the load) and l.x
    (the secondary indexes); all steps if not given."""
    clients: Count = 1
    shared_table: bool = False
    """If true, all clients use one table; otherwise each client has its own table."""
    load_rows: Count = 1_000_000
    """Rows that each client inserts in l.i0, into tables without secondary indexes."""
    index_rows: Count | None = None
    """Rows that each client inserts in l.x, before that step creates the secondary indexes; as many as in a
    transaction of l.i0 if not given."""
    write_rows: Annotated[int, Field(ge=SMALLER_WRITES)] = 100_000
    """Rows that each client inserts in l.i1 and l.i2 together: four fifths in l.i1, and one fifth in l.i2, in smaller
    transactions. If the version that `form` names has no l.i2, l.i1 inserts all of them."""
    load_rows_per_transaction: Count = 100
    """Rows per transaction in l.i0, which loads tables in the order of their primary key, and in l.x, which then
    creates their secondary indexes."""
    write_rows_per_transaction: Count = 50
    """Rows per transaction in l.i1, of inserts and of deletes."""
    small_write_rows_per_transaction: Count = 5
    """Rows per transaction in l.i2, which is l.i1 with smaller transactions."""
    background_rows_per_transaction: Count = 50
    """Rows per transaction in the steps with queries."""
    rates: tuple[Count, ...] = Field(default=(100, 500, 1000), strict=False, json_schema_extra={"minItems": 1})
    """Rows per second that each client inserts, and deletes, while it runs its queries. There is one step for each
    rate and kind of query."""
    seconds: Count = 60
    """Duration, in seconds, of a step with queries if the server reaches the rate; if not, the step lasts until its
    rows are written."""
    most_seconds: Count | None = None
    """Maximum duration, in seconds, of a step with queries; three times `seconds` if not given."""
    limiter: Literal["forgiving", "catching-up"] = "forgiving"
    """Treatment of rows that a client did not write in the second in which they were due. `forgiving`, as
    published: the client's next second begins when these rows are written. `catching-up`: the client inserts
    without pauses until no row is late."""
    query_rows: Count = 10
    """Maximum number of rows that a range query asks for, and number of ids in a point query."""
    wait: Literal["settled", "published"] = "settled"
    """The wait before the first step with queries: `settled` waits until nothing is left to purge and to flush,
    `published` waits a fixed time."""
    wait_seconds: Count | None = None
    """Duration of the wait before the first step with queries, in seconds: the maximum if `wait` is `settled`, the
    exact duration if it is `published`. If not given, 60 plus one for every million loaded rows, but at most 1200."""
    debt_every_seconds: Annotated[float, Field(gt=0)] | None = None
    """If given, the debt (transactions to purge, dirty pages, redo log since the checkpoint) is also read during each
    step, at this interval. The server's CPU time then includes the reading."""

    @model_validator(mode="after")
    def _steps_and_rates_fit(self) -> "InsertBenchmarkParameters":
        if not self.rates or len(set(self.rates)) < len(self.rates):
            raise ValueError(f"rates {list(self.rates)}: needs at least one, and each only once")
        if self.steps is not None:
            part(self.steps, names(self.form, self.rates))
        batch_rows = self.background_rows_per_transaction
        for rate in self.rates:
            if rate % batch_rows:
                near = sorted(
                    {max(batch_rows, rate // batch_rows * batch_rows), rate // batch_rows * batch_rows + batch_rows}
                )
                raise ValueError(
                    f"rate {rate}: transactions of {batch_rows} rows can't make it; "
                    f"write {' or '.join(map(str, near))}, or set background_rows_per_transaction"
                )
        most = max((self.rows_per_transaction(step) for step in self.described if step.deletes), default=0)
        if self.load_rows < (needed := (MOST_AHEAD + 1) * most):
            raise ValueError(
                f"load_rows is {self.load_rows}: deletes of {most} rows can be {MOST_AHEAD} transactions before the "
                f"inserts, so at least {needed} rows are needed"
            )
        return self

    def refused(self, builds: Mapping[str, BuildSpec], duet: bool) -> str | None:
        if duet and self.wait == "published":
            exact = "wait: published is an exact time, and the servers of a duet wait one after the other"
            return f"{exact}; write `method: rounds`"
        unstoppable: dict[str, list[str]] = {}
        for name, spec in builds.items():
            if (known := facts_of(spec.engine).unstoppable) and re.match(known[0], spec.version or ""):
                unstoppable.setdefault(known[1], []).append(name)
        reasons = (f"{', '.join(own)} can't take turns: {reason}" for reason, own in unstoppable.items())
        return f"{'; '.join(reasons)}; write `method: rounds`" if unstoppable and duet else None

    @property
    def measured(self) -> tuple[str, ...]:
        """The names of the steps that are run."""
        return names(self.form, self.rates) if self.steps is None else self.steps

    @property
    def described(self) -> list[Step]:
        return [find(name, self.form) for name in self.measured]

    def before(self, step: Step) -> list[Step]:
        return self.described[: self.measured.index(step.name)]

    @property
    def tables(self) -> tuple[str, ...]:
        return tuple(f"pi{number}" for number in range(1, 2 if self.shared_table else self.clients + 1))

    def rows_per_transaction(self, step: Step) -> int:
        return {
            LOAD: self.load_rows_per_transaction,
            INDEX: self.load_rows_per_transaction,
            "l.i1": self.write_rows_per_transaction,
            "l.i2": self.small_write_rows_per_transaction,
        }.get(step.kind, self.background_rows_per_transaction)

    def rows(self, step: Step) -> int:
        """Rows that each client inserts in a step.

        >>> asked = InsertBenchmarkParameters(write_rows=1000, seconds=60)
        >>> [asked.rows(find(name, "current")) for name in ("l.x", "l.i1", "l.i2", "qr500")]
        [100, 800, 200, 30000]
        """
        if step.rate is not None:
            return step.rate * self.seconds
        smaller = self.write_rows // SMALLER_WRITES if "l.i2" in names(self.form, ()) else 0
        return {
            LOAD: self.load_rows,
            INDEX: self.index_rows or self.load_rows_per_transaction,
            "l.i1": self.write_rows - smaller,
            "l.i2": smaller,
        }[step.kind]

    def transactions(self, step: Step) -> int:
        """The number of transactions in which each client inserts its rows; the last one may be smaller."""
        return -(-self.rows(step) // self.rows_per_transaction(step))

    @property
    def connections(self) -> Connections:
        """A client has up to three connections at once."""
        most = max(step.connections for step in self.described)
        ours = OUR_CONNECTIONS + (self.debt_every_seconds is not None)
        return Connections("clients", self.clients, ours + (most - 1) * self.clients)

    @property
    def limit_s(self) -> float:
        """Maximum duration, in seconds, of a step with queries."""
        return self.most_seconds or 3 * self.seconds

    @property
    def wait_s(self) -> float:
        return self.wait_seconds or min(60 + self.clients * self.load_rows / 1e6, 1200)

    @property
    def estimated_seconds(self) -> float:
        """Duration of a run's steps and of the wait between them, if the clients share the CPUs of this machine."""

        def seconds_of(step: Step) -> float:
            if step.rate is not None:
                return float(self.seconds)
            rows = self.load_rows if step.kind == INDEX else self.rows(step)
            at_once = min(self.clients, len(os.sched_getaffinity(0)))
            return rows * self.clients / at_once * ROW_US[step.kind] / 1e6

        waiting = SETTLING_S if self.wait == "settled" else self.wait_s
        return sum(map(seconds_of, self.described)) + waiting * any(step.queries for step in self.described)

    def disk_seconds(self, device: DeviceSpeed, cache_bytes: int | None) -> float:
        """The time in which the disk reads and writes the pages outside the cache that inserts and deletes change.
        For a step with queries, only the time beyond `seconds` counts, since its inserts have a fixed rate."""
        size = self.clients * self.load_rows * BYTES_OF_A_ROW
        missed = 0.0 if cache_bytes is None else max(0.0, 1 - cache_bytes / size)
        row_s = PAGES_OF_A_ROW * missed * (device.read_s + WRITES_OF_A_PAGE * device.write_s)

        def waiting_s(step: Step) -> float:
            if step.kind in (LOAD, INDEX):
                return 0.0
            needed_s = self.clients * self.rows(step) * row_s
            return needed_s if step.rate is None else max(0.0, min(needed_s, self.limit_s) - self.seconds)

        return sum(map(waiting_s, self.described))


PARAMETERS = InsertBenchmarkParameters
