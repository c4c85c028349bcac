"""Unfolds a study into its runs, in the order in which they are done."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from rqps.errors import RqpsError
from rqps.study.document import instead
from rqps.study.perf_schema import Scenario, absent
from rqps.study.runs_file import BuildSpec, Option, RunsFile, StudySpec, WorkloadParameters, resolve, resolve_scenario

Mode = Literal["throughput", "stacks", "instructions"]
"""The purpose of a run. Sampling and counting slow a run down, so only the throughput of the first is compared."""

MODES: dict[Mode, str] = {"throughput": "r", "stacks": "s", "instructions": "i"}
"""In the order in which a study does them, each with the letter that begins the ids of its runs."""


def in_words(mode: Mode, number: int) -> str:
    """A round as people call it.

    >>> in_words("throughput", 2), in_words("stacks", 1)
    ('round 2', 'stacks, round 1')
    """
    return f"round {number}" if mode == "throughput" else f"{mode}, round {number}"


@dataclass(frozen=True)
class Run:
    """One dbms in one round on a host, or several that take turns in a duet: what succeeds, fails or is resumed."""

    study: str
    question: str
    base: str
    run: str
    """Its id, in its folder's name: `r01@my8033.base@HOST`, in a duet `r01@HOST/my8033.base`."""
    mode: Mode
    host: str
    dbms: str
    build: str
    build_spec: BuildSpec
    config: str
    options: Mapping[str, Option]
    perf_schema: Scenario | None
    round: int
    position: int
    """Its index in the study's random order."""
    seed: int
    workload: str
    parameters: WorkloadParameters
    placement: Literal["same-cpu", "split", "free"] | None
    identity: str
    """Digest of all that is asked for; runs that differ in it can't be pooled."""
    beside: tuple["Run", ...] = ()
    """The others of its duet, which are measured at the same time."""

    @property
    def unit(self) -> str:
        """The id of the whole, whose folder has a folder for each dbms of a duet."""
        return self.run.partition("/")[0]

    @property
    def members(self) -> tuple["Run", ...]:
        return (self, *self.beside)

    @property
    def absent(self) -> str | None:
        """The reason why its build's version, where it is promised, lacks what the config asks for; else None."""
        version = self.build_spec.mysql
        return absent(version, self.perf_schema) if version and self.perf_schema else None


def unfold(runs_file: RunsFile, study: str, host: str) -> tuple[Run, ...]:
    """The runs of a study on a host: round after round, in each every dbms once, in random order or as a duet."""
    spec = study_of(runs_file, study)
    seed = int.from_bytes(hashlib.sha256(study.encode()).digest()[:4]) if spec.seed is None else spec.seed
    rounds = dict(zip(MODES, (spec.rounds, spec.stacks_rounds, spec.instructions_rounds), strict=True))
    runs: list[Run] = []

    def run(mode: Mode, number: int, dbms: str, name: str) -> Run:
        build, _, config = dbms.partition(".")
        build_spec = runs_file.builds[build]
        options, scenario = resolve(runs_file.configs, config), resolve_scenario(runs_file.configs, config)
        return Run(
            study=study,
            question=spec.question,
            base=spec.base,
            run=f"{MODES[mode]}{number:02}@{name}",
            mode=mode,
            host=host,
            dbms=dbms,
            build=build,
            build_spec=build_spec,
            config=config,
            options=options,
            perf_schema=scenario,
            round=number,
            position=len(runs),
            seed=seed,
            workload=spec.workload,
            parameters=spec.parameters,
            placement=spec.placement,
            identity=identity(build_spec, options, spec, scenario),
        )

    for mode in MODES:
        for number in range(1, rounds[mode] + 1):
            ordered = order(spec.dbms, seed, number)
            if spec.duet and mode == "throughput":
                every = [run(mode, number, dbms, f"{host}/{dbms}") for dbms in ordered]
                there = [each for each in every if not each.absent]
                runs += [replace(each, beside=tuple(there[1:])) for each in there[:1]]
                runs += [each for each in every if each.absent]
            else:
                for dbms in ordered:
                    runs.append(run(mode, number, dbms, f"{dbms}@{host}"))
    return tuple(runs)


def study_of(runs_file: RunsFile, study: str) -> StudySpec:
    """Finds a study by its name."""
    if study not in runs_file.studies:
        raise RqpsError(
            f"unknown study {study!r}; {instead(study, runs_file.studies, 'studies')}",
            fix="name one of these studies, or add yours to runs.yaml",
        )
    return runs_file.studies[study]


def first_rounds(runs_file: RunsFile, study: str, rounds: int) -> RunsFile:
    """Keeps only the first rounds of a study, for a quick try; the whole study goes on from them."""
    spec = study_of(runs_file, study)
    if not 1 <= rounds <= spec.rounds:
        raise RqpsError(
            f"{study}: {rounds} rounds asked for, and the study has {spec.rounds}",
            fix=f"ask for 1 to {spec.rounds}, or write more into runs.yaml",
        )
    fewer = spec.model_copy(update={"rounds": rounds, "stacks_rounds": 0, "instructions_rounds": 0})
    return runs_file.model_copy(update={"studies": {**runs_file.studies, study: fewer}})


def order(dbms: tuple[str, ...], seed: int, number: int) -> tuple[str, ...]:
    """The order of one round.

    Sorting by a digest shuffles as well as a generator does, and a round's order depends on nothing but the
    seed, its number and who takes part: rounds can be added, or a dbms, and the others keep their order.
    """
    return tuple(sorted(dbms, key=lambda one: hashlib.sha256(f"{seed} {number} {one}".encode()).digest()))


def identity(
    build_spec: BuildSpec, options: Mapping[str, Option], spec: StudySpec, scenario: Scenario | None = None
) -> str:
    """16 digits that change when anything changes that is asked of a run's server or its load."""
    asked: dict[str, Any] = {
        "build": build_spec.model_dump(mode="json", exclude_none=True),
        "options": {name: [option.value, option.optional] for name, option in options.items()},
        "workload": spec.workload,
        "parameters": spec.parameters.model_dump(mode="json"),
        "placement": spec.placement,
    }
    if scenario is not None:  # only then, so that runs of before there were any are still known
        asked["perf_schema"] = scenario.asked()
    canonical = json.dumps(asked, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]
