"""What the parts share: servers of 8.0 that are changed in one way, duets and rounds of them, and results in a file.

A row of results is one ratio: of one round, step and metric. Rows of a round are written together when it has ended,
so a part that was stopped goes on where it was.
"""

import ctypes
import hashlib
import json
import math
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, cast

import polars as pl
from rqps import keeper, stats
from rqps.engines.sources.programs import compiled
from rqps.measure import placement
from rqps.measure.job import Job, Ready, cpus_of, make_ready
from rqps.measure.machine import read_state
from rqps.measure.run import Measured, measure_steps
from rqps.measure.serve import Serving, serving
from rqps.notebook import LOGS
from rqps.numbers import duration
from rqps.schedule.run_folder import measuring
from rqps.schedule.state import this_host
from rqps.stats.metrics import COMPARED
from rqps.store.read import Study
from rqps.store.schemas import CYCLES, IDENTITY, SLICES
from rqps.study import PlacementKind, Run, read_runs_file, unfold
from rqps.study.runs_file import ConfigSpec
from rqps.terminal import Terminal
from rqps.workloads import PARAMETERS
from rqps.workloads.sysbench.parameters import SysbenchParameters

HERE = Path(__file__).parent
RUNS_YAML = HERE.parent.parent / "runs.yaml"
BUILD = "my8033"
BASE = f"{BUILD}.common"
SAME = tuple(f"{BUILD}.again{number}" for number in (1, 2, 3))
"""The base under other names: configs that extend its own and change nothing."""
ME = SAME[0]
EQUAL = {BUILD: (BASE, ME), "pg140": ("pg140.pg-still", "pg140.pg-again1")}
"""A base and its twin, by the build."""
THROUGHPUT, CPU = "operations_per_s", "server_cpu_us_per_operation"
METRICS = (THROUGHPUT, CPU)
CLIENT_CPU = "client_cpu_us_per_operation"
"""The same work beside every server, so it says how slow the machine is and what the server takes of its caches."""
CPU_BY_SLICES = f"{CPU} by slices"
"""In results from before all CPU was that of slices: steps that write, whose CPU was that of the whole step."""
STEPS = ("point-query", "range-covered-si", "update-index", "insert")
SEED = 12

RESULTS: dict[str, Any] = {
    **dict.fromkeys(("unit", "condition", "host", "step", "metric", "base", "dbms"), pl.String),
    **{"round": pl.Int32, "at": pl.Datetime("ms", "UTC"), "seconds": pl.Float64},
    **dict.fromkeys(("base_value", "me_value", "ratio", "error"), pl.Float64),
    "note": pl.String,
}
"""`unit` and `round` name what was measured at once, `condition` its circumstances, `seconds` the time that it took,
starts included; `note` is JSON."""


@dataclass(frozen=True)
class Change:
    """The way in which servers are started, and what is done to each when it is warm."""

    environment: Callable[[str], Mapping[str, str]] = lambda _: {}
    """By the dbms."""
    under: tuple[str, ...] = ()
    warm: Callable[[int], object] = lambda _: None
    """Is called with the process id."""


USUAL = Change()
OF_A_RUN = ("occasion", "unit", "side", "twin", "workload", "identity")
"""Columns of a run besides those of identity."""
ends = math.inf
"""No round begins after this moment of the monotonic clock."""


def runs(
    rounds: int,
    dbms: Sequence[str],
    method: Literal["duet", "rounds"] = "duet",
    placed: PlacementKind | None = None,
    **parameters: Any,
) -> tuple[Run, ...]:
    """The runs of a study of one's own: the demo's, with other dbms, rounds, placement and parameters."""
    runs_file = read_runs_file(RUNS_YAML, PARAMETERS)
    again = ((me, base) for base, *twins in ((BASE, *SAME), *EQUAL.values()) for me in twins)
    configs = {me.partition(".")[2]: ConfigSpec(extends=base.partition(".")[2]) for me, base in again}
    demo = runs_file.studies["demo"]
    asked = SysbenchParameters.model_validate(demo.parameters.model_dump() | parameters)
    changed = {"dbms": tuple(dbms), "base": dbms[0], "rounds": rounds, "method": method, "parameters": asked}
    study = demo.model_copy(update={**changed, "seed": SEED, "placement": placed, "twin": False})
    own = {"configs": {**runs_file.configs, **configs}, "studies": {"proof": study}}
    planned = unfold(runs_file.model_copy(update=own), "proof", this_host())
    return tuple(run for run in planned if run.mode == "throughput")


