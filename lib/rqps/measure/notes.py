"""Notes about the current work for other processes: in a run's folder for the process that watches the run, and in
the study's folder for `rqps status`."""

import json
import socket
import threading
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from rqps.notebook import PIDS, living
from rqps.numbers import duration

DOING = "progress.txt"
UNDER_WAY = ".under-way.json"


class Notes:
    """Notes in a run's folder, for a watcher in another process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def doing(self, what: str) -> None:
        """Writes down the current work. Several threads may call this at the same time."""
        unfinished = self.folder / f".progress-{threading.get_ident()}.txt"
        unfinished.write_text(what)
        unfinished.rename(self.folder / DOING)

    def process(self, pid: int) -> None:
        """Notes the id of a process that must have ended when the run ends."""
        with (self.folder / PIDS).open("a") as pids:
            pids.write(f"{pid}\n")


def noted(folder: Path) -> str:
    """The last note about the current work in a run's folder; "starting" if there is none."""
    try:
        lines = (folder / DOING).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return "starting"
    return "".join(character for character in lines[0] if character.isprintable()) if lines else "starting"


@dataclass(frozen=True)
class UnderWay:
    """A note about the run of a study that is being measured. The note is written when the run begins and does not
    change during the run."""

    pid: int
    what: str
    """The run and its number among all runs, or the reason why no run is being measured."""
    partial: str
    """The name of the run's hidden folder; empty while no run is measured."""
    ends_s: float
    """The moment when the run should end, as a Unix time."""
    after_s: float
    """Estimated seconds of all runs that follow this run."""
    failed: int
    """Number of runs that have failed so far."""
    measured_on: str = ""
    """The name in runs.yaml of the host that measures; empty if this machine measures."""
    host: str = socket.gethostname()

    @classmethod
    def of(cls, folder: Path) -> "list[UnderWay]":
        """The notes in a study's folder, one per host that measures the study. Notes whose process has ended are left
        out. A note from another machine is always returned, since its process is not visible on this machine."""
        every = []
        for path in filter(Path.is_file, sorted(folder.glob(f"{UNDER_WAY}*"))):  # reading a named pipe would block
            with suppress(OSError, ValueError, TypeError):
                under_way = cls(**json.loads(path.read_text(encoding="utf-8")))
                if under_way.host != socket.gethostname() or living(under_way.pid, path.stat().st_mtime):
                    every.append(under_way)
        return every

    def note(self, folder: Path) -> Path:
        """Writes the note for other processes and returns its file, which the caller removes at the end."""
        name = f"{UNDER_WAY}{self.measured_on}"
        unfinished = folder / f".{self.pid}{name}"
        unfinished.write_text(json.dumps(asdict(self)), encoding="utf-8")
        return unfinished.replace(folder / name)

    def text(self, folder: Path) -> str:
        """Two lines for a terminal: the run that is being measured, then its step and the time left for all runs."""
        step = f"{noted(folder / self.partial)}; " if self.partial else ""
        left_s = max(self.ends_s - time.time(), 0.0) + self.after_s
        failed = f", {self.failed} failed" if self.failed else ""
        return (
            f"{folder.name.removeprefix('study=')}, now: {self.what}{failed} (pid {self.pid} on {self.host})\n"
            f"  {step}{duration(left_s)} left to measure"
        )
