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

from rqps.study import Connections, Count, Parameters
from rqps.workloads.sysbench.steps import FLUSH, Step, expand, find, in_tables, is_measured, listed, lists, pattern

COUNTED_OPERATIONS, COUNTED_OF_A_CLIENT = 2000, 1000
ROWS_LIKE_A_STATEMENT = 100
"""Rows that a range reads in the time of a statement, under callgrind as without it."""
OUR_CONNECTIONS = 2
"""Connections for control, beside the load's."""
WARMUP_SHARE = 4
"""One transaction of the warm-up for so many that are counted."""


def _exists(name: str) -> str:
    if name != FLUSH and name not in lists():
        find(name)
    return name


def _numbers(value: Any) -> int | tuple[int, ...]:
    """A number, or several of them that are not the same."""
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
    PlainSerializer(lambda counts: counts),  # as they are: written down, a tuple is a list, and pydantic warns of it
    WithJsonSchema(_COUNTS),
]

_NAMES = {"anyOf": [{"enum": list(listed())}, {"pattern": pattern()}]}
StepName = Annotated[str, AfterValidator(_exists), WithJsonSchema({"type": "string", **_NAMES})]


def called(step: str, clients: int) -> str:
    """The name of a step with one of several numbers of clients."""
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
    """Done in this order, on the same server, one after the other. A list's name stands for all of its steps."""
    tables: Count = 1
    table_rows: Count = 100_000
    index_first: bool = False
    """Create the secondary index before the rows are loaded. After them, as the published tests do, its pages are
    full: on a small table a short update step then measures how they split and merge again."""
    threads: Threads = 1
    """Number of clients. With a list, every step is measured with each number and called STEP@THREADS; the server
    starts once for all."""
    seconds: Count = 30
    """The measured part of a step."""
    write_seconds: Count | None = None
    """The measured part of a step that writes; as long as the others if not given."""
    warm_seconds: Count | None = None
    """A warm-up step; as long as the others if not given."""
    warmup_seconds: Annotated[int, Field(ge=0)] = 5
    """Before the measured part of every step, not measured."""
    slice_ms: Count | None = None
    """Milliseconds of a slice, in which one of the servers of a duet has all the load; 20 if not given."""
    flush_seconds: Count | None = None
    """Limit for a flush; 60 and one more for every million rows if not given, but not over 1200."""
    prepared: bool = True
    """Prepared statements, where the step has them."""
    counted_operations: Count | None = None
    """Statements of a step whose instructions are counted, 2000 or 1000 a client if not given, or fewer that read
    many rows: a hundred rows weigh as much as a statement. The same for every dbms."""

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
        """The steps of which a number is kept."""
        return tuple(filter(is_measured, self.steps))

    @property
    def sweep(self) -> tuple[str, ...]:
        """The steps as they are called, with each number of clients where several are asked for."""
        if isinstance(self.threads, int):
            return self.measured
        return tuple(called(name, count) for count in self.threads for name in self.measured)

    @property
    def in_tables(self) -> tuple[str, ...]:
        """The same in the order of tables."""
        names = in_tables(self.measured)
        if isinstance(self.threads, int):
            return tuple(names)
        return tuple(called(name, count) for name in names for count in sorted(self.threads))

    def alone(self, step: str) -> tuple[Step, "SysbenchParameters"]:
        """The step of this name, and the parameters with the one number of clients that the name has."""
        if isinstance(self.threads, int):
            return find(step), self
        known = {called(name, count): (name, count) for count in self.threads for name in self.measured}
        name, clients = known.get(step, (step, max(self.threads)))
        return find(name), self.model_copy(update={"threads": clients})

    def only(self, step: str) -> "SysbenchParameters":
        described, alone = self.alone(step)
        return alone.model_copy(update={"steps": (described.name,)})

    @property
    def clients(self) -> int:
        """The most clients that there are at once."""
        return self.threads if isinstance(self.threads, int) else max(self.threads)

    @property
    def connections(self) -> Connections:
        """A warm-up step has a thread for each table."""
        warming = self.tables if self.steps != self.measured else 1
        most = ("tables", warming) if warming > self.clients else ("threads", self.clients)
        return Connections(*most, ours=OUR_CONNECTIONS)

    @property
    def flush_limit_s(self) -> float:
        return self.flush_seconds or min(60 + self.tables * self.table_rows / 1e6, 1200)

    def seconds_of(self, step: Step) -> int:
        """Seconds that a step is measured, or warms up."""
        if not is_measured(step.name):
            return self.warm_seconds or self.seconds
        return (self.write_seconds or self.seconds) if step.seconds == "write" else self.seconds

    def transactions_of(self, step: Step) -> int:
        """Transactions of a step whose instructions are counted.

        >>> asked = SysbenchParameters(counted_operations=1000)
        >>> [asked.transactions_of(find(name)) for name in ("point-query", "read-only", "scan")]
        [1000, 50, 1]
        """
        weight = step.queries + step.rows_read(self.table_rows) / ROWS_LIKE_A_STATEMENT
        usual = max(COUNTED_OPERATIONS, COUNTED_OF_A_CLIENT * self.clients)
        return max(1, round((self.counted_operations or usual) / weight))

    def warmup_transactions_of(self, step: Step) -> int:
        """Transactions of the warm-up, which each client does before the counted ones."""
        return max(1, self.transactions_of(step) // (WARMUP_SHARE * self.clients))

    @property
    def estimated_seconds(self) -> float:
        """Seconds that the steps of one run take, without its set-up."""
        steps = [find(name) for name in self.steps if name != FLUSH]
        once = sum(self.seconds_of(step) + self.warmup_seconds * is_measured(step.name) for step in steps)
        return float(once * (1 if isinstance(self.threads, int) else len(self.threads)))


PARAMETERS = SysbenchParameters
