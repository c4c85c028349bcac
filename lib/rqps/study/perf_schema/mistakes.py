"""What is wrong with the scenarios of a runs.yaml, beyond the types of their values."""

from collections.abc import Iterator
from typing import Any

from rqps.study.perf_schema.spec import named, names, spelt_out
from rqps.study.problems import Place, Problem, instead

KEY = "perf_schema"
SWITCH = "performance_schema"
_WRITE_BELOW = {
    "performance_schema_instrument": 'instruments: {"wait/io/%": timed}',
    "performance_schema_consumer_": "consumers: {events_waits_current: on}",
}


def scenario_problems(place: Place, name: str, configs: dict[str, Any]) -> Iterator[Problem]:
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
