"""Measures one run step by step; the run's notebook calls this module."""

import hashlib
import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import polars as pl

import rqps
from rqps.engines import CountOf, Status, Watch, facts_of
from rqps.engines.cache import scratch_dir
from rqps.engines.compiled import in_short
from rqps.measure import placement
from rqps.measure.counters import may_have_ended
from rqps.measure.job import Job
from rqps.measure.machine import MachineStates, describe_machine
from rqps.measure.modes import Observed, mode_tools, observe_step
from rqps.measure.serve import Serving, serving
from rqps.notebook import LOGS
from rqps.store import write_manifest, write_table
from rqps.store.manifest import Manifest, Warning_
from rqps.store.schemas import IDENTITY, SETTINGS, TABLES
from rqps.study import in_words
from rqps.workloads import Answer, Checked, How

T = TypeVar("T")


@dataclass(frozen=True)
class Measured:
    """The raw tables of a run or of one of its steps, and their warnings."""

    tables: dict[str, pl.DataFrame]
    warnings: tuple[Warning_, ...]

    def also(self, tables: Mapping[str, pl.DataFrame], warnings: Sequence[Warning_]) -> "Measured":
        return Measured({**self.tables, **tables}, (*self.warnings, *warnings))


@dataclass(frozen=True)
class Result:
    """A run that was measured. Its raw tables are in its folder."""

    verified: pl.DataFrame
    """Each requested option with the value that each server reports."""
    servers: str
    """The servers' versions, as they report them."""
    folder: Path


def measure(job: Job) -> Result:
    """Measures one run into its folder: starts and verifies its servers, runs the steps, stops the servers, writes
    every table, and the manifest last. This process runs on the observer's CPUs."""
    started_at, began, machine = datetime.now(UTC), time.monotonic(), describe_machine(scratch_dir())
    placement.apply(os.getpid(), job.placement.observer_cpus)
    with serving(job) as servings:
        measured = measure_steps(servings)
    job.notes.doing("writing the tables")
    tools = {**job.workload.tools(job.run.parameters, len(servings)), **mode_tools(job)}
    for member, observed in zip(servings, measured, strict=True):
        for name, table in observed.tables.items():
            write_table(member.job.tables, name, table)
        write_manifest(member.job.tables, _manifest(member, observed, machine, started_at, began, tools))
    verified = pl.concat(
        member.verified.select(pl.lit(member.job.run.dbms).alias("dbms"), pl.all()) for member in servings
    )
    title = facts_of(job.run.build_spec.engine).title
    servers = (f"{title} {serving.version}, {serving.version_comment}" for serving in servings)
    return Result(verified, "; ".join(servers), job.folder)


def conditions(job: Job) -> pl.DataFrame:
    """The conditions under which a run is measured, as a table for the run's notebook."""
    run, title = job.run, facts_of(job.run.build_spec.engine).title
    builds = [(member.run.dbms, member.prepared.build) for member in job.members]
    rows = {
        "question": run.question,
        "run": f"{in_words(run.mode, run.round)} of {run.study} on {run.host}, "
        f"number {run.position + 1} in random order",
        "dbms": "; ".join(f"{dbms}: {title} {build.version} from {build.source}" for dbms, build in builds),
        "compiled": "; ".join(f"{dbms}: {in_short(build.compiled)}" for dbms, build in builds),
        **job.prepared.in_words,
        "placement": placement.reasons(run.placement, job.placements),
        **(mode_tools(job) if run.mode == "instructions" else {}),
    }
    for name, value in run.parameters.model_dump().items():
        rows[name.replace("_", " ")] = ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    return pl.DataFrame({"condition": list(rows), "value": list(rows.values())})


RUN_FIELDS = ("unit", "side", "twin", "mode", "occasion", "position", "seed", "workload", "identity", "layout")
"""Fields that a manifest copies from its run, in addition to the IDENTITY columns."""


def _manifest(
    server: Serving,
    measured: Measured,
    machine: Mapping[str, Any],
    started_at: datetime,
    began: float,
    tools: Mapping[str, str],
) -> Manifest:
    job, run = server.job, server.job.run
    elapsed_s = time.monotonic() - began  # the wall clock may be set meanwhile
    ours = {"python": platform.python_version(), "polars": pl.__version__}
    return Manifest(
        **{name: getattr(run, name) for name in (*IDENTITY, *RUN_FIELDS)},
        engine=run.build_spec.engine,
        version=server.version,
        version_comment=server.version_comment,
        build_source=job.prepared.build.source,
        build_digest=job.prepared.build.digest,
        compiled=job.prepared.build.compiled,
        options=dict(job.prepared.options),
        parameters=run.parameters.model_dump(mode="json"),
        placement=job.placement,
        placements=dict(job.placements) if job.placement.kind == "by-clients" else {},
        rqps_version=rqps.__version__,
        git_revision=job.git_revision,
        tools={**tools, **ours},
        machine=dict(machine),
        started_at=started_at,
        ended_at=started_at + timedelta(seconds=elapsed_s),
        elapsed_s=elapsed_s,
        measured_s=float(measured.tables["steps"].select(pl.col("warmup_s") + pl.col("elapsed_s")).sum().item()),
        outcome="ok",
        warnings=measured.warnings,
    )


