"""Ctrl-C and its kin, noted at once and acted on where nothing can be torn."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopped(KeyboardInterrupt):
    """Raised by a signal, inside `Stop.raising` only."""


class Stop:
    """While this is entered, a stopping signal sets `signal` and nothing else happens.

    A second one changes nothing: what is under way is a clean end already.
    """

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None
        self._raise = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> "Stop":
        for number in STOPPING:
            before = signal.getsignal(number)
            if before is not signal.SIG_IGN:  # nohup, or a shell's background job
                self._before[number] = before
                signal.signal(number, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)

    @contextmanager
    def raising(self) -> Iterator[None]:
        """For work that knows how to clean up after a KeyboardInterrupt, and takes long."""
        if self.signal:
            raise Stopped
        self._raise = True
        try:
            yield
        finally:
            self._raise = False

    def _note(self, number: int, _frame: FrameType | None) -> None:
        first = self.signal is None
        self.signal = self.signal or signal.Signals(number)
        if self._raise and first:
            raise Stopped
