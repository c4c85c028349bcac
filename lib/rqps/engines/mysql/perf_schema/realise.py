"""A scenario as one build has it: what is told to the server, and what it has to say afterwards."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from rqps.engines.mysql.build import Build
from rqps.engines.mysql.perf_schema.fitting import misfits
from rqps.engines.mysql.perf_schema.known import Known
from rqps.errors import RqpsError
from rqps.study.perf_schema import Scenario, State, Switch, class_of, classes, decides, fits

_AT_START = {"timed": "ON", "counted": "COUNTED", "off": "OFF"}
_NEVER_TIMED = ("memory", "error")
_FIRST_WITH_OPTIONS = (5, 6)


@dataclass(frozen=True)
class Realised:
    """How a build does a scenario. What it is told at its start holds for all that it then makes; 5.5 takes nothing
    at its start and is told afterwards, while everything it made is on and can be switched off."""

    scenario: Scenario
    arguments: tuple[str, ...] = ()
    statements: tuple[str, ...] = ()
    instruments: Mapping[str, State] = field(default_factory=dict)
    consumers: Mapping[str, bool] = field(default_factory=dict)
    others: tuple[str, ...] = ()

    @property
    def by(self) -> str:
        """How it is told, in words."""
        if self.scenario.kind != "on":
            return "nothing"
        if self.statements:
            return "by UPDATE of the setup tables, before the load connects"
        return "by options at its start" if self.arguments else "nothing, which is as the release has it"

    def is_on(self, consumer: str) -> bool:
        return self.consumers.get(consumer, False)

    @property
    def records(self) -> bool:
        """Whether any event can be recorded at all."""
        first = "global_instrumentation" if "global_instrumentation" in self.consumers else "events_waits_current"
        return self.is_on(first)


def realise(scenario: Scenario, build: Build, known: Known, *, config: str) -> Realised:
    """What a build has to be told; RqpsError with everything that it can't do."""
    if wrong := list(misfits(scenario, build.version, known)):
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
        consumers={
            name: found.on if (found := decides(scenario.consumers, name)) else release
            for name, release in known.consumers.items()
        },
        others=known.others,
    )
    if build.number[:2] < _FIRST_WITH_OPTIONS:
        return replace(wanted, statements=tuple(_updates(wanted, known)))
    return replace(wanted, arguments=tuple(_arguments(wanted, known)))


def _state(scenario: Scenario, name: str, release: State) -> State:
    if any(fits(pattern, name) for pattern in classes().always):
        return "counted"
    switch = decides(scenario.instruments, name)
    if switch is None:
        return release
    state = switch.state
    assert not isinstance(state, bool)
    return "counted" if state == "timed" and class_of(name) in _NEVER_TIMED else state


def _arguments(wanted: Realised, known: Known) -> Iterator[str]:
    switches = wanted.scenario.instruments
    if switches and known.watches_threads:
        # A plain % switches the classes of threads off, too, and with them all events of background threads.
        switches = (*switches, Switch("thread/%", "timed"))
    for switch in switches:
        yield f"--performance-schema-instrument={switch.pattern}={_AT_START[str(switch.state)]}"
    for name, on in wanted.consumers.items():
        if not wanted.scenario.release or on != known.consumers[name]:
            yield f"--performance-schema-consumer-{name.replace('_', '-')}={'ON' if on else 'OFF'}"


def _updates(wanted: Realised, known: Known) -> Iterator[str]:
    """Consumers are switched off first and on last, so that nothing is recorded that is not asked for."""
    changed = [name for name, on in wanted.consumers.items() if on != known.consumers[name]]
    consumers = "UPDATE performance_schema.setup_consumers SET enabled = '{}' WHERE name IN ({})"
    if off := [name for name in changed if not wanted.consumers[name]]:
        yield consumers.format("NO", _quoted(off))
    for state, (enabled, timed) in {"off": ("NO", "NO"), "counted": ("YES", "NO"), "timed": ("YES", "YES")}.items():
        names = [n for n, to in wanted.instruments.items() if to == state and to != known.instruments[n]]
        if names:
            yield (
                f"UPDATE performance_schema.setup_instruments SET enabled = '{enabled}', timed = '{timed}' "
                f"WHERE name IN ({_quoted(names)})"
            )
    if on := [name for name in changed if wanted.consumers[name]]:
        yield consumers.format("YES", _quoted(on))


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)
