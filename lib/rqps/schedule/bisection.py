"""Finds the builds of an ordered list that changed a step: first one change by bisection, then those on both sides.

Each probe is a duet of the good end, the bad end and a candidate, or a count of the candidate's instructions. A probe
gets more rounds until the candidate is significantly nearer to one end. All probes are runs of one study, so that a
stopped bisection continues from them, and `rqps report` shows them.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from rqps.engines import Say, engine_of, facts_of
from rqps.engines.asked import BuildSpec
from rqps.engines.cache import short_key
from rqps.engines.sources import catalogue
from rqps.errors import RqpsError, instead
from rqps.profile import function_changes
from rqps.schedule.commits import SHORT, Checkout, every_nth
from rqps.schedule.run_study import Runner, run_study, write_card
from rqps.schedule.state import Estimate, StudyFolder, this_host
from rqps.schedule.watch import Stopped
from rqps.stats import STUDENT, measured, rounds
from rqps.stats.metrics import INSTRUCTIONS, THROUGHPUT, with_counts
from rqps.stats.verdict import COVERAGE
from rqps.store.manifest import CARD
from rqps.store.read import load
from rqps.study import RunsFile, StudySpec, build_and_config, study_of, unfold
from rqps.terminal import counted, duration, formatted
from rqps.workloads import workload

ROUNDS, MOST_ROUNDS = 4, 24
"""Rounds of a probe by duets, and the maximum number of rounds of a candidate that stays undecided."""
MOST_COUNTS = 4
MOST_UNDECIDED = 2
"""Number of undecided candidates (half way between the ends) after which the search for one change ends."""
SIGNALS = 128
"""Exit codes of this value or more mean that a signal stopped the study."""
SHARE_WORTH_FINDING = 0.25
"""A further change must be larger than this share of the change found before it."""
MOST_FUNCTIONS = 8


class Level(NamedTuple):
    """A candidate relative to the good end: logarithm of the ratio, and half the width of its confidence interval."""

    log: float
    half: float

    @property
    def words(self) -> str:
        low, size, high = (100 * math.expm1(self.log + way * self.half) for way in (-1, 0, 1))
        return "{} % ({} to {})".format(*(formatted(number, "+.2f") for number in (size, low, high)))


class Change(NamedTuple):
    """A change between two candidates of the list. Candidates between these two could not be measured, or stayed
    undecided."""

    before: int
    after: int
    size: Level


@dataclass
class Search:
    """The search for the changes among candidates in order.

    `measure` takes a candidate and returns its level; with True it first measures more rounds of the candidate. It
    returns None if the candidate can't be measured, or gets no further rounds.
    """

    measure: Callable[[int, bool], Level | None]
    title: Callable[[int], str]
    say: Say
    levels: dict[int, Level | None] = field(default_factory=dict)

    def changes(self, first: int, last: int, least: float) -> Iterator[Change]:
        """Yields the changes between two candidates that are significantly larger than `least`, in the order in which
        the search finds them."""
        if last == first or not self.differ(first, last, least):
            return
        before, after = self._located(first, last)
        yield (change := Change(before, after, self.between(before, after)))
        least = max(least, SHARE_WORTH_FINDING * abs(change.size.log))
        yield from self.changes(first, before, least)
        yield from self.changes(after, last, least)

    def settle(self, last: int) -> None:
        """Measures the bad end until it differs significantly from the good end, or no more rounds are possible."""
        while not self.differ(0, last, 0.0) and (more := self.measure(last, True)):
            self.levels[last] = more

    def differ(self, first: int, last: int, least: float) -> bool:
        size = self.between(first, last)
        return abs(size.log) - size.half > least

    def between(self, first: int, last: int) -> Level:
        """The level of the last candidate relative to the level of the first."""
        before, after = self._end(first), self._end(last)
        return Level(after.log - before.log, math.hypot(before.half, after.half))

    def level(self, candidate: int) -> Level | None:
        if candidate not in self.levels:
            self.levels[candidate] = self.measure(candidate, False)
        return self.levels[candidate]

    def _end(self, candidate: int) -> Level:
        """The level of an end, which was measured before."""
        level = self.level(candidate)
        assert level is not None
        return level

    def _located(self, first: int, last: int) -> tuple[int, int]:
        """The two candidates to which bisection narrows a difference: each probe keeps the half with more of it."""
        undecided = 0
        while (untested := self._untested(first, last)) and undecided < MOST_UNDECIDED:
            candidate = min(untested, key=lambda at: abs(at - (first + last) / 2))
            ends = f"between {self.title(first)} and {self.title(last)} are {counted(len(untested), 'build')}"
            probes = counted(math.ceil(math.log2(len(untested) + 1)), "probe")
            self.say(f"{ends}, at most {probes} left; next is {self.title(candidate)}")
            nearer = self._nearer_to_last(first, candidate, last)
            if nearer is None:
                undecided += self.levels[candidate] is not None
                self.levels[candidate] = None
            elif nearer:
                last = candidate
            else:
                first = candidate
        return first, last

    def _untested(self, first: int, last: int) -> list[int]:
        """The candidates between these two, without those that can't be measured or stayed undecided."""
        return [at for at in range(first + 1, last) if self.levels.get(at, True)]

    def _nearer_to_last(self, first: int, candidate: int, last: int) -> bool | None:
        """True if a candidate is significantly nearer to the last one, False if to the first; None if undecided."""
        level = self.level(candidate)
        while level:
            before, after = self._end(first), self._end(last)
            away = level.log - (before.log + after.log) / 2
            if abs(away) > math.hypot(level.half, before.half / 2, after.half / 2):
                return (away > 0) == (after.log > before.log)
            level = self.measure(candidate, True)
            for end in (first, last):
                self.levels[end] = self.measure(end, True) or self._end(end)
            self.levels[candidate] = level or self.levels[candidate]
        return None


