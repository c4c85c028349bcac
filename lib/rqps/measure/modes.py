"""Observes steps in a run's mode: throughput alone, with stacks sampled or waits recorded by perf, or with
instructions counted by callgrind."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl

from rqps.engines import Opened, engine_of, facts_of
from rqps.engines.sources.programs import perf, valgrind
from rqps.errors import RqpsError
from rqps.measure import placement
from rqps.measure.callgrind import Callgrind, cache_miss_rows, incomplete, instruction_rows
from rqps.measure.counters import differences, read_busy_s
from rqps.measure.job import Job
from rqps.measure.machine import device_of
from rqps.measure.off_cpu import WaitRecording
from rqps.measure.recording import Recorded, choose_sampling, choose_switching
from rqps.measure.sampled_waits import SampledWaits, waits_are_sampled
from rqps.measure.serve import Serving
from rqps.measure.stacks import Profiling, profiling
from rqps.measure.step_counters import Counters, Sampler, read_counters, used_between, warnings_between
from rqps.measure.threads import thread_names
from rqps.measure.turns import Side, cycle_table, stopped, take_turns
from rqps.numbers import in_percent, percent
from rqps.store.manifest import Placement, Warning_
from rqps.store.schemas import COUNTERS, SLICES
from rqps.workloads import Load, StoppableLoad

OTHERS_WORTH_A_WARNING = 0.15
"""A step gets a warning if other processes use more than this share of one CPU's time. Only the CPUs of the server
and of the load generator count."""
STEAL_WORTH_A_WARNING = 0.02
"""A step gets a warning if the hypervisor gave more than this share of the CPU time that this machine needed (busy
and stolen time) to its other guests."""
INCOMPLETE_WORTH_A_WARNING = 0.001
"""A step gets a warning if more than this share of its instructions is in stacks that do not begin with the function
in which the engine serves an operation."""


BY_PERF: Mapping[str, type[Profiling]] = {"stacks": Profiling, "waits": WaitRecording}
"""Maps each mode in which perf records during the load to the class that makes the mode's profiles."""


def mode_tools(job: Job) -> dict[str, str]:
    """Maps each tool of the run's mode to its version and settings."""
    if job.run.mode == "waits" and waits_are_sampled():
        return {"waits": f"sampled from /proc {SampledWaits.looks_per_s} times a second, without functions"}
    if job.run.mode in BY_PERF:
        what = recorded(job.run.mode, job.prepared.build.program, job.placement)
        return {"perf": f"{perf().version}, {what.words}"}
    if job.run.mode == "instructions":
        counted = engine_of(job.run.build_spec).counted.function.removesuffix("(*)")
        words = f"{valgrind().version}, callgrind, of {counted} and all that it calls, without the kernel's"
        return {"valgrind": words}
    return {}


def recorded(mode: str, program: Path, where: Placement, pids: Sequence[int] = ()) -> Recorded:
    """The events that perf records of a program in this mode. `pids` are the program's processes: recording waits
    needs the names of their threads."""
    if mode == "waits":
        return choose_switching(program, thread_names(pids).values())
    return choose_sampling(program, len(where.server_cpus))


@dataclass(frozen=True)
class Observed:
    """The observations of one step on one server: the columns of its row in the table `steps`, other raw tables, and
    warnings."""

    columns: dict[str, Any]
    tables: dict[str, pl.DataFrame]
    warnings: tuple[Warning_, ...]


def observe_step(servings: Sequence[Serving], loads: Sequence[Any], step: str) -> list[Observed]:
    """Observes a step on all its servers in the run's mode, under one load or one load per server."""
    first, load = servings[0], loads[0]
    if len(loads) > 1:
        return observe_in_turns(servings, loads, step)
    if first.callgrind:
        return [count(first.server, first.callgrind, load, step)]
    if first.job.run.mode in BY_PERF:
        return [sample(first, load, step)]
    return observe(servings, load, step)


