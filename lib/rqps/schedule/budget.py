"""Spends a time budget on rounds: first a round of all dbms, then rounds of the undecided dbms. If there is no time
for all undecided dbms, it measures those for which the next interim analysis could decide the most comparisons."""

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rqps.errors import RqpsError
from rqps.numbers import duration
from rqps.schedule.state import FIRST_GUESS_S, Estimate, StudyFolder, run_state
from rqps.schedule.watch import Watcher
from rqps.study import Measured, Run, RunsFile, StudySpec, has_twin, unfold

if TYPE_CHECKING:
    from rqps.stats import InterimAnalyses

MOST_FAILURES = 2
"""Consecutive failed rounds after which a study with a budget stops."""


@dataclass
class Budget:
    """The time budget of a study, and the choice of the dbms that each round measures."""

    seconds: float
    verdicts: "InterimAnalyses"
    most: int = field(init=False, default=0)
    """Maximum number of rounds that a dbms can get; the interim analyses are planned for this number."""
    looks: int = field(init=False, default=1)

    def plan(self, runs_file: RunsFile, study: str, host: str, measured: Measured) -> str:
        """Plans the interim analyses; returns, in words, how many rounds the budget is enough for. Refuses a budget
        that is shorter than one round."""
        spec, done = runs_file.studies[study], _rounds_done(runs_file.studies[study], measured)
        runs = unfold(runs_file, study, host)
        duet = next((run for run in runs if run.mode == "throughput" and not run.absent), None)
        if duet is None:
            return ""
        one_s = Estimate.of([duet]).left_s()
        if not done and one_s > self.seconds:
            raise RqpsError(
                f"{study}: a round of {duet.who} takes about {duration(one_s)}, and the budget is "
                f"{duration(self.seconds)}",
                fix="give a larger budget, or fewer dbms, steps or seconds",
            )
        shortest_s = (2 + has_twin(spec)) * duet.parameters.estimated_duet_seconds + FIRST_GUESS_S / 2
        reachable = max(done.values(), default=0) + int(self.seconds // shortest_s)
        self.most = max(1, min(spec.rounds or self.verdicts.most_rounds, self.verdicts.most_rounds, reachable))
        self.looks = self.verdicts.within(self.most)
        before = min(done[member.dbms] for member in duet.members)
        more = max(min(self.most - before, int(self.seconds // one_s)), 0)
        rounds = f"{more} {'more ' if before else ''}{'round' if more == 1 else 'rounds'} of {duet.who}"
        hope = self.verdicts.hope(before + more, self.looks)
        return f"{duration(self.seconds)} are enough for about {rounds}, {hope}"

    def rounds(
        self, runs_file: RunsFile, study: str, host: str, folder: StudyFolder, occasion: int, watcher: Watcher
    ) -> Iterator[Run]:
        """Yields one round after another, until all comparisons are decided or the time is over. Reports the verdicts
        at each interim analysis and at the end."""
        spec = runs_file.studies[study]
        ends = time.monotonic() - watcher.waited_s + self.seconds  # `waited_s` grows only by later waits
        failures = rounds_reported = 0

        def say_outcome(rounds: int) -> int:
            pair_s = (2 + has_twin(spec)) * spec.parameters.estimated_duet_seconds + watcher.overhead_s()
            after = f"after {rounds} {'round' if rounds == 1 else 'rounds'}"
            watcher.say(f"{study}: {after}, {self.verdicts.outcome(pair_s)}")
            return rounds

        while failures < MOST_FAILURES:
            measured = folder.measured(host, occasion)
            rounds = max((done := _rounds_done(spec, measured)).values(), default=0)
            if rounds > rounds_reported and not self.verdicts.rounds_to_next(rounds):
                rounds_reported = say_outcome(rounds)
            left_s = ends + watcher.waited_s - time.monotonic()
            wanted = self._wanted(runs_file, study, host, done, left_s, watcher)
            runs = unfold(runs_file, study, host, measured, wanted)
            of_duets = [run for run in runs if run.mode == "throughput"]
            todo = [run for run in of_duets if run_state(folder, run).state not in ("done", "absent")]
            if not todo or (done and watcher.expected_s(todo[0]) > left_s):
                break
            watcher.plan(todo[:1], 0, ends=ends)
            yield todo[0]
            failures = 0 if run_state(folder, todo[0]).state == "done" else failures + 1
        if failures:
            watcher.say(f"{study}: {failures} rounds in a row failed: no further round is tried")
        if (rounds := max(_rounds_done(spec, folder.measured(host, occasion)).values(), default=0)) > rounds_reported:
            say_outcome(rounds)

    def _wanted(
        self, runs_file: RunsFile, study: str, host: str, done: Counter[str], left_s: float, watcher: Watcher
    ) -> dict[str, int]:
        """Maps each dbms to the number of rounds it will have after the next round: one more than now if it takes
        part."""
        spec = runs_file.studies[study]
        absent = {run.dbms for run in unfold(runs_file, study, host) if run.absent}
        others = [dbms for dbms in spec.current if dbms != spec.base and dbms not in absent]
        wanted = {dbms: done[dbms] for dbms in spec.dbms}
        if new := [dbms for dbms in others if not done[dbms]]:
            return wanted | dict.fromkeys(new, 1)
        undecided = self.verdicts.undecided()
        lacks = {dbms: self.verdicts.rounds_to_next(done[dbms]) for dbms in others}
        going_on = [dbms for dbms in others if done[dbms] < self.most and (lacks[dbms] or dbms in undecided)]
        lacks |= {dbms: self.verdicts.rounds_to_next(done[dbms] + 1) + 1 for dbms in going_on if not lacks[dbms]}
        first_look = self.verdicts.rounds_to_next(0)
        hopeful = [dbms for dbms in going_on if done[dbms] < first_look or undecided.get(dbms)]
        chosen = sorted(hopeful or going_on, key=lambda dbms: -undecided.get(dbms, 0))
        load_s, rest_s = spec.parameters.estimated_duet_seconds, watcher.overhead_s()
        of_base = 1 + has_twin(spec)
        while (
            len(chosen) > 1
            and ((of_base + len(chosen)) * load_s + rest_s) * max(lacks[one] for one in chosen) > left_s
        ):
            chosen.pop()
        return wanted | {dbms: done[dbms] + 1 for dbms in chosen}


def _rounds_done(spec: StudySpec, measured: Measured) -> Counter[str]:
    """Maps each dbms to its number of rounds with the base in this occasion. A round counts only if at least one
    of its dbms, besides the base, is the current version of its build."""
    now = {*spec.current} - {spec.base} or {spec.base}
    of_base = [
        duet.sides
        for (mode, _), duet in measured.duets.items()
        if mode == "throughput"
        and duet.occasion == measured.occasion
        and spec.base in duet.sides
        and now & {*duet.sides}
    ]
    return Counter(dbms for sides in of_base for dbms in sides)
