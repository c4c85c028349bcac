"""Measure what of a study is missing: one run after the other, each through papermill."""

import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from rqps.amounts import duration
from rqps.errors import RqpsError
from rqps.execute import keep
from rqps.execute.attempt import LOGS, Attempt
from rqps.execute.console import Console
from rqps.execute.failure import Failure, out_of_room, why_failed
from rqps.execute.folders import StudyFolder
from rqps.execute.host import this_host
from rqps.execute.lock import measuring
from rqps.execute.parameters_check import check_parameters
from rqps.execute.processes import wait_until_gone
from rqps.execute.progress import Progress, doing
from rqps.execute.signals import Stop, Stopped
from rqps.execute.state import refuse_mixture, run_state
from rqps.store import StudyCard, write_study_card
from rqps.store.find import SET_ASIDE
from rqps.study import Run, RunsFile, unfold

POLL_S = 0.5
AGAIN = "then run the same command again: what was measured before is whole"
Say = Callable[[str], None]
MakeReady = Callable[[Sequence[Run], Say], None]


@dataclass(frozen=True)
class Outcome:
    """What one `rqps run` came to."""

    study: str
    measured: tuple[str, ...]
    failed: tuple[Failure, ...]
    already: int
    missing: int
    elapsed_s: float
    stopped_by: signal.Signals | None = None

    @property
    def exit_code(self) -> int:
        return 128 + self.stopped_by if self.stopped_by else int(bool(self.failed))


@dataclass(frozen=True)
class _Order:
    """What stays the same for all runs of one call."""

    study: str
    folder: StudyFolder
    notebooks: Path
    runs_yaml: Path
    console: Console

    def notebook(self, run: Run) -> Path:
        name = "instructions" if run.mode == "instructions" else run.workload
        return self.notebooks / "run" / f"{name}.ipynb"

    def parameters(self, run: Run) -> dict[str, str]:
        return {
            "runs_yaml": str(self.runs_yaml),
            "study": self.study,
            "run": run.run,
            "folder": str(self.folder.partial(run.run)),
        }


def run_study(
    runs_file: RunsFile,
    study: str,
    *,
    runs_yaml: Path,
    data: Path,
    notebooks: Path,
    console: Console | None = None,
    archive: bool = False,
    host: str | None = None,
    make_ready: MakeReady | None = None,
) -> Outcome:
    """Do what is missing of a study and nothing twice. What fails is kept and told, and the study goes on."""
    runs = unfold(runs_file, study, host or this_host())
    folder = StudyFolder.of(data.absolute(), study)
    order = _Order(study, folder, notebooks.absolute(), runs_yaml.absolute(), console or Console())
    for run in {order.notebook(run): run for run in runs}.values():
        check_parameters(order.notebook(run), order.parameters(run))
    try:
        with Stop() as stop, measuring(study):
            _prepare_folder(order, runs_file, runs, archive)
            outcome = _measure(order, runs, make_ready or _make_ready, stop)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise _unwritable(error, folder.path) from error
    _sum_up(order.console, outcome)
    return outcome


def _prepare_folder(order: _Order, runs_file: RunsFile, runs: Sequence[Run], archive: bool) -> None:
    path, console = order.folder.path, order.console
    keep.clear_stale(order.folder, console.say)
    if archive and path.exists():
        old = path.with_name(f"{path.name}{SET_ASIDE}{datetime.now().astimezone():%Y%m%d-%H%M%S}")
        path.rename(old)
        console.say(f"set aside: {old}")
    else:
        refuse_mixture(order.folder, runs)
    spec = runs_file.studies[order.study]
    card = StudyCard(
        study=order.study,
        question=spec.question,
        workload=spec.workload,
        base=spec.base,
        dbms=tuple(spec.dbms),
        rounds=spec.rounds,
        parameters=runs[0].parameters.model_dump(mode="json"),
        absent={run.dbms: run.absent for run in runs if run.absent},
    )
    write_study_card(path, card)


