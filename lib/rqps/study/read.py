"""Reads a runs.yaml: its values, or all that is wrong with it at once."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from rqps.errors import RqpsError
from rqps.study.connections import connection_problems
from rqps.study.document import Document, parse
from rqps.study.explain import problems_of
from rqps.study.extending import complete, told_once
from rqps.study.problems import Problem, all_at_once
from rqps.study.references import reference_problems
from rqps.study.runs_file import RunsFile
from rqps.workloads import PARAMETERS


def read_runs_file(path: Path) -> RunsFile:
    """The builds, configs and studies of a runs.yaml."""
    document = parse(_text(path))
    problems = list(document.problems)
    if document.value is None and not problems:
        problems.append(Problem((), "is empty; it needs the keys builds, configs and studies"))
    runs_file = None
    if document.value is not None:
        problems += reference_problems(document.value)
        problems += _unquoted_versions(document)
        _complete_studies(document.value)
        problems += _parameter_problems(document)
        try:
            # As JSON, since a strict model takes its lists and words for tuples and paths only from there.
            runs_file = RunsFile.model_validate_json(json.dumps(document.value))
        except ValidationError as error:
            problems += problems_of(error, document)
    if runs_file is not None and not problems:  # only names that lead somewhere can be followed
        problems += connection_problems(runs_file)
    if problems or runs_file is None:
        raise all_at_once(str(path), told_once(problems, document), document.lines)
    return runs_file


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise RqpsError(
            f"{path}: there is no such file",
            fix="go to the folder that has it, or name it with --runs-yaml",
        ) from None
    except OSError as error:
        raise RqpsError(f"{path}: can't be read: {error.strerror}", fix="name a file with --runs-yaml") from None
    except UnicodeDecodeError as error:
        raise RqpsError(f"{path}: byte {error.start} is not UTF-8 text", fix="save the file as UTF-8") from None


def _complete_studies(value: Any) -> None:
    if isinstance(value, dict) and isinstance(value.get("studies"), dict):
        value["studies"] = complete(value["studies"])


def _unquoted_versions(document: Document) -> Iterator[Problem]:
    """Also those that YAML leaves alone: who has learnt to quote 5.6.24 won't write 8.0 and get 8."""
    for place, word in document.words.items():
        match place:
            case ("builds", str() as name, "mysql") if place not in document.quoted:
                if isinstance(document.value["builds"][name]["mysql"], str):
                    yield Problem(place, f'write the version in quotes: "{word}"')


def _parameter_problems(document: Document) -> Iterator[Problem]:
    studies = document.value.get("studies") if isinstance(document.value, dict) else None
    for name, study in studies.items() if isinstance(studies, dict) else ():
        if not isinstance(study, dict):
            continue
        workload, parameters = study.get("workload"), study.get("parameters", {})
        if isinstance(workload, str) and workload in PARAMETERS and isinstance(parameters, dict):
            try:
                PARAMETERS[workload].model_validate_json(json.dumps(parameters))
            except ValidationError as error:
                yield from problems_of(error, document, ("studies", name, "parameters"))
