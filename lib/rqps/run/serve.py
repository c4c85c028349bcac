"""The run's server: started on a fresh copy of the loaded tables, verified, and stopped."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from rqps.engines import Opened, Start
from rqps.engines.cache import cache_dir, copy_folder
from rqps.engines.sources.programs import valgrind
from rqps.errors import RqpsError
from rqps.observe import placement
from rqps.observe.callgrind import Callgrind
from rqps.observe.perf_events import HARDWARE, EventCounters
from rqps.run.job import Job


@dataclass(frozen=True)
class Serving:
    """A server that has what was asked for, and its own words on that."""

    job: Job
    server: Opened
    version: str
    version_comment: str
    verified: pl.DataFrame
    """Every option asked for, beside what the server reports."""
    events: EventCounters
    callgrind: Callgrind | None = None


@contextmanager
def serving(job: Job) -> Iterator[Serving]:
    """A server for as long as the block lasts, on its own copy of the tables, with all that was asked for verified.
    Its data directory goes with it."""
    job.notes.doing(f"starting {job.run.dbms}")
    scratch = _scratch()
    counts = job.run.mode == "instructions"
    callgrind = Callgrind(valgrind(), scratch / "callgrind", job.logs / "valgrind.log") if counts else None
    server = _start_on_a_copy(job, scratch, callgrind)
    with ExitStack() as at_the_end:
        at_the_end.callback(server.close)
        columns = ("option", "asked", "server")
        verified = pl.DataFrame(server.verify(), schema=dict.fromkeys(columns, pl.String), orient="row")
        for pid in server.pids:
            placement.verify(pid, job.placement.server_cpus)
        events = EventCounters(server.pids, {} if callgrind else HARDWARE)
        at_the_end.callback(events.close)
        job.notes.doing(f"warming up {job.run.dbms}")
        job.workload.prepare(server, job.run.parameters)
        yield Serving(job, server, server.version, server.version_comment, verified, events, callgrind)
        job.notes.doing(f"stopping {job.run.dbms}")


def _start_on_a_copy(job: Job, scratch: Path, callgrind: Callgrind | None) -> Opened:
    under: dict[str, Any] = {}
    if callgrind:
        under = {"under": callgrind.command, "environment": callgrind.valgrind.environment}
        under["patience_s"] = callgrind.start_patience_s
    log, cpus = job.logs / "mysqld.err", job.placement.server_cpus
    asked = Start(log=log, cpus=cpus, scratch=(scratch,), started=job.notes.process, **under)
    try:
        copy_folder(job.data, scratch / "data")
        return job.prepared.open(scratch / "data", asked)
    except BaseException as error:
        shutil.rmtree(scratch, ignore_errors=True)
        if callgrind and isinstance(error, RqpsError):
            raise callgrind.explained(error) from error
        raise


def callgrind_of(job: Job, scratch: Path) -> Callgrind | None:
    """The callgrind that the server of a run is started under; None where it runs by itself."""
    if job.run.mode != "instructions":
        return None
    return Callgrind(valgrind(), scratch / "callgrind", job.logs / "valgrind.log")


def _scratch() -> Path:
    """A folder for one server's data, on the file system of the loaded tables so that copies can share blocks."""
    base = Path(os.environ.get("RQPS_SCRATCH") or cache_dir() / "scratch")
    base.mkdir(parents=True, exist_ok=True)
    for left_over in base.glob("run-*-*"):  # of a process that was killed, keeper and all
        if not Path(f"/proc/{left_over.name.split('-')[1]}").exists():
            shutil.rmtree(left_over, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"run-{os.getpid()}-", dir=base))
