"""Rounds within a budget: first one of all dbms, then those of dbms that are undecided, most promising first."""

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from rqps.errors import RqpsError
from rqps.run.state import FIRST_GUESS_S, StudyFolder, run_state
from rqps.run.watch import Watcher
from rqps.study import Run, RunsFile, StudySpec, There, unfold
from rqps.terminal import duration

OF_DUETS = ("throughput", "health")
"""Modes of the rounds that a budget is for; what looks closer comes after it."""
MOST_FAILURES = 2
"""Rounds that may fail one after the other, before a study with a budget ends."""


class Verdicts(Protocol):
    """The decisions that the rounds of a study allow, for somebody who knows no statistics."""

    @property
    def most_rounds(self) -> int:
        """More rounds of a dbms are never worth it."""

    def within(self, rounds: int) -> int:
        """The looks at verdicts of a dbms that gets so many rounds at most."""

    def rounds_to_next(self, done: int) -> int:
        """Rounds that a dbms lacks until its verdicts may be looked at."""

    def undecided(self) -> Mapping[str, int]:
        """Each dbms that is undecided, and the number of its comparisons that the next look could decide."""

    def hope(self, rounds: int, looks: int) -> str:
        """The differences that so many rounds can tell, in words."""

    def outcome(self, round_s: float) -> str:
        """The share that is decided, and the time for the rest, by that of a round of base and me, in words."""


@dataclass
class Budget:
    """The time for a study, and the way to spend it."""

    seconds: float
    verdicts: Verdicts
    most: int = field(init=False, default=0)
    """Rounds that a dbms can get at most: the looks at its verdicts are planned by them."""

    def plan(self, runs_file: RunsFile, study: str, host: str, there: There, words: Watcher) -> int:
        """Says what the time can tell; the number of looks at verdicts. Refuses less time than one round takes."""
        spec, done = runs_file.studies[study], _rounds_done(runs_file.studies[study], there)
        runs = unfold(runs_file, study, host, {}, {})
        whole = next((run for run in runs if run.mode == "throughput" and not run.absent), None)
        if whole is None:
            return 1
        one_s = words.expected_s(whole)
        if not there and one_s > self.seconds:
            raise RqpsError(
                f"{study}: a round of all {len(whole.members)} dbms takes about {duration(one_s)}, and the budget is "
                f"{duration(self.seconds)}",
                fix="give it more time, or fewer dbms, steps or seconds",
            )
        shortest_s = 2 * (whole.parameters.estimated_duet_seconds + FIRST_GUESS_S / 2)
        reachable = max(done.values(), default=0) + int(self.seconds // shortest_s)
        self.most = max(1, min(spec.rounds or self.verdicts.most_rounds, self.verdicts.most_rounds, reachable))
        looks = self.verdicts.within(self.most)
        of_all = min(self.most, min(done[dbms] for dbms in spec.dbms) + int(self.seconds // one_s))
        hope = self.verdicts.hope(of_all, looks)
        words.say(
            f"{study}: {duration(self.seconds)} are enough for about {of_all} "
            f"{'round' if of_all == 1 else 'rounds'} of {whole.who}, {hope}"
        )
        return looks

    def rounds(
        self, runs_file: RunsFile, study: str, host: str, folder: StudyFolder, watcher: Watcher
    ) -> Iterator[Run]:
        """Each round that is worth measuring next, until all is decided or the time is over."""
        spec = runs_file.studies[study]
        ends = time.monotonic() + self.seconds
        failures = 0
        while failures < MOST_FAILURES:
            there = folder.duets(host)
            left_s = ends - time.monotonic()
            wanted = self._wanted(runs_file, study, host, there, left_s, watcher)
            runs = unfold(runs_file, study, host, there, wanted)
            of_duets = [run for run in runs if run.mode in OF_DUETS]
            todo = [run for run in of_duets if run_state(folder, run).state not in ("done", "absent")]
            if not todo or (there and watcher.expected_s(todo[0]) > left_s):
                break
            watcher.plan(todo[:1], 0, ends=ends)
            yield todo[0]
            failures = 0 if run_state(folder, todo[0]).state == "done" else failures + 1
        if failures:
            watcher.say(f"{study}: {failures} rounds failed one after the other: no more are tried")
        pair_s = 2 * (spec.parameters.estimated_duet_seconds + watcher.overhead_s())
        if len(spec.dbms) > 1 and max(_rounds_done(spec, folder.duets(host)).values(), default=0) > 1:
            watcher.say(f"{study}: {self.verdicts.outcome(pair_s)}")

    def _wanted(
        self, runs_file: RunsFile, study: str, host: str, there: There, left_s: float, watcher: Watcher
    ) -> dict[str, int]:
        """The rounds that each dbms should have next: one more for those that take part in the next one."""
        spec = runs_file.studies[study]
        done = _rounds_done(spec, there)
        absent = {run.dbms for run in unfold(runs_file, study, host) if run.absent}
        others = [dbms for dbms in spec.dbms if dbms != spec.base and dbms not in absent]
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
        seconds = spec.parameters.estimated_duet_seconds + watcher.overhead_s()
        while len(chosen) > 1 and (1 + len(chosen)) * seconds * max(lacks[dbms] for dbms in chosen) > left_s:
            chosen.pop()
        return wanted | {dbms: done[dbms] + 1 for dbms in chosen}


def _rounds_done(spec: StudySpec, there: There) -> Counter[str]:
    """The rounds that each dbms has beside the base."""
    of_base = [names for (mode, _), names in there.items() if mode == "throughput" and spec.base in names]
    return Counter(dbms for names in of_base for dbms in names)
