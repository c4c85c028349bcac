"""Manages a run's folder: hidden while the run is measured, then published under its name or stored as failed."""

import errno
import json
import os
import pwd
import shutil
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import psutil

from rqps.engines import Say
from rqps.engines.cache import cache_dir, locked
from rqps.errors import RqpsError
from rqps.measure.job import member_folder
from rqps.measure.notes import DOING
from rqps.notebook import LOGS, PIDS, listed, names_of, wait_until_gone
from rqps.schedule.state import FAILURE, StudyFolder, write_asked
from rqps.scratch import sweep
from rqps.store.manifest import CARD, MANIFEST, read_manifest
from rqps.store.write import flush
from rqps.study import Run

HOST_LOCK = "RQPS_HOST_LOCK"
"""The environment variable with the name of the host's lock, for tests of rqps that measure at the same time. If it
is empty, no lock is taken."""
PATIENCE_S = 75.0
"""Seconds to wait for the processes of a run to end: a keeper gives its server 60 s to shut down."""
SHOWN_LINES = 20
LONGEST_LOG, LONGEST_OF_FAILED = 64 * 1024, 1024 * 1024
"""Maximum size in bytes of a stored log: first for finished runs, then for failed runs. Of a longer log, only the
beginning and the end are stored. No measurement is lost, since measurements are in tables."""


@contextmanager
def measuring(study: str) -> Iterator[None]:
    """Holds the locks of the cache and of this host: two simultaneous measurements would disturb each other. Raises
    `Busy`, which names the other measurement, if there is one."""
    # The name contains the host, since several hosts may share the home directory with the cache.
    path = cache_dir() / f"measuring-{socket.gethostname()}.lock"

    def refuse() -> None:
        try:
            note = json.loads(path.read_text(encoding="utf-8"))
            other = f"pid {note['pid']}, study {note['study']}, since {note['since']}"
        except ValueError:  # the other process has locked the file, but has not written its id into it yet
            other = "just started"
        raise _busy(other)

    with locked(path, refuse), _alone_on_host():
        since = datetime.now().astimezone().strftime("%Y-%m-%d %H:%M:%S")
        path.write_text(json.dumps({"pid": os.getpid(), "study": study, "since": since}), encoding="utf-8")
        yield


@contextmanager
def _alone_on_host() -> Iterator[None]:
    """Holds an abstract Unix socket as a lock for all users and caches of a host. It has no file, and the kernel
    releases it when this process ends."""
    name = os.environ.get(HOST_LOCK, "rqps-measuring")
    with socket.socket(socket.AF_UNIX) as lock:
        if name:
            try:
                lock.bind(f"\0{name}")
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
                raise _busy(_holder(name)) from None
            lock.listen()  # other processes can then connect, and read our process id from the kernel
        yield


def _holder(name: str) -> str:
    # Connecting fails if the owner of the lock does not listen yet, or has just ended.
    with socket.socket(socket.AF_UNIX) as line, suppress(OSError):
        line.setblocking(False)
        line.connect(f"\0{name}")
        pid, uid, _ = struct.unpack(
            "3i", line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        )
        users = {entry.pw_uid: entry.pw_name for entry in pwd.getpwall()}
        return f"pid {pid}, user {users.get(uid, uid)}, with another cache"
    return "just started"


class Busy(RqpsError):
    """Another measurement is running on this host."""


def _busy(other: str) -> Busy:
    fix = "wait until it has ended, or stop it with Ctrl-C in its terminal; then run the command again"
    return Busy(f"another rqps run ({other}) is measuring on this host", fix=fix)


def begin(folder: StudyFolder, run: Run) -> Path:
    """Creates the hidden folder into which a run is measured."""
    partial = folder.partial(run.unit)
    try:
        partial.mkdir(parents=True)
    except FileExistsError:
        raise RqpsError(
            f"{partial}: another process is measuring this run",
            fix="wait until that process has ended, or give this command another data folder (--data)",
        ) from None
    try:
        _owner(partial).write_text(str(os.getpid()))
        (partial / LOGS).mkdir()
        for member in run.members:
            (place := member_folder(partial, member)).mkdir(exist_ok=True)
            write_asked(place, member)
    except OSError:
        remove(partial)
        raise
    return partial


def remove(partial: Path) -> None:
    """Removes a run's hidden folder, unless processes of the run still exist: the next `rqps run` finds these
    processes by a file with their ids in the folder."""
    if not listed(partial / PIDS):
        shutil.rmtree(partial, ignore_errors=True)


def remove_own(partial: Path) -> None:
    """Removes a run's hidden folder if this process created it."""
    owner = _owner(partial)
    if owner.is_file() and owner.read_text() == str(os.getpid()):
        remove(partial)


def publish(folder: StudyFolder, run: Run) -> Path:
    """Renames a finished run's folder to its final name. From then on the run counts as done."""
    partial, published = folder.partial(run.unit), folder.finished(run.unit)
    # An existing folder of this name has no manifest: otherwise this run would not have been measured again.
    if published.exists():
        _set_aside(folder, run, published)
    for file in (partial / PIDS, partial / DOING, _owner(partial)):
        file.unlink(missing_ok=True)
    _shorten_logs(partial, LONGEST_LOG)
    for path in (*partial.rglob("*"), partial):
        flush(path)
    partial.rename(published)
    flush(folder.path)
    return published


