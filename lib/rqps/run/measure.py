"""Measures one run: what its notebook calls."""

import os
import platform
from collections.abc import Mapping
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
from rqps.run.modes import mode_tools
from rqps.run.serve import Serving, serving
from rqps.run.steps import Measured, measure_steps
from rqps.run.watch import InFolder, RunWatcher
from rqps.store import write_manifest, write_table
from rqps.store.manifest import Manifest
from rqps.study import in_words

__all__ = ["Result", "conditions", "measure", "read_job"]


@dataclass(frozen=True)
class Result:
    """A run that was measured. Its raw tables are in its folder."""

    manifest: Manifest
    verified: pl.DataFrame
    """Every option asked for, beside what the server reports."""
    server: str
    """The server as it names itself."""


def measure(job: Job, watcher: RunWatcher | None = None) -> Result:
    """Measures one run into its folder: starts its server, verifies it, does the steps, stops it, and writes every
    table and then the manifest. This process keeps off the CPUs that are measured."""
    watcher = watcher or InFolder(job.folder)
    started_at, machine = datetime.now(UTC), describe_machine(cache_dir())
    placement.apply(os.getpid(), job.placement.observer_cpus)
    with serving(job, watcher) as server:
        measured = measure_steps(job, server, watcher)
    watcher.doing("writing the tables")
    for name, table in measured.tables.items():
        write_table(job.folder, name, table)
    manifest = _manifest(job, server, measured, machine, started_at)
    write_manifest(job.folder, manifest)
    title = engine_of(job.run.build_spec).title
    return Result(manifest, server.verified, f"{title} {server.version}, {server.version_comment}")


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
        **{name.replace("_", " "): _plain(value) for name, value in run.parameters.model_dump().items()},
    }
    return pl.DataFrame({"condition": list(rows), "value": list(rows.values())})


def _plain(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _manifest(
    job: Job, server: Serving, measured: Measured, machine: Mapping[str, Any], started_at: datetime
) -> Manifest:
    run, ended_at = job.run, datetime.now(UTC)
    ours = {"python": platform.python_version(), "polars": pl.__version__}
    return Manifest(
        study=run.study,
        run=run.run,
        host=run.host,
        dbms=run.dbms,
        build=run.build,
        config=run.config,
        mode=run.mode,
        round=run.round,
        position=run.position,
        seed=run.seed,
        workload=run.workload,
        identity=run.identity,
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
