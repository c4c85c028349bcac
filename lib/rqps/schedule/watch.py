"""Follows a study's runs: shows the current work and the time left, and handles Ctrl-C."""

import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from rqps.measure.notes import UnderWay
from rqps.numbers import duration, percent
from rqps.schedule.state import PARTIAL, Estimate
from rqps.study import Run, in_words
from rqps.terminal import Terminal

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
POLL_S = 0.5


class Stopped(KeyboardInterrupt):
    """Raised after a signal: at once inside `Watcher.raising`, otherwise where the program next checks for
    signals."""


class Watcher:
    """Shows the runs of a study in a terminal or a log.

    Inside its `with` block a signal only sets `stopped_by`, which the program checks between actions that must be
    complete. A second signal has no effect. If several hosts measure at once, each has a watcher with a progress line
    of its own, and the `parent` receives the signals.
    """

    def __init__(self, folder: Path | None = None, parent: "Watcher | None" = None, host: str = "") -> None:
        self.terminal: Terminal = parent.terminal.another() if parent else Terminal()
        self._whole, self._on, self._host = parent, host, f"{host}: " if host else ""
        self._stopped_by: signal.Signals | None = None
        self.waited_s = 0.0
        """Seconds in which no run was measured, since the command waited for an occasion or for allowed hours."""
        self._folder = folder
        """The study's folder, in which a file tells other processes about the current run."""
        self._noted: Path | None = None
        self._failed = 0
        self._runs: Sequence[Run] = ()
        self._before = 0
        self._estimate = Estimate([])
        self._began = self._all_began = 0.0
        self._ends: float | None = None
        self._raise = False
        self._handlers: dict[signal.Signals, Any] = {}

    def __enter__(self) -> "Watcher":
        for number in STOPPING if self._whole is None else ():
            if signal.getsignal(number) is not signal.SIG_IGN:  # ignored under nohup, or in a shell's background job
                self._handlers[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *error: object) -> None:
        self.terminal.close()
        if self._noted:
            self._noted.unlink(missing_ok=True)
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    @property
    def stopped_by(self) -> signal.Signals | None:
        """The signal that stopped the command, if one did."""
        return self._whole.stopped_by if self._whole else self._stopped_by

    def _note(self, number: int, _frame: FrameType | None) -> None:
        first = self._stopped_by is None
        self._stopped_by = self._stopped_by or signal.Signals(number)
        if self._raise and first:
            raise Stopped

    @contextmanager
    def raising(self) -> Iterator[None]:
        """In this block, a signal raises `Stopped` at once: for work that cleans up after a KeyboardInterrupt."""
        if self.stopped_by:
            raise Stopped
        self._raise = True
        try:
            yield
        finally:
            self._raise = False

    def say(self, text: str) -> None:
        self.terminal.say(f"{self._host}{text}")

    def plan(self, runs: Sequence[Run], before: int, ends: float | None = None) -> None:
        """Plans the runs to measure, after `before` runs that are done. More runs may follow until `ends`, a time of
        the monotonic clock; time spent waiting postpones `ends`."""
        self._runs, self._before, self._ends = runs, before, ends
        self._all_began = self._all_began or time.monotonic() - self.waited_s
        self._estimate = Estimate.of(runs, self._estimate.overheads_s)

    def expected_s(self, run: Run) -> float:
        """The expected time of a run, estimated from earlier runs."""
        return Estimate.of([run], self._estimate.overheads_s).left_s()

    def overhead_s(self) -> float:
        """The expected time of a run in addition to its time under load."""
        return self._estimate.overhead_s()

    def begin(self, run: Run) -> None:
        self._began = time.monotonic()
        run_s = self.expected_s(run)
        self._note_for_others(self._head(), f".run={run.unit}{PARTIAL}", run_s, self._left_s() - run_s)
        self.doing("starting", at_once=True)

    def wait(self, until_s: float, why: str) -> None:
        """Waits until a Unix time; raises `Stopped` if a signal arrives first."""
        self.say(why)
        self._note_for_others(why, "", 0.0, self._left_s())
        began = time.monotonic()
        while (left_s := until_s - time.time()) > 0:
            if self.stopped_by:
                raise Stopped
            self.terminal.show(f"{self._host}{duration(left_s)} to wait")
            time.sleep(min(left_s, POLL_S))
        self.waited_s += time.monotonic() - began

    def _note_for_others(self, what: str, partial: str, seconds: float, after_s: float) -> None:
        if self._folder:
            ends_s = time.time() + seconds
            under_way = UnderWay(os.getpid(), what, partial, ends_s, max(after_s, 0.0), self._failed, self._on)
            self._noted = under_way.note(self._folder)

    def _left_s(self, elapsed_s: float = 0.0) -> float:
        if self._ends is not None:
            return max(self._ends + self.waited_s - time.monotonic(), 0.0)
        return self._estimate.left_s(elapsed_s)

    def end(self, ok: bool) -> None:
        elapsed_s = time.monotonic() - self._began
        self._failed += not ok
        if ok and not self.terminal.is_live:
            self.say(f"{self._of_the_run()}  measured in {duration(elapsed_s)}")
        self._estimate.finished(elapsed_s, ok)

    def doing(self, what: str, *, at_once: bool = False) -> None:
        elapsed_s = time.monotonic() - self._began
        share, left_s = self._estimate.share(elapsed_s), self._left_s(elapsed_s)
        if self._ends is not None:
            share = 1 - left_s / max(self._ends - self._all_began, 1.0)
        left = duration(left_s)
        # The time left comes first, since a narrow terminal cuts off the end.
        self.terminal.show(f"{self._head()}  {left} left, {percent(share)}  {what}", share, at_once=at_once)

    def _head(self) -> str:
        return f"{self._host}{self._of_the_run()}"

    def _of_the_run(self) -> str:
        run = self._runs[self._estimate.done]
        if run.side is not None:
            last = max(other.round for other in self._runs if other.mode == run.mode)
            of = "" if self._ends is not None else f" of {last}"
            return f"{in_words(run.mode, run.round)}{of}: {run.who}"
        position = self._before + self._estimate.done + 1
        dbms = ", ".join(member.dbms for member in run.members)
        return f"run {position}/{self._before + len(self._runs)}  {dbms} {in_words(run.mode, run.round)}"
