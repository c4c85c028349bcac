"""Watching a study's runs: the work under way, the time left, and Ctrl-C."""

import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from rqps.notebook import PIDS
from rqps.run.state import Estimate
from rqps.study import Run, in_words
from rqps.terminal import Terminal, duration

DOING = "progress.txt"
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Notes:
    """Notes in a run's folder, for a watcher in another process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def doing(self, what: str) -> None:
        """Notes the work under way, also in several threads."""
        unfinished = self.folder / f".progress-{threading.get_ident()}.txt"
        unfinished.write_text(what)
        unfinished.rename(self.folder / DOING)

    def process(self, pid: int) -> None:
        """Notes a process that has to end before the run has."""
        with (self.folder / PIDS).open("a") as pids:
            pids.write(f"{pid}\n")


def noted(folder: Path) -> str:
    """The last note in a run's folder."""
    try:
        lines = (folder / DOING).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return "starting"
    return "".join(each for each in lines[0] if each.isprintable()) if lines else "starting"


class Stopped(KeyboardInterrupt):
    """Raised by a signal, inside `Watcher.raising` only."""


class Watcher:
    """Shows the runs of a study in a terminal or a log. While it is entered, a signal only sets `stopped_by`:
    it is acted on where nothing can be torn. A second one changes nothing, since a clean end is under way already."""

    def __init__(self) -> None:
        self.terminal = Terminal()
        self.stopped_by: signal.Signals | None = None
        """The signal that asked for the end."""
        self._runs: Sequence[Run] = ()
        self._before = 0
        self._estimate = Estimate([])
        self._began = self._all_began = 0.0
        self._ends: float | None = None
        self._raise = False
        self._handlers: dict[signal.Signals, Any] = {}

    def __enter__(self) -> "Watcher":
        for number in STOPPING:
            if signal.getsignal(number) is not signal.SIG_IGN:  # nohup, or a shell's background job
                self._handlers[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *error: object) -> None:
        self.terminal.close()
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        first = self.stopped_by is None
        self.stopped_by = self.stopped_by or signal.Signals(number)
        if self._raise and first:
            raise Stopped

    @contextmanager
    def raising(self) -> Iterator[None]:
        """Lets a signal raise `Stopped`, in work that knows how to clean up after a KeyboardInterrupt."""
        if self.stopped_by:
            raise Stopped
        self._raise = True
        try:
            yield
        finally:
            self._raise = False

    def say(self, text: str) -> None:
        self.terminal.say(text)

    def plan(self, runs: Sequence[Run], before: int, ends: float | None = None) -> None:
        """Takes note of the runs to measure; `before` others are there already, and further ones may follow until
        `ends`, by the monotonic clock."""
        self._runs, self._before, self._ends = runs, before, ends
        self._all_began = self._all_began or time.monotonic()
        self._estimate = Estimate.of(runs, self._estimate.overheads_s)

    def expected_s(self, run: Run) -> float:
        """The time that a run takes, by those that finished before it."""
        return Estimate.of([run], self._estimate.overheads_s).left_s()

    def overhead_s(self) -> float:
        """The time that a server takes beside its load."""
        return self._estimate.overhead_s()

    def begin(self) -> None:
        self._began = time.monotonic()
        self.doing("starting", at_once=True)

    def end(self, ok: bool) -> None:
        elapsed_s = time.monotonic() - self._began
        if ok and not self.terminal.is_live:
            self.say(f"{self._head()}  measured in {duration(elapsed_s)}")
        self._estimate.finished(elapsed_s, ok)

    def doing(self, what: str, *, at_once: bool = False) -> None:
        elapsed_s = time.monotonic() - self._began
        share, left_s = self._estimate.share(elapsed_s), self._estimate.left_s(elapsed_s)
        if self._ends is not None:
            left_s = max(self._ends - time.monotonic(), 0.0)
            share = 1 - left_s / max(self._ends - self._all_began, 1.0)
        left = duration(left_s)
        # The time left comes before what may be cut off in a narrow terminal.
        self.terminal.show(f"{self._head()}  {left} left, {share:.0%}  {what}", share, at_once=at_once)

    def _head(self) -> str:
        run = self._runs[self._estimate.done]
        if run.unit != run.run:
            last = max(each.round for each in self._runs if each.mode == run.mode)
            of = "" if self._ends is not None else f" of {last}"
            return f"{in_words(run.mode, run.round)}{of}: {run.who}"
        position = self._before + self._estimate.done + 1
        dbms = ", ".join(each.dbms for each in run.members)
        return f"run {position}/{self._before + len(self._runs)}  {dbms} {in_words(run.mode, run.round)}"
