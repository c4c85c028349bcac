"""What a run is about to do, with everything looked up."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rqps.engines import Prepared, prepare
from rqps.engines.cache import cache_dir
from rqps.errors import RqpsError
from rqps.observe import placement
from rqps.observe.machine import describe_machine
from rqps.store.manifest import Placement
from rqps.study import Run, read_runs_file, unfold
from rqps.workloads import PARAMETERS, workload
from rqps.workloads.protocol import Workload

Say = Callable[[str], None]


@dataclass(frozen=True)
class Job:
    """A run with its build found, its config in the form of that version, and its CPUs chosen."""

    run: Run
    folder: Path
    runs_yaml: Path
    prepared: Prepared
    placements: Mapping[int, Placement]
    """By how many clients a step has."""
    workload: Workload
    machine: Mapping[str, Any]
    """As it was before the server started."""
    started_at: datetime

    @property
    def placement(self) -> Placement:
        """Of the whole run: what the server starts with."""
        return placement.of_run(self.placements)

    def placement_of(self, step: str) -> Placement:
        return self.placements[self.workload.clients(step, self.run.parameters)]

    @property
    def logs(self) -> Path:
        return self.folder / "logs"

    def doing(self, what: str) -> None:
        """Tells whoever watches what is being done now."""
        unfinished = self.folder / ".progress.txt"
        unfinished.write_text(what)
        unfinished.rename(self.folder / "progress.txt")

    def note_process(self, pid: int) -> None:
        """Tells whoever cleans up after us that this process has to be waited for."""
        with (self.folder / "pids.txt").open("a") as pids:
            pids.write(f"{pid}\n")


def open_run(runs_yaml: str, study: str, run: str, folder: str) -> Job:
    """Look up one run of a study; from here on this process keeps off the CPUs that are measured."""
    host = run.rpartition("@")[2]
    runs = {each.run: each for each in unfold(read_runs_file(Path(runs_yaml), PARAMETERS), study, host)}
    if run not in runs:
        raise RqpsError(f"{runs_yaml}: study {study!r} has no run {run!r}", fix=f"give one of {', '.join(runs)}")
    asked = runs[run]
    machine = describe_machine(cache_dir())
    load = workload(asked.workload)
    clients = [load.clients(step, asked.parameters) for step in load.steps(asked.parameters)]
    placements = placement.by_clients(asked.placement, clients)
    placement.apply(os.getpid(), placement.of_run(placements).observer_cpus)
    path = Path(folder).resolve()
    (path / "logs").mkdir(parents=True, exist_ok=True)
    return Job(
        run=asked,
        folder=path,
        runs_yaml=Path(runs_yaml),
        prepared=prepare(asked, print),
        placements=placements,
        workload=load,
        machine=machine,
        started_at=datetime.now(UTC),
    )