def measure_steps(servings: Sequence[Serving]) -> list[Measured]:
    """Measures every step of the run, on its only server or on the servers of a duet."""
    steps = []
    job = servings[0].job
    names = job.workload.steps(job.run.parameters)
    states = MachineStates(job.placement.server_cpus) if job.run.mode != "instructions" else None
    for position, name in enumerate(names):
        job.notes.doing(f"{name} {position + 1}/{len(names)}")
        with ExitStack() as explaining:
            for serving in servings:
                explaining.enter_context(serving.server.explaining(name))
            of_servers = _step(servings, position, name)
        state, warnings = states.around(name) if states else ([], ())
        table = pl.DataFrame(state, schema=TABLES["machine_state"])
        steps.append([one.also({"machine_state": table}, warnings) for one in of_servers])
    measured = []
    for serving, of_server in zip(servings, zip(*steps, strict=True), strict=True):
        tables = {name: pl.concat([step.tables[name] for step in of_server]) for name in of_server[0].tables}
        warnings = tuple(warning for step in of_server for warning in step.warnings)
        measured.append(Measured({**tables, "settings": _settings(serving)}, warnings))
    return measured


def _settings(of: Serving) -> pl.DataFrame:
    """The settings that the server reports. Placeholders such as `<run>` replace paths and the name of this machine,
    which differ between runs."""
    places = {**of.server.places, str(of.job.folder): "<run>", platform.node(): "<host>"}
    value = pl.col("value")
    is_place = (pl.col("name") == "hostname") | value.str.contains("/", literal=True)
    replaced = pl.when(is_place).then(value.str.replace_many(list(places), list(places.values()))).otherwise(value)
    return pl.DataFrame(of.server.settings(), schema=SETTINGS).with_columns(replaced)


def _step(servings: Sequence[Serving], position: int, name: str) -> list[Measured]:
    job, servers = servings[0].job, [serving.server for serving in servings]
    parameters = job.run.parameters
    checked = each_of(servings, lambda serving: job.workload.check(serving.server, name, parameters))
    where = job.placement_of(name)
    if where != job.placement:
        for server in servers:
            for pid in (pids := server.pids):
                with may_have_ended(pid, pids):
                    placement.apply(pid, where.server_cpus)
                    placement.verify(pid, where.server_cpus)
        placement.apply(os.getpid(), where.observer_cpus)
    log = job.folder / LOGS / f"{position:02}-{name.replace('=', '-')}.log"
    seed = step_seed(job.run.seed, job.run.round, name)
    how: How = {"seed": seed, "cpus": where.client_cpus, "log": log, "counted": job.run.mode == "instructions"}
    loaded = [servings]  # one group: a single load generator sends to all servers
    if where.kind == placement.BY_CONNECTION:
        how["by_connection"] = True
    if job.workload.stoppable and len(servings) > 1:
        how["in_turns"], loaded = True, [[server] for server in servings]
    with ExitStack() as watching:
        watches = each_of(servings, lambda serving: watching.enter_context(serving.server.watching(name)))
        with ExitStack() as generating:
            loads = []
            for some in loaded:
                whose = f"{log.stem}-{some[0].job.run.side}" if len(loaded) > 1 else log.stem
                how["log"] = log.with_name(f"{whose}.log")
                on = [serving.server for serving in some]
                loads.append(generating.enter_context(job.workload.generating(on, name, parameters, **how)))
            # The status is read just before the load, so that a server's earlier writes do not count.
            before = [watch.begin() for watch in watches]
            observed = observe_step(servings, loads, name)
            for load in loads:
                load.wait_until_gone()
        answers = [answer for load in loads for answer in job.workload.answers(name, parameters, load)]
        after = each_of(servings, lambda _, watch, of: watch.end(of.columns["transactions"]), watches, answers)
    of_each = zip(checked, observed, answers, watches, before, after, strict=True)
    return [_measured(name, position, *every) for every in of_each]


def each_of(servings: Sequence[Serving], do: Callable[..., T], *more: Sequence[Any]) -> list[T]:
    """Calls a function for each server, one after the other. In a duet, errors name the dbms."""
    done = []
    for member, *rest in zip(servings, *more, strict=True):
        with member.job.naming():
            done.append(do(member, *rest))
    return done


def _measured(
    name: str,
    position: int,
    checked: Checked,
    observed: Observed,
    answer: Answer,
    watch: Watch,
    before: Status,
    after: Status,
) -> Measured:
    """The tables and warnings of a step on one server."""
    status = [
        {"step": name, "moment": moment, "name": variable, "object": counted_object, "value": value}
        for moment, values in (("before", before), ("after", after))
        for key, value in values.items()
        for variable, counted_object in [key if isinstance(key, CountOf) else (key, None)]
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
    tables = {name: pl.DataFrame(table_rows, schema=TABLES[name]) for name, table_rows in rows.items()}
    nothing = [Warning_(kind="nothing done", text="not a single operation was completed", step=name)]
    lost = (Warning_(kind="lost events", text=text, step=name) for text in watch.lost())
    warnings = (*checked.warnings, *answer.warnings, *observed.warnings, *lost, *nothing * (row["operations"] == 0))
    return Measured({**tables, **observed.tables}, warnings)


def step_seed(seed: int, round_number: int, step: str) -> int:
    """The seed of a step's random values: equal for every dbms of a round, different in every round."""
    digest = hashlib.sha256(f"{seed} {round_number} {step}".encode()).digest()
    return int.from_bytes(digest[:4]) % (2**31 - 1) + 1
