"""Prepares and measures the run that a notebook requests, started by `rqps run` or by hand (papermill, JupyterLab).

`rqps run` writes the job into the run's folder beforehand. For a run by hand, the job is made here. A run with other
dbms, parameters or options than the study in runs.yaml gets a study of its own.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from rqps.engines.cache import short_key
from rqps.errors import RqpsError
from rqps.measure.job import JOB, Job, git_revision, make_ready, read_job
from rqps.measure.notes import noted
from rqps.measure.run import Result
from rqps.measure.run import measure as measure_into_folder
from rqps.schedule import run_folder
from rqps.schedule.rebuilds import known_versions, next_versions, rebuilt, refusal, with_versions
from rqps.schedule.run_study import write_card
from rqps.schedule.state import StudyFolder, refuse_mixture, run_state, this_host
from rqps.store.manifest import CARD, data_folder, read_study_card
from rqps.study import Mode, Run, RunsFile, StudySpec, known_dbms, read_runs_file, study_of, unfold
from rqps.study.runs_file import ConfigSpec
from rqps.workloads import PARAMETERS

BY_HAND = "by-hand"


def job_of(
    workload: str,
    study: str,
    dbms: str | Sequence[str] = "",
    round: int = 1,
    mode: Mode = "throughput",
    folder: str = "",
    options: Mapping[str, Any] | str | None = None,
    **parameters: Any,
) -> Job:
    """Returns the job of the run that a notebook requests. `rqps run` passes the `folder` in which it stored the job.

    For a run by hand, `dbms` is one name of the form build.config or several (default: the study's base), `options`
    are further options of the server, and `parameters` are those of the workload. Lists and mappings may be JSON, as
    in `papermill -p`.
    """
    if folder:
        return read_job(Path(folder) / JOB)
    runs_yaml = _runs_yaml()
    runs_file = read_runs_file(runs_yaml, PARAMETERS)
    spec = study_of(runs_file, study)
    if spec.workload != workload and mode != "instructions":
        fix = f"use the notebook {spec.workload}, or name a study of {workload}"
        text = f"study {study!r} has the workload {spec.workload}, and this notebook is for {workload}"
        raise RqpsError(text, fix=fix)
    names = _parsed(dbms) or spec.base
    chosen = (names,) if isinstance(names, str) else tuple(names)
    given = {name: _parsed(value) for name, value in parameters.items() if value is not None}
    original = runs_file
    runs_file, name = _with_changes(runs_file, study, chosen, round, mode, given, _parsed(options) or {})
    named = os.environ.get("RQPS_DATA")
    data = data_folder(named) if named else runs_yaml.parent / "data"
    place = StudyFolder.of(data.absolute(), name)
    versions = known_versions(place.path, runs_file, name, this_host())
    if changed := rebuilt(versions):
        raise refusal(study, changed)
    versions = next_versions(versions, place.path, runs_file, name, this_host())
    run = _unit(unfold(with_versions(runs_file, name, versions), name, this_host()), name, chosen, round, mode)
    if run.absent:
        raise RqpsError(f"{run.dbms}: {run.absent}", fix="name another dbms")
    with run_folder.measuring(name):  # raises an error if another run is being measured
        run_folder.clear_stale(place, print)
        # An earlier execution of the cell in this Jupyter kernel may have left this folder.
        run_folder.remove_own(place.partial(run.unit))
        refuse_mixture(place, [run], {*spec.hosts} - {this_host()})
        if run_state(place, run).state == "done":
            fix = f"give another round, such as -p round {round + 1}, or read it: rqps.load({name!r})"
            raise RqpsError(f"{place.finished(run.unit)}: this run is measured already", fix=fix)
        ready, revision = make_ready([run], print), git_revision(runs_yaml.parent)
        # If the run belongs to the study in runs.yaml, the card is the one that `rqps run` would write.
        known = original if name == study else runs_file
        if name == study or not (place.path / CARD).is_file() or (read_study_card(place.path).rounds or 0) < round:
            write_card(place, known.studies[name], unfold(known, name, this_host()), None, versions)
        partial = run_folder.begin(place, run)
    servers = len(run.members)
    first, *others = (ready[member.dbms].job(member, partial, revision, servers) for member in run.members)
    job = first.model_copy(update={"beside": tuple(others), "published_in": place.path})
    job.write()
    return job


def measure(job: Job) -> Result:
    """Measures the run that a notebook requests. For a run by hand, the run's folder is then moved to the finished or
    the failed runs of its study. An interrupted run leaves no folder."""
    if job.published_in is None:  # `rqps run` moves the folder once the notebook has ended
        return measure_into_folder(job)
    place, started_at = StudyFolder(job.published_in), run_folder.now()
    partial = place.partial(job.run.unit)
    try:
        with run_folder.measuring(job.run.study):
            try:
                result = measure_into_folder(job)
                if reason := run_folder.why_failed(partial, job.run, None):
                    raise RqpsError(reason, fix="run the cells of this notebook again, from the first")
            except RqpsError as error:
                run_folder.store_failed(place, job.run, started_at=started_at, doing=noted(partial), error=str(error))
                raise
            return replace(result, folder=run_folder.publish(place, job.run))
    finally:
        run_folder.remove(partial)


def _runs_yaml() -> Path:
    """The nearest runs.yaml, in the working directory or above it."""
    for above in (Path.cwd(), *Path.cwd().parents):
        if (above / "runs.yaml").is_file():
            return above / "runs.yaml"
    raise RqpsError(f"{Path.cwd()}: no runs.yaml here or above", fix="start in the checkout, or in a folder of it")


def _parsed(value: Any) -> Any:
    """Parses a value of `papermill -p`, where lists and mappings are JSON.

    >>> _parsed('["point-query"]'), _parsed("my8033.ps0"), _parsed(5)
    (['point-query'], 'my8033.ps0', 5)
    """
    if isinstance(value, str) and value[:1] in ("[", "{"):
        try:
            return json.loads(value)
        except ValueError as error:
            raise RqpsError(f"{value}: not JSON: {error}", fix="write it as in '[\"point-query\"]'") from None
    return value


def _with_changes(
    runs_file: RunsFile,
    study: str,
    dbms: tuple[str, ...],
    round: int,
    mode: Mode,
    parameters: Mapping[str, Any],
    options: Mapping[str, Any],
) -> tuple[RunsFile, str]:
    """The contents of runs.yaml with a study that has the requested run, and the study's name. The study is new if it
    has other dbms, parameters or options."""
    spec = runs_file.studies[study]
    configs = dict(runs_file.configs)
    named = {name: known_dbms(name, runs_file.builds, configs) for name in dbms}
    alone = not spec.duet or mode != "throughput"
    in_study = set(dbms) == set(spec.dbms) or (alone and set(dbms) <= set(spec.dbms))
    rounds = {"throughput": {"rounds": max(round, 1)}, "stacks": {"stacks_rounds": round}}
    rounds |= {"waits": {"waits_rounds": round}, "instructions": {"instructions_rounds": round}}
    if mode not in rounds:
        fix = f"give one of {', '.join(rounds)}"
        raise RqpsError(f"mode {mode!r} can't be measured by hand", fix=fix)
    changes: dict[str, Any] = {"hosts": (), "measure_parts_of": None, "budget": None, "rounds": spec.rounds or round}
    changes |= rounds[mode]
    if in_study and not parameters and not options:
        return runs_file.with_study(study, changes), study
    chosen = dbms
    if options:
        chosen = tuple(f"{name}-{BY_HAND}" for name in dbms)
        for _, config in named.values():
            try:
                configs[f"{config}-{BY_HAND}"] = ConfigSpec.model_validate({"extends": config, **options})
            except ValidationError as error:
                what = f"options={dict(options)!r}: {error.errors()[0]['msg']}"
                raise RqpsError(what, fix="write names and values as in runs.yaml") from None
    own = f"{study}-{BY_HAND}-{short_key(dbms, dict(parameters), dict(options))[:6]}"
    changes |= {"dbms": chosen, "base": chosen[0], "question": f"By hand: {spec.question}"}
    changes["parameters"] = _parameters(spec, parameters)
    return runs_file.with_study(study, changes, own, configs=configs), own


def _parameters(spec: StudySpec, parameters: Mapping[str, Any]) -> Any:
    asked = spec.parameters.model_dump(mode="json", exclude_unset=True) | dict(parameters)
    try:
        # Validated as JSON, since a strict model accepts lists for tuples only in JSON.
        return type(spec.parameters).model_validate_json(json.dumps(asked))
    except ValidationError as error:
        lines = [f"{'.'.join(map(str, detail['loc']))}: {detail['msg']}" for detail in error.errors()]
        fix = f"see the parameters of {spec.workload} in runs.schema.json"
        raise RqpsError("; ".join(lines), fix=fix) from None


def _unit(runs: Sequence[Run], study: str, dbms: tuple[str, ...], round: int, mode: Mode) -> Run:
    """The run of this round and mode: a duet if there is one, else the run of the single requested dbms."""
    of_round = [run for run in runs if run.mode == mode and run.round == round]
    for run in of_round:
        wanted = {*dbms, *(f"{name}-{BY_HAND}" for name in dbms)}
        if run.side is not None or (len(dbms) == 1 and run.dbms in wanted):
            return run
    fix = "give one dbms, or several of a workload whose servers take turns"
    raise RqpsError(f"{study}: round {round} has no run of {', '.join(dbms)} in mode {mode}", fix=fix)
