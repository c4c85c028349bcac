"""What no single value of a runs.yaml shows: names that lead nowhere, circles, options that are ours to set.

It looks at the file's plain values, before they are typed, so that these mistakes are told together with all
others. Values of a wrong type are passed over: the models tell of them.
"""

import re
from collections.abc import Iterator
from typing import Any

from rqps.study.configs import option_name
from rqps.study.extending import complete
from rqps.study.perf_schema.mistakes import KEY, scenario_problems
from rqps.study.problems import Place, Problem, instead
from rqps.workloads import PARAMETERS

_PLACES = ("basedir", "datadir", "lc_messages_dir", "log_error", "pid_file", "socket", "tmpdir")
_NETWORK = ("bind_address", "mysqlx", "mysqlx_port", "mysqlx_socket", "port", "skip_networking")
_START = ("daemonize", "defaults_file", "initialize", "initialize_insecure", "no_defaults", "user")
OURS = frozenset((*_PLACES, *_NETWORK, *_START))
"""What keeps a server private and lets it be found and stopped: set for every run, the same for all."""

_SECTIONS = {"config": "configs", "study": "studies"}
_OPTION = re.compile(r"[a-z][a-z0-9_.-]*\??", re.IGNORECASE)


def reference_problems(value: Any) -> Iterator[Problem]:
    """Every cross reference of the file that does not hold."""
    builds, configs, studies = (_below(value, section) for section in ("builds", "configs", "studies"))
    for name, config in configs.items():
        if isinstance(config, dict):
            yield from _option_problems(("configs", name), config)
            yield from _extends_problems("config", name, configs)
            yield from scenario_problems(("configs", name), name, configs)
    for name, study in studies.items():
        if isinstance(study, dict):
            yield from _extends_problems("study", name, studies)
    for name, study in complete(studies).items():
        if isinstance(study, dict):
            yield from _study_problems(("studies", name), study, builds, configs)


def _below(value: Any, key: str) -> dict[str, Any]:
    section = value.get(key) if isinstance(value, dict) else None
    return section if isinstance(section, dict) else {}


def _option_problems(place: Place, config: dict[str, Any]) -> Iterator[Problem]:
    seen: dict[str, str] = {}
    for key in config:
        here, name = (*place, key), option_name(key)
        if key in ("extends", KEY):
            continue
        if key.startswith("-"):
            yield Problem(here, f"write {key.lstrip('-').replace('-', '_')!r}, without the dashes in front")
        elif not _OPTION.fullmatch(key):
            yield Problem(here, f"{key!r} is not the name of a server option; it is letters, digits and _")
        elif name.startswith("loose_"):
            yield Problem(
                here, f"write {name.removeprefix('loose_') + '?'!r}, which leaves it out where it is unknown"
            )
        elif name in OURS:
            yield Problem(here, f"{name!r} is set by rqps for every server; leave it out")
        elif name in seen:
            yield Problem(here, f"sets the same option as {seen[name]!r}; keep one")
        seen[name] = key


def _extends_problems(kind: str, name: str, known: dict[str, Any]) -> Iterator[Problem]:
    section = _SECTIONS[kind]
    place: Place = (section, name, "extends")
    chain = [name]
    while True:
        value = known[chain[-1]]
        parent = value.get("extends") if isinstance(value, dict) else None
        if not isinstance(parent, str):
            return
        if parent not in known:
            # Told at the one that says so, not again at every one that extends it.
            if len(chain) == 1:
                yield Problem(place, f"unknown {kind} {parent!r}; {instead(parent, known, section)}")
            return
        if parent in chain:
            if parent == name:
                circle = " -> ".join([*chain, name])
                yield Problem(place, f"goes in a circle: {circle}; a {kind} can't extend itself")
            return
        chain.append(parent)


def _study_problems(
    place: Place, study: dict[str, Any], builds: dict[str, Any], configs: dict[str, Any]
) -> Iterator[Problem]:
    workload, every, base = study.get("workload"), study.get("dbms"), study.get("base")
    if isinstance(workload, str) and workload not in PARAMETERS:
        hint = instead(workload, PARAMETERS, "workloads")
        yield Problem((*place, "workload"), f"unknown workload {workload!r}; {hint}")
    if not isinstance(every, list):
        return
    for index, dbms in enumerate(every):
        here = (*place, "dbms", index)
        if isinstance(dbms, str):
            if dbms in every[:index]:
                yield Problem(here, f"{dbms!r} is here twice; keep one")
            yield from _dbms_problems(here, dbms, builds, configs)
    names = [dbms for dbms in every if isinstance(dbms, str)]
    for key in ("base", "take_apart"):
        named = study.get(key)
        if isinstance(named, str) and named not in every:
            hint = instead(named, names, "dbms of this study")
            yield Problem((*place, key), f"{named!r} is not among the dbms of this study; {hint}")
    if isinstance(base, str) and study.get("take_apart") == base:
        yield Problem((*place, "take_apart"), "is the base itself; take another dbms apart, which is held against it")


def _dbms_problems(place: Place, dbms: str, builds: dict[str, Any], configs: dict[str, Any]) -> Iterator[Problem]:
    build, dot, config = dbms.partition(".")
    if not dot:
        yield Problem(place, f"{dbms!r} is not a dbms; write build.config, such as '{dbms}.base'")
        return
    if build not in builds:
        yield Problem(place, f"unknown build {build!r} in {dbms!r}; {instead(build, builds, 'builds')}")
    if config not in configs:
        yield Problem(place, f"unknown config {config!r} in {dbms!r}; {instead(config, configs, 'configs')}")
