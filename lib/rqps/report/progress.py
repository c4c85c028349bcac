"""How far a report is, and how long it still takes."""

import sys
import time
from dataclasses import dataclass, field

from rqps.amounts import duration
from rqps.terminal import Terminal

NOTEBOOK_S = 20.0
RUN_PAGE_S = 0.3


@dataclass
class Progress:
    """Work is planned in seconds, from what such pages took on two slow cores."""

    planned_s: float
    terminal: Terminal = field(default_factory=lambda: Terminal(sys.stderr, plain_every_s=4.0))
    done_s: float = 0.0
    since: float = field(default_factory=time.monotonic)

    def tick(self, what: str) -> None:
        """Shows the page that is being made and the time that is left."""
        spent_s = self.done_s + time.monotonic() - self.since
        left = duration(max(1.0, self.planned_s - spent_s))
        self.terminal.show(f"{what}, about {left} left", min(spent_s / self.planned_s, 1.0))

    def done(self, planned_s: float) -> None:
        """A piece of work that was planned to take that long has ended."""
        self.done_s += planned_s
        self.since = time.monotonic()

    def end(self) -> None:
        self.terminal.close()
