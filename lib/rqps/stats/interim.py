"""Interim analyses of a study that is measured until it is decided: the comparisons that are still undecided, and the
differences that a number of rounds can resolve.

Verdicts are computed only when a dbms has one of a few planned numbers of rounds: each computation is a look. All
looks share the probability of a false verdict, so that this probability does not grow with the number of looks.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from rqps.numbers import difference, duration, percent
from rqps.stats import verdict
from rqps.stats.comparison import compare
from rqps.stats.estimate import STUDENT
from rqps.stats.metrics import COMPARED, measured
from rqps.stats.pairing import rounds
from rqps.store.manifest import CARD
from rqps.store.read import Study, load
from rqps.study import ROUNDS_FOR_A_VERDICT, StudySpec

LOOKS = (4, 6, 9, 13, 19, 28, 42, 63)
"""Numbers of rounds after which the verdicts of a dbms are computed."""
USUAL_SPREAD = 0.01
"""Assumed standard deviation of a round's ratio, as a share; used until enough rounds are measured to estimate it."""


@dataclass
class InterimAnalyses:
    """Interim analyses of a study while it is measured."""

    study: str
    data: Path
    spec: StudySpec
    steps: Sequence[str]
    host: str | None = None
    """The host whose verdicts are computed; None for all hosts. Each host measures until its own verdicts are
    decided."""
    most_rounds: int = LOOKS[-1]

    @property
    def others(self) -> list[str]:
        """All dbms except the base; of a rebuilt build only the newest version."""
        return [dbms for dbms in self.spec.current if dbms != self.spec.base]

    @staticmethod
    def within(rounds: int) -> int:
        """The number of looks at a dbms that gets at most `rounds` rounds: the planned looks after fewer rounds, and
        the last look.

        >>> [InterimAnalyses.within(rounds) for rounds in (4, 6, 10, 63)]
        [1, 2, 4, 8]
        """
        return 1 + sum(look < rounds for look in LOOKS)

    @staticmethod
    def rounds_to_next(done: int) -> int:
        """The number of rounds that a dbms still needs until its next look; 0 at a look, and after the last look."""
        return next((look - done for look in LOOKS if look >= done), 0)

    def undecided(self) -> Mapping[str, int]:
        """Maps each dbms with undecided comparisons to the number of such comparisons that the next look could
        decide."""
        following = pl.col("n").map_elements(lambda n: next((look for look in LOOKS if look > n), n), pl.Int64)
        unsure = self._compared().filter(verdict="unsure")
        promising = unsure.group_by("dbms").agg((pl.col("rounds_needed") <= following).sum())
        return dict(promising.iter_rows())

    def hope(self, rounds: int, looks: int) -> str:
        """A phrase that says how small a difference can be resolved by this number of `rounds` of all dbms."""
        if rounds < ROUNDS_FOR_A_VERDICT:
            return f"too few for a verdict, which takes {ROUNDS_FOR_A_VERDICT}"
        known = self._spreads()
        usual = math.sqrt(sum(width**2 for width in known.values()) / len(known)) if known else USUAL_SPREAD
        comparisons = len(self.steps) * len(self.others) * len(COMPARED)
        # Each interval uses what the spreads of all comparisons have in common (estimate.py), so it has about as many
        # degrees of freedom as all comparisons together.
        quantile = STUDENT.quantile((rounds - 1) * comparisons, verdict.coverage_of_each(comparisons, looks))
        tellable = sorted(quantile * known.get(step, usual) / math.sqrt(rounds) for step in self.steps)
        count = sum(width <= self.spec.smallest_effect for width in tellable)
        by = "by the spread of earlier rounds" if known else f"if rounds spread by {percent(USUAL_SPREAD)}, as usual"
        if not count:
            half = difference(tellable[len(tellable) // 2])
            return f"which resolve {half} in half of the {len(tellable)} steps, {by}"
        return f"which resolve {difference(self.spec.smallest_effect)} in {count} of {len(tellable)} steps, {by}"

    def outcome(self, round_s: float) -> str:
        """A phrase on the number of decided comparisons, the time that it would take to decide the others, and the
        number of steps without a result. A round of base and me takes `round_s` seconds."""
        compared = self._compared()
        needed = pl.col("rounds_needed").fill_null(0).clip(ROUNDS_FOR_A_VERDICT)
        undecided = compared.filter(verdict="unsure")
        unsure = undecided.filter(~verdict.for_other_hours()).with_columns(needed)
        within = unsure.filter(pl.col("rounds_needed") <= self.most_rounds)
        further = within.group_by("dbms").agg((pl.col("rounds_needed") - pl.col("n")).max())["rounds_needed"]
        parts = [f"{compared.height - undecided.height} of {compared.height} comparisons are decided"]
        if by_hour := undecided.height - unsure.height:
            parts.append(f"{by_hour} need further occasions, since they differ from hour to hour")
        if within.height:
            parts.append(f"{within.height} would take about {duration(float(further.sum()) * round_s)} more")
        if beyond := unsure.height - within.height:
            parts.append(f"{beyond} would take more than {self.most_rounds} rounds at this spread")
        known = set(compared.select("dbms", "step").rows())
        for dbms in self.others:
            without = [step for step in self.steps if (dbms, step) not in known]
            if without:
                parts.append(f"{dbms} gave no number in {len(without)} of {len(self.steps)} steps")
        return "; ".join(parts)

    def _compared(self) -> pl.DataFrame:
        study = load(self.study, self.data)
        compared = compare(rounds(measured(study, COMPARED), study.runs, self.spec.base))
        compared = compared.filter(pl.col("dbms").is_in(self.others))
        return self._here(compared, study)

    def _here(self, rows: pl.DataFrame, study: Study) -> pl.DataFrame:
        """The rows of the host. If several machines have its name, as after an update of the kernel, those of the
        machine that was measured last."""
        if not self.host:
            return rows
        is_here = (pl.col("host") == self.host) | pl.col("host").str.starts_with(f"{self.host} (")
        last = study.runs.filter(is_here).sort("started_at")["host"].tail(1)
        return rows.filter(pl.col("host").is_in(last.to_list()))

    def _spreads(self) -> dict[str, float]:
        """Maps each step that has enough rounds to the standard deviation of a round's ratio, in logarithms."""
        if not (self.data / "raw" / f"study={self.study}" / CARD).is_file():
            return {}
        study = load(self.study, self.data)
        if self.spec.base not in set(study.runs["dbms"]):
            return {}
        paired = rounds(measured(study, COMPARED[:1]), study.runs, self.spec.base)
        paired = self._here(paired, study)
        variances = paired.group_by("step", "dbms").agg(pl.col("ratio").log().var()).drop_nulls()
        return dict(variances.group_by("step").agg(pl.col("ratio").mean().sqrt()).iter_rows())
