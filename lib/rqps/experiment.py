"""Measures one more build or config against a dbms of a study in a short duet, to find the source of a cost."""

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import polars as pl
from pydantic import BaseModel, ValidationError

from rqps import stats
from rqps.engines import build_of
from rqps.engines.cache import short_key
from rqps.errors import RqpsError, instead
from rqps.schedule.budget import Budget
from rqps.schedule.run_study import LocalRunner, run_study
from rqps.schedule.state import StudyFolder
from rqps.show import Text, answer_text, versions_text
from rqps.store.manifest import StudyCard, data_folder, read_study_card, study_folder
from rqps.store.read import load
from rqps.study import RunsFile, StudySpec, build_and_config, read_runs_file
from rqps.study.mistakes import mistakes
from rqps.study.runs_file import ConfigSpec
from rqps.workloads import PARAMETERS
from rqps.workloads.own.parameters import OwnParameters
from rqps.workloads.sysbench.parameters import SysbenchParameters

Value = str | int | float | bool
Model = TypeVar("Model", bound=BaseModel)
QUESTION = "What if: "
SECONDS, WARMUP_SECONDS, BUDGET_S = 4, 1, 100
LENGTHS = ("seconds", "write_seconds", "warm_seconds", "warmup_seconds", "flush_seconds")
LONGEST_NAME = 60
ROOT = Path(__file__).parents[2]


def what_if(
    study: str,
    *,
    step: str,
    build: str | None = None,
    config: Mapping[str, Value] | None = None,
    base: str | None = None,
    data: str | Path | None = None,
    runs_yaml: str | Path | None = None,
) -> Text:
    """Compares one step of a study's base, or of another `base`, with another build or other options, in a duet of
    less than two minutes.

    `build` is a build of runs.yaml or the directory of a server. After an interrupt, the same call continues.
    Returns the result as text; if the change cannot be measured, the text gives the reason.
    """
    try:
        return _measured(study, step, build, dict(config or {}), base, data, runs_yaml)
    except RqpsError as error:
        return Text(str(error))


def _measured(
    study: str,
    step: str,
    build: str | None,
    config: dict[str, Value],
    base: str | None,
    data: str | Path | None,
    runs_yaml: str | Path | None,
) -> Text:
    root = data_folder(data).resolve()
    card = read_study_card(study_folder(study, root))
    places = (root.parent, Path.cwd(), *Path.cwd().parents)
    nearest = next((candidate for at in places if (candidate := at / "runs.yaml").is_file()), None)
    file = Path(runs_yaml) if runs_yaml else nearest
    if file is None:
        raise RqpsError(f"{root.parent}: no runs.yaml beside the data", fix="name the file: runs_yaml='PATH'")
    name, asked = _asked(read_runs_file(file, PARAMETERS), card, step, build, config, base or card.base)
    notebooks = file.absolute().parent / "notebooks"
    runner = LocalRunner(notebooks if (notebooks / "run").is_dir() else ROOT / "notebooks", file)
    spec = asked.studies[name]
    looks = stats.InterimAnalyses(name, root, spec, [step])
    budget = Budget(spec.budget_s or BUDGET_S, looks)
    code = run_study(asked, name, data=root, runner=runner, budget=budget, rebuilt=True)
    tried = load(name, root)
    lines = [f"{spec.question} ({name})", *(["It was stopped; the same call continues."] if code > 1 else [])]
    if tried.runs["dbms"].n_unique() > 1:
        now = ~pl.col("dbms").is_in(stats.superseded(tried))
        lines += ["", answer_text(stats.relate(tried)[1].filter(now), every=True)]
        if of_versions := versions_text(stats.by_version(tried), every=True):
            lines += ["", of_versions]
    elif code == 1:
        lines += ["It could not be measured.", *_why_not(StudyFolder.of(root, name))]
    return Text("\n".join(lines))