@dataclass
class Bisection:
    """The study of a bisection: its base is the good end, its dbms are the candidates measured so far."""

    runs_file: RunsFile
    study: str
    step: str
    dbms: Sequence[str]
    """The candidates in order, the ends among them."""
    counts: bool
    data: Path
    runner: Runner
    say: Say
    checkout: Checkout | None = None
    """The git checkout, if the candidates are commits."""
    commits: Mapping[str, str] = field(default_factory=dict)
    """Maps each build of the checkout to its commit."""
    stopped: int = 0
    """The exit code of the probe that a signal stopped; 0 if no signal came."""

    @property
    def spec(self) -> StudySpec:
        return self.runs_file.studies[self.study]

    @property
    def metric(self) -> str:
        return INSTRUCTIONS if self.counts else THROUGHPUT

    @property
    def probes(self) -> int:
        """Maximum number of probes for one change: the two ends, and one for each halving of the list."""
        return 2 + math.ceil(math.log2(max(len(self.dbms) - 1, 1)))

    def title(self, at: int) -> str:
        """The commit or version of a candidate, or the name of its build if neither is known."""
        build, _ = build_and_config(self.dbms[at])
        return self.commits.get(build) or self.runs_file.builds[build].version or build

    def plan(self) -> str:
        """The maximum number of probes for one change, and the time that they take at least, in words."""
        one = unfold(self._asked([self.dbms[0], self.dbms[-1]], 1), self.study, this_host())
        probe_s = Estimate.of(one).left_s() / (len(one) if self.counts else 1)
        seconds = self.probes * probe_s * (1 if self.counts else ROUNDS)
        between = f"{counted(len(self.dbms) - 2, 'build')} between {self.title(0)} and {self.title(-1)}"
        how = "counts of instructions" if self.counts else "duets"
        return (
            f"{self.step}: {between}; at most {counted(self.probes, 'probe')} by {how}, {duration(seconds)} or more"
        )

    def run(self) -> tuple[str, int]:
        """Does the missing probes; returns the answer and the exit code."""
        if self.checkout:
            for dbms in (self.dbms[-1], self.dbms[0]):
                self._build(dbms)
        self.say(self.plan())
        search, last = Search(self.measure, self.title, self.say), len(self.dbms) - 1
        try:
            for end in (last, 0):
                if search.level(end) is None:
                    fix = "see the error above, and name another end"
                    raise RqpsError(f"{self.dbms[end]}: this end can't be measured", fix=fix)
            search.settle(last)
            changes = list(search.changes(0, last, 0.0))
            for change in () if self.counts else changes:
                self._count(change)
        except Stopped:
            return "stopped; the same command goes on", self.stopped
        levels = self._levels()  # computed again: the ends got more rounds while candidates were measured
        search.levels |= {
            at: levels[dbms][0] for at, dbms in enumerate(self.dbms) if dbms in levels and search.levels.get(at)
        }
        changes = [change._replace(size=search.between(change.before, change.after)) for change in changes]
        lines = [self._line(change) for change in changes]
        self._complete_card(changes[0].before if changes else 0)
        of_ends = search.between(0, last)
        ends = f"{self.title(last)} relative to {self.title(0)}: {of_ends.words} of {self.what}"
        if not lines:
            return f"{self.step}: no change is shown. {ends}", 0
        return "\n".join([f"{self.step}: {ends}", *lines, f"next: rqps report {self.study}"]), 0

    @property
    def what(self) -> str:
        return "instructions per operation" if self.counts else "throughput"

    def measure(self, at: int, more: bool) -> Level | None:
        """Measures the missing rounds of a candidate, or further rounds if `more`; None if that is impossible."""
        good, bad, dbms = self.dbms[0], self.dbms[-1], self.dbms[at]
        if at == 0:
            return Level(0.0, 0.0)
        first, most = (1, MOST_COUNTS) if self.counts else (ROUNDS, MOST_ROUNDS)
        levels = self._levels()
        have, of_bad = (levels[name][1] if name in levels else 0 for name in (dbms, bad))
        want = have + first if more else max(have, first)
        if want > most or not (have or (not self._failed_before(at) and self._can_start(dbms))):
            return None
        if want > have:
            names = [good, dbms] if self.counts else [good, bad, dbms]
            for name in names:
                self._build(name)
            wanted = {bad: of_bad + want - have, dbms: want}
            asked = self._asked(names, want if self.counts else 1)
            code = run_study(asked, self.study, data=self.data, runner=self.runner, wanted=wanted)
            if code >= SIGNALS:
                self.stopped = code
                raise Stopped
            levels = self._levels()
        if levels.get(dbms, (None, 0))[1] <= (have if more else 0):
            self.say(f"{self.title(at)} is skipped: its run failed")
            return None
        self.say(f"{self.title(at)}: {levels[dbms][0].words} of {self.what}, relative to {self.title(0)}")
        return levels[dbms][0]

    def _count(self, change: Change) -> None:
        """Counts the instructions of both sides of a change that duets found, to name the functions that changed."""
        pair = (self.dbms[change.before], self.dbms[change.after])
        for dbms in pair:
            self._build(dbms)
        self.say(f"counting instructions of {self.title(change.before)} and {self.title(change.after)}")
        changes = {"dbms": pair, "base": pair[0], "rounds": 1, "instructions_rounds": 1}
        asked, measured_already = self.runs_file.with_study(self.study, changes), dict.fromkeys(pair, 1)
        code = run_study(asked, self.study, data=self.data, runner=self.runner, wanted=measured_already)
        if code >= SIGNALS:
            self.stopped = code
            raise Stopped

    def _failed_before(self, at: int) -> bool:
        """True if the run of a candidate between the ends failed before; then says where the failure is recorded."""
        failure = StudyFolder.of(self.data, self.study).failure_of(self.dbms[at])
        if failure is None or at == len(self.dbms) - 1:
            return False
        self.say(f"{self.title(at)} is skipped: its run failed before; remove {failure} to try it again")
        return True

    def _can_start(self, dbms: str) -> bool:
        """True if a candidate can be fetched or built and accepts its config; otherwise says what is wrong."""
        try:
            self._build(dbms)
        except RqpsError as error:
            self.say(f"{dbms} is skipped: {error}")
            return False
        (run, *_) = [run for run in unfold(self._asked([dbms], 1), self.study, this_host()) if run.dbms == dbms]
        try:
            engine_of(run.build_spec).prepare(run, self.say)
        except RqpsError as error:
            self.say(f"{dbms} is skipped: {error}")
            return False
        return True

    def _build(self, dbms: str) -> None:
        """Builds the commit of a candidate, if it is one; from then on the candidate is a build at a path."""
        build, _ = build_and_config(dbms)
        if self.checkout and build in self.commits:
            spec = self.checkout.built(self.commits[build])
            installed = spec.copied_to(Path(str(spec.path)))  # its build never changes: no copy is made
            builds = {**self.runs_file.builds, build: installed}
            self.runs_file = self.runs_file.model_copy(update={"builds": builds})

    def _asked(self, dbms: Sequence[str], number: int) -> RunsFile:
        """The contents of runs.yaml, the study reduced to these dbms and to `number` rounds or counts."""
        rounds = {"rounds": 0, "instructions_rounds": number} if self.counts else {"rounds": number}
        base = self.dbms[0] if self.dbms[0] in dbms else dbms[0]
        changes = {"dbms": tuple(dict.fromkeys(dbms)), "base": base, **rounds}
        return self.runs_file.with_study(self.study, changes)

    def _levels(self) -> dict[str, tuple[Level, int]]:
        """Maps each candidate measured so far to its level and number of rounds. The confidence intervals are
        corrected for the number of probes."""
        if not (StudyFolder.of(self.data, self.study).path / CARD).is_file():
            return {}
        study = load(self.study, self.data)
        if self.dbms[0] not in set(study.runs["dbms"]):
            return {}
        paired = rounds(with_counts(measured(study, (THROUGHPUT,)), study), study.runs, self.dbms[0])
        of_step = paired.filter(step=self.step, metric=self.metric)
        levels = STUDENT.estimates(of_step, ["dbms"], "ratio")(1 - (1 - COVERAGE) / self.probes).drop_nulls()
        rows = levels.select("dbms", "n", pl.col("estimate").log(), half=(pl.col("high") / pl.col("low")).log() / 2)
        return {dbms: (Level(log, half), n) for dbms, n, log, half in rows.iter_rows()}

    def _line(self, change: Change) -> str:
        """Describes a change: its pair, its size and, if instructions were counted, the functions that changed."""
        before, after = self.title(change.before), self.title(change.after)
        between = change.after - change.before - 1
        line = f"  {after} brought {change.size.words} against {before}, the one before it"
        if between:
            line = f"  one of {self.title(change.before + 1)} to {after} brought {change.size.words} against {before}"
        counts = load(self.study, self.data, mode="instructions")
        of_step = counts.steps.filter(step=self.step)
        pair = (self.dbms[change.before], self.dbms[change.after])
        if not {*pair} <= {*of_step["dbms"]}:
            return f"{line}\n    no functions are named: the instructions of these two could not be counted"
        functions = function_changes(counts.instructions, of_step, *pair).head(MOST_FUNCTIONS)
        rows = [
            f"    {formatted(row['change'], '+,.0f'):>10}  {row['function']}"
            for row in functions.iter_rows(named=True)
        ]
        lines = [line, "    instructions per operation, by function:", *rows]
        if self.checkout:
            first, last = (self.commits[build_and_config(name)[0]] for name in pair)
            of_functions = dict(functions.select("function", "change").iter_rows())
            touching = self.checkout.touching(first, last, of_functions)[:MOST_FUNCTIONS]
            lines += [f"    {one.commit} {one.subject}: touches {', '.join(one.functions)}" for one in touching]
        return "\n".join(lines)

    def _complete_card(self, base: int) -> None:
        """Writes the study's card with all measured candidates, for its report. The base is the candidate before the
        change found first, so that pages show the functions of that change."""
        known = {*self._levels(), self.dbms[0]}
        for dbms in known:
            self._build(dbms)
        spec = self._asked([dbms for dbms in self.dbms if dbms in known], 1).studies[self.study]
        spec = spec.model_copy(update={"base": self.dbms[base]})
        write_card(
            StudyFolder.of(self.data, self.study),
            spec,
            unfold(self._asked(spec.dbms, 1), self.study, this_host()),
            None,
        )


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
) -> Bisection:
    """The bisection of a step between two builds, or versions of the catalogue. The candidates are the named builds,
    or else all versions of the catalogue between the ends; with a `checkout`, its commits."""
    spec = study_of(runs_file, study)
    _, config = build_and_config(spec.base)
    steps = workload(spec.workload).steps(spec.parameters)
    if step not in steps:
        raise RqpsError(f"{study}: no step {step!r}; {instead(step, steps, 'steps')}", fix="name a step of the study")
    build, _ = build_and_config(spec.base)
    engine = runs_file.builds[build].engine
    builds = dict(runs_file.builds)
    commits: dict[str, str] = {}
    if checkout:
        listed = checkout.between(*ends)
        commits = {f"c{commit[:SHORT]}": commit[:SHORT] for commit in listed}
        builds |= {name: BuildSpec(path=str(checkout.work / commit)) for name, commit in commits.items()}
        ordered = list(commits)
    else:
        ordered = [_added(builds, engine, name) for name in (ends[0], *names, ends[1])]
    if ordered[0] == ordered[-1]:
        raise RqpsError(f"{ends[0]} and {ends[1]} are one build", fix="name two ends: --good NAME --bad NAME")
    if not names and not checkout:
        ordered = [ordered[0], *_between(builds, engine, ordered[0], ordered[-1]), ordered[-1]]
    _refuse_disorder(builds, ordered)
    ordered = every_nth(ordered, every)
    rounds = {"rounds": 0, "instructions_rounds": 1} if counts else {"rounds": 1, "instructions_rounds": 0}
    dbms = [f"{name}.{config}" for name in ordered]
    only = spec.parameters.only(step)
    name = f"{study[:50]}-bisect-{short_key(step, dbms, counts, only.model_dump(mode='json'))[:6]}"
    own: dict[str, Any] = {
        "question": f"Which build between {ends[0]} and {ends[1]} changed {step}?",
        "asks": "releases",
    }
    own |= {"dbms": tuple(dbms), "base": dbms[0], "budget": None, "hosts": (), "measure_parts_of": None}
    own |= {"occasions": 1, "stacks_rounds": 0, "parameters": only, **rounds}
    asked = runs_file.with_study(study, own, name, builds=builds)
    if not counts and not asked.studies[name].duet:
        reason = only.not_sliced or "its study asks for method: rounds"
        raise RqpsError(f"{study}: {step} can't be measured in duets: {reason}", fix="give --count")
    return Bisection(asked, name, step, dbms, counts, data, runner, say, checkout, commits)


