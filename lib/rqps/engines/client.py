"""Running the clients of package registries: mvn, npm, apt-get."""

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from rqps.engines.progress import Progress
from rqps.errors import RqpsError

SECONDS_BETWEEN_LOOKS = 0.3
LAST_LINES = 6
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_ERROR_LINE = re.compile(r"^[EW]: |^Err:|^\[ERROR\] (?!To see|Re-run|For more|\[Help)\S|^npm (ERR!|error)")


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

    `progress` follows the size of the folder that `grows`, `work` itself where none is given.

    A client that fails is an error with its last words. An interrupt stops it before it is passed on.
    """
    name = Path(command[0]).name
    log = work / f"{name}.log"
    with log.open("wb") as stderr, (work / f"{name}.out").open("w+b") as stdout:
        client = subprocess.Popen(
            command,
            cwd=work,
            env={**os.environ, "LC_ALL": "C.UTF-8", "LANGUAGE": ""},  # what it says is read
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
            if progress:
                progress.update(size_bytes(grows))


def _stop(client: subprocess.Popen[bytes]) -> None:
    if client.poll() is None:
        client.terminate()
        try:
            client.wait(10)
        except subprocess.TimeoutExpired:
            client.kill()
            client.wait()


def size_bytes(folder: Path) -> int:
    """What the files in a folder take, while others may be writing there."""
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
    told = [line for line in lines if _ERROR_LINE.search(line)][:LAST_LINES] or lines[-LAST_LINES:]
    free = shutil.disk_usage(work).free
    last = "\n  ".join(told)
    return RqpsError(
        f"{name} failed (exit status {status}), with {free / 1e9:.1f} GB free in {work.parent}:\n  {last}",
        fix=f"see whether the network and {name}'s own settings (mirror, proxy) work, and whether the disk is full; "
        f"then do the same again",
    )
