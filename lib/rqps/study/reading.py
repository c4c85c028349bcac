"""Reads a runs.yaml into typed values; one error lists all mistakes in the file."""

import json
import re
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from rqps.engines import ENGINES, Strict, facts_of, facts_of_all
from rqps.engines.asked import BuildSpec, Connections
from rqps.errors import instead
from rqps.study.document import MOST_PROBLEMS, Document, Place, Problem, all_at_once, read_document, read_text
from rqps.study.mistakes import complete, mistakes, with_those_it_extends
from rqps.study.runs_file import (
    FILE_KEYS,
    NAME_PATTERN,
    SCENARIO_KEYS,
    ConfigSpec,
    HostSpec,
    RunsFile,
    StudySpec,
    Workloads,
    resolve,
)

FILES_OF_LOADS = {"tables", "file"}
"""Keys of parameters, and of steps of one's own, whose text is the path of a file."""
_LIKE_A_NUMBER = re.compile(r"[-+]?[0-9][0-9_]*(\.[0-9]*)?([eE][-+]?[0-9]+)?")
_BOUNDS = {"ge": "at least", "gt": "more than", "le": "at most", "lt": "less than"}
_DUE = {
    "bool_type": "write true or false",
    "string_type": "text is due",
    **dict.fromkeys(("tuple_type", "list_type"), "a list is due, such as [a, b]"),
    **dict.fromkeys(
        ("dict_type", "model_type", "model_attributes_type"), "keys and values are due, such as {key: value}"
    ),
}
_PACKAGE = next(facts.debian_package for facts in facts_of_all() if facts.usual)
_FORMS = {
    **{facts.name: f'a version; write one such as "{facts.example}"' for facts in facts_of_all()},
    "path": "a path from the root or from ~; write all of it, such as /opt/builds/b8040 or ~/builds/b8040",
    "url": "an address; write one such as https://HOST/release-8.0.33-linux.tar.xz",
    "maven": "an archive of Maven; write group:artifact:version:type:classifier",
    "npm": "a package of npm with its version; write name@version",
    "debian": f"the name of a Debian package, such as {_PACKAGE}",
    "suite": "a Debian suite, such as sid",
    "sha256": "a SHA-256; write its 64 digits 0-9a-f, as sha256sum prints them",
    "git": "the address or path of a git repository, without spaces",
    "commit": "a commit; write its 40 digits 0-9a-f, as git rev-parse prints them",
    "version": "a version; write one such as 15.18-0+deb12u1",
}


_folder: list[Path] = []
"""The folder of the runs.yaml that was read last, if one was. It is no context variable, since each cell of a
notebook has a context of its own."""


def look_beside(folder: Path) -> None:
    """Makes `folder` the one at which relative paths of files start."""
    _folder[:] = [folder]


def beside_runs_yaml(name: str) -> Path:
    """The path of a file beside the runs.yaml that was read last, or else beside the nearest runs.yaml in or above
    the working directory."""
    above = (Path.cwd(), *Path.cwd().parents)
    nearest = next((folder for folder in above if (folder / "runs.yaml").is_file()), Path.cwd())
    return (_folder or [nearest])[0] / name


_FORMS_OF_HOSTS = {
    "ssh": "an address for SSH; write one such as me@big.example or big.example:2222, or a name in ~/.ssh/config",
    "path": "a folder for rqps; write one such as ~/rqps or /mnt/fast/rqps, of letters, digits, / . _ + -",
}


def read_runs_file(path: Path, workloads: Workloads, study: str | None = None) -> RunsFile:
    """The contents of a runs.yaml. If `study` is given, other studies with mistakes are left out; otherwise any
    mistake is an error."""
    document = read_document(path)
    look_beside(path.absolute().parent)
    if document.value is None and not document.problems:
        document.problems.append(Problem((), "is empty; it needs the keys builds, configs and studies"))
    _read_option_files(document, path)
    runs_file, problems = _read(document, workloads)
    if problems and study and (others := _studies_with(problems, document, study)):
        written = document.value["studies"]
        document.value["studies"] = {name: value for name, value in written.items() if name not in others}
        document.problems = []  # all of them are problems of the studies that are left out
        runs_file, left = _read(document, workloads)
        if left:
            document.value["studies"] = written
        problems = problems if left else []
    if problems or runs_file is None:
        raise all_at_once(str(path), _where_they_are_written(problems, document), document)
    return runs_file


