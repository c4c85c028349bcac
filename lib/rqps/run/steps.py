"""The steps of a run, one after the other: load on the server, counters at both ends, one row per second."""

import hashlib
import os
import platform
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from rqps.engines import Opened
from rqps.observe import placement
from rqps.run.job import Job
from rqps.run.modes import count, load_of, observe, sample
from rqps.run.serve import Serving
from rqps.run.watch import RunWatcher
from rqps.store.manifest import Placement, Warning_
from rqps.store.schemas import INTERVALS, LATENCIES, PLANS, SETTINGS, STATUS, STEPS, TABLES

OTHERS_WORTH_A_WARNING = 0.15
"""Of one CPU, used by whoever is neither the server nor the load generator, on the CPUs of these."""
STEAL_WORTH_A_WARNING = 0.02
"""Of the host's CPU time; above it, the numbers are the neighbours' as well."""


@dataclass(frozen=True)
class Measured:
    """The raw tables of a run or of one of its steps, and the warnings for whoever reads them."""

    tables: dict[str, pl.DataFrame]
    warnings: tuple[Warning_, ...]


def measure_steps(job: Job, serving: Serving, watcher: RunWatcher) -> Measured:
    """Measures every step of the run."""
    reported = pl.DataFrame(serving.server.settings(), schema=SETTINGS)
    settings = _without_places(reported, job, serving.server)
    steps = []
    for position, name in enumerate(job.workload.steps(job.run.parameters)):
        with serving.server.explaining(name):
            steps.append(_step(job, serving, watcher, position, name))
    tables = {name: pl.concat([step.tables[name] for step in steps]) for name in steps[0].tables}
    return Measured({**tables, "settings": settings}, tuple(found for step in steps for found in step.warnings))


def _step(job: Job, serving: Serving, watcher: RunWatcher, position: int, name: str) -> Measured:
    server, parameters = serving.server, job.run.parameters
    watcher.doing(f"{name} {position + 1}/{len(job.workload.steps(parameters))}")
    checked = job.workload.check(server, name, parameters)
    where = job.placement_of(name)
    if where != job.placement:
        _place(server, where)
    log = job.logs / f"{position:02}-{name.replace('=', '-')}.log"
    seed = step_seed(job.run.seed, job.run.round, name)
    with server.watching(name) as watch:
        with load_of(job, server, name, seed=seed, cpus=where.client_cpus, log=log) as load:
            before = watch.begin()  # what came before the step, such as a flush, is none of it
            if serving.callgrind:
                observed = count(server, serving.callgrind, load, name)
            elif job.run.mode == "stacks":
                observed = sample(job, server, serving.events, load, name)
            else:
                observed = observe(job, server, serving.events, load, name)
            load.wait_until_gone()
        answer = job.workload.answer(name, parameters, load)
        after = watch.end(answer.columns["transactions"], answer.columns["clients"])
    row = {"step": name, "position": position, "retries": 0, **observed.columns, **answer.columns}
    return Measured(
        tables={
            "steps": pl.DataFrame([row], schema=STEPS),
            "intervals": pl.DataFrame(answer.intervals, schema=INTERVALS),
            "latencies": pl.DataFrame(answer.latencies, schema=LATENCIES),
            "status": pl.concat([_status(name, "before", before), _status(name, "after", after)]),
            "plans": pl.DataFrame(checked.plans, schema=PLANS),
            **observed.tables,
            **{name: pl.DataFrame(rows, schema=TABLES[name]) for name, rows in answer.more.items()},
        },
        warnings=(
            *checked.warnings,
            *answer.warnings,
            *observed.warnings,
            *(Warning_(kind="lost events", text=text, step=name) for text in watch.lost()),
            *_warnings(row, observed.busy_s),
        ),
    )


def _status(step: str, moment: str, status: Mapping[str, str]) -> pl.DataFrame:
    """One reading as rows of the table `status`."""
    rows = [{"step": step, "moment": moment, "name": name, "value": value} for name, value in status.items()]
    return pl.DataFrame(rows, schema=STATUS)


def _place(server: Opened, where: Placement) -> None:
    """Pins the server, and us, to the CPUs of a step."""
    for pid in server.pids:
        placement.apply(pid, where.server_cpus)
    placement.apply(os.getpid(), where.observer_cpus)
    for pid in server.pids:
        placement.verify(pid, where.server_cpus)


def _without_places(settings: pl.DataFrame, job: Job, server: Opened) -> pl.DataFrame:
    """Settings that hold paths and names of this machine say nothing of a server and differ in every run."""
    places = {**server.places, str(job.folder): "<run>", platform.node(): "<host>"}
    value = pl.col("value")
    is_name = (pl.col("name") == "hostname") | value.str.contains("/", literal=True)
    return settings.with_columns(
        pl.when(is_name).then(value.str.replace_many(list(places), list(places.values()))).otherwise(value)
    )


def step_seed(seed: int, round_number: int, step: str) -> int:
    """The seed of a step's random values: the same for every dbms of a round, another one in every round."""
    digest = hashlib.sha256(f"{seed} {round_number} {step}".encode()).digest()
    return int.from_bytes(digest[:4]) % (2**31 - 1) + 1


def _warnings(row: dict[str, Any], busy_there_s: float | None) -> Iterator[Warning_]:
    """Warnings that follow from a step's own numbers."""
    step = row["step"]
    if row["operations"] == 0:
        yield Warning_(kind="nothing done", text="not one operation came to its end", step=step)
    if busy_there_s is None:
        return  # where instructions are counted: what others do meanwhile changes none
    steal_s, busy_s = row["host_cpu_steal_s"], row["host_cpu_user_s"] + row["host_cpu_system_s"]
    if steal_s > STEAL_WORTH_A_WARNING * (steal_s + busy_s):
        text = f"{steal_s / (steal_s + busy_s):.0%} of the CPU time asked for went to other guests of the machine"
        yield Warning_(kind="steal", text=text, step=step)
    others = (busy_there_s - row["server_cpu_s"] - row["client_cpu_s"]) / row["elapsed_s"]
    if others > OTHERS_WORTH_A_WARNING:
        text = f"other processes kept {others:.0%} of a CPU busy meanwhile, which slows the server down"
        yield Warning_(kind="others", text=text, step=step)
