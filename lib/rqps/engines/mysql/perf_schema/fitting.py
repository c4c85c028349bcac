"""What a scenario asks for that a build does not have, with what may have been meant."""

import difflib
from collections.abc import Iterable, Iterator, Mapping

from rqps.engines.mysql.perf_schema.known import Known
from rqps.study.perf_schema import Scenario, Switch, class_of, classes, decides, fits, later_than, unmatched


def misfits(scenario: Scenario, version: str, known: Known) -> Iterator[str]:
    """All that is wrong, one sentence each."""
    if scenario.kind == "compiled-out":
        yield from _not_compiled_out(known)
    if scenario.kind != "on":
        return
    if not known.instruments:
        yield "it was compiled without a performance schema"
        return
    for switch in _required(scenario.instruments, known.instruments, version, "instruments"):
        yield f"{switch.pattern} fits no instrument; {_why(switch.pattern, known.instruments)}"
    for switch in _required(scenario.consumers, known.consumers, version, "consumers"):
        yield f"{switch.pattern} fits no consumer; {_near(switch.pattern, known.consumers)}"
    yield from _orphans(scenario, known)


def built_in(name: str) -> bool:
    """Whether an instrument is listed by the performance schema itself, also where its code was compiled out."""
    kind = class_of(name)
    always = any(fits(pattern, name) for pattern in classes().always)
    return always or (kind is not None and classes().instruments[kind].built_in)


def _required(switches: Iterable[Switch], names: Iterable[str], version: str, kind: str) -> Iterator[Switch]:
    """Those that fit nothing and have to, unless they switch off what the version has not got."""
    for switch in unmatched(switches, names):
        if not switch.optional and switch.pattern != "%" and (switch.on or not later_than(version, switch, kind)):
            yield switch


def _why(pattern: str, instruments: Mapping[str, object]) -> str:
    for name, reason in classes().compile_time.items():
        if fits(pattern, name):
            return reason
    kind = class_of(pattern)
    if kind and not any(class_of(name) == kind for name in instruments):
        return f"this build has none of {kind}, as if configured with -D{classes().instruments[kind].compiled}=1"
    return _near(pattern, instruments)


def _near(pattern: str, names: Iterable[str]) -> str:
    """Names, and the beginnings that they share, that look like a pattern."""
    candidates: dict[str, None] = {}
    for name in names:
        parts = name.split("/")
        candidates |= dict.fromkeys("/".join([*parts[:count], "%"]) for count in range(1, len(parts)))
        candidates[name] = None
    near = difflib.get_close_matches(pattern, candidates, n=2, cutoff=0.6)
    return f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(list(candidates)[:6])} and others"


def _orphans(scenario: Scenario, known: Known) -> Iterator[str]:
    """Consumers that would record nothing, since one that they hang on is off."""
    on = {
        name: found.on if (found := decides(scenario.consumers, name)) else release
        for name, release in known.consumers.items()
    }
    for name, enabled in on.items():
        described = classes().consumers.get(name)
        parent = described.parent if described else None
        if enabled and parent in on and not on[parent]:
            yield f"the consumer {name} would record nothing: {parent}, which it hangs on, is off; switch it on, too"


def _not_compiled_out(known: Known) -> Iterator[str]:
    there = [name for name in known.instruments if not built_in(name)]
    if there:
        yield (
            f"its performance schema is not compiled out: it has {len(there)} instruments, such as {there[0]}; "
            "give a build configured with the options -DDISABLE_PSI_…=1"
        )
