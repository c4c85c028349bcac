"""Measures the missing runs of a study with a runner, one after the other, each completely or not at all."""

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain
from pathlib import Path
from threading import Lock
from typing import Protocol

from rqps.engines import Say
from rqps.engines.sources import digest_of
from rqps.errors import RqpsError, no_room
from rqps.measure import placement
from rqps.measure.job import Ready, git_revision, make_ready
from rqps.measure.notes import noted
from rqps.notebook import LOGS, Execution, check_parameters, wait_until_gone
from rqps.numbers import duration, moment
from rqps.schedule import rebuilds, run_folder
from rqps.schedule.budget import Budget
from rqps.schedule.hours import Hours
from rqps.schedule.run_folder import PATIENCE_S, Failure, still_running
from rqps.schedule.state import StudyFolder, refuse_mixture, run_state, this_host
from rqps.schedule.watch import POLL_S, Stopped, Watcher
from rqps.store.manifest import CARD, LEVELS, SET_ASIDE, StudyCard, WhatIf, read_study_card
from rqps.store.write import write_study_card
from rqps.study import ROUNDS_FOR_A_VERDICT, Measured, Run, RunsFile, StudySpec, on_host, study_of, unfold
from rqps.study.unfold import MOST_LEVELS

_ALONE = Lock()
"""Lock for preparing a study's folder, since each host of a study has its own thread in this process."""
GIVEN = ("study", "dbms", "round", "mode", "folder")
"""The parameters that every run notebook takes, besides those of its workload."""
AGAIN = "then run the same command again: finished runs are safe"


class Runner(Protocol):
    """Measures runs on one host, one at a time."""

    def check(self, runs: Sequence[Run]) -> None:
        """Refuses runs that can't succeed on the host, before anything is written."""

    def measuring(self, study: str) -> AbstractContextManager[None]:
        """Holds the host's lock, so that nothing else is measured there."""

    def make_ready(self, runs: Sequence[Run], say: Say) -> None:
        """Prepares builds, tables and tools for the runs; the preparations may take long."""

    def measure(self, run: Run, folder: Path, watcher: Watcher) -> str | None:
        """Measures a run into a folder until the run ends or the watcher was stopped, and leaves no process behind.
        Returns the error that ended the run, if any; only a manifest shows that a run is complete."""


class LocalRunner:
    """Measures on this machine: papermill executes the notebook of the run's workload."""

    def __init__(self, notebooks: Path, runs_yaml: Path, git_revision: str | None = None) -> None:
        self.notebooks = notebooks.absolute()
        self.runs_yaml = runs_yaml.absolute()
        self._ready: dict[str, Ready] = {}
        self._git_revision = git_revision

    def notebook(self, run: Run) -> Path:
        name = "instructions" if run.mode == "instructions" else run.workload
        return self.notebooks / "run" / f"{name}.ipynb"

    def check(self, runs: Sequence[Run]) -> None:
        for notebook in {self.notebook(run) for run in runs}:
            check_parameters(notebook, GIVEN)

    def measuring(self, study: str) -> AbstractContextManager[None]:
        return run_folder.measuring(study)

    def make_ready(self, runs: Sequence[Run], say: Say) -> None:
        self._ready = make_ready(runs, say)
        self._git_revision = self._git_revision or git_revision(self.runs_yaml.parent)

    def observer_cpus(self, run: Run) -> tuple[int, ...]:
        return placement.of_run(self._ready[run.dbms].placements[len(run.members)]).observer_cpus

    def write_job(self, run: Run, folder: Path) -> Path:
        revision, servers = self._git_revision, len(run.members)
        jobs = [self._ready[member.dbms].job(member, folder, revision, servers) for member in run.members]
        more = {"beside": tuple(jobs[1:]), "runs_yaml_folder": self.runs_yaml.parent}
        return jobs[0].model_copy(update=more).write()

    def measure(self, run: Run, folder: Path, watcher: Watcher) -> str | None:
        self.write_job(run, folder)
        self.refuse_rebuilt(run)
        dbms = [member.dbms for member in run.members]
        who = dbms if run.side is not None else run.dbms
        asked = dict(zip(GIVEN, (run.study, who, run.round, run.mode, str(folder)), strict=True))
        execution = Execution(self.notebook(run), folder, asked)
        try:
            while not execution.wait(POLL_S) and not watcher.stopped_by:
                watcher.doing(noted(folder))
        finally:
            if watcher.stopped_by:
                watcher.say(f"stopping {run.words}")
            execution.stop()
            left = wait_until_gone(execution.remains(), PATIENCE_S, watcher.say)
        if left:
            raise still_running(left)
        self.refuse_rebuilt(run)
        return execution.error()

    def refuse_rebuilt(self, run: Run) -> None:
        """Raises an RqpsError, which ends the study, if a build was rebuilt during the run: a run has to measure one
        binary."""
        for member in run.members:
            build = ready.prepared.build if (ready := self._ready.get(member.dbms)) else None
            if build and digest_of(build.program) != build.digest:
                raise RqpsError(
                    f"{build.program} was rebuilt while {run.words} of {run.study} was measured",
                    fix=f"wait until the build has ended, then: rqps run {run.study} --rebuilt",
                )


