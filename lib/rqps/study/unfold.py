"""Unfolds a study into its runs, in the order in which they are measured."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import PlainSerializer, PlainValidator, TypeAdapter, ValidationInfo

from rqps.engines import Option, facts_of
from rqps.engines.asked import BuildSpec
from rqps.errors import RqpsError, instead
from rqps.numbers import seconds
from rqps.study.runs_file import (
    USUAL_DEVICE,
    DeviceSpeed,
    PlacementKind,
    RunsFile,
    StudySpec,
    WorkloadParameters,
    resolve,
    resolve_scenario,
)

Mode = Literal["throughput", "health", "stacks", "waits", "instructions"]
"""The purpose of a run. Sampling and counting slow a run down, so throughput is compared only in mode `throughput`.
Older studies have no twins, but runs in mode `health`: duets of the base with itself."""

MODES: dict[Mode, str] = {"throughput": "r", "health": "h", "stacks": "s", "waits": "w", "instructions": "i"}
"""The first letter of a run's id, by mode."""
PROFILES = ("stacks_rounds", "waits_rounds", "instructions_rounds")
"""The keys of a study that set its number of rounds in the modes `stacks`, `waits` and `instructions`: its profiling
runs."""
TWIN = "{}.again"
"""The pattern of a twin's name: the base's name, a second dot and a word. The name of a dbms has only one dot."""
ROUNDS_WITH_TWIN, BUDGET_WITH_TWIN_S = 4, 300
"""The minimum number of rounds and the minimum budget of a study with a twin. In a shorter study, the twin
would take too much of the time."""
MOST_ROUNDS = 999
MOST_LEVELS = 5
"""Maximum number of levels of a study with `measure_parts_of`. Each level divides the parts that cost something in
the level before."""


class Duet(NamedTuple):
    """The occasion and the servers of a duet that is measured or planned."""

    occasion: int
    sides: tuple[str, ...]
    """The names of the servers: dbms, and the base's twin."""


@dataclass(frozen=True)
class Measured:
    """The complete duets of a host, and the occasion that is under way there."""

    duets: Mapping[tuple[Mode, int], Duet] = field(default_factory=dict)
    """Maps mode and round number to the duet."""
    occasion: int = 1
    """The number of the occasion under way, to which missing rounds are added."""


def in_words(mode: Mode, number: int) -> str:
    """The name of a round in messages.

    >>> in_words("throughput", 2), in_words("stacks", 1)
    ('round 2', 'stacks, round 1')
    """
    return f"round {number}" if mode == "throughput" else f"{mode}, round {number}"


def _scenario(value: Any, info: ValidationInfo) -> Any:
    """Converts a scenario from plain values to its engine's type. None stands for a config without a scenario,
    and stays None."""
    return None if value is None else facts_of(info.data["build_spec"].engine).scenarios.read(value)


def _plain(scenario: Any) -> Any:
    return None if scenario is None else TypeAdapter(type(scenario)).dump_python(scenario, mode="json")


