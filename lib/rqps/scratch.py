"""Private temporary folders. A folder that a killed process left is removed by the next process.

A process that uses a folder holds a shared lock on its file `in-use`. The kernel releases the lock when the process
ends, so a folder with a free lock has no owner.
"""

import ctypes
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rqps.errors import RqpsError

PREFIX = ".rqps-"
IN_USE = "in-use"
SOCKET_PATH_LIMIT = 107  # the size of sockaddr_un.sun_path, less the terminating zero byte
YOUNG_S = 60.0
"""Age in seconds of a folder without a lock file: a younger one is being created, an older one was left by a killed
process."""
AT_FDCWD, RENAME_EXCHANGE = -100, 2


class Scratch:
    """A folder below `base`, or in the system's temporary directory. Its `with` block or `remove` removes it."""

    def __init__(self, base: Path | None = None) -> None:
        base = base or Path(tempfile.gettempdir())
        base.mkdir(parents=True, exist_ok=True)
        sweep(base)
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=base))
        unlocked = self.path / f".{IN_USE}"
        self._lock = os.open(unlocked, os.O_CREAT | os.O_RDWR, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_SH)
        unlocked.rename(self.path / IN_USE)

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *error: object) -> None:
        self.remove()

    def socket(self, name: str) -> Path:
        """The path of a socket in this folder. Raises RqpsError if the path is too long for a socket."""
        path = self.path / name
        try:
            refuse_long(path)
        except RqpsError:
            self.remove()
            raise
        return path

    def remove(self) -> None:
        """Removes the folder and its contents; may be called twice."""
        shutil.rmtree(self.path, ignore_errors=True)
        with suppress(OSError):
            os.close(self._lock)
        self._lock = -1


def socket_of_any(name: str, base: Path | None = None) -> Path:
    """An example of a socket's path in a private folder, with the same length as any such path."""
    return (base or Path(tempfile.gettempdir())) / f"{PREFIX}abcdefgh" / name


def refuse_long(path: Path) -> None:
    """Refuses a path that is too long for a Unix socket."""
    if len(str(path)) > SOCKET_PATH_LIMIT:
        raise RqpsError(
            f"{path}: a socket's path may have {SOCKET_PATH_LIMIT} characters, this one has {len(str(path))}",
            fix="set TMPDIR to a shorter directory",
        )


@contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """Yields a path to write to; the result then replaces `target` atomically (a folder only if the file system can
    exchange names). A reader finds either the old or the new contents."""
    with Scratch(target.parent) as scratch:
        yield (new := scratch / target.name)
        if target.is_dir():
            if _exchanged(new, target):
                return
            target.rename(scratch / f"{target.name}.old")
        new.replace(target)


def _exchanged(one: Path, other: Path) -> bool:
    """Exchanges two names atomically; False if the file system or the C library can't."""
    rename = getattr(ctypes.CDLL(None), "renameat2", None)
    names = (AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other))
    return rename is not None and rename(*names, RENAME_EXCHANGE) == 0


def sweep(base: Path) -> None:
    """Removes this user's folders below `base` that no process uses."""
    for folder in base.glob(f"{PREFIX}*"):
        with suppress(OSError):  # another process removed the folder first
            if folder.stat().st_uid == os.getuid() and not _is_used(folder):
                shutil.rmtree(folder, ignore_errors=True)


def _is_used(folder: Path) -> bool:
    try:
        with (folder / IN_USE).open("r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return time.time() - folder.stat().st_mtime < YOUNG_S
    except BlockingIOError:
        return True
    return False