def run_study(
    runs_file: RunsFile,
    study: str,
    *,
    data: Path,
    runner: Runner,
    archive: bool = False,
    host: str | None = None,
    budget: Budget | None = None,
    hours: Hours | None = None,
    watcher: Watcher | None = None,
    another: bool = False,
    wanted: Mapping[str, int] | None = None,
    rebuilt: bool = False,
    note: str = "",
) -> int:
    """Measures a study's missing runs on a host, or as many as fit a budget, occasion by occasion; returns the exit
    code. A failed run does not stop the study; its folder remains. `another` begins the next occasion at once.
    `rebuilt` measures each rebuilt build as its next version, with a `note`. `wanted` maps each dbms to its final
    number of rounds, if dbms get different numbers."""
    host = host or this_host()
    folder = StudyFolder.of(data.absolute(), study)
    asked = on_host(runs_file, study, host)
    known = () if archive else rebuilds.known_versions(folder.path, asked, study, host)
    if not rebuilt and (changed := rebuilds.rebuilt(known)):
        raise rebuilds.refusal(study, changed)
    versions = rebuilds.next_versions(known, folder.path, asked, study, host, note)
    runs_file = rebuilds.with_versions(asked, study, versions)
    rebuilds.refuse_unmeasurable(runs_file, study)
    spec = study_of(runs_file, study)
    if budget:
        budget.verdicts.spec = spec
    measured = Measured() if archive else folder.measured(host)
    further = bool(measured.duets) and not another and budget is not None and measured.occasion < spec.occasions
    in_rounds = not archive and not spec.duet and bool(spec.rounds)
    has_begun = bool(measured.duets) or (in_rounds and folder.ended_at(host, measured.occasion) > 0)
    if further or (has_begun and another):
        measured = replace(measured, occasion=measured.occasion + 1)
    runs = unfold(runs_file, study, host, measured, wanted)
    runner.check(runs)
    try:
        with watcher or Watcher(folder.path) as watcher, runner.measuring(study):
            with _ALONE:
                _prepare(folder, runs, archive, set(spec.hosts) - {host}, watcher)
            rebuilds.copy_newest(asked, study, versions, watcher.say)
            measuring = _Measuring(runs_file, study, host, folder, runner, watcher, budget, hours, wanted, versions)
            code = measuring.wait_for(measured.occasion, spec.apart_s) if further else 0
            code = code or measuring.occasion(measured.occasion)
            for occasion in range(measured.occasion + 1, spec.occasions + 1):
                if code or another:
                    break
                code = measuring.wait_for(occasion, spec.apart_s) or measuring.occasion(occasion)
            return code
    except BrokenPipeError:
        raise
    except OSError as error:
        raise RqpsError(
            f"{error.filename or folder.path}: could not be written: {error.strerror or error}",
            fix=f"check that the disk has room and that you may write to the folder, {AGAIN}",
        ) from error


