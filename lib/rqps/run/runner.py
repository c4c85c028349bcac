"""Where runs are measured, in turn: here on this machine, each by its notebook; later on other hosts as well."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from rqps.engines import Say
from rqps.notebook import Execution, check_parameters, wait_until_gone
from rqps.run.ready import Ready, git_revision, make_ready
from rqps.run.run_folder import PATIENCE_S, still_running
from rqps.run.watch import Watcher, noted
from rqps.study import Run

POLL_S = 0.5
PARAMETERS = ("job",)


class Runner(Protocol):
    """Measures runs, one at a time."""

    def check(self, runs: Sequence[Run]) -> None:
        """Refuses what could never work, before anything is written."""

    def make_ready(self, runs: Sequence[Run], say: Say) -> None:
        """Does all that takes long and need not be measured."""

    def measure(self, run: Run, folder: Path, watcher: Watcher) -> str | None:
        """Measures a run into a folder, to its end or to that which the watcher asks for, and leaves no process
        behind. Gives back the error that ended it, if one did; the manifest alone says that a run is whole."""


class Here:
    """On this machine: the notebook of the run's workload gets the run as a file, through papermill."""

    def __init__(self, notebooks: Path, runs_yaml: Path) -> None:
        self.notebooks = notebooks.absolute()
        self.runs_yaml = runs_yaml.absolute()
        self._ready: dict[str, Ready] = {}
        self._git_revision: str | None = None

    def notebook(self, run: Run) -> Path:
        name = "instructions" if run.mode == "instructions" else run.workload
        return self.notebooks / "run" / f"{name}.ipynb"

    def check(self, runs: Sequence[Run]) -> None:
        for notebook in {self.notebook(run) for run in runs}:
            check_parameters(notebook, PARAMETERS)

    def make_ready(self, runs: Sequence[Run], say: Say) -> None:
        self._ready = make_ready(runs, say)
        self._git_revision = git_revision(self.runs_yaml.parent)

    def write_job(self, run: Run, folder: Path) -> Path:
        """Writes the file that says all of a run."""
        return self._ready[run.dbms].job(run, folder, self._git_revision).write()

    def measure(self, run: Run, folder: Path, watcher: Watcher) -> str | None:
        job = self.write_job(run, folder)
        execution = Execution(self.notebook(run), folder, {"job": str(job)})
        try:
            while not execution.wait(POLL_S) and not watcher.stopped_by:
                watcher.doing(noted(folder))
        finally:
            if watcher.stopped_by:
                watcher.say(f"stopping {run.run}")
            execution.stop()
            left = wait_until_gone(execution.remains(), PATIENCE_S, watcher.say)
        if left:
            raise still_running(left)
        return execution.error()
