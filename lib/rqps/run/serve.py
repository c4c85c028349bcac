"""The run's server: started on a fresh copy of the loaded tables, verified, and stopped."""

import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from rqps.engines import data, instance
from rqps.engines.cache import cache_dir
from rqps.engines.instance import Connection, Server, query
from rqps.engines.options import mismatches
from rqps.errors import RqpsError
from rqps.observe import placement
from rqps.observe.callgrind import Callgrind
from rqps.observe.perf_events import HARDWARE, EventCounters
from rqps.run.count import callgrind_of
from rqps.run.job import Job
from rqps.run.ready import loaded_data
from rqps.run.scenario import tell


@dataclass(frozen=True)
class Serving:
    """A server that has what was asked for, and what it says of itself."""

    server: Server
    version: str
    version_comment: str
    verified: pl.DataFrame
    """Every option asked for, beside what the server reports."""
    events: EventCounters
    """The CPU's own counters of it, where there are any."""
    callgrind: Callgrind | None = None
    """What it runs under, where its instructions are counted one by one."""


def start(job: Job) -> Serving:
    """Starts the server of a run on its own copy of the tables, and verifies all that was asked for."""
    job.doing("starting the server")
    scratch = _scratch()
    callgrind = callgrind_of(job, scratch)
    server = _start_on_a_copy(job, loaded_data(job.run, job.build, print), scratch, callgrind)
    try:
        serving = _verify(job, server, callgrind)
        job.doing("warming up the server")
        job.workload.prepare(server, job.run.parameters)
    except BaseException:
        instance.stop(server)
        raise
    return serving


def _start_on_a_copy(job: Job, loaded: Path, scratch: Path, callgrind: Callgrind | None) -> Server:
    try:
        data.copy(loaded, scratch / "data")
        return instance.start(
            callgrind.under(job.build) if callgrind else job.build,
            scratch / "data",
            arguments=job.translated.arguments,
            cpus=job.placement.server_cpus,
            log=job.logs / "mysqld.err",
            scratch=(scratch,),
            kept_by=job.note_process,
            patience_s=callgrind.start_patience_s if callgrind else instance.START_PATIENCE_S,
        )
    except BaseException as error:
        shutil.rmtree(scratch, ignore_errors=True)
        if callgrind and isinstance(error, RqpsError):
            raise callgrind.explained(error) from error
        raise


def stop(job: Job, serving: Serving) -> None:
    """Stops the server in order; its data directory goes with it."""
    job.doing("stopping the server")
    serving.events.close()
    instance.stop(serving.server)


def _scratch() -> Path:
    """A folder for one server's data, on the file system of the loaded tables so that copies can share blocks."""
    base = Path(os.environ.get("RQPS_SCRATCH") or cache_dir() / "scratch")
    base.mkdir(parents=True, exist_ok=True)
    for left_over in base.glob("run-*-*"):  # of a process that was killed, keeper and all
        if not Path(f"/proc/{left_over.name.split('-')[1]}").exists():
            shutil.rmtree(left_over, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"run-{os.getpid()}-", dir=base))


def _verify(job: Job, server: Server, callgrind: Callgrind | None) -> Serving:
    connection = server.connect()
    reported = _variables(connection)
    wrong = mismatches(job.translated.expected, reported)
    if not reported["version"].startswith(job.build.version):
        wrong.insert(0, f"version: asked for {job.build.version}, the server has {reported['version']}")
    if wrong:
        raise RqpsError(
            f"{job.run.dbms}: the server does not have what was asked for:\n  " + "\n  ".join(wrong),
            fix=f"change config {job.run.config!r} in {job.runs_yaml.name} to what this server and host can do",
        )
    placement.verify(server.pid, job.placement.server_cpus)
    connection.close()
    recorded = tell(server, job.scenario, job.run.dbms)
    expected = job.translated.expected
    return Serving(
        server=server,
        version=reported["version"],
        version_comment=reported.get("version_comment", ""),
        verified=pl.DataFrame(
            [*((name, value, reported[name]) for name, value in expected.items()), *recorded],
            schema={"option": pl.String, "asked": pl.String, "server": pl.String},
            orient="row",
        ),
        events=EventCounters(server.pid, {} if callgrind else HARDWARE),
        callgrind=callgrind,
    )


def _variables(connection: Connection) -> dict[str, str]:
    return {str(name).lower(): str(value) for name, value in query(connection, "SHOW GLOBAL VARIABLES")}