@contextmanager
def opened(run: Run, ready: Mapping[str, Ready], change: Change) -> Iterator[list[Serving]]:
    """The servers of a run, from new starts, warm."""
    with tempfile.TemporaryDirectory(prefix="rqps-verdicts-") as folder, ExitStack() as started:
        place, members = Path(folder), run.members
        for member in members:  # the runs that `ready` was made for may have more servers than this one
            ready[member.dbms].placements.setdefault(len(members), cpus_of(run))
        jobs = [_changed(ready[member.dbms].job(member, place, None, len(members)), change) for member in members]
        for logs in (place / LOGS, *(job.logs for job in jobs)):
            logs.mkdir(parents=True, exist_ok=True)
        placement.apply(os.getpid(), jobs[0].placement.observer_cpus)
        servings = started.enter_context(serving(jobs[0].model_copy(update={"beside": tuple(jobs[1:])})))
        for one in servings:
            change.warm(one.server.pids[0])
        yield servings


def _changed(job: Job, change: Change) -> Job:
    """The job with a build that is started in another way than usual."""
    build = job.prepared.build
    environment, argv = {**build.environment, **change.environment(job.run.dbms)}, (*change.under, *build.argv)
    started = replace(cast(Any, job.prepared), build=replace(build, environment=environment, argv=argv))
    return job.model_copy(update={"prepared": started})


def values(servings: Sequence[Serving]) -> pl.DataFrame:
    """Measures all steps on open servers, and gives the values as `stats.measured` has them for a study's runs."""
    measured = measure_steps(servings)
    return stats.measured(_as_study(servings, measured), (*COMPARED, CLIENT_CPU))


@dataclass(frozen=True)
class _Card:
    imported: bool = False


@dataclass(frozen=True, eq=False)
class _Tables:
    """As much of a `Study` as `stats.measured` looks at."""

    runs: pl.DataFrame
    steps: pl.DataFrame
    slices: pl.LazyFrame
    cycles: pl.LazyFrame
    card: _Card = _Card()


def _as_study(servings: Sequence[Serving], measured: Sequence[Measured]) -> Study:
    """The tables as a study that has been read, as far as `stats.measured` looks at it."""

    def table(name: str) -> pl.DataFrame:
        return pl.concat(
            tables.tables[name].select(
                *(pl.lit(getattr(side.job.run, key), kind).alias(key) for key, kind in IDENTITY.items()), pl.all()
            )
            for side, tables in zip(servings, measured, strict=True)
            if name in tables.tables
        )

    whose = [
        {
            **{key: getattr(one.job.run, key) for key in (*IDENTITY, *OF_A_RUN)},
            "mode": one.job.run.mode,
            "build_digest": one.job.prepared.build.digest,
            "layout": None,
            "parameters": json.dumps(one.job.run.parameters.model_dump(mode="json"), sort_keys=True),
            "placement": one.job.placement.kind,
            "version": one.version,
            "listed": place,
        }
        for place, one in enumerate(servings)
    ]
    steps = table("steps")
    sliced = len(servings) > 1
    empty = (pl.DataFrame(schema={**IDENTITY, **columns}) for columns in (SLICES, CYCLES))
    slices, cycles = (table("slices"), table("cycles")) if sliced else empty
    return cast(Study, _Tables(pl.DataFrame(whose), steps, slices.lazy(), cycles.lazy()))


def ratios(measured: pl.DataFrame, base: str = BASE, condition: str = "", **note: Any) -> pl.DataFrame:
    """Rows of results of one round: each dbms against the base."""
    others = sorted(set(measured["dbms"]) - {base})
    paired = stats.rounds_of_pairs(measured, [(base, other) for other in others])
    return paired.with_columns(pl.lit(condition).alias("condition"), pl.lit(json.dumps(note)).alias("note"))


def one_round(
    runs: Sequence[Run],
    ready: Mapping[str, Ready],
    change: Change = USUAL,
    condition: str = "",
    base: str = BASE,
    **note: Any,
) -> pl.DataFrame:
    """Rows of one round: of a duet, or of the runs of one round one after the other."""
    results = []
    for run in runs:
        with opened(run, ready, change) as servings:
            results.append(values(servings))
    return ratios(pl.concat(results), base, condition, **note)


def by_round(runs: Iterable[Run]) -> list[list[Run]]:
    rounds: dict[int, list[Run]] = {}
    for run in runs:
        rounds.setdefault(run.round, []).append(run)
    return list(rounds.values())


@dataclass(frozen=True)
class Todo:
    """Something that is measured at once."""

    unit: str
    round: int
    measure: Callable[[], pl.DataFrame]
    """Gives rows of results, as `ratios` does."""