@dataclass(frozen=True)
class Run:
    """One dbms, or one duet, in one round on a host: the unit that succeeds, fails or is resumed."""

    study: str
    question: str
    base: str
    unit: str
    """The id of a dbms that is measured alone, `r01@my8033.common@HOST`, or of a duet, `r01@HOST`. It is a part of
    the folder's name."""
    side: str | None
    """The name of this server in a duet, a dbms or the twin; None for a dbms that is measured alone."""
    twin: bool
    """True for the twin: the base's second copy in a duet."""
    mode: Mode
    occasion: int
    """The number of the occasion that the run belongs to, from 1."""
    host: str
    dbms: str
    build: str
    build_spec: BuildSpec
    config: str
    options: Mapping[str, Option]
    scenario: Annotated[Any, PlainValidator(_scenario), PlainSerializer(_plain)]
    """The scenario that the config selects; None without one."""
    round: int
    position: int
    """The place of this run in the study's random order, from 0."""
    seed: int
    workload: str
    parameters: WorkloadParameters
    placement: PlacementKind | None
    caches: bool
    """True if cache misses are simulated in runs that count instructions."""
    identity: str
    """A hash of all values that are requested for server and load. Runs of different hashes can't be pooled."""
    beside: tuple["Run", ...] = ()
    """The other servers of the duet."""

    @property
    def run(self) -> str:
        """The run's id, `unit`; in a duet followed by `/` and `side`, like the path of the server's folder."""
        return self.unit if self.side is None else f"{self.unit}/{self.side}"

    @property
    def layout(self) -> int | None:
        """The number of the build's layout; None for the linker's own order."""
        return self.build_spec.layout

    @property
    def members(self) -> tuple["Run", ...]:
        return (self, *self.beside)

    @property
    def estimated_seconds(self) -> float:
        """The estimated time under load, added up over all dbms of the run."""
        if not self.beside:
            return self.parameters.estimated_seconds
        return len(self.members) * self.parameters.estimated_duet_seconds

    def disk_seconds(self, device: DeviceSpeed = USUAL_DEVICE) -> float:
        """The estimated time in which the run waits for the disk, added up over all its dbms; 0 if it does not
        depend on the disk."""
        of_facts = ((run.parameters, facts_of(run.build_spec.engine), run.options) for run in self.members)
        return sum(asked.disk_seconds(device, facts.direct_cache(options)) for asked, facts, options in of_facts)

    @property
    def words(self) -> str:
        """The run's name in messages: `round 3 with 3 dbms in turns`, or its id if it is no duet."""
        if self.side is None:
            return self.run
        return f"{in_words(self.mode, self.round)} with {self.who}"

    @property
    def who(self) -> str:
        """The dbms of the run in messages: `3 dbms and a twin in turns`."""
        if not self.beside:
            return self.dbms if self.side is None else f"{self.dbms} alone"
        count, twins = len({member.dbms for member in self.members}), any(member.twin for member in self.members)
        return f"{f'{count} dbms' if count > 1 else self.dbms}{' and a twin' if twins else ''} in turns"

    @property
    def absent(self) -> str | None:
        """The reason why this dbms can't run: the version that runs.yaml gives for the build lacks a feature that the
        config's scenario needs. None if the version number does not rule the scenario out, if the config has no
        scenario, or if runs.yaml gives no version."""
        version, scenarios = self.build_spec.version, facts_of(self.build_spec.engine).scenarios
        return scenarios.absent(version, self.scenario) if version and self.scenario else None


