"""The end of a run: its tables, and the manifest last."""

import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import polars as pl

import rqps
from rqps.run.count import counted_with
from rqps.run.job import Job
from rqps.run.measure import Measured
from rqps.run.sample import sampled_with
from rqps.run.serve import Serving
from rqps.store import write_manifest, write_table
from rqps.store.manifest import Manifest


def finish(job: Job, serving: Serving, measured: Measured) -> Manifest:
    """Writes every raw table and then the manifest: from then on the run has happened."""
    job.doing("writing the tables")
    for name, table in measured.tables.items():
        write_table(job.folder, name, table)
    ended_at = datetime.now(UTC)
    run = job.run
    revision = git_revision(job.runs_yaml.resolve().parent)
    manifest = Manifest(
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
        version=serving.version,
        version_comment=serving.version_comment,
        build_source=job.prepared.build.source,
        build_digest=job.prepared.build.digest,
        options=dict(job.prepared.options),
        parameters=run.parameters.model_dump(mode="json"),
        placement=job.placement,
        placements=dict(job.placements) if job.placement.kind == "by-clients" else {},
        rqps_version=rqps.__version__,
        git_revision=revision,
        tools=_tools(job),
        machine=dict(job.machine),
        started_at=job.started_at,
        ended_at=ended_at,
        elapsed_s=(ended_at - job.started_at).total_seconds(),
        measured_s=float(measured.tables["steps"].select(pl.col("warmup_s") + pl.col("elapsed_s")).sum().item()),
        outcome="ok",
        warnings=measured.warnings,
    )
    write_manifest(job.folder, manifest)
    return manifest


def _tools(job: Job) -> dict[str, str]:
    ours = {"python": platform.python_version(), "polars": pl.__version__}
    return {**job.workload.tools(job.run.parameters), **sampled_with(job), **counted_with(job), **ours}


def git_revision(folder: Path) -> str | None:
    """The commit that was checked out, with a + where files had been changed since."""
    command = ["git", "-C", str(folder), "describe", "--always", "--abbrev=40", "--dirty=+", "--exclude=*"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return done.stdout.strip() or None
