"""Puts the load of a step on a database: the driver with a library in it, or a db_bench."""

import json
import os
import struct
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self, Unpack

from rqps.engines.rocksdb.engine import Database
from rqps.engines.rocksdb.flags import plain
from rqps.errors import RqpsError
from rqps.workloads import How
from rqps.workloads.db_bench.parameters import OPERATIONS, DbBenchParameters
from rqps.workloads.db_bench.steps import Setup, Step
from rqps.workloads.load_generator import LoadGenerator

PATIENCE_S = 600
"""Added to the expected time of a step, as in the published scripts: reverse scans of 6.10 and 6.11 can hang."""
KEYS_PER_S_AT_LEAST = 2_000
CALLGRIND_TIMES = 60
WARMUP_SHARE = 10
CACHE_FILLS = 2
"""The most times that a warm-up fills the block cache: more changes nothing."""
SLICE_MS = 20
LOOK_S = 0.01
"""Seconds between checks of a process that does not report its progress."""
INTERVALS = "intervals.csv"
OF_DB_BENCH = {
    "statistics": 0,
    "stats_per_interval": 1,
    "stats_interval_seconds": 20,
    "report_interval_seconds": 1,
    "histogram": 1,
    "progress_reports": False,
}
"""Flags for its report, as in the published scripts."""


WITH_WAITING = (6, 19)
"""The first release whose db_bench has flush, compact0 and waitforcompaction."""


def folder_of(database: Database, setup: Setup) -> Path:
    """The directory of a set-up's database."""
    return database.directory / setup.name


