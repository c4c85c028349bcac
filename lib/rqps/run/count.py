"""A run in which instructions are counted: its server is under callgrind, and its load waits for us at both ends."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path

import polars as pl

from rqps.engines import Opened
from rqps.engines.sources.programs import valgrind
from rqps.errors import RqpsError
from rqps.observe.callgrind import Callgrind
from rqps.observe.callgrind_profile import COUNTED, incomplete, instruction_rows
from rqps.observe.host_counters import device_of
from rqps.observe.step_counters import read_counters, used_between
from rqps.run.job import Job, Say
from rqps.run.observe import Observed
from rqps.store.manifest import Warning_
from rqps.store.schemas import COUNTERS
from rqps.study import Run
from rqps.workloads import workload
from rqps.workloads.protocol import CountedWorkload, Load

INCOMPLETE_WORTH_TELLING = 0.001
"""Of the instructions, those of stacks whose beginning is not known."""


def ready_to_count(runs: Sequence[Run], say: Say) -> None:
    """Finds what counts instructions, and that the steps can be counted, before anything is measured."""
    counted = [run for run in runs if run.mode == "instructions"]
    if counted:
        valgrind(say)
    for run in counted:
        if not isinstance(workload(run.workload), CountedWorkload):
            raise can_not_be_counted(run)


def counted_with(job: Job) -> dict[str, str]:
    """What counted the instructions of a run, and which."""
    if job.run.mode != "instructions":
        return {}
    return {"valgrind": f"{valgrind().version}, callgrind, of {COUNTED} and all that it calls, without the kernel's"}


def callgrind_of(job: Job, scratch: Path) -> Callgrind | None:
    """What the server of a run is started under; None where it runs by itself."""
    if job.run.mode != "instructions":
        return None
    return Callgrind(valgrind(), scratch / "callgrind", job.logs / "valgrind.log")


def load_of(
    job: Job, server: Opened, step: str, *, seed: int, cpus: tuple[int, ...], log: Path
) -> AbstractContextManager[Load]:
    """The load of a step: for some seconds, or a number of times where instructions are counted."""
    if job.run.mode != "instructions":
        return job.workload.generating(server, step, job.run.parameters, seed=seed, cpus=cpus, log=log)
    if not isinstance(job.workload, CountedWorkload):
        raise can_not_be_counted(job.run)
    return job.workload.counting(server, step, job.run.parameters, seed=seed, cpus=cpus, log=log)


def can_not_be_counted(run: Run) -> RqpsError:
    return RqpsError(
        f"the steps of {run.workload} can't be done a number of times: their instructions can't be counted",
        fix=f"set instructions_rounds of study {run.study!r} to 0",
    )


def count(server: Opened, callgrind: Callgrind, load: Load, step: str) -> Observed:
    """Counts every instruction that the server spends on the load's commands.

    What the kernel counted meanwhile is of the server under callgrind: it tells how long this took, no more.
    """
    device = device_of(server.directory)
    load.wait_for_begin()
    callgrind.begin(server.pids[0])
    first = read_counters(server.pids, load.pid, device)
    started_at = datetime.now(UTC)
    load.wait_for_end()
    last = read_counters(server.pids, load.pid, device)
    rows = instruction_rows(callgrind.end(server.pids[0]), step)
    if rows.is_empty():
        raise RqpsError(
            f"{step}: not one instruction was counted: callgrind saw no call of {COUNTED} in this server",
            fix="take a build that has its symbols: one that was not stripped",
        )
    return Observed(
        columns={"started_at": started_at, **used_between(first, last)},
        tables={"counters": COUNTERS.to_frame(), "instructions": rows},
        warnings=tuple(_warnings(rows, step)),
    )


def _warnings(rows: pl.DataFrame, step: str) -> Iterator[Warning_]:
    share = incomplete(rows)
    if share > INCOMPLETE_WORTH_TELLING:
        text = f"{share:.1%} of the instructions are in stacks that do not begin with {COUNTED}"
        yield Warning_(kind="instructions", text=text, step=step)
