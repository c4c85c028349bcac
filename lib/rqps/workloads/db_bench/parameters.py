"""Parameters of db-bench that a study may set."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import Field, StringConstraints, model_validator

from rqps.study import BuildSpec, Connections, Count, Parameters, Some, one_of
from rqps.workloads.db_bench.steps import ALL, Setup, Step, common, find, setups, steps

BEGIN_S = 0.5
"""To open a database, and to close it."""
ROWS_PER_S = 400_000
"""That one client writes in order, about."""
BYTES_OF_A_ROW = 420
ROOM = 2.5
"""Times the size of its rows that a database takes while it is written and compacted."""
OPERATIONS = 20_000
"""The same number in a step whose instructions are counted."""


StepName = Annotated[str, *one_of([ALL, *steps()], "step")]
SetupName = Annotated[str, *one_of(setups(), "set-up")]


class DbBenchParameters(Parameters):
    of_engines: ClassVar[tuple[str, ...]] = ("rocksdb",)
    of_a_try: ClassVar[Mapping[str, Any]] = {"steps": ["fillseq", "readrandom"], "keys": 100_000, "seconds": 2}

    setups: Some[SetupName] = ("byrx",)
    """Ways to keep the database. All steps are done on one, then on the next. `byrx` has it in RocksDB's block cache,
    `byos` in the operating system's; `iobuf` has more than fits, and `iodir` reads that past the system's cache."""
    steps: Some[StepName] = (ALL,)
    """Done in the published order, whatever the order here; `all` stands for all of them."""
    keys: Count = 500_000
    """Keys of a database that fits in memory, of 420 bytes with their values. 500,000 have the same four levels below
    level 0 as the published 20 million, in a config whose sizes are as many times smaller."""
    large_keys: Count | None = None
    """Keys of iobuf and iodir; as many as of the others if not given."""
    cache_mb: Count = 1024
    """The block cache where the database is to fit in it; the config may set cache_size instead, for all set-ups."""
    part_cache_mb: Count = 20
    """The block cache where it is not."""
    threads: Annotated[int, Field(ge=1, le=128)] = 1
    """Clients of a step; releases take turns with one."""
    seconds: Count = 5
    """The time of each step that lasts for one."""
    warmup_operations: Annotated[int, Field(ge=0)] = 0
    """Done by each client before a step that reads, not measured: the block cache is empty when a step begins. Fewer
    are done where these would fill it more than twice. The published steps have none, and last long enough."""
    written_by: Annotated[str, StringConstraints(pattern=r"^\d+\.\d+\.\d+$")] | None = None
    """A release that writes the database, once for all: then the steps that only read are done, on equal files. Their
    format_version is that of the config, or 4, which all read."""
    files: Count = 512
    """Files of a database that is written for all, about: as many as those of the published 20 million keys. In few
    large ones a read costs otherwise."""
    slice_ms: Count | None = None
    """Milliseconds of load on one release before it is the next one's turn; 20 if not given."""
    counted_operations: Count | None = None
    """Operations of a step whose instructions are counted, 20,000 if not given."""

    @model_validator(mode="after")
    def _there_is_something_to_measure(self) -> "DbBenchParameters":
        if not any(step.measured for step in self.chosen):
            raise ValueError(f"steps: {', '.join(self.steps)} only prepare others; name one that is measured, too")
        if self.written_by is not None:
            if writing := [step.name for step in self.chosen if not step.reads_only]:
                raise ValueError(f"steps: {', '.join(writing)} can't be done on a database that is the same for all")
        elif self.chosen[0].load != "fill":
            raise ValueError("steps: the first one has to be fillseq, which makes the database")
        return self

    @property
    def chosen(self) -> tuple[Step, ...]:
        """The steps of each set-up in their order, those among them that give no number."""
        every = (step for step in steps().values() if step.reads_only or self.written_by is None)
        named = (step for name, step in steps().items() if name in self.steps)
        return tuple(every if ALL in self.steps else named)

    @property
    def not_sliced(self) -> str:
        return "operations of several threads do not end at one moment" if self.threads > 1 else ""

    @property
    def measured(self) -> tuple[str, ...]:
        """The steps of which a number is kept, as they are called."""
        return tuple(f"{setup}.{step.name}" for setup in self.setups for step in self.chosen if step.measured)

    def before(self, name: str) -> tuple[Step, ...]:
        """The steps without a number between a step and the one that is measured before it."""
        _, step = find(name)
        preceding = self.chosen[: self.chosen.index(step)]
        last = max((place + 1 for place, earlier in enumerate(preceding) if earlier.measured), default=0)
        return preceding[last:]

    def only(self, step: str) -> "DbBenchParameters":
        setup, one = find(step)
        needed = self.chosen[: self.chosen.index(one)] if self.written_by is None else ()
        return self.model_copy(
            update={"setups": (setup.name,), "steps": (*(before.name for before in needed), one.name)}
        )

    def keys_of(self, setup: Setup) -> int:
        return (self.large_keys or self.keys) if setup.large else self.keys

    def flags_of(self, setup: Setup, step: Step) -> dict[str, str | int | float | bool]:
        """The flags that db_bench would be given for a step, but for where, when and how."""
        cache_mb = self.cache_mb if setup.cache == "whole" else self.part_cache_mb
        sized = {"num": self.keys_of(setup), "threads": self.threads, "cache_size": cache_mb << 20}
        flags = {**common(), **sized, **setup.flags, **step.flags}
        if step.lasts == "seconds":
            flags["duration"] = self.seconds
        if step.lasts == "writes":
            flags["writes"] = max(1, self.keys_of(setup) // 10 // self.threads) * self.threads
        return flags

    def refused(self, builds: Mapping[str, BuildSpec], duet: bool) -> str | None:
        own = [name for name, spec in builds.items() if str(spec.path).endswith("/db_bench")]
        if 0 < len(own) < len(builds):
            others = ", ".join(name for name in builds if name not in own)
            return (
                f"{', '.join(own)} put the load by their own db_bench, {others} by the driver, which costs other CPU "
                "time: such a ratio says nothing; take libraries only, or db_benchs only"
            )
        if own and duet:
            return f"{', '.join(own)} can't take turns, since a db_bench stops for nobody; write `method: rounds`"
        return None

    @property
    def disk_bytes(self) -> int:
        return round(ROOM * max(self.keys_of(setups()[name]) for name in self.setups) * BYTES_OF_A_ROW)

    @property
    def connections(self) -> Connections:
        return Connections("threads", 0, 0)

    @property
    def estimated_seconds(self) -> float:
        def seconds_of(setup: Setup, step: Step) -> float:
            rows = {"keys": self.keys_of(setup), "writes": self.keys_of(setup) / 10}.get(str(step.lasts), 0)
            return BEGIN_S + rows / ROWS_PER_S + (self.seconds if step.lasts == "seconds" else 0)

        return sum(seconds_of(setups()[setup], step) for setup in self.setups for step in self.chosen)


PARAMETERS = DbBenchParameters
