"""The clients of package registries (mvn, npm, apt-get): run to their end, with progress in lines."""

import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from rqps.errors import RqpsError
from rqps.terminal import duration, megabytes

Say = Callable[[str], None]

SECONDS_BETWEEN_LOOKS = 0.3
SECONDS_BETWEEN_LINES = 3.0
LAST_LINES = 6
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_ERROR_LINE = re.compile(r"^[EW]: |^Err:|^\[ERROR\] (?!To see|Re-run|For more|\[Help)\S|^npm (ERR!|error)")


class Progress:
    """Lines about a long fetch: at most one every few seconds, and none for short work.

    Not tqdm, which draws a bar for a terminal: these lines go to whoever watches, a notebook's cell or a log. pooch
    takes this for its bar.
    """

    def __init__(
        self, say: Say, what: str, total: int | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.total = total
        self._say, self._what, self._clock = say, what, clock
        self._done = 0
        self._last_line_at = clock()
        self._began: tuple[float, int] | None = None
        """The moment of the first bytes, and their number then: the wait before says nothing about the speed."""

    def update(self, more_bytes: int) -> None:
        self.reach(self._done + more_bytes)

    def reach(self, done_bytes: int) -> None:
        """So many bytes are done in all."""
        now, self._done = self._clock(), done_bytes
        if self._began is None and done_bytes > 0:
            self._began = (now, done_bytes)
        if now - self._last_line_at >= SECONDS_BETWEEN_LINES:
            self._last_line_at = now
            self._say(f"{self._what}: {self._how_far(now)}")

    def reset(self) -> None:
        """pooch starts again from nothing, to fill its bar at the end."""
        self._done, self._last_line_at = 0, self._clock()

    def close(self) -> None:
        """Nothing is left on the screen."""

    def _how_far(self, now: float) -> str:
        if self._began is None:
            return "waiting for the first bytes"
        if not self.total:
            return megabytes(self._done)
        text = f"{min(self._done / self.total, 1.0):.0%} of {megabytes(self.total)}"
        began_at, began_with = self._began
        if now <= began_at or self._done - began_with < self.total / 50:
            return text
        bytes_per_s = (self._done - began_with) / (now - began_at)
        return f"{text}, {duration(max(0, self.total - self._done) / bytes_per_s)} left"


def find_client(client: str, how_to_get: str) -> str:
    """The path of a client, or the error that says how to get it."""
    found = shutil.which(client)
    if found is None:
        raise RqpsError(f"{client} is not installed (not on PATH), so nothing can be fetched with it", fix=how_to_get)
    return found


def run_client(
    command: Sequence[str], work: Path, progress: Progress | None = None, grows: Path | None = None
) -> str:
    """Run a client in `work` to its end and return what it wrote to stdout.

    `progress` follows the size of the folder `grows`, or of `work` where none is given. A client that fails is an
    error with its last lines. An interrupt stops the client first.
    """
    name = Path(command[0]).name
    log = work / f"{name}.log"
    with log.open("wb") as stderr, (work / f"{name}.out").open("w+b") as stdout:
        client = subprocess.Popen(
            command,
            cwd=work,
            env={**os.environ, "LC_ALL": "C.UTF-8", "LANGUAGE": ""},  # its messages are parsed
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
        )
        try:
            status = _wait(client, grows or work, progress)
        finally:
            _stop(client)
        stdout.seek(0)
        said = stdout.read().decode(errors="replace")
    if status != 0:
        raise _failed(name, status, said + log.read_text(errors="replace"), work)
    return said


def _wait(client: subprocess.Popen[bytes], grows: Path, progress: Progress | None) -> int:
    while True:
        try:
            return client.wait(SECONDS_BETWEEN_LOOKS)
        except subprocess.TimeoutExpired:
            if progress is not None:
                progress.reach(size_bytes(grows))


def _stop(client: subprocess.Popen[bytes]) -> None:
    if client.poll() is None:
        client.terminate()
        try:
            client.wait(10)
        except subprocess.TimeoutExpired:
            client.kill()
            client.wait()


def size_bytes(folder: Path) -> int:
    """Length of all files below a folder, while others may be writing and removing some."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(place, name)).st_size  # noqa: PTH118 a Path each is too slow here
            except FileNotFoundError:
                continue
    return total


def _failed(name: str, status: int, said: str, work: Path) -> RqpsError:
    lines = [line.rstrip() for line in _COLOUR.sub("", said).splitlines() if line.strip()]
    errors = [line for line in lines if _ERROR_LINE.search(line)][:LAST_LINES] or lines[-LAST_LINES:]
    free = shutil.disk_usage(work).free
    last = "\n  ".join(errors)
    return RqpsError(
        f"{name} failed (exit status {status}), with {free / 1e9:.1f} GB free in {work.parent}:\n  {last}",
        fix=f"see whether the network and {name}'s own settings (mirror, proxy) work, and whether the disk is full; "
        f"then do the same again",
    )
