"""The time that runs take: what the plan says, and what came on top of it so far."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from rqps.study import Run

FIRST_GUESS_S = 10.0


def planned_s(run: Run) -> float:
    """Seconds in the measured steps of a run and their warm-up."""
    return run.parameters.estimated_seconds


@dataclass
class Estimate:
    """The time left for runs. Their set-up and end are taken to be those of the runs that finished before."""

    planned: Sequence[float]
    overheads_s: list[float] = field(default_factory=list)
    done_s: float = 0.0
    done: int = 0

    def finished(self, elapsed_s: float, ok: bool) -> None:
        if ok:
            self.overheads_s.append(elapsed_s - self.planned[self.done])
        self.done_s += elapsed_s
        self.done += 1

    def overhead_s(self) -> float:
        return sum(self.overheads_s) / len(self.overheads_s) if self.overheads_s else FIRST_GUESS_S

    def left_s(self, elapsed_s: float = 0.0) -> float:
        """Seconds left when the run under way has taken `elapsed_s`; a run that takes longer than it should is about
        to end as far as we know."""
        expected = [max(planned + self.overhead_s(), 0.0) for planned in self.planned[self.done :]]
        return max(expected[0] - elapsed_s, 0.0) + sum(expected[1:]) if expected else 0.0

    def share(self, elapsed_s: float = 0.0) -> float:
        """From 0 to 1, and 1 only when all is done."""
        spent = self.done_s + elapsed_s
        whole = spent + self.left_s(elapsed_s)
        if self.done >= len(self.planned):
            return 1.0
        return min(spent / whole, 0.99) if whole else 0.0