def _read_option_files(document: Document, runs_yaml: Path) -> None:
    """Replaces the name of an option file in a config by the file's options."""
    configs = document.value.get("configs") if isinstance(document.value, dict) else None
    for name, config in configs.items() if isinstance(configs, dict) else ():
        for key in FILE_KEYS.keys() & (config if isinstance(config, dict) else {}):
            place, named, facts = ("configs", name, key), config[key], FILE_KEYS[key]
            config[key] = None
            if not isinstance(named, str) or not named:
                document.problems.append(
                    Problem(place, f"is {_shown(named, None)}; a file is due, such as etc/my.cnf")
                )
                continue
            file = Path(document.files.get(place[:2], runs_yaml)).parent / Path(named).expanduser()
            if not file.is_file():
                document.problems.append(Problem(place, f"there is no file {named!r} beside {runs_yaml.name}"))
                continue
            assert facts.option_files is not None
            lines, problems = facts.option_files.read(read_text(file), facts.ours)
            document.problems += [Problem(place, text, line, str(file)) for line, text in problems]
            config[key] = {"path": named, "lines": lines}


def for_another_folder(runs_yaml: Path) -> dict[str, Any]:
    """The values of a runs.yaml, to be written to a file in another folder: paths of option files, of tables and of
    logs are absolute."""
    document = read_document(runs_yaml)
    value: dict[str, Any] = document.value if isinstance(document.value, dict) else {}
    for name, config in (value.get("configs") or {}).items():
        for key in FILE_KEYS.keys() & (config if isinstance(config, dict) else {}):
            if config[key] and isinstance(config[key], str):
                folder = Path(document.files.get(("configs", name), runs_yaml)).absolute().parent
                config[key] = str(folder / Path(config[key]).expanduser())
    for study in (value.get("studies") or {}).values():
        for place in _with_files(study):
            for key in FILES_OF_LOADS & place.keys():
                if isinstance(place[key], str):
                    place[key] = str(runs_yaml.absolute().parent / Path(place[key]).expanduser())
    return value


def _with_files(study: Any) -> Iterator[dict[str, Any]]:
    """The parameters of a study and of its steps, any of which may name files."""
    parameters = study.get("parameters") if isinstance(study, dict) else None
    if isinstance(parameters, dict):
        yield parameters
        steps = parameters.get("steps")
        yield from (step for step in (steps.values() if isinstance(steps, dict) else ()) if isinstance(step, dict))


def _studies_with(problems: Sequence[Problem], document: Document, study: str) -> set[str]:
    """The studies to leave out so that `study` can be read: those with these problems, and those that extend them.
    Empty if leaving out does not help: `study` is one of them, is unknown, or a problem is outside of the studies."""
    known = document.value.get("studies") if isinstance(document.value, dict) else None
    places = (problem.place for problem in problems)
    names = {place[1] if place[:1] == ("studies",) and place[1:] else None for place in places}
    if not isinstance(known, dict) or not names <= known.keys():
        return set()
    others = {name for name in known if names & {*with_those_it_extends(name, known)}}
    return others if study in known.keys() - others else set()


def _read(document: Document, workloads: Workloads) -> tuple[RunsFile | None, list[Problem]]:
    problems = list(document.problems)
    runs_file, known = None, {problem.place for problem in document.problems}
    if document.value is not None:
        problems += islice(mistakes(document.value, workloads), MOST_PROBLEMS + 1)
        problems += _unquoted_versions(document)
        if isinstance(document.value, dict) and isinstance(document.value.get("studies"), dict):
            document.value["studies"] = complete(document.value["studies"])
        try:
            # Validated as JSON, since a strict model accepts lists for tuples and text for paths only in JSON.
            runs_file = RunsFile.model_validate_json(json.dumps(document.value), context=workloads)
        except ValidationError as error:
            for detail in error.errors()[: MOST_PROBLEMS + 1]:
                place = detail["loc"][:-1] if detail["loc"][-1:] == ("[key]",) else detail["loc"]
                if place in known and detail["input"] == document.words.get(place):  # reported already
                    continue
                problems.append(Problem(place, _sentence(detail, place, document, workloads)))
    if runs_file is not None and not problems:  # these checks need all names to be known
        problems += [*_builds_of_another_kind(runs_file), *_parameters_of_hosts(runs_file, document, workloads)]
        problems += _too_many_clients(runs_file) if not problems else ()
    return runs_file, problems