def observe(servings: Sequence[Serving], load: Load, step: str, beside: Profiling | None = None) -> list[Observed]:
    """Observes a step: reads all counters when its measured part begins and ends, and once per second in between.
    `beside` is perf's recording of the step."""
    job = servings[0].job
    where = job.placement_of(step)
    cpus = {*where.server_cpus, *where.client_cpus}
    origin_ns = load.wait_for_begin()
    whose = [(serving.server, device_of(serving.server.directory), serving.events) for serving in servings]

    def read() -> list[tuple[Counters, dict[str, int | None]]]:
        return [(read_counters(server.pids, load.pid, device), events.read()) for server, device, events in whose]

    if beside:
        beside.begin(origin_ns)
    began, busy_s = time.monotonic(), read_busy_s(cpus)
    first = read()
    started_at = datetime.now(UTC) - timedelta(microseconds=(time.monotonic_ns() - origin_ns) / 1e3)
    placement.verify(load.pid, where.client_cpus, where.kind == placement.BY_CONNECTION)
    with ExitStack() as sampling:
        samplers = [
            sampling.enter_context(Sampler(pids_of(server), load.pid, device, origin_ns))
            for server, device, _ in whose
        ]
        load.wait_for_end()
        last = read()
        busy_s, elapsed_s = read_busy_s(cpus) - busy_s, time.monotonic() - began
        if beside:
            beside.end()
    used = [used_between(before, after) for (before, _), (after, _) in zip(first, last, strict=True)]
    # An embedded engine runs in the load generator's process, whose CPU time is then counted as the server's.
    in_the_load = load.pid in servings[0].server.pids
    client_s = 0 if in_the_load else used[0]["client_cpu_s"] or 0
    others_s = busy_s - client_s - sum(columns["server_cpu_s"] or 0 for columns in used)
    disturbed = tuple(_disturbances(step, used[0], others_s / elapsed_s))
    if len(servings) > 1:  # counters of load generator and host can't be divided among the servers
        used = [{name: n if name.startswith("server_") else None for name, n in columns.items()} for columns in used]
    observed = []
    for serving, columns, sampler, (before, events), (after, later) in zip(
        servings, used, samplers, first, last, strict=True
    ):
        of_step: dict[str, Any] = {"started_at": started_at, **columns, **_grown(events, later)}
        warnings = (*warnings_between(before, after, step), *_unknown(serving, step), *disturbed)
        observed.append(Observed(of_step, {"counters": sampler.frame(step)}, warnings))
    return observed


def pids_of(server: Opened) -> Callable[[], Sequence[int]]:
    """Returns a function that lists the server's processes at the moment of each call."""
    return lambda: server.pids


def observe_in_turns(servings: Sequence[Serving], loads: Sequence[StoppableLoad], step: str) -> list[Observed]:
    """Observes a step whose servers run one at a time, each under its own load. A server's counters cover its own
    turns only."""
    run, where = servings[0].job.run, servings[0].job.placement_of(step)
    cpus = {*where.server_cpus, *where.client_cpus}
    sides = [
        Side(pids_of(serving.server), load, device_of(serving.server.directory), step)
        for serving, load in zip(servings, loads, strict=True)
    ]
    with stopped(sides):
        for load in loads:
            placement.verify(load.pid, where.client_cpus)
        events = [serving.events.read() for serving in servings]
        started_at, began, busy_s = datetime.now(UTC), time.monotonic(), read_busy_s(cpus)
        idle = take_turns(sides, f"{run.seed} {run.round} {step}", cpus)
        busy_s, elapsed_s = read_busy_s(cpus) - busy_s, time.monotonic() - began
    cycles = cycle_table(sides, idle, step)
    used = [used_between(side.first, side.last) for side in sides]
    parts = ("server_cpu_s",) if loads[0].pid in servings[0].server.pids else ("server_cpu_s", "client_cpu_s")
    others_s = busy_s - sum(columns[part] or 0 for columns in used for part in parts)
    observed = []
    for serving, side, columns, before in zip(servings, sides, used, events, strict=True):
        disturbed = _disturbances(step, columns, others_s / elapsed_s)
        of_step: dict[str, Any] = {"started_at": started_at, **columns, **_grown(before, serving.events.read())}
        warnings = (*warnings_between(side.first, side.last, step), *_unknown(serving, step), *disturbed)
        slices = pl.DataFrame(side.slices, schema=SLICES)
        tables = {"counters": side.counters(), "slices": slices, "cycles": cycles}
        observed.append(Observed(of_step, tables, warnings))
    return observed


