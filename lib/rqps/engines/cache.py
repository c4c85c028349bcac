"""The user's cache directory. Each entry is made once, by one process at a time, and appears only when complete."""

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rqps.errors import RqpsError, no_room
from rqps.numbers import megabytes
from rqps.scratch import Scratch

LITTLE_ROOM_BYTES = 100_000_000
"""Free space, in bytes, below which errors call a disk full: a server writes more than this when it starts."""


def cache_dir() -> Path:
    """The folder of builds, tools and loaded tables: `RQPS_CACHE`, or `rqps` in the user's cache directory."""
    chosen = os.environ.get("RQPS_CACHE") or f"{os.environ.get('XDG_CACHE_HOME') or '~/.cache'}/rqps"
    folder = Path(chosen).expanduser().absolute()
    if set(str(folder)) & set(':;"\n'):
        raise RqpsError(
            f'the cache directory {str(folder)!r} has a : ; " or line end in its name, so no library loads from it',
            fix="set RQPS_CACHE to a directory with a plainer name",
        )
    return folder


def scratch_dir() -> Path:
    """The folder for the copies of tables that are measured: `RQPS_SCRATCH`, or the cache directory."""
    return Path(os.environ.get("RQPS_SCRATCH") or cache_dir()).absolute()


def short_key(*described: object) -> str:
    """A short hash of the given values, for the name of a file or folder."""
    return hashlib.sha256(json.dumps(described).encode()).hexdigest()[:12]


@contextmanager
def locked(path: Path, busy: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Holds the lock of a file or folder. The kernel releases the lock when the process ends, in whatever way.

    `busy` is called if another process holds the lock: it may print that rqps waits, or raise to give up.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_name(f".{path.name}.lock").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            busy()
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def made_once(folder: Path, make: Callable[[Path], None], say: Callable[[str], None] = print) -> Path:
    """Returns `folder`. If it does not exist, `make` fills a temporary folder, which is then renamed to `folder`: a
    folder that exists is complete."""
    if folder.is_dir():
        return folder
    try:
        with locked(folder, lambda: say(f"another rqps is making {folder}: waiting for it")):
            if folder.is_dir():
                return folder
            # Always a new temporary folder: a server of an rqps that was killed may still use the previous one.
            with Scratch(folder.parent) as scratch:
                (partial := scratch / folder.name).mkdir()
                with naming_a_full_disk(scratch, "RQPS_CACHE"):
                    make(partial)
                partial.rename(folder)
    except OSError as error:
        raise RqpsError(
            f"{error.filename or cache_dir()} can't be used: {error.strerror}",
            fix="make room there and let this user read and write it, or set RQPS_CACHE to another directory",
        ) from error
    return folder


@contextmanager
def naming_a_full_disk(folder: Path, place: str) -> Iterator[None]:
    """If the block fails while the disk is nearly full, the error also says that the disk is full, since few programs
    report this themselves. `place` is the environment variable that names the folder."""
    try:
        yield
    except RqpsError as error:
        if (free := shutil.disk_usage(folder.parent).free) >= LITTLE_ROOM_BYTES:
            raise
        fix = f"make room on the disk of {folder.parent}, or set {place} to a directory on a larger one"
        what = f"the disk of {folder.parent} is full, or nearly so: {megabytes(free)} are left"
        raise RqpsError(f"{what}; {error.message}", fix=fix) from error


def copy_folder(source: Path, target: Path, place: str = "RQPS_CACHE") -> None:
    """Copies a folder. The copy shares its blocks with the original if the file system can do that. `place` is the
    environment variable that an error suggests to set, if the target's disk is full."""
    program = shutil.which("cp") or "/bin/cp"  # PATH may be empty
    command = [program, "-a", "--reflink=auto", "--no-preserve=ownership", str(source), str(target)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        shutil.rmtree(target, ignore_errors=True)
        first = next(iter(done.stderr.splitlines()), f"cp ended with code {done.returncode}")
        raise RqpsError(
            f"{target}: could not be copied: {no_room(done.stderr) or first}",
            fix=f"make room on the disk of {target.parent}, or set {place} to a directory on a larger one",
        )


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
