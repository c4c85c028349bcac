"""Mistakes that no single value of a runs.yaml shows: names that lead nowhere, circles, options that rqps sets.

They are found in the file's plain values, before these are typed, so that they are listed together with all others.
Values of a wrong type are passed over: the models refuse them.
"""

import re
from collections.abc import Collection, Iterator
from typing import Any

from rqps.study.document import Place, Problem, instead
from rqps.study.perf_schema import named, names, spelt_out
from rqps.study.runs_file import option_name

_PLACES = ("basedir", "datadir", "lc_messages_dir", "log_error", "pid_file", "socket", "tmpdir")
_NETWORK = ("bind_address", "mysqlx", "mysqlx_port", "mysqlx_socket", "port", "skip_networking")
_START = ("daemonize", "defaults_file", "initialize", "initialize_insecure", "no_defaults", "user")
OURS = frozenset((*_PLACES, *_NETWORK, *_START))
"""What keeps a server private and lets it be found and stopped: set for every run, the same for all."""

KEY = "perf_schema"
SWITCH = "performance_schema"
_WRITE_BELOW = {
    "performance_schema_instrument": 'instruments: {"wait/io/%": timed}',
    "performance_schema_consumer_": "consumers: {events_waits_current: on}",
}
_SECTIONS = {"config": "configs", "study": "studies"}
_OPTION = re.compile(r"[a-z][a-z0-9_.-]*\??", re.IGNORECASE)


def mistakes(value: Any, workloads: Collection[str]) -> Iterator[Problem]:
    """Every name of the file that leads nowhere, and every key that may not stand where it does."""
    builds, configs, studies = (_below(value, section) for section in ("builds", "configs", "studies"))
    for name, config in configs.items():
        if isinstance(config, dict):
            yield from _option_problems(("configs", name), config)
            yield from _extends_problems("config", name, configs)
            yield from _scenario_problems(("configs", name), name, configs)
    for name, study in studies.items():
        if isinstance(study, dict):
            yield from _extends_problems("study", name, studies)
    for name, study in complete(studies).items():
        if isinstance(study, dict):
            yield from _study_problems(("studies", name), study, builds, configs, workloads)


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
            # Shown at the one that says so, not again at every one that extends it.
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
    place: Place,
    study: dict[str, Any],
    builds: dict[str, Any],
    configs: dict[str, Any],
    workloads: Collection[str],
) -> Iterator[Problem]:
    workload, every, base = study.get("workload"), study.get("dbms"), study.get("base")
    if isinstance(workload, str) and workload not in workloads:
        hint = instead(workload, workloads, "workloads")
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
        yield Problem((*place, "take_apart"), "is the base itself; name another dbms, to be compared with it")


def _dbms_problems(place: Place, dbms: str, builds: dict[str, Any], configs: dict[str, Any]) -> Iterator[Problem]:
    build, dot, config = dbms.partition(".")
    if not dot:
        yield Problem(place, f"{dbms!r} is not a dbms; write build.config, such as '{dbms}.base'")
        return
    if build not in builds:
        yield Problem(place, f"unknown build {build!r} in {dbms!r}; {instead(build, builds, 'builds')}")
    if config not in configs:
        yield Problem(place, f"unknown config {config!r} in {dbms!r}; {instead(config, configs, 'configs')}")


def _scenario_problems(place: Place, name: str, configs: dict[str, Any]) -> Iterator[Problem]:
    """Every mistake in the scenario of one config, and in its options that a scenario decides."""
    config = configs[name]
    for key in config:
        option = str(key).removesuffix("?").replace("-", "_")
        if option == SWITCH and (decided := _decided_by(name, configs)):
            where = "here" if decided == name else f"of {decided!r}, which this config extends,"
            yield Problem((*place, key), f"the {KEY} {where} decides that; leave it out, or write {KEY}: off")
        for start, below in _WRITE_BELOW.items():
            if option.startswith(start):
                yield Problem((*place, key), f"write it below {KEY}, as in {below}")
    asked = config.get(KEY)
    if asked is not True and isinstance(asked := spelt_out(asked), dict):
        yield from _of_a_set((*place, KEY), asked)


def _of_a_set(place: Place, asked: dict[str, Any]) -> Iterator[Problem]:
    parent = asked.get("extends")
    if isinstance(parent, str):
        if parent not in names():
            yield Problem(place, f"unknown scenario {parent!r}; {instead(parent, names(), 'scenarios')}")
        elif named(parent).kind != "on" and len(asked) > 1:
            yield Problem(place, f"nothing can be added to {parent!r}, which records nothing; extend another")
    for kind in ("instruments", "consumers"):
        switches = asked.get(kind)
        if isinstance(switches, dict):
            for pattern, state in switches.items():
                yield from _of_a_pattern((*place, kind, pattern), pattern, state, switches)


def _of_a_pattern(place: Place, pattern: str, state: Any, others: dict[str, Any]) -> Iterator[Problem]:
    plain = pattern.removesuffix("?")
    if plain != pattern and plain in others:
        yield Problem(place, f"says the same as {plain!r}; keep one")
    if "?" in plain or "*" in plain:
        yield Problem(
            place, "in a pattern only % stands for anything; a ? at its end leaves it out where nothing fits"
        )
    if plain.startswith("thread/"):
        yield Problem(place, "threads are no instruments; all of them are watched, in every scenario")
    if state == "timed" and plain.split("/")[0] in ("memory", "error"):
        yield Problem(place, f"{plain.split('/')[0]} is counted, never timed; write counted")


def _decided_by(name: str, configs: dict[str, Any]) -> str | None:
    """The config whose scenario counts for this one: its own, or that of the nearest one it extends."""
    seen: list[str] = []
    while isinstance(name, str) and isinstance(config := configs.get(name), dict) and name not in seen:
        if config.get(KEY) is not None:
            return name
        seen.append(name)
        name = config.get("extends", "")
    return None


def complete(studies: dict[str, Any]) -> dict[str, Any]:
    """The studies of a file as if each said all of itself: one that extends another takes over what it does not say,
    of the parameters each by itself. Circles and unknown names stay as they are.

    >>> complete({"small": {"rounds": 6, "parameters": {"tables": 1, "seconds": 1}},
    ...           "big": {"extends": "small", "parameters": {"seconds": 600}}})["big"]
    {'rounds': 6, 'parameters': {'tables': 1, 'seconds': 600}, 'extends': 'small'}
    """
    return {name: _whole(name, studies, ()) for name in studies}


def _whole(name: str, studies: dict[str, Any], below: tuple[str, ...]) -> Any:
    study = studies[name]
    parent = study.get("extends") if isinstance(study, dict) else None
    if not isinstance(parent, str) or parent not in studies or parent in (*below, name):
        return study
    taken = _whole(parent, studies, (*below, name))
    if not isinstance(taken, dict):
        return study
    whole = {**taken, **study}
    if all(isinstance(one.get("parameters"), dict) for one in (taken, study)):
        whole["parameters"] = {**taken["parameters"], **study["parameters"]}
    return whole
