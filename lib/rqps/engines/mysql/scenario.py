"""A scenario for one build: the options and statements that set it, and the settings that the server must then
report."""

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import psutil

from rqps.engines.mysql.build import Build
from rqps.engines.mysql.perf_schema import (
    Scenario,
    State,
    Switch,
    class_of,
    classes,
    decides,
    fits,
    later_than,
    unmatched,
)
from rqps.engines.mysql.reports import Known
from rqps.errors import RqpsError
from rqps.numbers import gigabytes

_AT_START = {"timed": "ON", "counted": "COUNTED", "off": "OFF"}
_NEVER_TIMED = ("memory", "error")
_FIRST_WITH_OPTIONS = (5, 6)
_SIZE = re.compile(r"performance_schema_(?P<what>\w+)_size")
_TABLES = {"digests": "events_statements_summary_by_digest"}
"""Maps the part of a size option's name that names a table (`digests` in `performance_schema_digests_size`) to the
table's own name, if the two differ."""


@dataclass(frozen=True)
class Realised:
    """A scenario translated for one build. Options at the server's start enable and disable the instruments, so they
    apply from the first event on. 5.5 has no such options: it starts with all instruments enabled, and UPDATE
    statements then change them."""

    scenario: Scenario
    arguments: tuple[str, ...] = ()
    statements: tuple[str, ...] = ()
    instruments: Mapping[str, State] = field(default_factory=dict)
    consumers: Mapping[str, bool] = field(default_factory=dict)
    others: tuple[str, ...] = ()

    @property
    def in_words(self) -> str:
        """The scenario's name, and the way in which the server is set to the scenario: by options or by UPDATE."""
        if self.scenario.kind != "on":
            return self.scenario.name
        how = "set by options at its start" if self.arguments else "as the release sets it"
        if self.statements:
            how = "set by UPDATE of the setup tables, before the load connects"
        return f"{self.scenario.name}, {how}"

    def is_on(self, consumer: str) -> bool:
        return self.consumers.get(consumer, False)

    @property
    def records(self) -> bool:
        """True if the consumer without which the server records no events is on: `global_instrumentation` or, in
        5.5, which does not have that consumer, `events_waits_current`."""
        first = "global_instrumentation" if "global_instrumentation" in self.consumers else "events_waits_current"
        return self.is_on(first)


def realise(scenario: Scenario, build: Build, known: Known, *, config: str) -> Realised:
    """Translates a scenario for a build. One RqpsError names everything that the build can't do."""
    if wrong := list(_misfits(scenario, build.version, known)):
        raise RqpsError(
            f"{build.name}.{config}: MySQL {build.version} can't do what perf_schema asks for:\n  "
            + "\n  ".join(wrong),
            fix=f"change perf_schema of config {config!r}; a pattern that ends in ? is left out where nothing fits",
        )
    if scenario.kind != "on":
        return Realised(scenario)
    wanted = Realised(
        scenario,
        instruments={name: _state(scenario, name, release) for name, release in known.instruments.items()},
        consumers=_consumers(scenario, known),
        others=known.others,
    )
    if build.number[:2] < _FIRST_WITH_OPTIONS:
        return replace(wanted, statements=tuple(updates(wanted, known)))
    return replace(wanted, arguments=tuple(_arguments(wanted, known)))


def _state(scenario: Scenario, name: str, release: State) -> State:
    if is_always_on(name):
        return "counted"
    switch = decides(scenario.instruments, name)
    state = switch.state if switch else release
    assert not isinstance(state, bool)
    return "counted" if switch and state == "timed" and class_of(name) in _NEVER_TIMED else state


def _consumers(scenario: Scenario, known: Known) -> dict[str, bool]:
    decided = ((name, decides(scenario.consumers, name), release) for name, release in known.consumers.items())
    return {name: switch.on if switch else release for name, switch, release in decided}


def _arguments(wanted: Realised, known: Known) -> Iterator[str]:
    switches = wanted.scenario.instruments
    if switches and known.thread_classes:
        # Keeps all thread classes on: a pattern % would switch them off, too, and with them the threads' events.
        switches = (*switches, Switch("thread/%", "timed"))
    for switch in switches:
        yield f"--performance-schema-instrument={switch.pattern}={_AT_START[str(switch.state)]}"
    for name, on in wanted.consumers.items():
        if not wanted.scenario.release or on != known.consumers[name]:
            yield f"--performance-schema-consumer-{name.replace('_', '-')}={'ON' if on else 'OFF'}"


