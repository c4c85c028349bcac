"""Runs the load of a step on a database: with driver.c linked with a RocksDB library, or with a db_bench binary."""

import os
import struct
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Unpack

from rqps.engines.rocksdb.engine import Database
from rqps.engines.rocksdb.flags import plain
from rqps.errors import RqpsError
from rqps.numbers import sized
from rqps.workloads import How
from rqps.workloads.db_bench.parameters import OPERATIONS, DbBenchParameters
from rqps.workloads.db_bench.steps import Setup, Step
from rqps.workloads.load_generator import LoadGenerator

PATIENCE_S = 600
"""Seconds added to the expected time of a step to get its time limit, as in the published scripts: reverse scans of
6.10 and 6.11 can hang."""
KEYS_PER_S_AT_LEAST = 2_000
CALLGRIND_TIMES = 60
WARMUP_SHARE = 10
CACHE_FILLS = 2
"""Maximum number of times that a warm-up fills the block cache: a longer warm-up changes nothing."""
SLICE_MS = 20
LOOK_S = 0.01
"""Seconds between checks of a process that does not report its progress."""
OF_TURNS = struct.Struct("qQ")
"""Layout of the file that rqps shares with a driver in a duet, as in driver.c: the time for which the driver was
stopped, and its number of operations."""
INTERVALS = "intervals.csv"
OF_DB_BENCH = {
    "statistics": 0,
    "stats_per_interval": 1,
    "stats_interval_seconds": 20,
    "report_interval_seconds": 1,
    "histogram": 1,
    "progress_reports": False,
}
"""Flags that select what db_bench reports, as in the published scripts."""


WITH_WAITING = (6, 19)
"""The first release whose db_bench can run the benchmarks flush, compact0 and waitforcompaction."""


def folder_of(database: Database, setup: Setup) -> Path:
    """The directory of a set-up's database."""
    return database.directory / setup.name


class _Process(LoadGenerator):
    """A running program that has opened the database in its own process."""

    def __init__(self, database: Database, setup: Setup, step: Step, call: list[str], how: How) -> None:
        self.database, self.step, self.folder = database, step, folder_of(database, setup)
        environment = {**database.build.environment, **database.start.environment}
        super().__init__((call, environment), (), f"{setup.name}.{step.name}", 1, how)
        database.pids = (self.pid,)

    def complaints(self) -> list[str]:
        """The last lines about an error, and the database log's last line about failed background work."""
        log = self.folder / "LOG"
        lines = log.read_text(errors="replace").splitlines() if log.exists() else []
        return [*super().complaints(), *[line for line in lines if "background" in line and " error: " in line][-1:]]

    def failure(self, late: str = "") -> RqpsError:
        error = super().failure(late)
        text = f"{self.database.name}: {error.message}"
        return RqpsError(text, fix=self.database.way_out(error.message) or error.fix)

    def end(self) -> None:
        super().end()
        self.database.pids = ()


