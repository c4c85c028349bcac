"""Tries: measures a build after each change of its code, together with the version before; or measures a user's own
statement on several dbms."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import ValidationError

from rqps.engines import Say, build_of, engine_of
from rqps.engines.asked import BuildSpec
from rqps.engines.cache import short_key
from rqps.errors import RqpsError, instead
from rqps.schedule import rebuilds
from rqps.schedule.run_study import write_card
from rqps.schedule.state import StudyFolder, this_host
from rqps.store.write import write_text
from rqps.study import RunsFile, known_dbms, read_runs_file, unfold
from rqps.study.reading import for_another_folder
from rqps.workloads import PARAMETERS

FILE = "try.yaml"
"""The file in a study's folder that defines the study, in the format of runs.yaml."""
NO_OPTIONS = "defaults"
"""The name of a config without options, for a try without a config of runs.yaml."""
ROUNDS = 4
"""Number of rounds of a try, which is the minimum for a verdict."""
STATEMENT_BUDGET = "2m"


@dataclass(frozen=True)
class Try:
    """A requested try: rounds of a build against its version before the change. Empty values are taken from the
    build's last try; if there was none, rqps chooses the values."""

    build: str
    """A directory, or the name of a build of runs.yaml that has a path."""
    steps: tuple[str, ...] = ()
    base: str = ""
    """The dbms of runs.yaml to compare with; if empty, the first version of the build."""
    config: str = ""
    against: Literal["last", "base"] = "last"
    rounds: int = ROUNDS


def file_of_try(data: Path, study: str) -> Path | None:
    """The file of a study that `rqps try` made; None for other studies."""
    file = data / "raw" / f"study={study}" / FILE
    return file if file.is_file() else None


def study_of_try(asked: Try, runs_yaml: Path | None, data: Path, say: Say) -> tuple[RunsFile, str]:
    """Writes the study of a try to a file, for `rqps run`; returns the file's contents and the study's name."""
    written = for_another_folder(runs_yaml) if runs_yaml else {}
    described = {kind: dict(written.get(kind) or {}) for kind in ("builds", "configs")}
    entries = ((name, BuildSpec.model_validate(entry)) for name, entry in described["builds"].items())
    name, spec = build_of(asked.build, {name: entry for name, entry in entries if entry.path}, say)
    build = spec.model_dump(mode="json", exclude_none=True)
    engine_of(spec).source(name, spec).fetch(name, say)  # raises an error if the build is missing
    before = _last_of(data, name, build)
    if before and not (asked.steps or asked.base or asked.config):
        study = before[1]
    else:
        if before and not asked.base:
            last = before[0].studies[before[1]]
            base = "" if last.named[last.base].build == name else last.base
            asked = replace(asked, base=base, config=asked.config or last.named[last.dbms[-1]].config)
        study = _write(asked, name, build, described, data)
    runs_file = read_runs_file(data / "raw" / f"study={study}" / FILE, PARAMETERS)
    runs_file = runs_file.with_study(study, {"against": asked.against, "rounds": asked.rounds})
    folder = StudyFolder.of(data, study)
    if before and before[1] != study:
        known = rebuilds.known_versions(StudyFolder.of(data, before[1]).path, runs_file, study, this_host())
        _begin(folder, runs_file, study, known, say)
    return runs_file, study


@dataclass(frozen=True)
class StatementTry:
    """A requested try of a user's own statement, on tables that an SQL file or a dump creates."""

    sql: str
    tables: Path
    dbms: tuple[str, ...]
    """The dbms of runs.yaml to compare, the base first."""
    values: tuple[str, ...] = ()
    """NAME=VALUES for each placeholder of the statement; VALUES are a range, a column or a list."""


def study_of_statement(asked: StatementTry, runs_yaml: Path | None, data: Path) -> tuple[RunsFile, str, str]:
    """Writes the study of a statement to a file, for `rqps run`; returns the file's contents, the study's name, and
    its entry for runs.yaml."""
    written = for_another_folder(runs_yaml) if runs_yaml else {}
    builds, configs = (dict(written.get(kind) or {}) for kind in ("builds", "configs"))
    if len(asked.dbms) < 2:
        raise RqpsError("--dbms: a comparison needs two dbms", fix="name them: --dbms my5624.common my8033.common")
    named = {dbms: known_dbms(dbms, builds, configs, "--dbms") for dbms in asked.dbms}
    configs_used = {config for _, config in named.values()}
    step: dict[str, Any] = {"sql": asked.sql}
    if asked.values:
        step["values"] = dict(map(_named_values, asked.values))
    parameters = {"tables": str(asked.tables.expanduser().absolute()), "steps": {"statement": step}, "seconds": 2}
    study = f"try-statement-{short_key(parameters, asked.dbms)[:6]}"
    spec = {
        "question": "What did it cost this statement?",
        "workload": "own",
        "dbms": list(asked.dbms),
        "base": asked.dbms[0],
        "budget": STATEMENT_BUDGET,
        "parameters": parameters,
    }
    described = {
        "builds": {build: builds[build] for build, _ in named.values()},
        "configs": {one: configs[one] for config in sorted(configs_used) for one in _extended(configs, config)},
        "studies": {study: spec},
    }
    file = _store(study, described, data)
    entry = yaml.safe_dump({"studies": {study: spec}}, sort_keys=False, allow_unicode=True, width=110)
    return read_runs_file(file, PARAMETERS), study, entry


