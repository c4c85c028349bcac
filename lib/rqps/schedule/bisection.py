"""Finds, in an ordered list of builds, those with which the throughput or the instructions of a step changed.

A probe measures one candidate: in duets of the good end, the bad end and the candidate, or by counting the
candidate's instructions. A probe gets more rounds until the candidate is significantly nearer to one of the ends. A
stopped bisection continues from the finished runs, which `rqps report` shows. The search uses the rounds of the first
occasion. Further occasions measure only the result again: both ends, and the two builds of each change.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import polars as pl

from rqps.engines import Say
from rqps.engines.asked import BuildSpec
from rqps.engines.cache import short_key
from rqps.errors import RqpsError, instead, no_room
from rqps.numbers import counted, duration, formatted, percent
from rqps.profile import function_changes, profiled_costs
from rqps.schedule.candidates import in_order
from rqps.schedule.change_search import COVERAGES, Change, Level, Pair, Search, between, likely_range
from rqps.schedule.commits import SHORT, Checkout, every_nth
from rqps.schedule.run_study import Runner, run_study, write_card
from rqps.schedule.state import Estimate, StudyFolder, error_in, this_host
from rqps.schedule.watch import Stopped
from rqps.stats import STUDENT, measured, rounds
from rqps.stats.metrics import INSTRUCTIONS, THROUGHPUT, with_counts
from rqps.stats.verdict import COVERAGE, OCCASIONS_FOR_OTHER_HOURS, holds_for
from rqps.store.manifest import CARD
from rqps.store.read import load
from rqps.study import RunsFile, StudySpec, study_of, unfold
from rqps.workloads import workload

ROUNDS, MOST_ROUNDS = 4, 24
"""The number of rounds of a probe by duets, and the maximum that a candidate gets while it is undecided."""
MOST_COUNTS = 4
SIGNALS = 128
"""Exit codes of this value or more mean that a signal stopped the study."""
MOST_FUNCTIONS = 8
IN_SEARCH = pl.col("occasion") == pl.col("occasion").min().over("dbms")
"""True for the rounds of a candidate's first occasion, which decide the search."""


class Size(NamedTuple):
    """The size of a change, from all rounds of its two builds. If it was measured on enough occasions, the interval
    is a prediction interval: for the size that one further occasion would measure."""

    level: Level
    occasions: int

    @property
    def enough(self) -> bool:
        """True if there are enough occasions for an interval that also holds for measurements at other hours."""
        return self.occasions >= OCCASIONS_FOR_OTHER_HOURS

    @property
    def excludes_none(self) -> bool:
        """True if the confidence interval of the mean size excludes a ratio of 1, which is no change. If there are
        enough occasions, `level` has the wider prediction interval, which is narrowed to that of the mean here."""
        return abs(self.level.value) >= self.level.half / (math.sqrt(1 + self.occasions) if self.enough else 1.0)

    def certainty(self, builds: bool | None = None) -> str:
        """Words on the certainty of the change and of the two builds between which it lies; `builds` is True if these
        builds are certain."""
        if not self.excludes_none:
            return "; over all occasions together, no change is certain"
        if not self.enough:
            return ""
        doubts = ["not its builds"] * (builds is False)
        doubts += ["another occasion may show none"] * (abs(self.level.value) < self.level.half)
        certain = "the change and its builds are certain" if builds else "the change is certain"
        return f"; {certain}{', but ' * bool(doubts)}{', and '.join(doubts)}"