@dataclass(frozen=True)
class Failure:
    """A failed attempt of a run."""

    run: str
    error: str
    folder: Path

    @property
    def in_short(self) -> str:
        return self.error.strip().splitlines()[0]

    @property
    def shown(self) -> str:
        lines = self.error.strip().splitlines()
        return "\n".join(lines[:SHOWN_LINES] + ["…"] * (len(lines) > SHOWN_LINES))


def store_failed(folder: StudyFolder, run: Run, *, started_at: str, doing: str, error: str) -> Failure:
    """Moves the folder of a failed attempt to the study's failed attempts, with a record of the error."""
    partial = folder.partial(run.unit)
    for file in (partial / PIDS, _owner(partial)):
        file.unlink(missing_ok=True)
    partial.mkdir(exist_ok=True)  # if somebody has removed the folder, the record of the error needs a new one
    for member in run.members:  # removes incomplete tables, which a killed Jupyter kernel may have left
        sweep(member_folder(partial, member))
    _shorten_logs(partial, LONGEST_OF_FAILED)
    place = _set_aside(folder, run, partial)
    failure = Failure(run.words, error.replace(str(partial), str(place)), place)
    facts = {"run": run.unit, "dbms": run.dbms, "round": run.round, "started_at": started_at, "failed_at": now()}
    members = [member.dbms for member in run.members]
    text = json.dumps({**facts, "members": members, "doing": doing, "error": failure.error}, indent=2)
    (failure.folder / FAILURE).write_text(text + "\n", encoding="utf-8")
    return failure


def _shorten_logs(partial: Path, most: int) -> None:
    for log in partial.rglob(f"{LOGS}/*"):
        if log.suffix in (".log", ".err", ".out") and (size := log.stat().st_size) > most:
            with log.open("r+b") as file:
                begin = file.read(most // 2)
                file.seek(size - most // 2)
                end = file.read()
                file.seek(0)
                file.write(b"%s\n... %d bytes are left out ...\n%s" % (begin, size - most, end))
                file.truncate()


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def why_failed(folder: Path, run: Run, error: str | None) -> str | None:
    """The reason why a run failed. None if its manifests have the outcome `ok`, even if papermill reports an `error`:
    the notebook then failed after the measurement."""
    if not _owner(folder).is_file():
        if not (folder.parent / CARD).is_file():
            fix = "leave the folders of a study alone while it is measured; then run the same command again"
            raise RqpsError(f"{folder.parent}: was removed or renamed while {run.words} was measured", fix=fix)
        return "its folder was removed, or emptied, while it was measured"
    reasons = (_why_failed(member_folder(folder, member), member, error) for member in run.members)
    return next((reason for reason in reasons if reason), None)


def _why_failed(folder: Path, run: Run, error: str | None) -> str | None:
    if not (folder / MANIFEST).is_file():
        return error or "the notebook ended without a manifest"
    try:
        manifest = read_manifest(folder)
    except RqpsError as damaged:
        return damaged.message
    if manifest.outcome == "failed":
        return manifest.error or error or "the manifest says failed, without a reason"
    if (manifest.run, manifest.identity) != (run.run, run.identity):
        return (
            f"the manifest is that of {manifest.run} with identity {manifest.identity}, "
            f"not of {run.run} with identity {run.identity}"
        )
    return None


def clear_stale(folder: StudyFolder, say: Say) -> None:
    """Removes unfinished runs' folders that a killed rqps left, once the processes of these runs have ended."""
    for partial in folder.partials():
        of_another_host = any(partial.glob("owner-*")) and not _owner(partial).exists()
        if of_another_host or listed(_owner(partial)):
            continue
        if left := wait_until_gone(listed(partial / PIDS), PATIENCE_S, say):
            raise still_running(left)
        say(f"removing the half-done {partial.name.removeprefix('.')} of an rqps that was killed")
        shutil.rmtree(partial)


def still_running(processes: set[psutil.Process]) -> RqpsError:
    return RqpsError(
        f"processes of a run that has ended still exist: {names_of(processes)}",
        fix="end them with kill, then run the command again; they would disturb a measurement",
    )


def _set_aside(folder: StudyFolder, run: Run, path: Path) -> Path:
    for manifest in path.rglob(MANIFEST):
        try:
            says_failed = read_manifest(manifest.parent).outcome == "failed"
        except RqpsError:
            says_failed = False
        # Readers of the data would take a run for finished if its manifest did not have the outcome `failed`.
        if not says_failed:
            manifest.rename(manifest.with_name("manifest.refused.json"))
    failed = folder.next_failure(run.unit)
    failed.parent.mkdir(exist_ok=True)
    path.rename(failed)
    return failed


def _owner(partial: Path) -> Path:
    """The file with the id of the process that owns an unfinished folder."""
    return partial / f"owner-{socket.gethostname()}.txt"