def _measure(order: _Order, runs: Sequence[Run], make_ready: MakeReady, stop: Stop) -> Outcome:
    began = time.monotonic()
    todo = [run for run in runs if run_state(order.folder, run).state not in ("done", "absent")]
    absent = _tell_absent(order.console, runs)
    measured: list[str] = []
    failed: list[Failure] = []
    try:
        if todo:
            with stop.raising():
                make_ready(todo, order.console.say)
        progress = Progress(order.console, todo, before=len(runs) - len(todo) - absent)
        for run in todo:
            failure = _one_run(order, run, progress, stop)
            if failure is None:
                measured.append(run.run)
            else:
                failed.append(failure)
    except Stopped:
        pass
    return Outcome(
        study=order.study,
        measured=tuple(measured),
        failed=tuple(failed),
        already=len(runs) - len(todo) - absent,
        missing=len(todo) - len(measured),
        elapsed_s=time.monotonic() - began,
        stopped_by=stop.signal,
    )


def _tell_absent(console: Console, runs: Sequence[Run]) -> int:
    """Says once of each dbms whose version lacks what is asked for that its runs are left out; how many those are."""
    absent = [run for run in runs if run.absent]
    for dbms, run in {run.dbms: run for run in absent}.items():
        if dbms == run.base:
            fix = "choose another base, or another scenario for its config"
            raise RqpsError(f"the base {dbms} is not in this version: {run.absent}", fix=fix)
        console.say(f"{dbms}: not in this version: {run.absent}")
    return len(absent)


def _one_run(order: _Order, run: Run, progress: Progress, stop: Stop) -> Failure | None:
    """Measure one run; give back why it failed, if it did."""
    if stop.signal:
        raise Stopped
    partial = keep.begin(order.folder, run)
    try:
        started_at = _now()
        progress.begin()
        error = _execute(order, run, progress, stop)
        if stop.signal:
            raise Stopped
        reason = why_failed(partial, run, error)
        if out_of_room(f"{error} {reason}"):  # then the notebook may be cut off even if the manifest is whole
            raise RqpsError(f"{run.run}: {reason or error}", fix=f"make room for {order.folder.path}, {AGAIN}")
        progress.end(ok=reason is None)
        if reason is None:
            whole = keep.publish(order.folder, run)
            if error:
                order.console.say(f"{run.run} is measured; its notebook failed afterwards, see {whole}: {error}")
            return None
        at = doing(partial)
        failure = keep.keep_failed(
            order.folder,
            run,
            lambda kept: Failure(run.run, run.dbms, run.round, started_at, _now(), at, reason, kept),
        )
        order.console.say(f"{run.run} failed at {at}: {failure.shown}\n  logs: {failure.folder / LOGS}")
        return failure
    finally:
        keep.remove(partial)


def _execute(order: _Order, run: Run, progress: Progress, stop: Stop) -> str | None:
    """Run the notebook to its end or ours; nothing of it is left running. Give back what it ended with."""
    partial = order.folder.partial(run.run)
    attempt = Attempt(order.notebook(run), partial, order.parameters(run))
    try:
        while not attempt.wait(POLL_S) and not stop.signal:
            progress.tick(partial)
    finally:
        if stop.signal:
            order.console.say(f"stopping {run.run}")
        attempt.stop()
        left = wait_until_gone(attempt.remains(), keep.PATIENCE_S, order.console.say)
    if left:
        raise keep.still_running(left)
    return attempt.error()


def _sum_up(console: Console, outcome: Outcome) -> None:
    for failure in outcome.failed:
        console.say(f"failed: {failure.run}: {failure.in_short}\n  logs: {failure.folder / LOGS}")
    counted = f"{len(outcome.measured)} {'run' if len(outcome.measured) == 1 else 'runs'} measured"
    parts = [f"{outcome.study}: {counted} in {duration(outcome.elapsed_s)}"]
    if outcome.already:
        parts.append(f"{outcome.already} there already")
    if outcome.failed:
        parts.append(f"{len(outcome.failed)} failed")
    if outcome.stopped_by:
        parts.append(f"stopped by {outcome.stopped_by.name} with {outcome.missing} missing")
    again = outcome.failed or outcome.stopped_by
    following = f"rqps run {outcome.study}" if again else f"rqps report {outcome.study}"
    console.say(f"{', '.join(parts)}; next: {following}")


def _make_ready(runs: Sequence[Run], say: Say) -> None:
    from rqps.run import make_ready

    make_ready(runs, say)


def _unwritable(error: OSError, folder: Path) -> RqpsError:
    return RqpsError(
        f"{error.filename or folder}: could not be written: {error.strerror or error}",
        fix=f"see that the disk has room and the folder is yours, {AGAIN}",
    )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