def _named_values(given: str) -> tuple[str, Any]:
    """
    >>> _named_values("id=1..9"), _named_values("state=[open, 5]")
    (('id', '1..9'), ('state', ['open', 5]))
    """
    name, equals, text = given.partition("=")
    if not (equals and name and text):
        raise RqpsError(f"--values {given} is not NAME=VALUES", fix="write for instance --values id=1..100000")
    try:
        return name, yaml.safe_load(text) if text.startswith(("[", "{")) else text
    except yaml.YAMLError:
        raise RqpsError(
            f"--values {given} is no list", fix="write for instance --values 'state=[open, done]'"
        ) from None


def is_first(runs_file: RunsFile, study: str, data: Path, note: str, say: Say) -> bool:
    """True if there is no other dbms to compare with yet; the current build is then copied, and becomes the base."""
    folder, host = StudyFolder.of(data, study), this_host()
    known = rebuilds.known_versions(folder.path, runs_file, study, host)
    now = rebuilds.next_versions(known, folder.path, runs_file, study, host, note)
    if len(rebuilds.with_versions(runs_file, study, now).studies[study].dbms) > 1:
        return False
    _begin(folder, runs_file, study, now, say)
    return True


def _begin(folder: StudyFolder, runs_file: RunsFile, study: str, versions: rebuilds.Versions, say: Say) -> None:
    """Copies the builds that may be rebuilt, and writes the study's card, before anything is measured."""
    rebuilds.copy_newest(runs_file, study, versions, say)
    as_known = rebuilds.with_versions(runs_file, study, versions)
    write_card(folder, as_known.studies[study], unfold(as_known, study, this_host()), None, versions)


def _last_of(data: Path, name: str, build: Mapping[str, Any]) -> tuple[RunsFile, str] | None:
    """The study of a build's last try: the contents of its file, and its name. None if there was no try."""
    files = sorted((data / "raw").glob(f"study=*/{FILE}"), key=lambda file: file.stat().st_mtime, reverse=True)
    spec = BuildSpec.model_validate(build)
    for file in files:
        with suppress(RqpsError):  # a file that another try needs may be gone
            runs_file = read_runs_file(file, PARAMETERS)
            (study, of_try), *_ = runs_file.studies.items()
            if of_try.against and runs_file.builds.get(name) == spec:  # the study of a statement has no `against`
                return runs_file, study
    return None


def _write(asked: Try, name: str, build: dict[str, Any], written: Mapping[str, dict[str, Any]], data: Path) -> str:
    """Writes the study of a try, with its builds and configs, to a file in the study's folder; returns the study's
    name, which depends on build, steps, base and config."""
    builds, configs = {name: build}, dict(written["configs"])
    of_base, config_of_base = known_dbms(asked.base, written["builds"], configs, "--base") if asked.base else ("", "")
    config = asked.config or config_of_base or NO_OPTIONS
    if of_base:
        builds[of_base] = written["builds"][of_base]
    if config == NO_OPTIONS:
        configs.setdefault(NO_OPTIONS, {})
    if config not in configs:
        raise RqpsError(f"--config {config}: {instead(config, configs, 'configs')}", fix="name a config of runs.yaml")
    me = f"{name}.{config}"
    workload, parameters = _load(BuildSpec.model_validate(build).engine, asked.steps)
    study = f"try-{name}-{short_key(build, asked.base, written['configs'].get(config), parameters)[:4]}"
    needed = {config, config_of_base} - {""}
    described = {
        "builds": builds,
        "configs": {one: configs[one] for chosen in sorted(needed) for one in _extended(configs, chosen)},
        "studies": {
            study: {
                "question": f"What did the last change of {name} do?",
                "workload": workload,
                "dbms": [asked.base, me] if asked.base else [me],
                "base": asked.base or me,
                "rounds": ROUNDS,
                "twin": False,
                "against": asked.against,
                "parameters": parameters,
            }
        },
    }
    _store(study, described, data)
    return study


def _store(study: str, described: Mapping[str, Any], data: Path) -> Path:
    """Writes the runs.yaml entry of a `rqps try` into its study's folder, and returns the path of the file."""
    # JSON is valid YAML with all strings in quotes, so that no string is read as a number or a boolean.
    text = json.dumps(described, indent=1, ensure_ascii=False)
    (folder := StudyFolder.of(data, study).path).mkdir(parents=True, exist_ok=True)
    write_text(folder / FILE, f"# Written by rqps try; its entries can be copied to a runs.yaml.\n{text}\n")
    return folder / FILE


def _extended(configs: Mapping[str, Any], name: str) -> Iterator[str]:
    """Yields the names of a config and of the configs that it extends."""
    while name:
        yield name
        name = (configs[name] or {}).get("extends", "")


def _load(engine: str, steps: Sequence[str]) -> tuple[str, dict[str, Any]]:
    """The workload of a try, with its parameters: the first workload that supports the engine, has these steps and
    can give a verdict within minutes."""
    mistakes = []
    for workload, model in PARAMETERS.items():
        if engine in model.of_engines and model.of_a_try:
            parameters = {**model.of_a_try, **({"steps": list(steps)} if steps else {})}
            try:
                model.model_validate_json(json.dumps(parameters))
            except ValidationError as error:
                mistakes.append(f"{workload}: {error.errors()[0]['msg'].removeprefix('Value error, ')}")
            else:
                return workload, parameters
    raise RqpsError("; ".join(mistakes) or f"no workload of {engine} suits a short try", fix="name other steps")