def _asked(
    runs_file: RunsFile, card: StudyCard, step: str, build: str | None, config: Mapping[str, Value], base: str
) -> tuple[str, RunsFile]:
    """The name of the study that measures the change, and the content of runs.yaml with this study added."""
    if not build and not config:
        fix = "give build= or config={…}, such as config={'buffer_size': '64M'}"
        raise RqpsError("there is nothing to try: neither a build nor a config", fix=fix)
    if base not in card.dbms:
        fix = "name one of the study's dbms as base="
        raise RqpsError(f"{card.study}: no dbms {base!r}; {instead(base, card.dbms, 'dbms')}", fix=fix)
    its_build, its_config = build_and_config(base)
    builds, configs = dict(runs_file.builds), dict(runs_file.configs)
    if its_config not in configs and (now := _renamed(runs_file, card, base)):
        configs[its_config] = ConfigSpec(extends=now)
    for kind, name, known in (("build", its_build, builds), ("config", its_config, configs)):
        if name not in known:
            fix = f"add the {kind}s of the study {card.study} to runs.yaml"
            raise RqpsError(f"runs.yaml has no {kind} {name!r}, the {kind} of {base}", fix=fix)
    new_build = its_build
    if build:
        new_build, spec_of_build = build_of(build, builds, print)
        builds[new_build] = spec_of_build
    new_config = _add_config(configs, its_config, config) if config else its_config
    me = f"{new_build}.{new_config}"
    if me == base:
        raise RqpsError(f"{base} has this build and these options already", fix="give another build or other options")
    parameters = _parameters(card, step)
    changes = [f"{option} = {value}" for option, value in config.items()]
    changes += [f"build {new_build}"] if new_build != its_build else []
    described = {
        "question": f"{QUESTION}{', '.join(changes)}",
        "workload": card.workload,
        "dbms": [base, me],
        "base": base,
        "budget": f"{BUDGET_S}s",
        "parameters": parameters,
        "what_if": {"study": card.study, "change": ", ".join(changes)},
    }
    spec = _valid(StudySpec, described, f"step={step!r}")
    name = _as_name(f"{card.study}-if-{step}-{me}-{short_key(step, base, me, parameters)[:4]}")
    return name, runs_file.model_copy(update={"builds": builds, "configs": configs, "studies": {name: spec}})


def _add_config(configs: dict[str, ConfigSpec], base: str, options: Mapping[str, Value]) -> str:
    """Adds a config that extends the config `base` with other options; returns the new config's name."""
    at, written = f"config={dict(options)!r}", {"extends": base, **options}
    if wrong := next(mistakes({"configs": {base: {}, "new": written}}, PARAMETERS), None):
        raise RqpsError(f"{at}: {wrong.text}", fix="correct this option, or leave it out of config")
    name = _as_name("-".join([base, *(f"{option}-{value}" for option, value in options.items())]))
    if len(name) > LONGEST_NAME:
        name = f"{name[:LONGEST_NAME]}-{short_key(dict(options))[:4]}"
    configs[name] = _valid(ConfigSpec, written, at)
    return name


def _parameters(card: StudyCard, step: str) -> dict[str, Any]:
    """The study's parameters, reduced to one step and a short duration."""
    of_study = _valid(PARAMETERS[card.workload], card.parameters, card.study)
    if not isinstance(of_study, SysbenchParameters | OwnParameters):
        raise RqpsError(
            f"{card.workload}: step {step!r} can't be measured without the other steps",
            fix="take a study of sysbench or of statements of your own, or add a dbms to this one and run it",
        )
    alone = of_study.only(step)
    asked = card.parameters["steps"]
    steps = {name: asked[name] for name in alone.steps} if isinstance(asked, dict) else list(alone.steps)
    parameters = {key: value for key, value in card.parameters.items() if key not in LENGTHS}
    parameters |= {"steps": steps, "seconds": SECONDS, "warmup_seconds": WARMUP_SECONDS}
    parameters |= {} if isinstance(alone.threads, int) else {"threads": list(alone.threads)}
    if reason := _valid(PARAMETERS[card.workload], parameters, f"step={step!r}").not_sliced:
        raise RqpsError(f"{card.workload}: {step} can't be measured as a duet: {reason}", fix="take another study")
    return parameters


def _as_name(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]", "-", text)


def _renamed(runs_file: RunsFile, card: StudyCard, dbms: str) -> str | None:
    """The name that runs.yaml now gives to the config of a dbms, which may have been renamed after the study was
    measured; None if runs.yaml lists more or fewer dbms for the study, or another build."""
    spec = runs_file.studies.get(card.study)
    if spec is None or len(spec.dbms) != len(card.dbms):
        return None
    now = spec.dbms[card.dbms.index(dbms)]
    build, config = spec.named[now]
    return config if build == build_and_config(dbms).build else None


def _valid(model: type[Model], values: Mapping[str, object], at: str) -> Model:
    try:
        return model.model_validate_json(json.dumps(values), context=PARAMETERS)
    except ValidationError as error:
        raise RqpsError(
            f"{at}: {error.errors()[0]['msg'].removeprefix('Value error, ')}", fix="correct this value"
        ) from None


def _why_not(folder: StudyFolder) -> tuple[str, ...]:
    """The error of the last failed run, and the folder of the run's logs; empty if no run failed."""
    errors = sorted((folder.path / "failed").glob("*/failure.json"), key=os.path.getmtime)
    if not errors:
        return ()
    message = json.loads(errors[-1].read_text(encoding="utf-8"))["error"].strip()
    return message, f"  logs: {errors[-1].parent / 'logs'}"
