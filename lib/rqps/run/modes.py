"""A run's mode: throughput alone, stacks sampled by perf beside it, or instructions counted by callgrind."""

import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl

from rqps.engines import Opened
from rqps.engines.sources.programs import perf, valgrind
from rqps.errors import RqpsError
from rqps.observe import placement
from rqps.observe.callgrind import COUNTED, Callgrind, incomplete, instruction_rows
from rqps.observe.counters import differences, read_busy_s
from rqps.observe.machine import device_of
from rqps.observe.perf_events import EventCounters
from rqps.observe.recording import choose_sampling
from rqps.observe.stacks import Profiling, profiling
from rqps.observe.step_counters import Sampler, read_counters, used_between, warnings_between
from rqps.run.job import Job
from rqps.store.manifest import Warning_
from rqps.store.schemas import COUNTERS
from rqps.workloads import Load

INCOMPLETE_WORTH_A_WARNING = 0.001
"""Share of the instructions in stacks whose beginning is not known."""


def mode_tools(job: Job) -> dict[str, str]:
    """The tools of a run's mode, with their versions and settings."""
    if job.run.mode == "stacks":
        sampling = choose_sampling(job.prepared.build.program, len(job.placement.server_cpus))
        return {"perf": f"{perf().version}, {sampling.words}"}
    if job.run.mode == "instructions":
        version = valgrind().version
        return {"valgrind": f"{version}, callgrind, of {COUNTED} and all that it calls, without the kernel's"}
    return {}


@dataclass(frozen=True)
class Observed:
    """Columns of the step's row in `steps`, and rows of tables of its own."""

    columns: dict[str, Any]
    tables: dict[str, pl.DataFrame]
    warnings: tuple[Warning_, ...]
    busy_s: float | None = None
    """Busy time of the CPUs of server and load generator, by all processes; None where it is not measured."""


def observe(
    job: Job, server: Opened, events: EventCounters, load: Load, step: str, beside: Profiling | None = None
) -> Observed:
    """Reads all counters at the two ends of the measured part, and one row per second between them."""
    device, pids = device_of(server.directory), server.pids
    where = job.placement_of(step)
    cpus = {*where.server_cpus, *where.client_cpus}
    origin_ns = load.wait_for_begin()
    if beside:
        beside.begin(origin_ns)
    first, first_busy_s, first_events = read_counters(pids, load.pid, device), read_busy_s(cpus), events.read()
    started_at = datetime.now(UTC) - timedelta(microseconds=(time.monotonic_ns() - origin_ns) / 1e3)
    placement.verify(load.pid, where.client_cpus)
    with Sampler(pids, load.pid, device, origin_ns) as sampler:
        load.wait_for_end()
        last, last_busy_s, last_events = read_counters(pids, load.pid, device), read_busy_s(cpus), events.read()
        if beside:
            beside.end()
    unknown = [
        Warning_(
            kind="counters",
            text=f"{name} of the server are unknown: others had the CPU's counter for a part of the time",
            step=step,
        )
        for name in sorted(events.shared)
    ]
    counted = {f"server_{name}": count for name, count in differences(first_events, last_events).items()}
    return Observed(
        columns={"started_at": started_at, **used_between(first, last), **counted},
        tables={"counters": sampler.frame(step)},
        warnings=(*warnings_between(first, last, step), *unknown),
        busy_s=last_busy_s - first_busy_s,
    )


def sample(job: Job, server: Opened, events: EventCounters, load: Load, step: str) -> Observed:
    """Observes a step as in any run, and samples stacks of the server meanwhile."""
    where = job.placement_of(step)
    sampling = choose_sampling(server.build.program, len(where.server_cpus))
    with profiling(server, where, sampling) as profiling_step:
        observed = observe(job, server, events, load, step, profiling_step)
        profile = profiling_step.profile(step, observed.columns["server_cpu_s"])
    return replace(
        observed,
        tables={**observed.tables, "stacks": profile.stacks, "threads": profile.threads},
        warnings=(*observed.warnings, *profile.warnings),
    )


def count(server: Opened, callgrind: Callgrind, load: Load, step: str) -> Observed:
    """Counts every instruction that the server spends on the load's commands.

    The counters read meanwhile are those of the server under callgrind: they show how long this took, no more.
    """
    device = device_of(server.directory)
    load.wait_for_begin()
    callgrind.begin(server.pids[0])
    first = read_counters(server.pids, load.pid, device)
    started_at = datetime.now(UTC)
    load.wait_for_end()
    last = read_counters(server.pids, load.pid, device)
    rows = instruction_rows(callgrind.end(server.pids[0]), step)
    if rows.is_empty():
        raise RqpsError(
            f"{step}: not one instruction was counted: callgrind saw no call of {COUNTED} in this server",
            fix="take a build that has its symbols: one that was not stripped",
        )
    share = incomplete(rows)
    text = f"{share:.1%} of the instructions are in stacks that do not begin with {COUNTED}"
    warning = Warning_(kind="instructions", text=text, step=step)
    return Observed(
        columns={"started_at": started_at, **used_between(first, last)},
        tables={"counters": pl.DataFrame(schema=COUNTERS), "instructions": rows},
        warnings=(warning,) if share > INCOMPLETE_WORTH_A_WARNING else (),
    )