def updates(wanted: Realised, known: Known) -> Iterator[str]:
    """The UPDATE statements for 5.5. Consumers are disabled first and enabled last, so that no event is recorded that
    was not asked for."""
    consumers = {name: on for name, on in wanted.consumers.items() if on != known.consumers[name]}
    instruments = {name: state for name, state in wanted.instruments.items() if state != known.instruments[name]}
    for table, settings, changed, to in (
        ("setup_consumers", "enabled = 'NO'", consumers, False),
        ("setup_instruments", "enabled = 'NO', timed = 'NO'", instruments, "off"),
        ("setup_instruments", "enabled = 'YES', timed = 'NO'", instruments, "counted"),
        ("setup_instruments", "enabled = 'YES', timed = 'YES'", instruments, "timed"),
        ("setup_consumers", "enabled = 'YES'", consumers, True),
    ):
        if names := ", ".join(f"'{name}'" for name, asked in changed.items() if asked == to):
            yield f"UPDATE performance_schema.{table} SET {settings} WHERE name IN ({names})"


def is_always_on(name: str) -> bool:
    """True for an instrument that can't be disabled."""
    return any(fits(pattern, name) for pattern in classes().always)


def built_in(name: str) -> bool:
    """True for an instrument that the performance schema lists even if the instrumented code was compiled out."""
    kind = class_of(name)
    return is_always_on(name) or (kind is not None and classes().instruments[kind].built_in)


def _misfits(scenario: Scenario, version: str, known: Known) -> Iterator[str]:
    """One sentence for each thing that a scenario asks for and a build does not have."""
    if scenario.kind == "compiled-out" and (listed := [name for name in known.instruments if not built_in(name)]):
        yield (
            f"its performance schema is not compiled out: it has {len(listed)} instruments, such as {listed[0]}; "
            "give a build configured with the options -DDISABLE_PSI_…=1"
        )
    if scenario.kind != "on":
        return
    if not known.instruments:
        yield "it was compiled without a performance schema"
        return
    for kind, switches, names in (
        ("instruments", scenario.instruments, known.instruments),
        ("consumers", scenario.consumers, known.consumers),
    ):
        for switch in unmatched(switches, names):
            # A pattern that turns instruments off may fit none, if they came with a later release.
            never_had = not switch.on and later_than(version, switch, kind)
            if not (switch.optional or switch.pattern == "%" or never_had):
                yield f"{switch.pattern} fits no {kind[:-1]}; {_reason(switch.pattern, names)}"
    on = _consumers(scenario, known)
    for name, enabled in on.items():
        described = classes().consumers.get(name)
        parent = described.parent if described else None
        if enabled and parent in on and not on[parent]:
            yield f"the consumer {name} would record nothing: {parent}, which it needs, is off; switch it on, too"


def _reason(pattern: str, names: Iterable[str]) -> str:
    """The reason why nothing in a build fits a pattern, or a suggestion of similar names and prefixes."""
    if reason := next((why for name, why in classes().compile_time.items() if fits(pattern, name)), None):
        return reason
    kind = class_of(pattern)
    if kind and not any(class_of(name) == kind for name in names):
        return f"this build has none of {kind}, as if configured with -D{classes().instruments[kind].compiled}=1"
    candidates: dict[str, None] = {}
    for name in names:
        parts = name.split("/")
        candidates |= dict.fromkeys("/".join([*parts[:count], "%"]) for count in range(1, len(parts)))
        candidates[name] = None
    near = difflib.get_close_matches(pattern, candidates, n=2, cutoff=0.6)
    return f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(list(candidates)[:6])} and others"


def refuse_too_large(options: Mapping[str, str], known: Known, dbms: str, available_bytes: int | None = None) -> None:
    """Fails if the sizes of performance schema tables need more memory than the machine has free. The server
    allocates this memory when it starts."""
    available = psutil.virtual_memory().available if available_bytes is None else available_bytes
    needed: dict[str, int] = {}
    for name, value in options.items():
        usual = known.variables.get(name, "")
        if (size := _SIZE.fullmatch(name)) and usual.isdecimal() and value.isdecimal():
            # The memory of a table is proportional to the value of its size option.
            table = _TABLES.get(size["what"], size["what"])
            needed[name] = known.memory_bytes.get(table, 0) * int(value) // max(int(usual), 1)
    if sum(needed.values()) <= available:
        return
    largest = max(needed, key=lambda name: needed[name])
    most = int(int(options[largest]) * available / sum(needed.values()))
    raise RqpsError(
        f"{dbms}: {largest}={options[largest]} takes {gigabytes(needed[largest] / 1e9)} of memory at the server's "
        f"start, and {gigabytes(available / 1e9)} are left on this machine",
        fix=f"ask for {most} at most, or run it on a larger machine",
    )
