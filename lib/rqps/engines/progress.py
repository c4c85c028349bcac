"""How far a long fetch is, in lines: at most one every few seconds."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

Say = Callable[[str], None]

SECONDS_BETWEEN_LINES = 3.0


def megabytes(size_bytes: int) -> str:
    """
    >>> megabytes(553508711), megabytes(40_000)
    ('554 MB', '0.04 MB')
    """
    return f"{size_bytes / 1e6:.0f} MB" if size_bytes >= 1e6 else f"{size_bytes / 1e6:.2g} MB"


def duration(seconds: float) -> str:
    """In the two units that matter.

    >>> duration(12.3), duration(200), duration(8040), duration(570_000)
    ('12 s', '3 min 20 s', '2 h 14 min', '6 d 14 h')
    """
    left = round(seconds)
    parts: list[str] = []
    for unit, length in (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1)):
        count, left = divmod(left, length)
        if count or parts or unit == "s":
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2])


@dataclass
class Progress:
    """Says how far `what` is. The first line comes only after a few seconds: short work stays silent."""

    say: Say
    what: str
    total_bytes: int | None
    clock: Callable[[], float] = time.monotonic
    said_at: float = field(init=False)
    began: tuple[float, int] | None = field(init=False, default=None)
    """When bytes began to come, and how many were there: what went before says nothing about the speed."""

    def __post_init__(self) -> None:
        self.said_at = self.clock()

    def update(self, done_bytes: int) -> None:
        now = self.clock()
        if self.began is None and done_bytes > 0:
            self.began = (now, done_bytes)
        if now - self.said_at >= SECONDS_BETWEEN_LINES:
            self.said_at = now
            self.say(f"{self.what}: {self._how_far(done_bytes, now)}")

    def _how_far(self, done_bytes: int, now: float) -> str:
        if done_bytes == 0:
            return "waiting for the first bytes"
        if not self.total_bytes:
            return megabytes(done_bytes)
        text = f"{min(done_bytes / self.total_bytes, 1.0):.0%} of {megabytes(self.total_bytes)}"
        began_at, began_with = self.began or (now, 0)
        if now <= began_at or done_bytes - began_with < self.total_bytes / 50:
            return text
        bytes_per_s = (done_bytes - began_with) / (now - began_at)
        return f"{text}, {duration(max(0, self.total_bytes - done_bytes) / bytes_per_s)} left"