def unfold(
    runs_file: RunsFile,
    study: str,
    host: str,
    measured: Measured | None = None,
    wanted: Mapping[str, int] | None = None,
) -> tuple[Run, ...]:
    """The runs of a study on a host, round by round: each round has every dbms once, in random order or as a duet.

    Duets that are `measured` stay as they are; a dbms that lacks rounds gets further duets with the base. `wanted`
    maps a dbms to its number of rounds in the occasion under way. A dbms that is not in it gets the study's number
    of rounds, or 1 if the study has a budget, since the verdicts so far decide on each further round.
    """
    measured = measured or Measured()
    spec = study_of(runs_file, study)
    seed = int.from_bytes(hashlib.sha256(study.encode()).digest()[:4]) if spec.seed is None else spec.seed
    runs: list[Run] = []
    named = spec.named

    def run(mode: Mode, number: int, dbms: str, side: str | None = None, occasion: int = measured.occasion) -> Run:
        build, config = named[dbms]
        build_spec = runs_file.builds[build]
        options = resolve(runs_file.configs, config, build_spec.version)
        scenario = resolve_scenario(runs_file.configs, config, build_spec.engine)
        asked = identity(build_spec, options, spec, scenario)
        return Run(
            study=study,
            question=spec.question,
            base=spec.base,
            unit=f"{MODES[mode]}{number:02}@{f'{dbms}@{host}' if side is None else host}",
            side=side,
            twin=side not in (None, dbms),
            mode=mode,
            occasion=occasion,
            host=host,
            dbms=dbms,
            build=build,
            build_spec=build_spec.with_layout(spec.layout_of(build_spec, number)),
            config=config,
            options=options,
            scenario=scenario,
            round=number,
            position=len(runs),
            seed=seed,
            workload=spec.workload,
            parameters=spec.parameters,
            placement=spec.placement,
            caches=spec.caches,
            identity=asked,
        )

    def duet(number: int, sides: Sequence[str], occasion: int) -> Run:
        dbms = {TWIN.format(spec.base): spec.base}
        ordered = order(tuple(sides), seed, number)
        first, *others = [run("throughput", number, dbms.get(side, side), side, occasion) for side in ordered]
        return replace(first, beside=tuple(others))

    one_by_one: dict[Mode, int] = {"stacks": spec.stacks_rounds, "waits": spec.waits_rounds}
    one_by_one["instructions"] = spec.instructions_rounds
    if spec.duet:
        first_round = [run("throughput", 1, dbms, dbms) for dbms in spec.dbms]
        runs += [run for run in first_round if run.absent]
        can_be = [run.dbms for run in first_round if not run.absent]
        beside = {
            newest: last
            for newest, (last, *_) in spec.earlier.items()
            if spec.against != "base" and runs_file.builds[named[last].build].copied
        }
        duets = _duets(spec, can_be, measured, wanted or {}, beside)
        runs += [duet(number, one.sides, one.occasion) for number, one in duets]
    elif spec.rounds:
        for number in range(1, spec.rounds * measured.occasion + 1):
            for dbms in order(spec.current, seed, number):
                runs.append(run("throughput", number, dbms, occasion=(number - 1) // spec.rounds + 1))
    for mode, rounds in one_by_one.items():
        for number in range(1, rounds + 1):
            for dbms in order(spec.current, seed, number):
                if mode != "instructions" or dbms not in spec.not_counted:
                    runs.append(run(mode, number, dbms))
    return tuple(runs)


def _duets(
    spec: StudySpec, can_be: Sequence[str], measured: Measured, wanted: Mapping[str, int], beside: Mapping[str, str]
) -> Iterator[tuple[int, Duet]]:
    """Yields the number of each round with its duet: the measured duet, or else a duet of the base, its twin and each
    dbms that lacks rounds. `beside` maps a dbms to the earlier version of its build that joins its duets."""
    taken = {number: duet for (mode, number), duet in measured.duets.items() if mode == "throughput"}
    twin, others = TWIN.format(spec.base), {dbms for dbms in can_be if dbms != spec.base}
    complete = {
        number: Duet(duet.occasion, tuple(side for side in (*can_be, twin) if side in duet.sides))
        for number, duet in taken.items()
        if spec.base in duet.sides and (not others or others.intersection(duet.sides))
    }
    planned = 1 if spec.budget else spec.rounds or 1
    lacking = {dbms: wanted.get(dbms, planned) if dbms in spec.current else 0 for dbms in can_be}
    for duet in complete.values():
        if duet.occasion == measured.occasion:
            lacking |= {dbms: lacking[dbms] - 1 for dbms in duet.sides if dbms != twin}
    if others:
        lacking[spec.base] = 0  # the base needs no further duets, since it takes part in the duets of all other dbms
    for number in count(1) if spec.base in can_be else ():
        names = [dbms for dbms, lacks in lacking.items() if lacks > 0]
        if number in complete:
            yield number, complete[number]
        elif number in taken:
            continue
        elif names:
            lacking |= {dbms: lacking[dbms] - 1 for dbms in names}
            together = {spec.base, *names, *(beside[name] for name in names if name in beside)}
            sides = [dbms for dbms in can_be if dbms in together]
            yield number, Duet(measured.occasion, (*sides, *[twin] * has_twin(spec)))
        elif number > max(taken, default=0):
            return


def has_twin(spec: StudySpec) -> bool:
    """True if each new duet of the study includes the base's twin."""
    few = spec.rounds is not None and spec.rounds < ROUNDS_WITH_TWIN
    return spec.twin and not few and not (spec.budget_s is not None and spec.budget_s < BUDGET_WITH_TWIN_S)


def builds_of(runs_file: RunsFile, study: str) -> tuple[tuple[str, BuildSpec], ...]:
    """The builds of a study with their names; a build with several layouts is listed once per layout."""
    spec = runs_file.studies[study]
    numbers = range(1, (spec.layouts or 1) + 1)
    every = ((name, runs_file.builds[name], number) for name in sorted(spec.builds) for number in numbers)
    return tuple((name, build.with_layout(spec.layout_of(build, number))) for name, build, number in every)


def study_of(runs_file: RunsFile, study: str) -> StudySpec:
    if study not in runs_file.studies:
        raise RqpsError(
            f"unknown study {study!r}; {instead(study, runs_file.studies, 'studies')}",
            fix="name one of these studies, or add yours to runs.yaml",
        )
    spec = runs_file.studies[study]
    if spec.measure_parts_of is not None:
        levels = (f"{study}-{number}" for number in range(1, MOST_LEVELS + 1))
        for name in (name for name in levels if name in runs_file.studies and not runs_file.studies[name].level_of):
            raise RqpsError(
                f"studies.{name}: this name is reserved for a study that rqps makes to measure parts of {study}",
                fix=f"rename studies.{name} in runs.yaml, or remove measure_parts_of from {study}",
            )
    return spec


def first_rounds(runs_file: RunsFile, study: str, rounds: int) -> RunsFile:
    """Reduces a study to its first rounds, without profiling runs, for a quick try; the whole study can later
    continue from these rounds."""
    spec = study_of(runs_file, study)
    if not 1 <= rounds <= (spec.rounds or MOST_ROUNDS):
        most = f"the study has {spec.rounds}" if spec.rounds else f"{MOST_ROUNDS} are the most"
        raise RqpsError(
            f"{study}: {rounds} rounds asked for, and {most}",
            fix=f"ask for 1 to {spec.rounds or MOST_ROUNDS}, or write more rounds into runs.yaml",
        )
    profiles = dict.fromkeys(PROFILES, 0)
    return runs_file.with_study(study, {"rounds": rounds, "budget": None, **profiles})


def on_host(runs_file: RunsFile, study: str, host: str) -> RunsFile:
    """Replaces the parameters of a study by those for a host; changes nothing if the study does not name the host."""
    spec = study_of(runs_file, study)
    if host not in spec.hosts:
        return runs_file
    return runs_file.with_study(study, {"parameters": spec.parameters_on(runs_file.hosts[host])})


def within_budget(runs_file: RunsFile, study: str, budget: str) -> RunsFile:
    """Gives a study a budget, which replaces its number of rounds or an earlier budget."""
    spec = study_of(runs_file, study)
    if not spec.duet:
        raise RqpsError(
            f"{study}: a budget needs duets, but the study measures its dbms one after the other",
            fix="give --rounds, or set `method: duet` in a study of several dbms",
        )
    try:
        seconds(budget)
    except ValueError as error:
        raise RqpsError(f"--budget: {error}") from None
    return runs_file.with_study(study, {"budget": budget, "rounds": spec.rounds if spec.budget else None})


def order(dbms: tuple[str, ...], seed: int, number: int) -> tuple[str, ...]:
    """The random order of the dbms in one round.

    The dbms are sorted by a hash of the seed, the round's number and the name of the dbms: when rounds or a dbms are
    added to the study, the others keep their order.
    """
    return tuple(sorted(dbms, key=lambda one: hashlib.sha256(f"{seed} {number} {one}".encode()).digest()))


def scenario_asked(build_spec: BuildSpec, scenario: Any) -> dict[str, Any]:
    """The scenario as plain values, below its key in a config. Empty without a scenario, so that the identity of runs
    that were measured before scenarios existed does not change."""
    return {} if scenario is None else {facts_of(build_spec.engine).scenarios.KEY: scenario.asked()}


def identity(build_spec: BuildSpec, options: Mapping[str, Option], spec: StudySpec, scenario: Any = None) -> str:
    """16 hexadecimal digits that change when any requested value of a run's server or load changes."""
    asked: dict[str, Any] = {
        "build": build_spec.model_dump(mode="json", exclude_none=True),
        "options": {name: [option.value, option.optional] for name, option in options.items()},
        "workload": spec.workload,
        "parameters": spec.parameters.model_dump(mode="json"),
        "placement": spec.placement,
    }
    asked |= scenario_asked(build_spec, scenario)
    asked |= {} if spec.layouts is None else {"layouts": spec.layouts}
    canonical = json.dumps(asked, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]
