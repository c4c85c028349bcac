"""Runs the servers of a run: starts each server on a new copy of the loaded tables, verifies its options, and stops
it."""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from rqps.engines import Opened, Start, engine_of, facts_of
from rqps.engines.cache import cache_dir, copy_folder, naming_a_full_disk
from rqps.engines.sources.programs import valgrind
from rqps.errors import RqpsError
from rqps.measure import placement
from rqps.measure.callgrind import Callgrind, last_level_kb
from rqps.measure.counters import may_have_ended
from rqps.measure.job import Job
from rqps.measure.perf_events import HARDWARE, EventCounters
from rqps.scratch import Scratch


@dataclass(frozen=True)
class Serving:
    """A running server that has the requested options, with the version that it reports and its CPU counters."""

    job: Job
    server: Opened
    version: str
    version_comment: str
    verified: pl.DataFrame
    """Every requested option with the value that the server reports."""
    events: EventCounters
    callgrind: Callgrind | None = None


@contextmanager
def serving(job: Job) -> Iterator[list[Serving]]:
    """Runs the servers of a run during the block. The servers start and stop in parallel, since starting and stopping
    is mostly waiting."""
    with ExitStack() as opened:
        with ThreadPoolExecutor(len(job.members)) as pool:  # the pool waits for all servers, even if one fails
            starting = [pool.submit(_open, start, opened) for start in job.members]
        servings = [start.result() for start in starting]
        try:
            yield servings
        except BaseException:  # no new note is written: the last one names the work that failed
            _close(servings)
            raise
        job.notes.doing(f"stopping {', '.join(serving.job.run.dbms for serving in servings)}")
        if disorders := [words for words in _close(servings) if words]:
            raise RqpsError("; ".join(disorders), fix="run the same command again; the server's error log is kept")


def _open(job: Job, opened: ExitStack) -> Serving:
    with job.naming():
        return opened.enter_context(_serving(job))


def _close(servings: Sequence[Serving]) -> list[str]:
    with ThreadPoolExecutor(len(servings)) as pool:
        return list(pool.map(lambda one: one.server.close(), servings))


@contextmanager
def _serving(job: Job) -> Iterator[Serving]:
    """Starts a server on its own copy of the tables, verifies that it has all options of its config, and warms it up.
    At the end of the block the server is stopped and its data directory is deleted."""
    job.notes.doing(f"starting {job.run.dbms}")
    counts = job.run.mode == "instructions"
    with ExitStack() as at_the_end:
        # By default, servers run on the file system that has the loaded tables, so that a copy can share blocks with
        # the original.
        scratch = at_the_end.enter_context(Scratch(Path(os.environ.get("RQPS_SCRATCH") or cache_dir() / "scratch")))
        log, counted = job.logs / "valgrind.log", engine_of(job.run.build_spec).counted
        simulated = last_level_kb(job.run.round) if job.run.caches else None
        callgrind = Callgrind(valgrind(), scratch / "callgrind", log, counted, simulated) if counts else None
        server = _start_on_a_copy(job, scratch, callgrind)
        at_the_end.callback(server.close)
        with server.explaining("warming up"):
            columns = ("option", "asked", "server")
            verified = pl.DataFrame(server.verify(), schema=dict.fromkeys(columns, pl.String), orient="row")
            for pid in (pids := server.pids):
                with may_have_ended(pid, pids):
                    placement.verify(pid, job.placement.server_cpus)
            events = EventCounters(server.pids, {} if callgrind else HARDWARE)
            at_the_end.callback(events.close)
            job.notes.doing(f"warming up {job.run.dbms}")
            job.workload.prepare(server, job.run.parameters)
            ready = Serving(job, server, server.version, server.version_comment, verified, events, callgrind)
        yield ready


def _start_on_a_copy(job: Job, scratch: Path, callgrind: Callgrind | None) -> Opened:
    under: dict[str, Any] = {}
    if callgrind:
        under = {"under": callgrind.command, "environment": callgrind.valgrind.environment}
        under["patience_s"] = callgrind.start_patience_s
    log, cpus = job.logs / facts_of(job.run.build_spec.engine).log, job.placement.server_cpus
    asked = Start(log=log, cpus=cpus, scratch=(scratch,), started=job.notes.process, **under)
    try:
        with naming_a_full_disk(scratch, "RQPS_SCRATCH"):
            copy_folder(job.data, scratch / "data", "RQPS_SCRATCH")
            return job.prepared.open(scratch / "data", asked)
    except RqpsError as error:
        if callgrind:
            raise callgrind.explained(error) from error
        raise
