"""What is being measured, how far it is and how long it still takes."""

import time
from collections.abc import Sequence
from pathlib import Path

from rqps.amounts import duration
from rqps.execute.console import Console
from rqps.execute.estimate import Estimate, planned_s
from rqps.study import Run, in_words

DOING = "progress.txt"
PLAIN_EVERY_S = 15.0
BAR = 20


class Progress:
    """Follows a study's runs, one after the other."""

    def __init__(self, console: Console, runs: Sequence[Run], before: int) -> None:
        self.console = console
        self.runs = runs
        self.before = before
        self.estimate = Estimate([planned_s(run) for run in runs])
        self._began = 0.0
        self._told = 0.0

    def begin(self) -> None:
        self._began = self._told = time.monotonic()
        self._draw("starting")

    def tick(self, folder: Path) -> None:
        now = time.monotonic()
        if self.console.terminal or now - self._told >= PLAIN_EVERY_S:
            self._told = now
            self._draw(doing(folder))

    def end(self, ok: bool) -> None:
        elapsed_s = time.monotonic() - self._began
        if ok and not self.console.terminal:
            self.console.say(f"{self._head()}  measured in {duration(elapsed_s)}")
        self.console.clear()
        self.estimate.finished(elapsed_s, ok)

    def _draw(self, at: str) -> None:
        elapsed_s = time.monotonic() - self._began
        share, left = self.estimate.share(elapsed_s), duration(self.estimate.left_s(elapsed_s))
        bar = ("█░" if self.console.blocks else "#.") if self.console.terminal else ""
        line = progress_line(self._head(), at, share, left, self.console.width - 1, bar)
        if self.console.terminal:
            self.console.show(line)
        else:
            self.console.say(line)

    def _head(self) -> str:
        run = self.runs[self.estimate.done]
        position = self.before + self.estimate.done + 1
        return f"run {position}/{self.before + len(self.runs)}  {run.dbms} {in_words(run.mode, run.round)}"


def doing(folder: Path) -> str:
    """What the run says that it is at."""
    try:
        lines = (folder / DOING).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return "starting"
    return "".join(each for each in lines[0] if each.isprintable()) if lines else "starting"


def progress_line(head: str, doing: str, share: float, left: str, width: int, bar: str = "█░") -> str:
    """One line of at most `width` characters: the bar gives way first, then what is being done.

    >>> progress_line("run 5/18  my8033.base round 2", "update-index 3/4", 0.27, "5 min 10 s", 90, bar="#.")
    'run 5/18  my8033.base round 2  update-index 3/4  ####............   27 %  5 min 10 s left'
    >>> progress_line("run 5/18  my8033.base round 2", "update-index 3/4", 0.27, "5 min 10 s", 60)
    'run 5/18  my8033.base round 2  upda…   27 %  5 min 10 s left'
    """
    tail = f"{share:4.0%}".replace("%", " %") + f"  {left} left"
    room = width - len(head) - len(doing) - len(tail) - 6
    if room >= 4 and bar:
        full, empty = bar[0], bar[1]
        size = min(room, BAR)
        filled = int(share * size)
        return f"{head}  {doing}  {full * filled}{empty * (size - filled)}  {tail}"
    room = width - len(head) - len(tail) - 4
    if room >= 4:
        short = doing if len(doing) <= room else doing[: room - 1] + "…"
        return f"{head}  {short}  {tail}"
    return f"{head}  {tail}"[:width]
