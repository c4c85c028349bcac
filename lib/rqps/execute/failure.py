"""A try that failed: why, in words, and the record that is kept of it."""

import errno
import json
import os
import signal
from dataclasses import asdict, dataclass
from pathlib import Path

from rqps.errors import RqpsError
from rqps.store import read_manifest
from rqps.store.find import MANIFEST
from rqps.study import Run

RECORD = "failure.json"
NO_ROOM = tuple(os.strerror(number) for number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG))
SHOWN_LINES = 20


@dataclass(frozen=True)
class Failure:
    """What `failure.json` holds, and where it is."""

    run: str
    dbms: str
    round: int
    started_at: str
    failed_at: str
    doing: str
    """What the run was at, in its own words."""
    error: str
    folder: Path

    @property
    def in_short(self) -> str:
        return self.error.strip().splitlines()[0]

    @property
    def shown(self) -> str:
        lines = self.error.strip().splitlines()
        return "\n".join(lines[:SHOWN_LINES] + ["…"] * (len(lines) > SHOWN_LINES))

    def write(self) -> None:
        facts = {key: value for key, value in asdict(self).items() if key != "folder"}
        (self.folder / RECORD).write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")


def last_error(folder: Path) -> str:
    """The error of a failed try, in a line."""
    try:
        error = json.loads((folder / RECORD).read_text(encoding="utf-8"))["error"]
    except (OSError, ValueError, KeyError):
        return f"not recorded, see {folder}"
    return str(error).strip().splitlines()[0]


def why_failed(folder: Path, run: Run, error: str | None) -> str | None:
    """None if the run's own manifest says that it went well; papermill's word on that is not taken."""
    if not (folder / MANIFEST).is_file():
        return error or "the notebook ended without having written a manifest"
    try:
        manifest = read_manifest(folder)
    except RqpsError as damaged:
        return damaged.message
    if manifest.outcome == "failed":
        return manifest.error or error or "the manifest says failed, and not why"
    if (manifest.run, manifest.identity) != (run.run, run.identity):
        return (
            f"the manifest is that of {manifest.run} with identity {manifest.identity}, "
            f"not of {run.run} with identity {run.identity}"
        )
    return None


def explain(error: BaseException, kernel_code: int | None) -> str:
    """Why papermill did not come to the end of a notebook, without its page of traceback."""
    from nbclient.exceptions import DeadKernelError
    from papermill.exceptions import PapermillExecutionError

    if isinstance(error, PapermillExecutionError):
        # Our own errors are sentences already.
        told = error.evalue if error.ename == "RqpsError" else f"{error.ename}: {error.evalue}"
        return told.strip().rstrip(":") or error.ename
    if isinstance(error, DeadKernelError) or (isinstance(error, RuntimeError) and kernel_code is not None):
        return f"the notebook's kernel {_ended(kernel_code)} before the notebook's end"
    return f"{type(error).__name__}: {error}"


def _ended(code: int | None) -> str:
    if code is None or code >= 0:
        return f"ended with exit code {code}" if code else "ended"
    how = f"was killed by {signal.Signals(-code).name}"
    return how + (" (short of memory? dmesg would say so)" if -code == signal.SIGKILL else "")


def out_of_room(error: str) -> bool:
    """Whether an error says that the disk, or what we may use of it, is full."""
    return any(words in error for words in NO_ROOM)
