"""What a run is about to do, with everything looked up."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rqps import placement
from rqps.errors import RqpsError
from rqps.observe.machine import describe_machine
from rqps.servers import data
from rqps.servers.build import Build
from rqps.servers.cache import cache_dir
from rqps.servers.options import Translated, translate
from rqps.servers.sources import locate
from rqps.store.manifest import Placement
from rqps.study import Run, read_runs_file, unfold
from rqps.workloads import workload
from rqps.workloads.protocol import Workload

Say = Callable[[str], None]


@dataclass(frozen=True)
class Job:
    """A run with its build found, its options in the form of that version, and its CPUs chosen."""

    run: Run
    folder: Path
    runs_yaml: Path
    build: Build
    translated: Translated
    placement: Placement
    workload: Workload
    machine: Mapping[str, Any]
    """As it was before the server started."""
    started_at: datetime

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
    runs = {each.run: each for each in unfold(read_runs_file(Path(runs_yaml)), study, host)}
    if run not in runs:
        raise RqpsError(f"{runs_yaml}: study {study!r} has no run {run!r}", fix=f"give one of {', '.join(runs)}")
    asked = runs[run]
    machine = describe_machine(cache_dir())
    where = placement.choose(asked.placement, threads(asked))
    placement.apply(os.getpid(), where.observer_cpus)
    build, translated = resolve(asked, print)
    path = Path(folder).resolve()
    (path / "logs").mkdir(parents=True, exist_ok=True)
    return Job(
        run=asked,
        folder=path,
        runs_yaml=Path(runs_yaml),
        build=build,
        translated=translated,
        placement=where,
        workload=workload(asked.workload),
        machine=machine,
        started_at=datetime.now(UTC),
    )


def resolve(run: Run, say: Say) -> tuple[Build, Translated]:
    """The build of a run, fetched if need be, and its options as that version takes them."""
    build = locate(run.build, run.build_spec, say)
    known = data.variables(data.origin(build, run.options), say)
    return build, translate(run.options, known, dbms=run.dbms, version=build.version)


def threads(run: Run) -> int:
    """How many clients load the server at once; a workload without that parameter has one."""
    return int(getattr(run.parameters, "threads", 1))