@dataclass(frozen=True)
class _Measuring:
    """The measurement of a study, under the lock of its host."""

    runs_file: RunsFile
    study: str
    host: str
    folder: StudyFolder
    runner: Runner
    watcher: Watcher
    budget: Budget | None
    hours: Hours | None
    wanted: Mapping[str, int] | None
    versions: rebuilds.Versions

    def occasion(self, number: int) -> int:
        """Measures the missing runs of an occasion, or as many as fit the budget; returns the exit code."""
        study, folder, watcher, budget, hours = self.study, self.folder, self.watcher, self.budget, self.hours
        spec, measured = self.runs_file.studies[study], folder.measured(self.host, number)
        runs = unfold(self.runs_file, study, self.host, measured, self.wanted)
        with _ALONE:
            left_out = _report_absent(runs, watcher)
            if spec.occasions > 1 or number > 1:
                watcher.say(f"{study}: occasion {number} of {max(spec.occasions, number)}")
            if budget and (buys := budget.plan(self.runs_file, study, self.host, measured)):
                watcher.say(f"{study}: {buys}")
            write_card(folder, spec, runs, budget, self.versions)
        todo = [run for run in runs if run_state(folder, run).state not in ("done", "absent")]
        already = len(runs) - len(todo) - left_out
        if budget is None:
            watcher.plan(todo, already)
            if hours and todo:
                watcher.say(f"{study}: {hours.plan(todo, time.time())}")
            return _measure(folder, study, todo, iter(todo), already, self.runner, watcher, hours)
        others = _in_turn([run for run in todo if run.mode != "throughput"], watcher)
        rounds = budget.rounds(self.runs_file, study, self.host, folder, number, watcher)
        possible = [*todo, *unfold(self.runs_file, study, self.host, Measured(occasion=number))]
        return _measure(folder, study, possible, chain(rounds, others), already, self.runner, watcher, hours)

    def wait_for(self, occasion: int, apart_s: int) -> int:
        """Waits until `apart_s` seconds after the end of the previous occasion; returns 0, or an exit code if a
        signal arrives first. If that end lies in the future, since the clock was set back, it waits `apart_s` from
        now on."""
        begin = min(self.folder.ended_at(self.host, occasion - 1), time.time()) + apart_s
        with suppress(Stopped):
            if begin > time.time():
                what = f"{self.study}: occasion {occasion} begins at {moment(begin)}"
                self.watcher.wait(begin, f"{what}; Ctrl-C is safe: the same command goes on from there")
            return 0
        return 128 + (self.watcher.stopped_by or 0)


def _in_turn(runs: Sequence[Run], watcher: Watcher) -> Iterator[Run]:
    watcher.plan(runs, 0)
    yield from runs


def _prepare(
    folder: StudyFolder, runs: Sequence[Run], archive: bool, elsewhere: Collection[str], watcher: Watcher
) -> None:
    run_folder.clear_stale(folder, watcher.say)
    if archive and folder.path.exists():
        set_aside(folder, watcher)
    else:
        refuse_mixture(folder, runs, elsewhere)


def set_aside(folder: StudyFolder, watcher: Watcher) -> None:
    """Renames a study's folder and those of its levels, to measure the study again from the beginning."""
    path, now = folder.path, f"{datetime.now().astimezone():%Y%m%d-%H%M%S}"
    levels = range(1, MOST_LEVELS + 1) if (path / LEVELS).is_file() else ()
    for one in (path, *(path.with_name(f"{path.name}-{level}") for level in levels)):
        if one.is_dir():
            one.rename(old := one.with_name(f"{one.name}{SET_ASIDE}{now}"))
            watcher.say(f"set aside: {old}")


def write_card(
    folder: StudyFolder, spec: StudySpec, runs: Sequence[Run], budget: Budget | None, versions: rebuilds.Versions = ()
) -> None:
    before = read_study_card(folder.path) if (folder.path / CARD).is_file() else None
    of_other_hosts = [version for version in before.builds if version.host != runs[0].host] if before else []
    card = StudyCard(
        study=runs[0].study,
        question=spec.question,
        asks=spec.asks,
        workload=spec.workload,
        base=spec.base,
        dbms=tuple(spec.dbms),
        rounds=None if budget else spec.rounds,
        occasions=max(spec.occasions, before.occasions if before else 1, max(run.occasion for run in runs)),
        budget_s=spec.budget_s,
        looks=budget.looks if budget else 1,
        smallest_effect=spec.smallest_effect,
        parameters=spec.parameters.model_dump(mode="json"),
        what_if=None if spec.what_if is None else WhatIf(**spec.what_if.model_dump()),
        absent={run.dbms: run.absent for run in runs if run.absent},
        builds=(*of_other_hosts, *versions),
    )
    write_study_card(folder.path, card if before is None else _looked_at(card, before))


