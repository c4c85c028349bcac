"""How far a report is, and how long it still takes."""

import sys
import time
from dataclasses import dataclass, field

from rqps.engines.progress import duration
from rqps.execute.console import Console

NOTEBOOK_S = 20.0
RUN_PAGE_S = 0.3
PLAIN_EVERY_S = 4.0


@dataclass
class Progress:
    """Work is planned in seconds, from what such pages took on two slow cores."""

    planned_s: float
    console: Console = field(default_factory=lambda: Console(sys.stderr))
    done_s: float = 0.0
    told: float = field(default_factory=time.monotonic)
    since: float = field(default_factory=time.monotonic)

    def tick(self, what: str) -> None:
        """Say what is being done, every few seconds at most where lines stay."""
        now = time.monotonic()
        left_s = self.planned_s - self.done_s - (now - self.since)
        line = f"{what}, about {duration(max(1.0, left_s))} left"
        if self.console.terminal:
            self.console.show(line)
        elif now - self.told >= PLAIN_EVERY_S:
            self.told = now
            self.console.say(line)

    def done(self, planned_s: float) -> None:
        """A piece of work that was planned to take that long has ended."""
        self.done_s += planned_s
        self.since = time.monotonic()

    def end(self) -> None:
        self.console.clear()
