"""Measures one run, step by step: its notebook calls this."""

import hashlib
import os
import platform
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import polars as pl

import rqps
from rqps.engines import engine_of
from rqps.engines.cache import cache_dir
from rqps.observe import placement
from rqps.observe.machine import describe_machine
from rqps.run.job import Job, read_job
from rqps.run.modes import count, mode_tools, observe, sample
from rqps.run.serve import Serving, serving
from rqps.store import write_manifest, write_table
from rqps.store.manifest import Manifest, Warning_
from rqps.store.schemas import IDENTITY, SETTINGS, TABLES
from rqps.study import in_words
from rqps.workloads import How

__all__ = ["Result", "conditions", "measure", "read_job"]

OTHERS_WORTH_A_WARNING = 0.15
"""Share of one CPU that other processes use, on the CPUs of the server and the load generator."""
STEAL_WORTH_A_WARNING = 0.02
"""Share of the host's CPU time; above it, the numbers depend on the neighbours as well."""


@dataclass(frozen=True)
class Measured:
    """The raw tables of a run or of one of its steps, and the warnings for whoever reads them."""

    tables: dict[str, pl.DataFrame]
    warnings: tuple[Warning_, ...]


@dataclass(frozen=True)
class Result:
    """A run that was measured. Its raw tables are in its folder."""

    verified: pl.DataFrame
    """Every option asked for, beside what the server reports."""
    server: str
    """The server as it names itself."""


def measure(job: Job) -> Result:
    """Measures one run into its folder: starts its server, verifies it, does the steps, stops it, and writes every
    table and then the manifest. This process keeps off the CPUs that are measured."""
    started_at, machine = datetime.now(UTC), describe_machine(cache_dir())
    placement.apply(os.getpid(), job.placement.observer_cpus)
    with serving(job) as server:
        measured = measure_steps(job, server)
    job.notes.doing("writing the tables")
    for name, table in measured.tables.items():
        write_table(job.folder, name, table)
    write_manifest(job.folder, _manifest(job, server, measured, machine, started_at))
    title = engine_of(job.run.build_spec).title
    return Result(server.verified, f"{title} {server.version}, {server.version_comment}")


def conditions(job: Job) -> pl.DataFrame:
    """The conditions under which a run is measured, as a table for its notebook."""
    run, build, title = job.run, job.prepared.build, engine_of(job.run.build_spec).title
    rows = {
        "question": run.question,
        "run": f"{in_words(run.mode, run.round)} of {run.study} on {run.host}, "
        f"number {run.position + 1} in random order",
        "dbms": f"{run.dbms}: {title} {build.version} from {build.source}",
        **job.prepared.in_words,
        "placement": placement.reasons(run.placement, job.placements),
        **(mode_tools(job) if run.mode == "instructions" else {}),
    }
    for name, value in run.parameters.model_dump().items():
        rows[name.replace("_", " ")] = ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    return pl.DataFrame({"condition": list(rows), "value": list(rows.values())})


def _manifest(
    job: Job, server: Serving, measured: Measured, machine: Mapping[str, Any], started_at: datetime
) -> Manifest:
    run, ended_at = job.run, datetime.now(UTC)
    ours = {"python": platform.python_version(), "polars": pl.__version__}
    return Manifest(
        **{name: getattr(run, name) for name in (*IDENTITY, "mode", "position", "seed", "workload", "identity")},
        version=server.version,
        version_comment=server.version_comment,
        build_source=job.prepared.build.source,
        build_digest=job.prepared.build.digest,
        options=dict(job.prepared.options),
        parameters=run.parameters.model_dump(mode="json"),
        placement=job.placement,
        placements=dict(job.placements) if job.placement.kind == "by-clients" else {},
        rqps_version=rqps.__version__,
        git_revision=job.git_revision,
        tools={**job.workload.tools(run.parameters), **mode_tools(job), **ours},
        machine=dict(machine),
        started_at=started_at,
        ended_at=ended_at,
        elapsed_s=(ended_at - started_at).total_seconds(),
        measured_s=float(measured.tables["steps"].select(pl.col("warmup_s") + pl.col("elapsed_s")).sum().item()),
        outcome="ok",
        warnings=measured.warnings,
    )


def measure_steps(job: Job, serving: Serving) -> Measured:
    """Measures every step of the run."""
    # Paths and names of this machine say nothing of a server and differ in every run.
    places = {**serving.server.places, str(job.folder): "<run>", platform.node(): "<host>"}
    value = pl.col("value")
    is_place = (pl.col("name") == "hostname") | value.str.contains("/", literal=True)
    replaced = pl.when(is_place).then(value.str.replace_many(list(places), list(places.values()))).otherwise(value)
    settings = pl.DataFrame(serving.server.settings(), schema=SETTINGS).with_columns(replaced)
    steps = []
    for position, name in enumerate(job.workload.steps(job.run.parameters)):
        with serving.server.explaining(name):
            steps.append(_step(job, serving, position, name))
    tables = {name: pl.concat([step.tables[name] for step in steps]) for name in steps[0].tables}
    return Measured({**tables, "settings": settings}, tuple(found for step in steps for found in step.warnings))


def _step(job: Job, serving: Serving, position: int, name: str) -> Measured:
    server, parameters = serving.server, job.run.parameters
    job.notes.doing(f"{name} {position + 1}/{len(job.workload.steps(parameters))}")
    checked = job.workload.check(server, name, parameters)
    where = job.placement_of(name)
    if where != job.placement:
        for pid in server.pids:
            placement.apply(pid, where.server_cpus)
        placement.apply(os.getpid(), where.observer_cpus)
        for pid in server.pids:
            placement.verify(pid, where.server_cpus)
    log = job.logs / f"{position:02}-{name.replace('=', '-')}.log"
    seed = step_seed(job.run.seed, job.run.round, name)
    with server.watching(name) as watch:
        how: How = {"seed": seed, "cpus": where.client_cpus, "log": log, "counted": job.run.mode == "instructions"}
        with job.workload.generating(server, name, job.run.parameters, **how) as load:
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
    status = [
        {"step": name, "moment": moment, "name": variable, "value": value}
        for moment, values in (("before", before), ("after", after))
        for variable, value in values.items()
    ]
    row = {"step": name, "position": position, "retries": 0, **observed.columns, **answer.columns}
    rows = {
        "steps": [row],
        "intervals": answer.intervals,
        "latencies": answer.latencies,
        "status": status,
        "plans": checked.plans,
        **answer.more,
    }
    tables = {name: pl.DataFrame(each, schema=TABLES[name]) for name, each in rows.items()}
    lost = (Warning_(kind="lost events", text=text, step=name) for text in watch.lost())
    warnings = (*checked.warnings, *answer.warnings, *observed.warnings, *lost, *_warnings(row, observed.busy_s))
    return Measured({**tables, **observed.tables}, warnings)


def step_seed(seed: int, round_number: int, step: str) -> int:
    """The seed of a step's random values: the same for every dbms of a round, another one in every round."""
    digest = hashlib.sha256(f"{seed} {round_number} {step}".encode()).digest()
    return int.from_bytes(digest[:4]) % (2**31 - 1) + 1


def _warnings(row: dict[str, Any], busy_there_s: float | None) -> Iterator[Warning_]:
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
