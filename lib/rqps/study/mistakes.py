"""Finds mistakes in a runs.yaml that the models don't find: unknown names, circular `extends`, options that rqps
sets.

The checks read plain values, not the models, so that one error lists these mistakes and those that the models find.
Values of a wrong type are skipped here, since the models refuse them.
"""

import re
from collections.abc import Collection, Iterator
from typing import Any

from rqps.engines import facts_of_all, option_name
from rqps.errors import instead
from rqps.study.document import Place, Problem
from rqps.study.runs_file import FILE_KEYS, SCENARIO_KEYS, SCENARIOS

LONGEST_CHAIN = 20
"""Maximum number of configs or studies in a chain of `extends`."""
_OPTION = re.compile(r"[a-z][a-z0-9_.-]*\??", re.IGNORECASE)


def mistakes(value: Any, workloads: Collection[str]) -> Iterator[Problem]:
    """Yields every unknown name in the file, and every key in a place where it is not allowed."""
    known = {section: _below(value, section) for section in ("builds", "configs", "hosts", "studies")}
    configs, studies = known["configs"], known["studies"]
    for name, config in configs.items():
        if isinstance(config, dict):
            yield from _option_problems(("configs", name), config)
            yield from _extends_problems("config", name, "configs", configs)
            chain = with_those_it_extends(name, configs)
            for scenarios in SCENARIOS:
                for place, text in scenarios.problems(name, configs, chain):
                    yield Problem(("configs", name, *place), text)
    yield from _same_machine(known["hosts"])
    for name, study in studies.items():
        if isinstance(study, dict):
            yield from _extends_problems("study", name, "studies", studies)
    for name, study in complete(studies).items():
        if isinstance(study, dict):
            yield from _study_problems(("studies", name), study, known, workloads)


def _below(value: Any, key: str) -> dict[str, Any]:
    section = value.get(key) if isinstance(value, dict) else None
    return section if isinstance(section, dict) else {}


def _option_problems(place: Place, config: dict[str, Any]) -> Iterator[Problem]:
    seen: dict[str, str] = {}
    for key in config:
        here, name = (*place, key), option_name(key)
        if key == "extends" or key in SCENARIO_KEYS or key in FILE_KEYS:
            continue
        if key.startswith("-"):
            yield Problem(here, f"write {key.lstrip('-').replace('-', '_')!r}, without the dashes in front")
        elif not _OPTION.fullmatch(key):
            yield Problem(here, f"{key!r} is not the name of an option; it is letters, digits and _")
        elif name.startswith("loose_"):
            plain = name.removeprefix("loose_") + "?"
            yield Problem(here, f"write {plain!r}, which leaves it out where it is unknown")
        elif any(name in facts.ours for facts in facts_of_all()):
            yield Problem(here, f"{name!r} is set by rqps for every server; leave it out")
        elif name in seen:
            yield Problem(here, f"sets the same option as {seen[name]!r}; keep one")
        seen[name] = key


def _extends_problems(kind: str, name: str, section: str, known: dict[str, Any]) -> Iterator[Problem]:
    parent = known[name].get("extends")
    place: Place = (section, name, "extends")
    if isinstance(parent, str) and parent not in known:
        yield Problem(place, f"unknown {kind} {parent!r}; {instead(parent, known, section)}")
    chain = with_those_it_extends(name, known)
    if len(chain) > LONGEST_CHAIN:
        text = f"extends {parent!r}, which extends another one, and so on: {LONGEST_CHAIN} are the most in a row"
        yield Problem(place, text)
    elif known[chain[-1]].get("extends") == name:
        circle = " -> ".join([*chain, name])
        yield Problem(place, f"goes in a circle: {circle}; a {kind} can't extend itself")


def with_those_it_extends(name: Any, known: dict[str, Any]) -> list[str]:
    """The name of a config or study, followed by the names that it extends, nearest first. Ends before the first name
    that is not in `known`."""
    chain: list[str] = []
    while (
        isinstance(name, str)
        and isinstance(known.get(name), dict)
        and name not in chain
        and len(chain) <= LONGEST_CHAIN
    ):
        chain.append(name)
        name = known[name].get("extends")
    return chain


