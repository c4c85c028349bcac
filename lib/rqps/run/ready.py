"""Everything that takes long and need not be measured, done before the first run: builds, tables, options."""

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rqps.engines import Prepared, Say, prepare
from rqps.observe import placement
from rqps.run.job import Job
from rqps.run.modes import find_tools
from rqps.store.manifest import Placement
from rqps.study import Run
from rqps.workloads import workload


@dataclass(frozen=True)
class Ready:
    """All that the runs of a dbms have in common, looked up."""

    prepared: Prepared
    data: Path
    placements: dict[int, Placement]

    def job(self, run: Run, folder: Path, git_revision: str | None) -> Job:
        """A run of this dbms as the file that its notebook is given."""
        return Job(
            run=run,
            folder=folder,
            prepared=self.prepared,
            data=self.data,
            placements=self.placements,
            git_revision=git_revision,
        )


def make_ready(runs: Sequence[Run], say: Say) -> dict[str, Ready]:
    """Fetches each build, loads each table once, and translates each config, so that a mistake shows at once and no
    run waits for it. By dbms."""
    for run in {run.workload: run for run in runs}.values():
        workload(run.workload).tools(run.parameters)  # fetched, or found to be missing, before anything is measured
    find_tools(runs, say)
    return {dbms: _ready(run, say) for dbms, run in {run.dbms: run for run in runs}.items()}


def _ready(run: Run, say: Say) -> Ready:
    prepared = prepare(run, say)
    load = workload(run.workload)
    clients = [load.clients(step, run.parameters) for step in load.steps(run.parameters)]
    return Ready(prepared, loaded_data(run, prepared, say), placement.by_clients(run.placement, clients))


def loaded_data(run: Run, prepared: Prepared, say: Say) -> Path:
    """The data directory that every round of this dbms starts from a copy of."""
    load = workload(run.workload)
    return prepared.loaded(load.data_name(run.parameters), lambda server: load.load(server, run.parameters), say)


def git_revision(folder: Path) -> str | None:
    """The commit that is checked out, with a + where files have been changed since."""
    command = ["git", "-C", str(folder), "describe", "--always", "--abbrev=40", "--dirty=+", "--exclude=*"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return done.stdout.strip() or None
