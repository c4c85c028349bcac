"""Parameters of db-bench that a study may set."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import Field, StringConstraints, model_validator

from rqps.study import BuildSpec, Connections, Count, DeviceSpeed, Parameters, Some, one_of
from rqps.workloads.db_bench.steps import ALL, Setup, Step, common, find, setups, steps

BEGIN_S = 0.5
"""Estimated seconds to open and to close a database."""
ROWS_PER_S = 400_000
"""Approximate number of rows per second that one client writes in key order."""
BYTES_OF_A_ROW = 420
TIMES_WRITTEN = 2
"""The number of times that a loaded or overwritten row is written: by its flush, and by compaction."""
ROOM = 2.5
"""Disk space of a database while it is written and compacted, as a multiple of the size of its rows."""
OPERATIONS = 20_000
"""Default number of operations of a step whose instructions are counted; the same for every release."""


StepName = Annotated[str, *one_of([ALL, *steps()], "step")]
SetupName = Annotated[str, *one_of(setups(), "set-up")]


class DbBenchParameters(Parameters):
    of_engines: ClassVar[tuple[str, ...]] = ("rocksdb",)
    of_a_try: ClassVar[Mapping[str, Any]] = {"steps": ["fillseq", "readrandom"], "keys": 100_000, "seconds": 2}

    setups: Some[SetupName] = ("byrx",)
    """Set-ups of the database: all steps run on one, then on the next. With `byrx` the database fits in RocksDB's
    block cache, with `byos` in the page cache of the operating system. With `iobuf` and `iodir` it is larger than the
    block cache; `iodir` bypasses the page cache (O_DIRECT)."""
    steps: Some[StepName] = (ALL,)
    """The steps, which run in the published order whatever their order here; `all` stands for all steps."""
    keys: Count = 500_000
    """Number of keys of a database that fits in memory; each has 420 bytes with its value. A database of 500,000 keys
    has the same four levels below level 0 as the published one of 20 million keys, if the sizes in the config are
    smaller by the same factor."""
    large_keys: Count | None = None
    """Number of keys with iobuf and iodir; the same as `keys` if not given."""
    cache_mb: Count = 1024
    """Size of the block cache, in MiB, for set-ups whose database has to fit in the cache. A config may set
    cache_size instead, for all set-ups."""
    part_cache_mb: Count = 20
    """Size of the block cache, in MiB, for set-ups whose database is larger than the cache."""
    threads: Annotated[int, Field(ge=1, le=128)] = 1
    """Number of clients of a step; a duet is possible only with a single client."""
    seconds: Count = 5
    """Duration, in seconds, of each step that runs for a fixed time."""
    warmup_operations: Annotated[int, Field(ge=0)] = 0
    """Operations that each client does, unmeasured, before a step that reads, since the block cache is empty when a
    step begins. The number is reduced if it would fill the cache more than twice. The published steps have no
    warm-up, and last long enough without one."""
    written_by: Annotated[str, StringConstraints(pattern=r"^\d+\.\d+\.\d+$")] | None = None
    """A release that writes the database once for all releases; only the read-only steps then run, all on the same
    files. The files have the format_version of the config, or 4, which all releases can read."""
    files: Count = 512
    """Approximate number of files of a database that `written_by` writes for all releases; the default is that of the
    published 20 million keys. The cost of a read depends on the number and size of the files."""
    slice_ms: Count | None = None
    """Length of a slice, in milliseconds, in which one release has all the load; 20 if not given."""
    counted_operations: Count | None = None
    """Number of operations of a step whose instructions are counted; 20,000 if not given."""

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
        """The steps that run on each set-up, in their order, including unmeasured ones."""
        every = (step for step in steps().values() if step.reads_only or self.written_by is None)
        named = (step for name, step in steps().items() if name in self.steps)
        return tuple(every if ALL in self.steps else named)

    @property
    def not_sliced(self) -> str:
        return "operations of several threads do not end at one moment" if self.threads > 1 else ""

    @property
    def measured(self) -> tuple[str, ...]:
        """The full names (SETUP.STEP) of the steps that are measured."""
        return tuple(f"{setup}.{step.name}" for setup in self.setups for step in self.chosen if step.measured)

    def before(self, name: str) -> tuple[Step, ...]:
        """The unmeasured steps between a step and the measured step before it."""
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
        """The flags of db_bench for a step, without those that set benchmarks, paths, the seed and reports."""
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

    def disk_seconds(self, device: DeviceSpeed, cache_bytes: int | None) -> float:  # noqa: ARG002
        """Seconds that the disk needs, in set-ups with O_DIRECT, to write the rows of the steps that write a fixed
        number of rows (`lasts: keys` or `lasts: writes`). A slower disk makes only these steps longer: the load of a
        step with `lasts: seconds` takes the same time on any disk."""
        shares = {"keys": 1.0, "writes": 0.1}
        times = TIMES_WRITTEN * sum(shares.get(str(step.lasts), 0.0) for step in self.chosen)
        direct = [setup for name in self.setups if (setup := setups()[name]).flags.get("use_direct_reads")]
        return sum(times * self.keys_of(setup) * BYTES_OF_A_ROW / device.bytes_per_s for setup in direct)


PARAMETERS = DbBenchParameters