def carry_out(file: Path, todo: Sequence[Todo], beside: int = 0) -> pl.DataFrame:
    """Measures what is not yet in the file, and gives all that is in it. `beside`: busy processes meanwhile."""
    known = read(file)
    done = set(known.select("unit", "round").unique().rows())
    missing = [task for task in todo if (task.unit, task.round) not in done]
    terminal, began = Terminal(), time.monotonic()
    terminal.say(f"{file.name}: {len(todo) - len(missing)} of {len(todo)} are there already")
    try:
        with measuring(f"benchmarks/verdicts {file.stem}"), busy(beside):
            for number, task in enumerate(missing):
                if time.monotonic() > ends:
                    terminal.say(f"{len(missing) - number} are missing; the same command measures them")
                    break
                each_s = (time.monotonic() - began) / number if number else 0.0
                left = f"{duration(each_s * (len(missing) - number))} left" if number else "starting"
                what = f"{number + 1} of {len(missing)}, {left}: {task.unit or file.stem}, round {task.round}"
                terminal.show(what, number / len(missing), at_once=not number)
                from_s = time.monotonic()
                rows = task.measure().with_columns(
                    pl.lit(task.unit).alias("unit"),
                    pl.lit(task.round, pl.Int32).alias("round"),
                    pl.lit(time.monotonic() - from_s).alias("seconds"),
                    pl.lit(datetime.now(UTC)).cast(RESULTS["at"]).alias("at"),
                )
                known = pl.concat([known, rows.select(pl.col(name).cast(kind) for name, kind in RESULTS.items())])
                write(file, known)
    finally:
        terminal.close()
    return known


def read(file: Path) -> pl.DataFrame:
    return pl.read_parquet(file) if file.exists() else pl.DataFrame(schema=RESULTS)


def write(file: Path, rows: pl.DataFrame) -> None:
    """Writes the whole file or leaves it as it was."""
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_name(f".{file.name}")
    rows.write_parquet(partial, compression="zstd")
    partial.rename(file)


@contextmanager
def busy(processes: int, program: str = "while True: pass", cpus: tuple[int, ...] = ()) -> Iterator[None]:
    """So many processes that run a program for as long as the block lasts; they end with us, however we end."""
    endless = [sys.executable, "-c", program]
    started = [subprocess.Popen(keeper.command("exec", endless, cpus=cpus)) for _ in range(processes)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def ready_for(runs: Sequence[Run]) -> dict[str, Ready]:
    """Builds and tables of these runs, made if need be."""
    return make_ready(runs, lambda text: print(text, flush=True))


def preloaded(name: str) -> Path:
    """The library of NAME.c beside this file, compiled by the machine's cc, kept by the digest of its source."""
    return compiled(HERE / f"{name}.c", ("-O2", "-Wall", "-shared", "-fPIC"), ("-ldl",))


def memory_ns(cpus: tuple[int, ...]) -> dict[str, float]:
    """Nanoseconds of one dependent load on these CPUs, by the kilobytes that are walked."""
    return {str(row["kb"]): row["load_ns"] for row in read_state(cpus)}


def machine() -> dict[str, str]:
    """The CPU as the kernel names it, and the boot: occasions of one boot are of one machine."""
    fields = dict(re.findall(r"(?m)^([a-z ]+?)\s*: (.+)$", Path("/proc/cpuinfo").read_text()))
    cpu = {name: fields.get(name, "") for name in ("model name", "cpu family", "model", "stepping", "microcode")}
    cpu["flags_digest"] = hashlib.sha256(fields.get("flags", "").encode()).hexdigest()[:12]
    return cpu | {"boot": Path("/proc/sys/kernel/random/boot_id").read_text()[:8]}


MADV_COLLAPSE, PROCESS_MADVISE, HUGE = 25, 440, 2 << 20


class _Range(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


def collapse(pid: int) -> int:
    """Makes written memory of a process huge pages, from outside (Linux 6.1); the number of pages that became so."""
    libc = ctypes.CDLL(None, use_errno=True)
    process, done = os.pidfd_open(pid), 0
    try:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            extent, permissions, *rest = line.split()
            name = rest[3] if len(rest) > 3 else ""
            if "w" not in permissions or (name and not name.startswith(("[heap", "[anon"))):
                continue
            begin, end = (int(address, 16) for address in extent.split("-"))
            for at in range(-(-begin // HUGE) * HUGE, end - HUGE + 1, HUGE):
                one = _Range(at, HUGE)
                done += libc.syscall(PROCESS_MADVISE, process, ctypes.byref(one), 1, MADV_COLLAPSE, 0) >= 0
    finally:
        os.close(process)
    return done


def huge_mb(pid: int) -> int:
    """Megabytes of a process in huge pages."""
    match = re.search(r"AnonHugePages:\s+(\d+)", Path(f"/proc/{pid}/smaps_rollup").read_text())
    return int(match[1]) // 1024 if match else 0


def shuffled(in_order: Sequence[Any], number: int) -> list[Any]:
    """In an order that depends on the number alone."""
    return random.Random(f"{SEED} {number}").sample(list(in_order), len(in_order))
