"""What of a study is there already."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rqps.errors import RqpsError
from rqps.execute.conditions import differences
from rqps.execute.failure import last_error
from rqps.execute.folders import StudyFolder
from rqps.execute.host import this_host
from rqps.store import read_manifest
from rqps.store.find import MANIFEST, finished_runs
from rqps.study import Run, RunsFile, unfold


@dataclass(frozen=True)
class RunState:
    """One run of a study as it stands. `other`: measured, but not under the conditions asked for now; `absent`: its
    version does not have what is asked for, so it is never made."""

    run: Run
    state: Literal["done", "failed", "missing", "other", "absent"]
    attempts: int = 0
    """Tries that failed."""
    last_error: str | None = None


def state(runs_file: RunsFile, study: str, data: Path, host: str | None = None) -> tuple[RunState, ...]:
    """Every run of a study, in the order to run them."""
    folder = StudyFolder.of(data, study)
    return tuple(run_state(folder, run) for run in unfold(runs_file, study, host or this_host()))


def run_state(folder: StudyFolder, run: Run) -> RunState:
    failures = folder.failures(run.run)
    error = last_error(failures[-1]) if failures else None
    if (folder.whole(run.run) / MANIFEST).is_file():
        same = read_manifest(folder.whole(run.run)).identity == run.identity
        return RunState(run, "done" if same else "other", len(failures), error)
    if run.absent:
        return RunState(run, "absent")
    return RunState(run, "failed" if failures else "missing", len(failures), error)


def refuse_mixture(folder: StudyFolder, runs: Iterable[Run]) -> None:
    """Data measured under other conditions than asked for now is never added to: also not other hosts' or rounds'."""
    asked = {run.dbms: run for run in runs}
    changed: dict[str, tuple[str, ...]] = {}
    count = 0
    for path in finished_runs(folder.path):
        manifest = read_manifest(path)
        run = asked.get(manifest.dbms)
        if run and manifest.identity != run.identity:
            count += 1
            changed[manifest.dbms] = differences(path, run) or ("other conditions, not recorded which",)
    if not count:
        return
    lines = [f"  {dbms}: {'; '.join(how)}" for dbms, how in changed.items()]
    raise RqpsError(
        f"{folder.path}: {count} {'run was' if count == 1 else 'runs were'} measured under other conditions "
        "than runs.yaml asks for now:\n" + "\n".join(lines),
        fix="set what was measured aside with --archive, or undo the change in runs.yaml, "
        "or give the changed study another name",
    )
