"""The servers of a run: each started on a fresh copy of the loaded tables, verified, and stopped."""

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from rqps.engines import Opened, Start, engine_of
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
def serving(job: Job) -> Iterator[list[Serving]]:
    """The servers of a run for as long as the block lasts, started and stopped side by side: they mostly wait."""
    with ExitStack() as opened:
        with ThreadPoolExecutor(len(job.members)) as pool:  # which waits for all of them, also where one fails
            starting = [pool.submit(_open, each, opened) for each in job.members]
        servings = [each.result() for each in starting]
        opened.callback(_close, servings)
        yield servings


def _open(job: Job, opened: ExitStack) -> Serving:
    with job.naming():
        return opened.enter_context(_serving(job))


def _close(servings: Sequence[Serving]) -> None:
    servings[0].job.notes.doing(f"stopping {', '.join(each.job.run.dbms for each in servings)}")
    with ThreadPoolExecutor(len(servings)) as pool:
        list(pool.map(lambda each: each.server.close(), servings))


@contextmanager
def _serving(job: Job) -> Iterator[Serving]:
    """A server for as long as the block lasts, on its own copy of the tables, with all that was asked for verified.
    Its data directory goes with it."""
    job.notes.doing(f"starting {job.run.dbms}")
    scratch = _scratch()
    counts = job.run.mode == "instructions"
    counted = engine_of(job.run.build_spec).counted
    callgrind = Callgrind(valgrind(), scratch / "callgrind", job.logs / "valgrind.log", counted) if counts else None
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


def _scratch() -> Path:
    """A folder for one server's data, on the file system of the loaded tables so that copies can share blocks."""
    base = Path(os.environ.get("RQPS_SCRATCH") or cache_dir() / "scratch")
    base.mkdir(parents=True, exist_ok=True)
    for left_over in base.glob("run-*-*"):  # of a process that was killed, keeper and all
        if not Path(f"/proc/{left_over.name.split('-')[1]}").exists():
            shutil.rmtree(left_over, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"run-{os.getpid()}-", dir=base))