def _looked_at(card: StudyCard, before: StudyCard) -> StudyCard:
    """The card with its number of interim analyses (`looks`): one more than before if rounds were added to a study
    that already had enough rounds for a verdict. Rounds that were added for a new version of a build do not count:
    that version had no verdict yet."""
    planned, earlier = ((plan.rounds or 0) * plan.occasions for plan in (card, before))
    again = planned > earlier >= ROUNDS_FOR_A_VERDICT and len(card.builds) == len(before.builds)
    return card.model_copy(update={"looks": max(card.looks, before.looks + again)})


def _measure(
    folder: StudyFolder,
    study: str,
    possible: Sequence[Run],
    following: Iterator[Run],
    already: int,
    runner: Runner,
    watcher: Watcher,
    hours: Hours | None,
) -> int:
    """Prepares all `possible` runs, then measures the runs of `following`, which are some or all of them; returns the
    exit code. With a budget, earlier results decide which runs follow."""
    began = time.monotonic() - watcher.waited_s
    measured = 0
    failed: list[Failure] = []
    with suppress(Stopped):
        if possible:
            if hours:
                hours.wait(watcher)
            with watcher.raising():
                runner.make_ready(possible, watcher.say)
        for run in hours.runs(following, watcher) if hours else following:
            if failure := _one_run(folder, run, runner, watcher):
                failed.append(failure)
            else:
                measured += 1
    for failure in failed:
        watcher.say(f"failed: {failure.run}: {failure.in_short}\n  logs: {failure.folder / LOGS}")
    stopped_by = watcher.stopped_by
    elapsed_s = time.monotonic() - began - watcher.waited_s
    counts = [f"{measured} {'run' if measured == 1 else 'runs'} measured in {duration(elapsed_s)}"]
    if already:
        counts.append(f"{already} done already")
    if failed:
        counts.append(f"{len(failed)} failed")
    if stopped_by:
        missing = sum(run_state(folder, run).state not in ("done", "absent") for run in possible)
        counts.append(f"stopped by {stopped_by.name}" + f" with {missing} missing" * bool(missing))
    next_ = "run" if failed or stopped_by else "report"
    watcher.say(f"{study}: {', '.join(counts)}; next: rqps {next_} {study}")
    return 128 + stopped_by if stopped_by else int(bool(failed))


def _report_absent(runs: Sequence[Run], watcher: Watcher) -> int:
    """Reports each dbms whose version lacks a requested feature; returns the number of runs that are left out."""
    absent = [run for run in runs if run.absent]
    for dbms, run in {run.dbms: run for run in absent}.items():
        if dbms == run.base:
            fix = "choose another base, or another scenario for its config"
            raise RqpsError(f"the base {dbms} needs a feature that its version lacks: {run.absent}", fix=fix)
        watcher.say(f"{dbms}: not in this version: {run.absent}")
    return len(absent)


def _one_run(folder: StudyFolder, run: Run, runner: Runner, watcher: Watcher) -> Failure | None:
    if watcher.stopped_by:
        raise Stopped
    partial = run_folder.begin(folder, run)
    try:
        started_at = run_folder.now()
        watcher.begin(run)
        error = runner.measure(run, partial, watcher)
        if watcher.stopped_by:
            raise Stopped
        reason = run_folder.why_failed(partial, run, error)
        # On a full disk, the run fails even if its manifest is complete: its notebook may be truncated.
        if no_room(f"{error} {reason}"):
            what = f"{run.words}: {reason or error}"
            raise RqpsError(what, fix=AGAIN if "make room" in what else f"make room for {folder.path}, {AGAIN}")
        watcher.end(ok=reason is None)
        if reason is None:
            rebuilds.refuse_another_program(folder.path, run, partial)
            published = run_folder.publish(folder, run)
            if error:
                watcher.say(f"{run.words} is measured; its notebook failed afterwards, see {published}: {error}")
            return None
        at = noted(partial)
        failure = run_folder.store_failed(folder, run, started_at=started_at, doing=at, error=reason)
        watcher.say(f"{run.words} failed at {at}: {failure.shown}\n  logs: {failure.folder / LOGS}")
        return failure
    finally:
        run_folder.remove(partial)
