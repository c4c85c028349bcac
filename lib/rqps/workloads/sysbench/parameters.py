"""Parameters of the sysbench workload that a study may set."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import (
    AfterValidator,
    Field,
    PlainSerializer,
    PlainValidator,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from rqps.study import Connections, Count, DeviceSpeed, Parameters
from rqps.workloads.sysbench.steps import (
    FLUSH,
    WARM,
    Step,
    expand,
    find,
    in_tables,
    is_measured,
    listed,
    lists,
    pattern,
)

COUNTED_OPERATIONS, COUNTED_OF_A_CLIENT = 2000, 1000
SLOW_STATEMENTS_PER_S = 1000
"""Statements per second of a training, to estimate its duration. A training is a load that collects the compiler's
profile of a server; the server is slow, since its code is instrumented."""
ROWS_LIKE_A_STATEMENT = 100
"""The number of rows that a range query reads in about the time of one statement, with and without callgrind."""
OUR_CONNECTIONS = 2
"""Number of control connections, in addition to those of the load."""
BYTES_OF_A_ROW = 240
"""Approximate size of a row with its entry in the index."""
TIMES_MOVED = 3
"""The number of times that the disk transfers the tables before the first step: they are copied, checked and read."""
WARMUP_SHARE = 4
"""Number of counted transactions for each transaction of the warm-up."""


def _exists(name: str) -> str:
    if name != FLUSH and name not in lists():
        find(name)
    return name


def _numbers(value: Any) -> int | tuple[int, ...]:
    """Validates a number, or a list of different numbers."""
    counts = tuple(value) if isinstance(value, list | tuple) else (value,)
    if not counts or any(type(count) is not int or count < 1 for count in counts):
        raise ValueError(f"is {value!r}; a whole number of at least 1 is due, or a list of them, such as [1, 8, 64]")
    if len(set(counts)) < len(counts):
        raise ValueError(f"{value!r} has a number more than once")
    return counts if isinstance(value, list | tuple) else counts[0]


_A_COUNT = {"type": "integer", "minimum": 1}
_COUNTS = {"anyOf": [_A_COUNT, {"type": "array", "items": _A_COUNT, "minItems": 1, "uniqueItems": True}]}
Threads = Annotated[
    int | tuple[int, ...],
    PlainValidator(_numbers),
    PlainSerializer(lambda counts: counts),  # unchanged: otherwise pydantic warns of a tuple written as a list
    WithJsonSchema(_COUNTS),
]

_NAMES = {"anyOf": [{"enum": list(listed())}, {"pattern": pattern()}]}
StepName = Annotated[str, AfterValidator(_exists), WithJsonSchema({"type": "string", **_NAMES})]


def called(step: str, clients: int) -> str:
    """The name of a step that runs with several numbers of clients, for one of them: `point-query@4`."""
    return f"{step}@{clients}"


class SysbenchParameters(Parameters):
    of_engines: ClassVar[tuple[str, ...]] = ("mysql", "postgres")
    steps_stand_alone: ClassVar[bool] = True
    of_a_try: ClassVar[Mapping[str, Any]] = {
        "steps": ["point-query", "range-covered-si", "update-index"],
        "index_first": True,
        "seconds": 2,
        "warmup_seconds": 0,
    }

    steps: tuple[StepName, ...] = Field(
        default_factory=lambda: expand(("all",)), strict=False, json_schema_extra={"minItems": 1}
    )
    """The steps, which run one after the other in this order on the same server. The name of a list selects all of
    its steps."""
    tables: Count = 1
    table_rows: Count = 100_000
    index_first: bool = False
    """If true, the secondary index is created before the rows are loaded. In the published tests it is created after
    the rows, with full pages; on a small table, a short update step then measures mostly page splits and merges."""
    threads: Threads = 1
    """Number of clients. With a list, every step is measured with each number and named STEP@THREADS; the server
    starts only once for all numbers."""
    seconds: Count = 30
    """Duration of the measured part of a step, in seconds."""
    write_seconds: Count | None = None
    """Duration of the measured part of a step that writes, in seconds; the same as `seconds` if not given."""
    warm_seconds: Count | None = None
    """Duration of a warm-up step, in seconds; the same as `seconds` if not given."""
    warmup_seconds: Annotated[int, Field(ge=0)] = 5
    """Duration of the warm-up before the measured part of every step, in seconds."""
    slice_ms: Count | None = None
    """Length of a slice, in milliseconds, in which one server of a duet has all the load; 20 if not given."""
    flush_seconds: Count | None = None
    """Maximum duration of a flush, in seconds; if not given, 60 plus one for every million rows, but at most 1200."""
    operations: Count | None = None
    """Number of statements after which a step ends, in place of `seconds`. It is for studies of one dbms that collect
    the compiler's profile of a server: the profile then does not depend on the speed of the machine. A step whose
    statements read many rows ends after fewer statements: every hundred rows read count as one more statement."""
    prepared: bool = True
    """If true, statements are prepared in all steps that allow it."""
    counted_operations: Count | None = None
    """Number of statements of a step whose instructions are counted, the same for every dbms; if not given, 2000, or
    1000 per client if that is more. A step whose statements read many rows executes fewer of them: every hundred rows
    read count as one more statement."""

    @field_validator("steps")
    @classmethod
    def _steps_stand_once(cls, given: tuple[str, ...]) -> tuple[str, ...]:
        names = expand(given)
        labels: dict[str, str] = {}
        for name in filter(is_measured, names):
            label = find(name).label
            if label in labels:
                as_well = "" if labels[label] == name else f", also as {labels[label]!r}"
                raise ValueError(f"step {name!r} is there more than once{as_well}")
            labels[label] = name
        if not labels:
            raise ValueError("has no step to be measured; a flush and a warm-up are for those that follow")
        return names

    @model_validator(mode="after")
    def _tables_hold_what_is_read(self) -> "SysbenchParameters":
        for name in self.steps:
            if name != FLUSH and (needed := find(name).rows_needed) > self.table_rows:
                raise ValueError(
                    f"step {name!r} needs {needed} rows, and table_rows is {self.table_rows}; "
                    "ask for more rows, or for a smaller range"
                )
        return self

    @property
    def measured(self) -> tuple[str, ...]:
        """The names of the steps that are measured, without flushes and warm-ups."""
        return tuple(filter(is_measured, self.steps))

    @property
    def sweep(self) -> tuple[str, ...]:
        """The full names of the measured steps, one for each number of clients if `threads` is a list."""
        if isinstance(self.threads, int):
            return self.measured
        # No step finds what a later step has written or deleted with fewer clients.
        return tuple(called(name, count) for name in self.measured for count in self.threads)

    @property
    def in_tables(self) -> tuple[str, ...]:
        """The names in `sweep`, in the order in which tables show them."""
        names = in_tables(self.measured)
        if isinstance(self.threads, int):
            return tuple(names)
        return tuple(called(name, count) for name in names for count in sorted(self.threads))

    def alone(self, step: str) -> tuple[Step, "SysbenchParameters"]:
        """The step of this name, and the parameters with only the number of clients that the name states."""
        if isinstance(self.threads, int):
            return find(step), self
        known = {called(name, count): (name, count) for count in self.threads for name in self.measured}
        name, clients = known.get(step, (step, max(self.threads)))
        return find(name), self.model_copy(update={"threads": clients})

    def only(self, step: str) -> "SysbenchParameters":
        described, alone = self.alone(step)
        # A list of numbers of clients stays a list, so that the step keeps its name, such as `point-query@4`.
        threads = alone.threads if isinstance(self.threads, int) else (alone.threads,)
        return alone.model_copy(update={"steps": (described.name,), "threads": threads})

    @property
    def clients(self) -> int:
        """Maximum number of concurrent clients."""
        return self.threads if isinstance(self.threads, int) else max(self.threads)

    @property
    def connections(self) -> Connections:
        """The connections that a server needs: one per client, or one per table in a warm-up step if that is more."""
        warming = self.tables if self.steps != self.measured else 1
        most = ("tables", warming) if warming > self.clients else ("threads", self.clients)
        return Connections(*most, ours=OUR_CONNECTIONS)

    @property
    def flush_limit_s(self) -> float:
        return self.flush_seconds or min(60 + self.tables * self.table_rows / 1e6, 1200)

    def seconds_of(self, step: Step) -> int:
        """Duration, in seconds, of a step's measured part, or of a warm-up step."""
        if step.moment == WARM:
            return self.warm_seconds or self.seconds
        if self.operations:
            return -(-self.operations // SLOW_STATEMENTS_PER_S)
        return (self.write_seconds or self.seconds) if step.seconds == "write" else self.seconds

    def transactions_of(self, step: Step) -> int:
        """The number of transactions of a step that ends after a number of transactions, not after a time.

        >>> asked = SysbenchParameters(counted_operations=1000)
        >>> [asked.transactions_of(find(name)) for name in ("point-query", "read-only", "scan")]
        [1000, 50, 1]
        """
        weight = step.queries + step.rows_read(self.table_rows) / ROWS_LIKE_A_STATEMENT
        usual = max(COUNTED_OPERATIONS, COUNTED_OF_A_CLIENT * self.clients)
        return max(1, round((self.operations or self.counted_operations or usual) / weight))

    def warmup_transactions_of(self, step: Step) -> int:
        """The number of warm-up transactions that each client does before the counted ones."""
        return max(1, self.transactions_of(step) // (WARMUP_SHARE * self.clients))

    @property
    def estimated_seconds(self) -> float:
        """Seconds that the steps of one run take with their warm-ups, without the load of the tables."""
        steps = [find(name) for name in self.steps if name != FLUSH]
        once = sum(self.seconds_of(step) + self.warmup_seconds * (step.moment != WARM) for step in steps)
        return float(once * (1 if isinstance(self.threads, int) else len(self.threads)))

    def disk_seconds(self, device: DeviceSpeed, cache_bytes: int | None) -> float:
        """The time in which the tables are copied and read before the first step, if they are larger than the cache.
        The steps themselves last the number of seconds in the parameters, however slow the disk is."""
        size = self.tables * self.table_rows * BYTES_OF_A_ROW
        return 0.0 if cache_bytes is None or size <= cache_bytes else TIMES_MOVED * size / device.bytes_per_s


PARAMETERS = SysbenchParameters
