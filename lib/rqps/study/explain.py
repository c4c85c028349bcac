"""Values that a typed model refuses, in words for whoever wrote the file."""

import re
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from rqps.study.configs import ConfigSpec
from rqps.study.document import Document, Place, Problem, instead
from rqps.study.perf_schema import ScenarioSpec
from rqps.study.runs_file import BuildSpec, RunsFile, StudySpec, Workloads

_LIKE_A_NUMBER = re.compile(r"[-+]?[0-9][0-9_]*(\.[0-9]*)?([eE][-+]?[0-9]+)?")

_BOUNDS = {"ge": "at least", "gt": "more than", "le": "at most", "lt": "less than"}
_FORMS = {
    "mysql": 'a version; write one such as "8.0.33" or "9.7"',
    "path": "a path from the root or from ~; write all of it, such as /opt/mysql/my8040 or ~/mysql/my8040",
    "url": "an address; write one such as https://HOST/mysql-8.0.33-linux.tar.xz",
    "maven": "an archive of Maven; write group:artifact:version:type:classifier",
    "npm": "a package of npm with its version; write name@version",
    "debian": "the name of a Debian package, such as mysql-server-core",
    "suite": "a Debian suite, such as sid",
    "sha256": "a SHA-256; write its 64 digits 0-9a-f, as sha256sum prints them",
}


def problems_of(error: ValidationError, document: Document, workloads: Workloads) -> Iterator[Problem]:
    """One problem for each of the models' complaints."""
    for detail in error.errors():
        place = detail["loc"]
        if place[-1:] == ("[key]",):
            place = place[:-1]
        yield Problem(place, _sentence(detail, place, document, workloads))


def _sentence(detail: ErrorDetails, place: Place, document: Document, workloads: Workloads) -> str:
    kind, value, context = detail["type"], detail["input"], detail.get("ctx", {})
    written = document.words.get(place)
    if kind == "missing":
        return f"is missing{_example(_model_at(place[:-1], document.value, workloads), str(place[-1]))}"
    if kind == "extra_forbidden":
        known = _model_at(place[:-1], document.value, workloads).model_fields
        return f"unknown key {place[-1]!r}; {instead(str(place[-1]), known, 'keys here')}"
    if kind == "value_error":
        return str(context.get("error", detail["msg"]))
    if kind == "literal_error":
        choices = re.findall(r"'([^']*)'", context["expected"])
        return f"{_shown(value, written)} is not one of them; {instead(str(value), choices, 'choices')}"
    if kind == "string_pattern_mismatch":
        return _wrong_form(place, value)
    for bound, words in _BOUNDS.items():
        if bound in context:
            return f"is {_shown(value, written)}; it has to be {words} {context[bound]}"
    if kind in ("too_short", "string_too_short"):
        return "is empty; it needs at least one"
    return _wrong_type(kind, value, written)


def _wrong_form(place: Place, value: str) -> str:
    if place[0] == "builds" and len(place) == 3:
        return f"{value!r} is not {_FORMS.get(str(place[-1]), 'what is due here')}"
    return f"{value!r} can't be a name; use letters, digits, _ and - (it becomes part of a folder's name)"


def _wrong_type(kind: str, value: Any, written: str | None) -> str:
    shown = _shown(value, written)
    if value is None:
        return "has no value; write one, or take the key out"
    if kind in ("int_type", "float_type", "int_from_float", "int_parsing"):
        if isinstance(value, str) and written and _LIKE_A_NUMBER.fullmatch(written):
            return f"{written!r} is text to YAML, where a number is due; write {_plain_number(written)}"
        return f"is {shown}; a {'whole ' if kind.startswith('int') else ''}number is due"
    if kind == "bool_type":
        return f"is {shown}; write true or false"
    if kind == "string_type":
        if isinstance(value, bool | int | float):
            return f'{written} is {_to_yaml(value)} to YAML, where text is due; write "{written}" in quotes'
        return f"is {shown}; text is due"
    if kind in ("tuple_type", "list_type"):
        return f"is {shown}; a list is due, such as [a, b]"
    if kind in ("dict_type", "model_type", "model_attributes_type"):
        return f"is {shown}; keys and values are due, such as {{key: value}}"
    return f"{shown} is refused: {kind.replace('_', ' ')}"


def _shown(value: Any, written: str | None) -> str:
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    return repr(value) if isinstance(value, str) else written or str(value)


def _to_yaml(value: bool | int | float) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"the number {value}"


def _plain_number(written: str) -> str:
    number = float(written)
    return f"{number:.0f}" if number.is_integer() else f"{number:g}"


def _example(model: type[BaseModel], key: str) -> str:
    field = model.model_fields.get(key)
    if field is None:
        return ""
    about = f"; {field.description}" if field.description else ""
    if not field.examples:
        return about
    example = str(field.examples[0]).replace("'", "")
    return f"; write for instance `{key}: {example}`"


def _model_at(place: Place, value: Any, workloads: Workloads) -> type[BaseModel]:
    """The model that says which keys there are at a place."""
    match place:
        case ("builds", _):
            return BuildSpec
        case ("configs", _):
            return ConfigSpec
        case ("configs", _, "perf_schema"):
            return ScenarioSpec
        case ("studies", _):
            return StudySpec
        case ("studies", name, "parameters"):
            return workloads[value["studies"][name]["workload"]]
        case _:
            return RunsFile