def _unquoted_versions(document: Document) -> Iterator[Problem]:
    """Yields versions without quotes. YAML reads 5.6.24 as text, but 8.0 as the number 8. rqps therefore requires
    quotes for all versions, including those that YAML reads as text."""
    for place, word in document.words.items():
        is_version = place[:1] == ("builds",) and len(place) == 3 and place[2] in ENGINES
        if is_version and place not in document.quoted:
            if not isinstance(document.value["builds"][place[1]][place[2]], str):
                continue  # the model of a build refuses a version that is not text
            yield Problem(place, f'write the version in quotes: "{word}"')


def _builds_of_another_kind(runs_file: RunsFile) -> Iterator[Problem]:
    """Yields the studies whose workload does not support all of their builds, or can't compare these builds."""
    for name, study in runs_file.studies.items():
        builds = {build: runs_file.builds[build] for build in study.builds}
        engines = study.parameters.of_engines
        others = [build for build, spec in builds.items() if spec.engine not in engines]
        if others:
            text = f"{study.workload} is for builds of {' and '.join(engines)}, and {', '.join(others)} is none"
            yield Problem(("studies", name, "dbms"), f"{text}; name others, or another workload")
        elif reason := study.parameters.refused(builds, study.duet):
            yield Problem(("studies", name, "dbms"), reason)
        for build, spec in builds.items() if study.layouts else ():
            if spec.unordered:
                yield Problem(("studies", name, "layouts"), f"{build} can't be linked again: {spec.unordered}")


def _parameters_of_hosts(runs_file: RunsFile, document: Document, workloads: Workloads) -> Iterator[Problem]:
    """Yields the mistakes in the parameters of hosts. A host's parameters are checked alone, and combined with the
    parameters of each study that they override."""
    for name, host in runs_file.hosts.items():
        for workload, own in host.parameters.items():
            place: Place = ("hosts", name, "parameters", workload)
            if workload not in workloads:
                hint = instead(workload, workloads, "workloads")
                yield Problem(place, f"unknown workload {workload!r}; {hint}")
                continue
            of_it = [
                study_spec
                for study_spec in runs_file.studies.values()
                if name in study_spec.hosts and study_spec.workload == workload
            ]
            tries = [partial(study.parameters_on, host) for study in of_it]
            for attempt in (partial(workloads[workload].model_validate_json, json.dumps(own)), *tries):
                try:
                    attempt()
                except ValidationError as error:
                    for detail in error.errors():
                        if detail["loc"][:1] in [(key,) for key in own] or (attempt in tries and not detail["loc"]):
                            here = (*place, *detail["loc"])
                            yield Problem(here, _sentence(detail, here, document, workloads))


def _too_many_clients(runs_file: RunsFile) -> Iterator[Problem]:
    """Yields the studies whose load needs more connections than a config lets a server accept, with the study's own
    parameters or with those of one of its hosts."""
    loads: list[tuple[Place, StudySpec, Connections]] = []
    for name, study in runs_file.studies.items():
        loads.append((("studies", name, "parameters"), study, study.parameters.connections))
        for host in study.hosts:
            of_host = study.parameters_on(runs_file.hosts[host])
            loads.append((("hosts", host, "parameters", study.workload), study, of_host.connections))
    for place, study, asked in loads:
        too_few = {}
        for build, config in (study.named[dbms] for dbms in study.dbms):
            spec = runs_file.builds[build]
            if (limit := facts_of(spec.engine).connections) is None:
                continue
            limited_by, default = limit
            option = resolve(runs_file.configs, config, spec.version).get(limited_by)
            most = default if option is None else option.value
            # A value such as 1K is not checked here: before the first step, the workload asks the server for the
            # limit.
            if str(most).isdecimal() and int(most) < asked.needed:
                too_few[config] = f"{most}{' by default' if option is None else ''} in configs.{config}"
        if too_few:
            clients = f"{asked.clients} {asked.parameter}"
            yield Problem(
                (*place, asked.parameter),
                f"{clients} and {asked.ours} for control take {asked.needed} connections, and {limited_by} is "
                f"{', '.join(too_few.values())}; set {asked.needed} or more there, or ask for fewer",
            )


