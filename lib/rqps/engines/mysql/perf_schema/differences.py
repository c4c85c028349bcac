"""What a server's performance schema is set to, held against what was asked for."""

from collections.abc import Iterator, Mapping

from rqps.engines.mysql.perf_schema.fitting import built_in
from rqps.engines.mysql.perf_schema.realise import Realised
from rqps.engines.mysql.perf_schema.tables import Found
from rqps.study.perf_schema import State, class_of

MOST_TOLD = 12


def differences(asked: Realised, found: Found) -> list[str]:
    """What is not as asked for, with both values; instruments of a kind that differ alike are told as one."""
    if asked.scenario.kind == "off":
        return [f"asked for off, and {len(found.instruments)} instruments are listed"] if found.instruments else []
    if asked.scenario.kind == "compiled-out":
        there = [name for name in found.instruments if not built_in(name)]
        return [f"asked for none, and {len(there)} instruments are listed, such as {there[0]}"] if there else []
    every = [*_instruments(asked, found), *_consumers(asked, found), *_others(asked, found), *_threads(found)]
    more = len(every) - MOST_TOLD
    return [*every[:MOST_TOLD], f"and {more} more"] if more > 1 else every


def in_short(instruments: Mapping[str, State], consumers: Mapping[str, bool]) -> dict[str, str]:
    """How many instruments of each kind are on, and which consumers.

    >>> in_short({"stage/sql/init": "timed", "stage/sql/end": "off"}, {"statements_digest": True})
    {'instruments stage': '1 of 2 enabled, 1 timed', 'consumers': 'statements_digest'}
    """
    kinds: dict[str, list[State]] = {}
    for name, state in instruments.items():
        kinds.setdefault(class_of(name) or name, []).append(state)
    counted = {}
    for kind, states in kinds.items():
        enabled, timed = len(states) - states.count("off"), states.count("timed")
        counted[f"instruments {kind}"] = f"{enabled} of {len(states)} enabled, {timed} timed"
    return counted | {"consumers": ", ".join(name for name, on in consumers.items() if on) or "none"}


def _instruments(asked: Realised, found: Found) -> Iterator[str]:
    alike: dict[tuple[str, State, str], list[str]] = {}
    for name, state in asked.instruments.items():
        if (now := found.instruments.get(name, "not listed")) != state:
            alike.setdefault((class_of(name) or "", state, now), []).append(name)
    for (kind, state, now), names in alike.items():
        many = f", and {len(names) - 1} more of {kind}" if len(names) > 1 else ""
        yield f"instrument {names[0]}{many}: asked for {state}, the server has {now}"


def _consumers(asked: Realised, found: Found) -> Iterator[str]:
    for name, on in asked.consumers.items():
        if found.consumers.get(name) != on:
            now = {True: "on", False: "off", None: "not listed"}[found.consumers.get(name)]
            yield f"consumer {name}: asked for {'on' if on else 'off'}, the server has {now}"


def _others(asked: Realised, found: Found) -> Iterator[str]:
    for row in sorted(set(asked.others) - set(found.others)):
        yield f"{row}: as the release has it, and the server no more"
    for row in sorted(set(found.others) - set(asked.others)):
        yield f"{row}: the server has it, and the release does not"


def _threads(found: Found) -> Iterator[str]:
    off = [name for name, on in found.thread_classes.items() if not on]
    for what, names in (("threads of the class", off), ("the thread", found.threads_unwatched)):
        if names:
            many = f" and {len(names) - 1} more" if len(names) > 1 else ""
            yield f"{what} {names[0]}{many}: asked to be watched, the server does not"