@dataclass
class Bisection:
    """A bisection and its study. The base of the study is the good end; the dbms of the study are the candidates."""

    runs_file: RunsFile
    study: str
    step: str
    dbms: Sequence[str]
    """The candidates in order, including the ends."""
    counts: bool
    data: Path
    runner: Runner
    say: Say
    checkout: Checkout | None = None
    """The git checkout, if the candidates are commits."""
    commits: Mapping[str, str] = field(default_factory=dict)
    """Maps each build of the checkout to its commit."""
    another: bool = False
    """True if the result has to be measured again now, on another occasion."""
    stopped: int = 0
    """The exit code of the probe that a signal stopped; 0 without a signal."""

    @property
    def spec(self) -> StudySpec:
        return self.runs_file.studies[self.study]

    @property
    def metric(self) -> str:
        return INSTRUCTIONS if self.counts else THROUGHPUT

    @property
    def probes(self) -> int:
        """Maximum number of probes for one change: one for each end, and one each time that the list of candidates is
        halved."""
        return 2 + math.ceil(math.log2(max(len(self.dbms) - 1, 1)))

    def title(self, at: int) -> str:
        """The commit or version of a candidate, or the name of its build if neither is known."""
        build = self.spec.named[self.dbms[at]].build
        return self.commits.get(build) or self.runs_file.builds[build].version or build

    def plan(self) -> str:
        """The maximum number of probes for one change and their minimum time, in words."""
        one = unfold(self._asked([self.dbms[0], self.dbms[-1]], 1), self.study, this_host())
        probe_s = Estimate.of(one).left_s() / (len(one) if self.counts else 1)
        seconds = self.probes * probe_s * (1 if self.counts else ROUNDS)
        between = f"{counted(len(self.dbms) - 2, 'build')} between {self.title(0)} and {self.title(-1)}"
        how = "counts of instructions" if self.counts else "duets"
        probes = f"at most {counted(self.probes, 'probe')} by {how}, {duration(seconds)} or more"
        further = self.spec.occasions - 1
        then = f"; then the result on {counted(further, 'further occasion')}, {self.spec.apart} apart" * bool(further)
        return f"{self.step}: {between}; {probes}{then}"

    def run(self) -> tuple[str, int]:
        """Measures the missing probes; returns the result in words, and the exit code."""
        self.say(self.plan())
        again = self.another and not self._rounds().is_empty()
        search, last = Search(self.measure, self.title, self.say), len(self.dbms) - 1
        try:
            if search.level(last) is None:
                ends = (self.dbms[0], self.dbms[-1])
                what = f"{self.step}: {' and '.join(ends)} can't be compared{self._why(*ends)}"
                raise RqpsError(what, fix="name two ends that can both do this step")
            search.settle(last)
            changes = list(search.changes(0, last, 0.0))
            for change in () if self.counts else changes:
                self._count(change)
            if changes and (again or self.spec.occasions > 1 or self._occasion() > 1):
                self._measure_again(changes, again)
        except Stopped:
            return f"stopped; the same command{', without --occasion,' * self.another} goes on", self.stopped
        self._complete_card(changes[0].before if changes else 0)
        return self.answer(changes), 0

    def answer(self, changes: Sequence[Change]) -> str:
        """The difference between the ends, and the changes, in words. Sizes are computed from all rounds. The search
        had fewer rounds when it chose a candidate, since both ends get further rounds with every candidate."""
        last, pairs = len(self.dbms) - 1, [(change.before, change.after) for change in changes]
        sizes = [self._size(*pair, max(len(pairs), 1)) for pair in [(0, last), *pairs]]
        ends = f"{self.title(last)} relative to {self.title(0)}: {sizes[0].level.words} of {self.what}"
        lines = [
            f"{self.step}: {ends}{sizes[0].certainty()}" if changes else f"{self.step}: no change is shown. {ends}"
        ]
        for number, pair in enumerate(pairs):
            ranges = {} if self.counts else self._ranges(pairs[:number], pair)
            lines.append(self._line(pair, sizes[number + 1], ranges))
        if not self.counts:
            occasions = min(size.occasions for size in sizes)
            lacks = OCCASIONS_FOR_OTHER_HOURS - occasions if changes else 0
            what = "intervals and builds" if lacks > 0 else "intervals"
            lines.append(f"these {what} hold for {holds_for(pl.DataFrame({'occasions': [occasions]}))}")
            if lacks > 0:
                lines[-1] += f"; for other hours, add --occasion in {counted(lacks, 'other hour')}"
        return "\n".join([*lines, *[f"next: rqps report {self.study}"] * bool(changes)])

    @property
    def what(self) -> str:
        return "instructions per operation" if self.counts else "throughput"

    def measure(self, at: int, more: bool) -> Level | None:
        """Measures the missing rounds of a candidate, or further rounds if `more`; returns its level, or None if it
        can't be measured or gets no more rounds."""
        bad, dbms = self.dbms[-1], self.dbms[at]
        if at == 0:
            return Level(0.0, 0.0)
        first, most = (1, MOST_COUNTS) if self.counts else (ROUNDS, MOST_ROUNDS)
        have, of_bad = (self._done(name) for name in (dbms, bad))
        want = have + first if more else max(have, first)
        if want > have:
            if want > most or self._occasion() > 1 or not (have or dbms == bad or self._can_start(at)):
                return None
            for number in [want] if have else sorted({1, want}):  # a single round first: a build may fail or hang
                self._probe(dbms, {bad: of_bad + number - have, dbms: number})
                if self._done(dbms) <= (have if more else 0):
                    if dbms != bad:
                        self.say(f"{self.title(at)} is skipped: its run failed{self._why(dbms)}")
                    return None
        rounds = self._rounds().filter(IN_SEARCH)
        if level := self._levels(rounds).get(dbms):
            self.say(f"{self.title(at)}: {level.words} of {self.what}, relative to {self.title(0)}")
        return level if self.counts else self._shares(rounds).get(dbms)

    def _probe(self, dbms: str, wanted: Mapping[str, int]) -> None:
        """Measures the missing rounds of a candidate together with both ends, or counts its instructions."""
        names = [self.dbms[0], dbms] if self.counts else [self.dbms[0], self.dbms[-1], dbms]
        self._run(self._asked(names, wanted[dbms] if self.counts else 1), wanted=wanted)

    def _count(self, change: Change) -> None:
        """Counts the instructions of the two builds of a change, to name the functions that changed, unless the study
        has steps in which instructions can't be counted."""
        if steps := workload(self.spec.workload).uncountable(self.spec.parameters):
            self.say(f"instructions are not counted: {', '.join(steps)} have no fixed number of operations")
            return
        pair = (self.dbms[change.before], self.dbms[change.after])
        self.say(f"counting instructions of {self.title(change.before)} and {self.title(change.after)}")
        asked = self._asked(pair, 1, {"base": pair[0], "instructions_rounds": 1})
        # The duets of both builds are measured already, so only the runs that count instructions are missing.
        self._run(asked, wanted=dict.fromkeys(pair, 1))

    def _measure_again(self, changes: Sequence[Change], now: bool) -> None:
        """Measures both ends and the two builds of each change on the further occasions of the study; with `now`, on
        one more occasion, at once."""
        places = {0, len(self.dbms) - 1, *(at for change in changes for at in (change.before, change.after))}
        self.say(self.answer(changes))
        names = [self.dbms[at] for at in sorted(places)]
        occasions = max(self.spec.occasions, self._occasion())
        self._run(self._asked(names, ROUNDS, {"occasions": occasions, "twin": False}), another=now)

    def _run(self, asked: RunsFile, **how: Any) -> None:
        """Measures the missing runs of the study as `asked` describes it; raises `Stopped` after a signal."""
        code = run_study(asked, self.study, data=self.data, runner=self.runner, **how)
        if code >= SIGNALS:
            self.stopped = code
            raise Stopped

    def _occasion(self) -> int:
        """The number of the current occasion. From the second occasion on, the search gets no more rounds."""
        return StudyFolder.of(self.data, self.study).measured(this_host()).occasion

    def _why(self, *names: str) -> str:
        """The error of the latest failed run of the first of these dbms that has failed runs; empty if no run of
        theirs has failed."""
        failures = map(StudyFolder.of(self.data, self.study).failure_of, names)
        return next((f": {error_in(failure)}" for failure in failures if failure), "")

    def _can_start(self, at: int) -> bool:
        """True if a candidate can be built, its tables can be loaded, and no run of it failed before; otherwise
        reports the reason."""
        dbms = self.dbms[at]
        if failure := StudyFolder.of(self.data, self.study).failure_of(dbms):
            self.say(f"{self.title(at)} is skipped: its run failed before; remove {failure} to try it again")
            return False
        with self.runner.measuring(self.study):
            try:
                self.runner.make_ready(unfold(self._asked([dbms], 1), self.study, this_host()), self.say)
            except RqpsError as error:
                if no_room(error.message):
                    raise
                self.say(f"{dbms} is skipped: {error}")
                return False
        return True

    def _build(self, dbms: str) -> None:
        """Builds a candidate that is a commit, and enters it in `runs_file` as a build at a path."""
        build = self.spec.named[dbms].build
        if self.checkout and build in self.commits:
            spec = self.checkout.built(self.commits[build])
            # The build of a commit never changes, so later measurements use it in place: no copy is made.
            installed = spec.copied_to(Path(str(spec.path)))
            builds = {**self.runs_file.builds, build: installed}
            self.runs_file = self.runs_file.model_copy(update={"builds": builds})

    def _asked(self, dbms: Sequence[str], number: int, changes: Mapping[str, Any] = MappingProxyType({})) -> RunsFile:
        """The contents of runs.yaml, with the study reduced to these dbms, one occasion, and `number` rounds, or
        `number` runs that count instructions; `changes` sets further keys of the study. Builds the commits among
        the dbms."""
        for name in dbms:
            self._build(name)
        rounds = {"rounds": 0, "instructions_rounds": number} if self.counts else {"rounds": number}
        base = self.dbms[0] if self.dbms[0] in dbms else dbms[0]
        own = {"dbms": tuple(dict.fromkeys(dbms)), "base": base, "occasions": 1, **rounds, **changes}
        return self.runs_file.with_study(self.study, own)

    def _rounds(self) -> pl.DataFrame:
        """The ratios of the candidates to the good end in the step, one per round; empty before the first round."""
        if (StudyFolder.of(self.data, self.study).path / CARD).is_file():
            study = load(self.study, self.data)
            if self.dbms[0] in set(study.runs["dbms"]):
                paired = rounds(with_counts(measured(study, (THROUGHPUT,)), study), study.runs, self.dbms[0])
                return paired.filter(step=self.step, metric=self.metric)
        return pl.DataFrame(schema={"dbms": pl.String, "occasion": pl.Int32, "ratio": pl.Float64})

    def _done(self, dbms: str) -> int:
        """The number of rounds of a candidate on its first occasion."""
        return self._rounds().filter(IN_SEARCH, dbms=dbms).height

    def _levels(self, rounds: pl.DataFrame) -> dict[str, Level]:
        """Maps each candidate to its level in these rounds. The confidence intervals are corrected for the number of
        probes."""
        of_step = rounds.drop("occasion")
        levels = STUDENT.estimates(of_step, ["dbms"], "ratio")(1 - (1 - COVERAGE) / self.probes).drop_nulls()
        rows = levels.select("dbms", pl.col("estimate").log(), half=(pl.col("high") / pl.col("low")).log() / 2)
        return {dbms: Level(log, half) for dbms, log, half in rows.iter_rows()}

    def _shares(self, rounds: pl.DataFrame) -> dict[str, Level]:
        """Maps each candidate to its level as a share of the difference between the two ends, from the rounds in
        which the candidate and both ends were up. The difference between the ends may vary from hour to hour; a
        candidate's share of the difference does not."""
        log, of_bad = pl.col("ratio").log(), pl.col("of_bad")
        bad = rounds.filter(dbms=self.dbms[-1]).select("duet", log.alias("of_bad"))
        share = pl.when(dbms=self.dbms[-1]).then(0.0).otherwise(log.mean().over("dbms") / of_bad.mean().over("dbms"))
        beside = rounds.join(bad, on="duet", maintain_order="left").with_columns(share.alias("share"))
        rests = self._levels(beside.with_columns(ratio=(log - pl.col("share") * of_bad).exp()))
        means = beside.group_by("dbms").agg(pl.col("share").first(), of_bad.mean())
        return {
            dbms: Level(share + rests[dbms].value / of_bad, abs(rests[dbms].half / of_bad))
            for dbms, share, of_bad in means.iter_rows()
            if dbms in rests
        }

    def _size(self, before: int, after: int, changes: int) -> Size:
        """The change between two candidates, from all rounds. If there are enough occasions for an interval that
        holds at other hours, each occasion counts as one value, the mean of its first ROUNDS rounds, so that all
        values are equally precise. The interval is corrected for the number of changes."""
        names = [self.dbms[at] for at in (before, after)]
        rounds = self._rounds()
        wide = rounds.filter(pl.int_range(pl.len()).over("dbms", "occasion") < ROUNDS).pivot(
            "dbms", index="occasion", values="ratio", aggregate_function=pl.element().log().mean()
        )
        wide = wide.with_columns(pl.lit(0.0).alias(self.dbms[0])).drop_nulls(names)
        if self.counts or wide.height < OCCASIONS_FOR_OTHER_HOURS:
            levels = {self.dbms[0]: Level(0.0, 0.0), **self._levels(rounds)}
            return Size(between(*(levels[name] for name in names)), wide.height)
        values = wide.select(step=pl.lit(self.step), ratio=(pl.col(names[1]) - pl.col(names[0])).exp())
        (of_occasions,) = STUDENT.estimates(values, ["step"], "ratio")(1 - (1 - COVERAGE) / changes).to_dicts()
        low, size, high = (math.log(of_occasions[name]) for name in ("low", "estimate", "high"))
        return Size(Level(size, (high - low) / 2 * math.sqrt(1 + wide.height)), wide.height)

    def _ranges(self, larger: Sequence[Pair], pair: Pair) -> dict[float, Pair]:
        """Maps each probability in `COVERAGES` to the range of candidates that contains the change of `pair` with
        this probability. The range may be wider than the pair, since a server may have been faster or slower by
        chance in the hour of the search. `larger` has the pairs of the larger changes."""
        rounds, log = self._rounds(), pl.col("ratio").log()
        of_search, places = rounds.filter(IN_SEARCH), {dbms: at for at, dbms in enumerate(self.dbms)}
        (way,) = of_search.filter(dbms=self.dbms[-1]).select(log.mean())["ratio"]
        levels = {dbms: share.value * way for dbms, share in self._shares(of_search).items()}
        again = rounds.filter(~IN_SEARCH).group_by("occasion", "dbms").agg(log.mean())
        of_others = [dict(rows.select("dbms", "ratio").iter_rows()) for rows in again.partition_by("occasion")]
        occasions = [
            {0: 0.0, **{places[dbms]: level for dbms, level in of_occasion.items() if dbms in places}}
            for of_occasion in [levels, *of_others]
        ]
        return {coverage: likely_range(occasions, larger, pair, coverage) for coverage in COVERAGES}

    def _line(self, pair: Pair, size: Size, ranges: Mapping[float, Pair]) -> str:
        """Describes a change: the two builds between which it lies, its size, a wider range of builds if the two are
        not certain and, if instructions were counted, the functions that changed."""
        at, until = pair
        before, after = self.title(at), self.title(until)
        line = f"  {after} brought {size.level.words} against {before}, the one before it"
        if until - at > 1:
            line = f"  one of {self.title(at + 1)} to {after} brought {size.level.words} against {before}"
        wider = {coverage: others for coverage, others in ranges.items() if others != pair}
        line += size.certainty(not wider if ranges else None)
        for coverage, (low, high) in list(wider.items())[:1]:
            line += f"\n    one of {self.title(low + 1)} to {self.title(high)} brought it, with a probability of"
            line += f" {percent(coverage)}: a server may be slower in one hour than in the next"
        costs = profiled_costs(load(self.study, self.data), "instructions").filter(step=self.step)
        names = (self.dbms[at], self.dbms[until])
        if not {*names} <= {*costs["dbms"]}:
            return f"{line}\n    no functions are named: the instructions of these two could not be counted"
        functions = function_changes(costs, *names).head(MOST_FUNCTIONS)
        rows = [
            f"    {formatted(row['change'], '+,.0f'):>10}  {row['function']}"
            for row in functions.iter_rows(named=True)
        ]
        lines = [line, "    instructions per operation, by function:", *rows]
        if self.checkout:
            first, last = (self.commits[self.spec.named[name].build] for name in names)
            of_functions = dict(functions.select("function", "change").iter_rows())
            touching = self.checkout.touching(first, last, of_functions)[:MOST_FUNCTIONS]
            lines += [f"    {one.commit} {one.subject}: touches {', '.join(one.functions)}" for one in touching]
        return "\n".join(lines)

    def _complete_card(self, base: int) -> None:
        """Writes the study's card with all measured candidates, for its report. The base is the candidate before the
        change found first, so that pages show the functions of that change."""
        known = {*self._rounds()["dbms"], self.dbms[0]}
        changes = {"base": self.dbms[base], "occasions": self._occasion()}
        asked = self._asked([dbms for dbms in self.dbms if dbms in known], 1, changes)
        runs = unfold(asked, self.study, this_host())
        write_card(StudyFolder.of(self.data, self.study), asked.studies[self.study], runs, None)