def _added(builds: dict[str, BuildSpec], engine: str, name: str) -> str:
    """The name of a build. A version of the catalogue is added to `builds`, unless a build has that version."""
    if name in builds:
        return name
    known = {spec.version: other for other, spec in builds.items() if spec.engine == engine and spec.source is None}
    if name in known:
        return known[name]
    if name not in catalogue(engine):
        near = instead(name, [*builds, *catalogue(engine)], "builds and versions")
        fix = "name a build of runs.yaml, or a version that `rqps servers list` has"
        raise RqpsError(f"{name!r} is neither a build nor a version of {facts_of(engine).title}; {near}", fix=fix)
    new = f"v{name.replace('.', '-')}"
    builds[new] = BuildSpec.model_validate({engine: name})
    return new


def _number(spec: BuildSpec) -> tuple[int, ...]:
    return tuple(int(part) for part in (spec.version or "").split(".") if part)


def _between(builds: dict[str, BuildSpec], engine: str, good: str, bad: str) -> list[str]:
    """The versions of the catalogue between two builds, from the good one to the bad one."""
    numbers = {name: _number(builds[name]) for name in (good, bad)}
    if unknown := [name for name, number in numbers.items() if not number]:
        fix = "name all builds in order: --builds NAME NAME …"
        raise RqpsError(f"{unknown[0]} promises no version, so its place in the catalogue is not known", fix=fix)
    low, high = sorted(numbers.values())
    versions = {version: tuple(map(int, version.split("."))) for version in catalogue(engine)}
    inside = sorted((version for version in versions if low < versions[version] < high), key=versions.__getitem__)
    names = [_added(builds, engine, version) for version in inside]
    return names if numbers[good] == low else names[::-1]


def _refuse_disorder(builds: dict[str, BuildSpec], ordered: Sequence[str]) -> None:
    """Refuses a list that is not in the order of its versions, or has two builds of the same version."""
    numbered = [(number, name) for name in ordered if (number := _number(builds[name]))]
    numbers = [number for number, _ in numbered]
    for (number, name), (after, other) in pairwise(numbered):
        if number == after:
            fix = "leave one of them out: a bisection is over versions in order"
            raise RqpsError(f"{name} and {other} are both version {builds[name].version}", fix=fix)
    if numbers not in (sorted(numbers), sorted(numbers, reverse=True)):
        by_version = " ".join(name for _, name in sorted(numbered))
        raise RqpsError("these builds are not in the order of their versions", fix=f"--builds in order: {by_version}")
