"""A run's folder from its beginning to where it stays: whole under its name, or among the failed ones."""

import json
import shutil
import socket
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rqps.errors import RqpsError
from rqps.execute.attempt import LOGS, PIDS
from rqps.execute.conditions import write_asked
from rqps.execute.failure import Failure
from rqps.execute.folders import StudyFolder
from rqps.execute.processes import Process, boot_id, listed, wait_until_gone
from rqps.execute.progress import DOING
from rqps.store import read_manifest
from rqps.store.find import MANIFEST
from rqps.store.write import flush
from rqps.study import Run

OWNER = "owner.json"
PATIENCE_S = 75.0  # a keeper gives its server 60 s to shut down


def begin(folder: StudyFolder, run: Run) -> Path:
    """Make the hidden folder that a run is measured into."""
    partial = folder.partial(run.run)
    try:
        partial.mkdir(parents=True)
    except FileExistsError:
        raise RqpsError(
            f"{partial}: this run is being measured by another process now",
            fix="let it end, or give this one a data folder of its own",
        ) from None
    try:
        _write_beginning(partial, run)
    except OSError:
        remove(partial)
        raise
    return partial


def _write_beginning(partial: Path, run: Run) -> None:
    owner = {"host": socket.gethostname(), "boot": boot_id(), **asdict(Process.me())}
    (partial / OWNER).write_text(json.dumps(owner), encoding="utf-8")
    (partial / LOGS).mkdir()
    write_asked(partial, run)


def remove(partial: Path) -> None:
    """Remove a run's hidden folder, unless processes of it are left: then the next start has to see it."""
    if not listed(partial / PIDS):
        shutil.rmtree(partial, ignore_errors=True)


def publish(folder: StudyFolder, run: Run) -> Path:
    """Give a whole run its name. Before this it did not happen; after it, it is there whatever happens."""
    partial, whole = folder.partial(run.run), folder.whole(run.run)
    if whole.exists():  # without a manifest, or we would not have measured it again
        _set_aside(folder, run, whole)
    for name in (PIDS, DOING, OWNER):
        (partial / name).unlink(missing_ok=True)
    for path in (*partial.rglob("*"), partial):
        flush(path)
    partial.rename(whole)
    flush(folder.path)
    return whole


def keep_failed(folder: StudyFolder, run: Run, failure: Callable[[Path], Failure]) -> Failure:
    """Keep what a failed try left, with a record of why."""
    partial = folder.partial(run.run)
    for name in (PIDS, OWNER):
        (partial / name).unlink(missing_ok=True)
    kept = failure(_set_aside(folder, run, partial))
    kept.write()
    return kept


def clear_stale(folder: StudyFolder, say: Callable[[str], None]) -> None:
    """Remove what an rqps left half done that was killed, once its processes have ended."""
    for partial in folder.partials():
        owner = _owner(partial)
        if owner.get("host", socket.gethostname()) != socket.gethostname():
            continue
        if owner.get("boot") == boot_id():
            if Process(int(owner["pid"]), int(owner["started_ticks"])).alive:
                continue
            left = wait_until_gone(listed(partial / PIDS), PATIENCE_S, say)
            if left:
                raise still_running(left)
        say(f"removing the half-done {partial.name.removeprefix('.')} of an rqps that was killed")
        shutil.rmtree(partial)


def still_running(processes: frozenset[Process]) -> RqpsError:
    named = ", ".join(f"{each.name} (pid {each.pid})" for each in processes)
    return RqpsError(
        f"processes of a run that has ended are still there: {named}",
        fix="end them with kill, then run this again; nothing is measured beside them",
    )


def _set_aside(folder: StudyFolder, run: Run, path: Path) -> Path:
    manifest = path / MANIFEST
    if manifest.is_file() and not _says_failed(path):
        # A reader takes a manifest among the failed ones at its word.
        manifest.rename(path / "manifest.refused.json")
    failed = folder.next_failure(run.run)
    failed.parent.mkdir(exist_ok=True)
    path.rename(failed)
    return failed


def _says_failed(folder: Path) -> bool:
    try:
        return read_manifest(folder).outcome == "failed"
    except RqpsError:
        return False


def _owner(partial: Path) -> dict[str, Any]:
    try:
        return dict(json.loads((partial / OWNER).read_text(encoding="utf-8")))
    except (OSError, ValueError):  # killed before it had written it
        return {}