def bisection(
    runs_file: RunsFile,
    study: str,
    step: str,
    ends: tuple[str, str],
    names: Sequence[str] = (),
    *,
    counts: bool,
    data: Path,
    runner: Runner,
    say: Say,
    every: int = 1,
    checkout: Checkout | None = None,
    another: bool = False,
) -> Bisection:
    """The bisection of a step between two ends. The candidates are the builds `names`, or else all versions of the
    catalogue between the ends, or the commits of a `checkout`. `another` measures the result again, on another
    occasion."""
    spec = study_of(runs_file, study)
    base = spec.named[spec.base]
    steps = workload(spec.workload).steps(spec.parameters)
    if step not in steps:
        raise RqpsError(f"{study}: no step {step!r}; {instead(step, steps, 'steps')}", fix="name a step of the study")
    engine = runs_file.builds[base.build].engine
    builds = dict(runs_file.builds)
    commits: dict[str, str] = {}
    if checkout:
        listed = checkout.between(*ends)
        commits = {f"c{commit[:SHORT]}": commit[:SHORT] for commit in listed}
        builds |= {name: BuildSpec(path=str(checkout.work / commit)) for name, commit in commits.items()}
        ordered = list(commits)
    else:
        ordered = in_order(builds, engine, ends, names)
    ordered = every_nth(ordered, every)
    dbms = [f"{name}.{base.config}" for name in ordered]
    only = spec.parameters.only(step)
    # The study's name depends on the command or recipe, too: another one makes other builds of the same commits.
    way = [checkout.work.name] if checkout else []
    name = f"{study[:50]}-bisect-{short_key(step, dbms, counts, only.model_dump(mode='json'), *way)[:6]}"
    own: dict[str, Any] = {
        "question": f"Which build between {ends[0]} and {ends[1]} changed {step}?",
        "asks": "releases",
    }
    own |= {"dbms": tuple(dbms), "base": dbms[0], "budget": None, "hosts": (), "measure_parts_of": None}
    own |= {"rounds": int(not counts), "instructions_rounds": int(counts), "stacks_rounds": 0, "waits_rounds": 0}
    own |= {"parameters": only} | ({"occasions": 1} if counts else {})
    asked = runs_file.with_study(study, own, name, builds=builds)
    if not counts and not asked.studies[name].duet:
        reason = only.not_sliced or "its study asks for method: rounds"
        raise RqpsError(
            f"{study}: {step} can't be measured in duets: {reason}",
            fix="add --count, which compares counted instructions",
        )
    return Bisection(asked, name, step, dbms, counts, data, runner, say, checkout, commits, another)