def _grown(events: Mapping[str, Any], later: Mapping[str, Any]) -> dict[str, Any]:
    return {f"server_{name}": n for name, n in differences(events, later).items()}


def _unknown(serving: Serving, step: str) -> Iterator[Warning_]:
    for name in sorted(serving.events.shared):
        text = f"{name} of the server are unknown: other programs used the CPU's counter for part of the time"
        yield Warning_(kind="counters", text=text, step=step)


def _disturbances(step: str, used: Mapping[str, Any], others: float) -> Iterator[Warning_]:
    steal_s, busy_s = used["host_cpu_steal_s"], used["host_cpu_user_s"] + used["host_cpu_system_s"]
    if steal_s > STEAL_WORTH_A_WARNING * (asked_s := steal_s + busy_s):
        text = f"{percent(steal_s / asked_s)} of the CPU time asked for went to other guests of the machine"
        yield Warning_(kind="steal", text=text, step=step)
    if others > OTHERS_WORTH_A_WARNING:
        text = f"other processes kept {percent(others)} of a CPU busy meanwhile, which slows the server down"
        yield Warning_(kind="others", text=text, step=step)


def sample(serving: Serving, load: Load, step: str) -> Observed:
    """Observes a step as `observe` does, while perf samples the server's stacks or records its waits, or while its
    waits are sampled."""
    server, where, mode = serving.server, serving.job.placement_of(step), serving.job.run.mode
    is_sampled = mode == "waits" and waits_are_sampled()
    # An embedded engine's process has just been started, and its threads have no names yet: all are recorded.
    pids = () if load.pid in server.pids else server.pids
    what = None if is_sampled else recorded(mode, server.build.program, where, pids)
    with profiling(server, where, what, SampledWaits if is_sampled else BY_PERF[mode]) as profiling_step:
        (observed,) = observe([serving], load, step, profiling_step)
        roles = facts_of(serving.job.run.build_spec.engine).roles
        profile = profiling_step.profile(step, observed.columns["server_cpu_s"], roles)
    return replace(
        observed,
        tables={**observed.tables, "stacks": profile.stacks, "threads": profile.threads},
        warnings=(*observed.warnings, *profile.warnings),
    )


def count(server: Opened, callgrind: Callgrind, load: Load, step: str) -> Observed:
    """Counts every instruction that the server executes for the load's commands.

    The other counters only show how long counting took, since the server runs under callgrind.
    """
    device = device_of(server.directory)
    load.wait_for_begin()
    callgrind.begin(server.pids[0])
    first = read_counters(server.pids, load.pid, device)
    started_at = datetime.now(UTC)
    load.wait_for_end()
    last = read_counters(server.pids, load.pid, device)
    counted = callgrind.counted
    costs = callgrind.end(server.pids[0])
    rows = instruction_rows(costs, step, counted)
    simulated: dict[str, pl.DataFrame] = {}
    if kb := callgrind.last_level_kb:
        simulated = {"cache_misses": cache_miss_rows(costs, step, counted, kb)}
    if rows.is_empty():
        raise RqpsError(
            f"{step}: not one instruction was counted: callgrind saw no call of {counted.function} in this server",
            fix="take a build that has its symbols: one that was not stripped",
        )
    share = incomplete(rows, counted)
    text = f"{in_percent(share)} of the instructions are in stacks that do not begin with {counted.function}"
    warning = Warning_(kind="instructions", text=text, step=step)
    return Observed(
        columns={"started_at": started_at, **used_between(first, last)},
        tables={"counters": pl.DataFrame(schema=COUNTERS), "instructions": rows, **simulated},
        warnings=(warning,) if share > INCOMPLETE_WORTH_A_WARNING else (),
    )