class _Process(LoadGenerator):
    """A running program that contains the database."""

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
    """A running driver, which has opened the database and waits."""

    program = "the driver"
    begins_by_itself = False

    def __init__(
        self,
        database: Database,
        setup: Setup,
        step: Step,
        parameters: DbBenchParameters,
        turns: "Turns | None" = None,
        side: int = 0,
        **how: Unpack[How],
    ) -> None:
        """Starts it, alone or as one of several sides that take turns."""
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
            flags |= {
                "writes": operations,
                "file_opening_threads": 1,
            }  # so that each table has the same address again
            own["warmup"] = max(1, own.get("warmup", 0), operations // WARMUP_SHARE)
            flags.pop("duration")
        if turns:
            if "duration" in flags:
                flags["duration"] = parameters.seconds * turns.sides
            own |= {"turns": turns.file, "side": side, "sides": turns.sides}
            own["slice_us"] = 1000 * (parameters.slice_ms or SLICE_MS)
        texts = {name: plain(value) for name, value in (flags | {"seed": how["seed"]}).items()}
        call = database.command(texts, *(f"{name}={value}" for name, value in own.items()))
        super().__init__(database, setup, step, call, how)


class Turns:
    """Drivers that take turns in slices, one for each database, coordinated by a file that all of them map.

    A driver that begins its turn stops the others (SIGSTOP), and at its end lets the next one run: so a database
    does its background work in its own turns. All run again after the last turn. SIGKILL, which ends a driver when
    we end, also works on a stopped one.
    """

    def __init__(
        self,
        databases: Sequence[Database],
        setup: Setup,
        step: Step,
        parameters: DbBenchParameters,
        **how: Unpack[How],
    ) -> None:
        self.sides = len(databases)
        self.file = databases[0].directory.parent / "turns"
        self.file.touch()
        self.drivers: list[Driver] = []
        log = how["log"]
        try:
            for side, database in enumerate(databases):
                how["log"] = log.with_suffix(f".{side}.log") if side else log
                self.drivers.append(Driver(database, setup, step, parameters, self, side, **how))
        except BaseException:
            self.end()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.end()

    @property
    def pid(self) -> int:
        return self.drivers[0].pid

    def wait_for_begin(self) -> int:
        return [driver.wait_for_begin() for driver in self.drivers][-1]

    def wait_for_end(self) -> None:
        """Starts all drivers and waits until all have ended. If one dies or does not end its turn, the error is
        about that one."""
        for driver in self.drivers:
            driver.let_begin(1)
        seen, since = -1, 0.0
        while not all(driver.moments_ns["ended"] for driver in self.drivers):
            for driver in self.drivers:
                if driver.process.poll() is not None:
                    raise driver.failure()
            turn, whose = struct.unpack("=II", self.file.read_bytes()[:8])
            if turn != seen:
                seen, since = turn, time.monotonic()
            if time.monotonic() - since > (patience_s := self.drivers[whose].patience_s):
                raise self.drivers[whose].failure(f"did not end its turn within {patience_s:.0f} s")
            time.sleep(LOOK_S)

    def wait_until_gone(self) -> None:
        for driver in self.drivers:
            driver.wait_until_gone()

    def end(self) -> None:
        for driver in self.drivers:
            driver.end()
        self.file.unlink(missing_ok=True)


class DbBench(_Process):
    """A running db_bench, which starts and ends by itself."""

    program = "db_bench"

    def __init__(
        self, database: Database, setup: Setup, step: Step, parameters: DbBenchParameters, **how: Unpack[How]
    ) -> None:
        if how.get("counted"):
            raise RqpsError(
                "instructions are counted in the driver, and this build is a db_bench",
                fix="set instructions_rounds of the study to 0, or take a library",
            )
        self.patience_s = patience_s(setup, step, parameters)
        folder, benchmarks = folder_of(database, setup), step.benchmarks
        self.intervals = database.directory / INTERVALS
        if database.build.number < WITH_WAITING and "waitforcompaction" in benchmarks:
            benchmarks = "overwrite,stats" if step.writes else "stats"
        flags = parameters.flags_of(setup, step) | OF_DB_BENCH
        flags |= {"seed": how["seed"], "use_existing_db": step.load != "fill"}
        own = {"benchmarks": benchmarks, "db": folder, "wal_dir": folder, "report_file": self.intervals}
        texts = {name: plain(value) for name, value in flags.items()}
        call = database.command(texts, *(f"--{name}={value}" for name, value in own.items()))
        super().__init__(database, setup, step, call, how)

    def wait_for_begin(self) -> int:
        """Waits until our keeper, which moves to the step's CPUs, has become db_bench."""
        program, begun = self.database.build.program.resolve(), Path(f"/proc/{self.pid}/exe")
        while begun.resolve() != program:
            if self._gone():
                raise self.failure()
            time.sleep(LOOK_S)
        self.origin_ns = time.monotonic_ns()
        return self.origin_ns

    def wait_for_end(self) -> None:
        """Waits until it has ended. Its counters are readable until it is reaped."""
        deadline = time.monotonic() + self.patience_s
        while not self._gone():
            if time.monotonic() > deadline:
                raise self.failure(f"did not end within {self.patience_s:.0f} s")
            time.sleep(LOOK_S)

    def _gone(self) -> bool:
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def patience_s(setup: Setup, step: Step, parameters: DbBenchParameters) -> float:
    """The longest time that a step may take."""
    keys = parameters.keys_of(setup) * {"keys": 1.0, "writes": 0.1}.get(str(step.lasts), 0.0)
    return PATIENCE_S + keys / KEYS_PER_S_AT_LEAST + parameters.seconds


def statuses(lines: Sequence[str], step: str) -> Iterator[dict[str, Any]]:
    """Rows of the table `status` from a driver's lines."""
    for line in lines:
        if line.startswith("status "):
            _, moment, name, value = line.split()
            yield {"step": step, "moment": moment, "name": name, "value": value}


def slices(lines: Sequence[str], step: str) -> list[dict[str, Any]]:
    """Rows of the table `slices` from a driver's lines."""
    rows = (json.loads(line) for line in lines if line.startswith('{"slice"'))
    return [{"step": step, **row, "client_cpu_us": None} for row in rows]
