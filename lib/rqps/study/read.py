"""Reads a runs.yaml: its values, or all mistakes in it at once."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from pydantic import ValidationError

from rqps.errors import RqpsError
from rqps.study.configs import Option, resolve
from rqps.study.document import Document, Place, Problem, all_at_once, parse
from rqps.study.explain import problems_of
from rqps.study.mistakes import complete, mistakes
from rqps.study.runs_file import RunsFile, Workloads

MAX_CONNECTIONS = "max_connections"
DEFAULT_CONNECTIONS = 151
"""Of every release from 5.5 on."""


def read_runs_file(path: Path, workloads: Workloads) -> RunsFile:
    """The builds, configs and studies of a runs.yaml."""
    document = parse(_text(path))
    problems = list(document.problems)
    if document.value is None and not problems:
        problems.append(Problem((), "is empty; it needs the keys builds, configs and studies"))
    runs_file = None
    if document.value is not None:
        problems += mistakes(document.value, workloads)
        problems += _unquoted_versions(document)
        if isinstance(document.value, dict) and isinstance(document.value.get("studies"), dict):
            document.value["studies"] = complete(document.value["studies"])
        try:
            # As JSON, since a strict model takes its lists and words for tuples and paths only from there.
            runs_file = RunsFile.model_validate_json(json.dumps(document.value), context=workloads)
        except ValidationError as error:
            problems += problems_of(error, document, workloads)
    if runs_file is not None and not problems:  # only names that lead somewhere can be followed
        problems += _too_many_clients(runs_file)
    if problems or runs_file is None:
        raise all_at_once(str(path), _where_they_are_written(problems, document), document.lines)
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


def _unquoted_versions(document: Document) -> Iterator[Problem]:
    """Also those that YAML leaves alone: who has learnt to quote 5.6.24 won't write 8.0 and get 8."""
    for place, word in document.words.items():
        match place:
            case ("builds", str() as name, "mysql") if place not in document.quoted:
                if isinstance(document.value["builds"][name]["mysql"], str):
                    yield Problem(place, f'write the version in quotes: "{word}"')


def _too_many_clients(runs_file: RunsFile) -> Iterator[Problem]:
    """The studies whose load has more clients than the servers of one of their configs admit."""
    for name, study in runs_file.studies.items():
        asked = study.parameters.connections
        too_few = {}
        for config in dict.fromkeys(dbms.partition(".")[2] for dbms in study.dbms):
            option = resolve(runs_file.configs, config).get(MAX_CONNECTIONS)
            most = DEFAULT_CONNECTIONS if option is None else _number(option)
            if most is not None and most < asked.needed:
                too_few[config] = f"{most}{' by default' if option is None else ''} in configs.{config}"
        if too_few:
            clients = f"{asked.clients} {asked.parameter}"
            yield Problem(
                ("studies", name, "parameters", asked.parameter),
                f"{clients} and {asked.ours} for control take {asked.needed} connections, and {MAX_CONNECTIONS} is "
                f"{', '.join(too_few.values())}; set {asked.needed} or more there, or ask for fewer",
            )


def _number(option: Option) -> int | None:
    """None where only the server knows, of `1K` for instance; it is asked before the first step, too."""
    return int(option.value) if str(option.value).isdecimal() else None


def _where_they_are_written(problems: Sequence[Problem], document: Document) -> Iterator[Problem]:
    """Leaves out problems that a study has only because it took them over: they are shown where they are written."""
    known = {(problem.place, problem.text) for problem in problems}
    for problem in problems:
        parents = _taken_from(problem.place, document)
        if not any((place, problem.text) in known for place in parents):
            yield problem


def _taken_from(place: Place, document: Document) -> Iterator[Place]:
    """The same place in the studies that one extends, if it does not stand in the study itself."""
    seen = {place}
    while len(place) > 2 and place[0] == "studies" and place not in document.lines:
        if ("studies", place[1], "extends") not in document.lines:
            return
        place = ("studies", document.value["studies"][place[1]]["extends"], *place[2:])
        if place in seen:  # a circle
            return
        seen.add(place)
        yield place