class Driver(_Process):
    """A running driver, which opens the database and begins its load at a signal from rqps."""

    program = "the driver"
    begins_by_itself = False

    def __init__(
        self, database: Database, setup: Setup, step: Step, parameters: DbBenchParameters, **how: Unpack[How]
    ) -> None:
        counted = how.get("counted", False)
        self.patience_s = patience_s(setup, step, parameters) * (CALLGRIND_TIMES if counted else 1)
        self.start_patience_s = self.patience_s
        flags = parameters.flags_of(setup, step)
        own: dict[str, Any] = {
            "load": step.load,
            "db": folder_of(database, setup),
            "create": int(step.load == "fill"),
            "before": step.before,
            "after": step.after,
            "patience": self.patience_s,
            "level0_trigger": flags["level0_file_num_compaction_trigger"],
        }
        if step.load in ("read", "multiread", "seek"):
            asked = {**flags, **database.prepared.options}
            fills = CACHE_FILLS * int(asked["cache_size"]) // int(asked["block_size"])
            own["warmup"] = min(parameters.warmup_operations, fills)
        if counted and step.lasts == "seconds":
            operations = parameters.counted_operations or OPERATIONS
            # One thread opens the files, always in the same order. The objects of open files then have the same
            # addresses in memory in every run, so that each run executes the same number of instructions.
            flags |= {"writes": operations, "file_opening_threads": 1}
            own["warmup"] = max(1, own.get("warmup", 0), operations // WARMUP_SHARE)
            flags.pop("duration")
        self.slice_s = (parameters.slice_ms or SLICE_MS) / 1000
        self._turns, self._waits = database.directory.parent / "turns", True
        if how.get("in_turns"):
            self._turns.write_bytes(bytes(OF_TURNS.size))
            own["turns"] = self._turns
        texts = {name: plain(value) for name, value in (flags | {"seed": how["seed"]}).items()}
        call = database.command(texts, *(f"{name}={value}" for name, value in own.items()))
        super().__init__(database, setup, step, call, how)

    def wait_for_origin(self) -> int:
        """Waits until the driver has opened the database. Returns the time of CLOCK_MONOTONIC, in ns. The driver
        begins no operation before its first slice."""
        self.wait_for("ready", 1, self.start_patience_s)
        return time.monotonic_ns()

    def set_stopped(self, ns: int) -> None:
        with self._turns.open("r+b") as file:
            file.write(struct.pack("q", ns))
        if self._waits:
            self._waits = False
            self.let_begin(1)

    def operations(self) -> int:
        return int(OF_TURNS.unpack(self._turns.read_bytes())[1])


class DbBench(_Process):
    """A running db_bench, which starts its load at once and ends when the load is done."""

    program = "db_bench"

    def __init__(
        self, database: Database, setup: Setup, step: Step, parameters: DbBenchParameters, **how: Unpack[How]
    ) -> None:
        if how.get("counted"):
            raise RqpsError(
                "instructions are counted in the driver, and this build is a db_bench binary",
                fix="set instructions_rounds of the study to 0, or give a library (librocksdb.so) as the build",
            )
        self.patience_s = patience_s(setup, step, parameters)
        folder, benchmarks = folder_of(database, setup), step.benchmarks
        self.intervals = database.directory / INTERVALS
        if database.build.number < WITH_WAITING and "waitforcompaction" in benchmarks:
            benchmarks = "overwrite,stats" if step.writes else "stats"
        flags = parameters.flags_of(setup, step) | OF_DB_BENCH
        if step.lasts == "writes":
            flags["writes"] = int(flags["writes"]) // parameters.threads  # db_bench's --writes is for each thread
        flags |= {"seed": how["seed"], "use_existing_db": step.load != "fill"}
        own = {"benchmarks": benchmarks, "db": folder, "wal_dir": folder, "report_file": self.intervals}
        texts = {name: plain(value) for name, value in flags.items()}
        call = database.command(texts, *(f"--{name}={value}" for name, value in own.items()))
        super().__init__(database, setup, step, call, how)

    def wait_for_begin(self) -> int:
        """Waits until the started process, which first moves to the step's CPUs, executes db_bench."""
        program, begun = self.database.build.program.resolve(), Path(f"/proc/{self.pid}/exe")
        while begun.resolve() != program:
            if self._gone():
                raise self.failure()
            time.sleep(LOOK_S)
        self.origin_ns = time.monotonic_ns()
        return self.origin_ns

    def wait_for_end(self) -> None:
        """Waits until db_bench has ended. Its counters are readable until the process is reaped."""
        deadline = time.monotonic() + self.patience_s
        while not self._gone():
            if time.monotonic() > deadline:
                raise self.failure(f"did not end within {sized(self.patience_s)} s")
            time.sleep(LOOK_S)

    def _gone(self) -> bool:
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def patience_s(setup: Setup, step: Step, parameters: DbBenchParameters) -> float:
    """Maximum time, in seconds, that a step may take."""
    keys = parameters.keys_of(setup) * {"keys": 1.0, "writes": 0.1}.get(str(step.lasts), 0.0)
    return PATIENCE_S + keys / KEYS_PER_S_AT_LEAST + parameters.seconds


def statuses(lines: Sequence[str], step: str) -> Iterator[dict[str, Any]]:
    """Rows of the table `status` from a driver's lines. If a counter is of one level of the LSM tree, its line has
    the level before the value."""
    for line in lines:
        if line.startswith("status "):
            _, moment, name, *level, value = line.split()
            yield {
                "step": step,
                "moment": moment,
                "name": name,
                "object": level[0] if level else None,
                "value": value,
            }