def _study_problems(
    place: Place, study: dict[str, Any], known: dict[str, dict[str, Any]], workloads: Collection[str]
) -> Iterator[Problem]:
    yield from _hosts_of_a_study((*place, "hosts"), study.get("hosts"), known["hosts"])
    workload, every, base = study.get("workload"), study.get("dbms"), study.get("base")
    if isinstance(workload, str) and workload not in workloads:
        hint = instead(workload, workloads, "workloads")
        yield Problem((*place, "workload"), f"unknown workload {workload!r}; {hint}")
    if not isinstance(every, list):
        return
    names: dict[str, None] = {}
    for index, dbms in enumerate(every):
        here = (*place, "dbms", index)
        if not isinstance(dbms, str):
            continue
        if dbms in names:
            yield Problem(here, f"{dbms!r} is here twice; keep one")
        names[dbms] = None
        build, dot, config = dbms.partition(".")
        if not dot:
            example = f"{dbms}.{next(iter(known['configs']), 'common')}"
            yield Problem(here, f"{dbms!r} is not a dbms; write build.config, such as '{example}'")
            continue
        for kind, name in (("build", build), ("config", config)):
            section = known[f"{kind}s"]
            if name not in section:
                yield Problem(here, f"unknown {kind} {name!r} in {dbms!r}; {instead(name, section, f'{kind}s')}")
    for key in ("base", "measure_parts_of"):
        named = study.get(key)
        if isinstance(named, str) and named not in names:
            hint = instead(named, names, "dbms of this study")
            yield Problem((*place, key), f"{named!r} is not among the dbms of this study; {hint}")
    if isinstance(base, str) and study.get("measure_parts_of") == base:
        yield Problem((*place, "measure_parts_of"), "is the base itself; name another dbms, to be compared with it")


def _same_machine(hosts: dict[str, Any]) -> Iterator[Problem]:
    taken: dict[Any, str] = {}
    for name, host in hosts.items():
        address = host.get("ssh") if isinstance(host, dict) else None
        if isinstance(address, str) and address in taken:
            text = f"{address!r} is the address of {taken[address]!r}, too; a machine is one host, keep one of them"
            yield Problem(("hosts", name, "ssh"), text)
        elif isinstance(address, str):
            taken[address] = name


def _hosts_of_a_study(place: Place, named: Any, hosts: dict[str, Any]) -> Iterator[Problem]:
    for index, name in enumerate(named if isinstance(named, list) else ()):
        if isinstance(name, str) and name not in hosts:
            yield Problem((*place, index), f"unknown host {name!r}; {instead(name, hosts, 'hosts')}")
        elif name in named[:index]:
            yield Problem((*place, index), f"{name!r} is here twice; keep one")


def complete(studies: dict[str, Any]) -> dict[str, Any]:
    """The studies with their inherited keys: a study that extends another inherits each key and each parameter that
    it does not set itself. Circular `extends` and unknown names stay as they are.

    >>> complete({"small": {"rounds": 6, "parameters": {"tables": 1, "seconds": 1}},
    ...           "big": {"extends": "small", "parameters": {"seconds": 600}}})["big"]
    {'rounds': 6, 'parameters': {'tables': 1, 'seconds': 600}, 'extends': 'small'}
    """
    return {name: _whole(name, studies) if isinstance(study, dict) else study for name, study in studies.items()}


def _whole(name: str, studies: dict[str, Any]) -> dict[str, Any]:
    complete_study: dict[str, Any] = {}
    for part in reversed(with_those_it_extends(name, studies)):
        below, own = complete_study.get("parameters"), studies[part].get("parameters")
        complete_study |= studies[part]
        if isinstance(below, dict) and isinstance(own, dict):
            complete_study["parameters"] = below | own
    return complete_study