def _where_they_are_written(problems: Sequence[Problem], document: Document) -> Iterator[Problem]:
    """Yields the problems, except those that a study inherits: they are reported for the study that it extends."""
    known = {(problem.place, problem.text) for problem in problems}
    for problem in problems:
        place = problem.place
        if len(place) > 2 and place[0] == "studies" and place not in document.lines:
            parent = document.value["studies"][place[1]].get("extends")
            if (("studies", str(parent), *place[2:]), problem.text) in known:
                continue
        yield problem


def _sentence(detail: ErrorDetails, place: Place, document: Document, workloads: Workloads) -> str:
    kind, value, context = detail["type"], detail["input"], detail.get("ctx", {})
    written = document.words.get(place)
    if kind == "missing":
        model, name = _model_at(place[:-1], document.value, workloads), str(place[-1])
        field = model.model_fields.get(name)
        if field is None or not field.examples:
            return f"is missing; {about}" if field and (about := model.description_of(name)) else "is missing"
        return f"is missing; write for instance `{place[-1]}: {str(field.examples[0]).replace(chr(39), '')}`"
    if kind == "extra_forbidden":
        known = _model_at(place[:-1], document.value, workloads).model_fields
        return f"unknown key {place[-1]!r}; {instead(str(place[-1]), known, 'keys here')}"
    if kind == "value_error":
        return str(context.get("error", detail["msg"]))
    if kind == "literal_error":
        choices = re.findall(r"'([^']*)'", context["expected"])
        return f"{_shown(value, written)} is not one of them; {instead(str(value), choices, 'choices')}"
    if kind == "string_pattern_mismatch":
        forms = {"builds": _FORMS, "hosts": _FORMS_OF_HOSTS}.get(str(place[0]), {})
        if len(place) > 2 and (form := forms.get(str(place[-1]))):
            return f"{value!r} is not {form}"
        if context["pattern"] != NAME_PATTERN:
            return f"{value!r} has another form than {context['pattern']}"
        return f"{value!r} can't be a name; use letters, digits, _ and -, none in front (folders are named by it)"
    for bound, words in _BOUNDS.items():
        if bound in context:
            return f"is {_shown(value, written)}; it has to be {words} {context[bound]}"
    if kind in ("too_short", "string_too_short"):
        return "is empty; it needs at least one"
    if kind == "string_too_long":
        return f"has {len(value)} characters; {context['max_length']} are the most that fit in a folder's name"
    return _wrong_type(kind, value, written)


def _wrong_type(kind: str, value: Any, written: str | None) -> str:
    shown = _shown(value, written)
    if value is None:
        return "has no value; write one, or take the key out"
    if kind in ("int_type", "float_type", "int_from_float", "int_parsing"):
        if isinstance(value, str) and written and _LIKE_A_NUMBER.fullmatch(written):
            number = float(written)
            plain = str(int(number)) if number.is_integer() else f"{number:g}"
            return f"{written!r} is text to YAML, where a number is due; write {plain}"
        return f"is {shown}; a {'whole ' if kind.startswith('int') else ''}number is due"
    if kind == "string_type" and isinstance(value, bool | int | float):
        read_as = str(value).lower() if isinstance(value, bool) else f"the number {value}"
        return f'{written} is {read_as} to YAML, where text is due; write "{written}" in quotes'
    if kind in _DUE:
        return f"is {shown}; {_DUE[kind]}"
    return f"{shown} is refused: {kind.replace('_', ' ')}"


def _shown(value: Any, written: str | None) -> str:
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    return repr(value) if isinstance(value, str) else written or str(value)


def _model_at(place: Place, value: Any, workloads: Workloads) -> type[Strict]:
    if place[:1] == ("studies",) and place[2:] == ("parameters",):
        return workloads[value["studies"][place[1]]["workload"]]
    if place[:1] == ("hosts",) and place[2:3] == ("parameters",):
        return workloads[str(place[3])]
    if place[:1] == ("configs",) and len(place) == 3 and place[2] in SCENARIO_KEYS:
        spec: type[Strict] = SCENARIO_KEYS[place[2]].SPEC
        return spec
    sections: dict[Any, type[Strict]] = {"builds": BuildSpec, "configs": ConfigSpec, "studies": StudySpec}
    sections["hosts"] = HostSpec
    return sections[place[0]] if len(place) == 2 else RunsFile
