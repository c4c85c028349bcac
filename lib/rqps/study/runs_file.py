"""The models of runs.yaml, and the JSON schema with which editors complete and check such a file.

The models contain no workload: the caller passes the model of each workload's parameters.
"""

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple, Self, TypeVar

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    SerializeAsAny,
    SerializerFunctionWrapHandler,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    WrapValidator,
    create_model,
    model_serializer,
    model_validator,
)
from pydantic.json_schema import SkipJsonSchema

from rqps.engines import NO_SCENARIOS, FileLine, Option, Scenarios, Strict, facts_of, facts_of_all, option_name
from rqps.engines.asked import BuildSpec, Connections
from rqps.errors import RqpsError, instead
from rqps.numbers import seconds

T = TypeVar("T")
LONGEST_NAME = 76
"""Maximum length of a name. The name of a folder, such as `.run=r001@BUILD.CONFIG@HOST.partial`, contains three
names and may have 255 bytes; the name of a rebuilt build also gets the number of its version, as in `BUILD@2`."""
NAME_PATTERN = r"^[A-Za-z0-9_][A-Za-z0-9_-]*$"
Name = Annotated[str, Field(pattern=NAME_PATTERN, max_length=LONGEST_NAME)]
"""The name of a build, config, host or study. It becomes part of a folder's name. It has no `.`, which separates
build from config, and does not begin with `-`, which begins an option of a command."""


class Dbms(NamedTuple):
    """The names of a dbms' build and config."""

    build: str
    config: str


def build_and_config(dbms: str) -> Dbms:
    """Splits the name of a dbms, as runs.yaml and commands write it, into the names of its build and its config.

    >>> build_and_config("my8033.ps0")
    Dbms(build='my8033', config='ps0')
    """
    build, _, config = dbms.partition(".")
    return Dbms(build, config)


def known_dbms(dbms: str, builds: Collection[str], configs: Collection[str], option: str = "") -> Dbms:
    """The build and the config of a dbms that a command names, both of which runs.yaml must have. `option` is the
    command's option, for the error.

    >>> known_dbms("my8033.ps0", ["my8033"], ["ps0"])
    Dbms(build='my8033', config='ps0')
    """
    for kind, name, known in zip(("build", "config"), build_and_config(dbms), (builds, configs), strict=True):
        if name not in known:
            what = f"{option} {dbms}: runs.yaml has no {kind} {name!r}; {instead(name, known, f'{kind}s')}"
            raise RqpsError(what.lstrip(), fix="write BUILD.CONFIG, with a build and a config of runs.yaml")
    return build_and_config(dbms)


PlacementKind = Literal["same-cpu", "by-connection", "split", "free"]
Asks = Literal["releases", "builds", "config", "parts", "breakdown", "writes", "waits"]
"""The kinds of questions. The first page of a report depends on the kind."""


def _one_line(value: Any) -> Any:
    if value is None:
        raise ValueError("has no value; write one, '' for an empty text")
    if isinstance(value, list | dict):
        raise ValueError("an option has one value, not a list or a mapping")
    if isinstance(value, str) and not value.isprintable():
        raise ValueError("an option's value is one line without control characters")
    return value


OptionValue = Annotated[bool | int | float | str, BeforeValidator(_one_line)]


class _Config(Strict):
    """Server options by their current names; `extends` inherits the options of another config."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, OptionValue] = Field(init=False)

    extends: Name | None = None
    """The config from which this config inherits each option that it does not set itself."""

    if TYPE_CHECKING:

        def __init__(self, **keys: Any) -> None: ...
        def __getattr__(self, name: str) -> Any: ...

    @property
    def options(self) -> Mapping[str, str | int | float | bool]:
        """The options as written; a `?` at the end of a key marks an option that is left out for servers that do not
        know it."""
        return self.model_extra or {}


SCENARIOS: tuple[Scenarios, ...] = tuple(
    facts.scenarios for facts in facts_of_all() if facts.scenarios is not NO_SCENARIOS
)
SCENARIO_KEYS = {scenarios.KEY: scenarios for scenarios in SCENARIOS}
"""Maps each key of a config that selects a scenario to the scenarios of its engine."""


class OptionFile(Strict):
    """The options that a config takes from an option file."""

    path: str
    lines: tuple[FileLine, ...]

    def options(self, version: str | None, config: str) -> dict[str, Option]:
        """The options for a server of this version; if two lines set the same option, the later line counts."""
        series = version and ".".join(version.split(".")[:2])
        if series is None and (line := next((line for line in self.lines if line.series and line.taken), None)):
            raise RqpsError(
                f"{self.path}:{line.number}: {line.name} is for {line.series}, and configs.{config} belongs to a "
                "build without a version in runs.yaml",
                fix="write the version beside the build's source in runs.yaml",
            )
        of_it = (line for line in self.lines if line.taken and line.series in ("", series))
        return {line.name: Option(line.value, line.optional, f"{self.path}:{line.number}") for line in of_it}


_AS_WRITTEN = WithJsonSchema({"type": "string", "examples": ["etc/my.cnf"]})
FILE_KEYS = {facts.option_files.KEY: facts for facts in facts_of_all() if facts.option_files is not None}
"""Maps each key of a config that names an option file to the facts (`Facts`) of the engine that takes such a file."""
if TYPE_CHECKING:
    ConfigSpec = _Config
else:
    ConfigSpec = create_model(
        "ConfigSpec",
        __base__=_Config,
        __doc__=_Config.__doc__,
        **{key: (of.MODEL | None, Field(None, description=of.ABOUT)) for key, of in SCENARIO_KEYS.items()},
        **{
            key: (Annotated[OptionFile | None, _AS_WRITTEN], Field(None, description=of.option_files.ABOUT))
            for key, of in FILE_KEYS.items()
        },
    )


def resolve(configs: Mapping[str, ConfigSpec], name: str, version: str | None = None) -> dict[str, Option]:
    """All options of a config for a server of this version. The options of the config's option file override
    inherited options, and the options written in the config override both."""
    options: dict[str, Option] = {}
    for config in reversed(_with_what_it_extends(configs, name)):
        for key in FILE_KEYS:
            if (file := getattr(config, key)) is not None:
                options |= file.options(version, name)
        options |= {option_name(key): Option(value, key.endswith("?")) for key, value in config.options.items()}
    for key, scenarios in SCENARIO_KEYS.items():
        if (asked := _scenario(configs, name, key)) is not None:
            options = scenarios.decide(options, asked)
    return options


def option_files(configs: Mapping[str, ConfigSpec], names: Iterable[str]) -> Iterator[tuple[str, OptionFile]]:
    """The option files of these configs and of the configs that they extend, each with the name of its config."""
    chains = (_with_what_it_extends(configs, name) for name in names)
    in_use = {id(config) for chain in chains for config in chain}
    for name, config in configs.items():
        files = (getattr(config, key) for key in FILE_KEYS) if id(config) in in_use else ()
        yield from ((name, file) for file in files if file is not None)


def resolve_scenario(configs: Mapping[str, ConfigSpec], name: str, engine: str) -> Any:
    """The scenario that a config names or inherits from the nearest config that it extends; None if there is none."""
    key = facts_of(engine).scenarios.KEY
    return _scenario(configs, name, key) if key in SCENARIO_KEYS else None


def _scenario(configs: Mapping[str, ConfigSpec], name: str, key: str) -> Any:
    asked = (getattr(config, key) for config in _with_what_it_extends(configs, name))
    return next((SCENARIO_KEYS[key].scenario(value) for value in asked if value is not None), None)


def _with_what_it_extends(configs: Mapping[str, ConfigSpec], name: str) -> list[ConfigSpec]:
    config = configs[name]
    return [config, *(_with_what_it_extends(configs, config.extends) if config.extends else ())]


Count = Annotated[int, Field(ge=1)]


def _once(values: tuple[T, ...]) -> tuple[T, ...]:
    if not values:
        raise ValueError("is empty; it needs at least one")
    if repeated := [value for number, value in enumerate(values) if value in values[:number]]:
        raise ValueError(f"{repeated[0]!r} is there more than once")
    return values


Some = Annotated[tuple[T, ...], AfterValidator(_once), Field(strict=False, json_schema_extra={"minItems": 1})]
"""A list of one or more values, without repetitions."""


def one_of(known: Collection[str], kind: str) -> tuple[Any, Any]:
    """A validator and its JSON schema: it refuses a name that is not known, and suggests the nearest known name."""

    def check(name: str) -> str:
        if name not in known:
            raise ValueError(f"unknown {kind} {name!r}; {instead(name, known, f'{kind}s')}")
        return name

    return AfterValidator(check), WithJsonSchema({"type": "string", "enum": list(known)})


class DeviceSpeed(NamedTuple):
    """The speed of a disk without the page cache (direct I/O), with one request at a time."""

    read_s: float
    """The mean time of a read of 16 KB at a random place, in seconds."""
    write_s: float
    """The mean time of a write of 16 KB at a random place, in seconds."""
    bytes_per_s: float
    """Bytes that are written per second in large pieces."""


USUAL_DEVICE = DeviceSpeed(read_s=1e-4, write_s=1e-4, bytes_per_s=2e8)
"""The speed of an ordinary SSD, with which rqps estimates if a run depends on the disk at all."""


class Parameters(Strict, ABC):
    """The parameters of a workload, which a study may set."""

    @model_serializer(mode="wrap")
    def _without_what_is_not_given(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leaves out parameters without a value, so that the identity of runs stays the same when a workload gets a
        further parameter."""
        return {name: value for name, value in serialize(self).items() if value is not None}

    of_engines: ClassVar[tuple[str, ...]]
    """The engines that the workload supports."""
    of_a_try: ClassVar[Mapping[str, Any]] = {}
    """Parameters with which a few steps give a verdict within two minutes, for `rqps try`; empty if no parameters
    do."""

    plans_are_findings: ClassVar[bool] = False
    """True if query plans may differ between servers; a page then reports such differences first."""
    steps_stand_alone: ClassVar[bool] = False
    """True if `rqps.what_if` can measure any step without the other steps, for a given number of seconds."""

    @property
    def not_sliced(self) -> str:
        """The reason why a step of the workload can't run in slices; empty if all steps can."""
        return ""

    def only(self, step: str) -> Self:  # noqa: ARG002 by default, a step needs all other steps
        """The parameters of a run with only this step and the steps that it needs."""
        return self

    @property
    def disk_bytes(self) -> int:
        """The disk space that a run needs, in bytes; 0 if the workload can't estimate it."""
        return 0

    def disk_seconds(self, device: DeviceSpeed, cache_bytes: int | None) -> float:  # noqa: ARG002
        """The time of a run, in seconds, in which it waits for the disk; 0 if its data fit into memory, or if the
        workload can't estimate it. `cache_bytes` is the size of the cache of an engine that reads past the page
        cache."""
        return 0.0

    def refused(self, builds: Mapping[str, BuildSpec], duet: bool) -> str | None:  # noqa: ARG002
        """The reason why the workload can't compare these builds; None, the default, if it can."""
        return None

    @property
    @abstractmethod
    def estimated_seconds(self) -> float:
        """The time under load of all steps of a run, in seconds."""

    @property
    def estimated_duet_seconds(self) -> float:
        """The time under load that each server of a duet needs for all steps, in seconds."""
        return self.estimated_seconds

    @property
    @abstractmethod
    def connections(self) -> Connections:
        """The number of connections that a run needs, to compare with the server's limit."""


ROUNDS_FOR_A_VERDICT = 4
"""The minimum number of rounds for a verdict; an analysis of fewer rounds does not count as an interim analysis."""
SMALLEST_EFFECT = 0.02
"""The smallest effect that matters, as a share, if a study does not set it."""
SHARES = (0.001, 0.5)


def _time(value: Any) -> Any:
    seconds(str(value))
    return value


def _share(value: Any) -> float:
    """
    >>> _share("2%"), _share("0.5 %")
    (0.02, 0.005)
    """
    match = re.fullmatch(r"(\d{1,2}(?:\.\d{1,3})?) ?%", str(value))
    if match is None:
        raise ValueError(f"{str(value)!r} is not a percentage; write one such as 2% or 0.5%")
    share = float(match[1]) / 100
    if not SHARES[0] <= share <= SHARES[1]:
        raise ValueError(f"{value} is out of reach; write {100 * SHARES[0]:g}% to {100 * SHARES[1]:g}%")
    return share


_TIME = {"examples": ["30m"], "pattern": "^([0-9]+h)?([0-9]+m)?([0-9]+s)?$"}
Budget = Annotated[str, BeforeValidator(_time), Field(json_schema_extra=_TIME)]
Share = Annotated[
    float, BeforeValidator(_share), WithJsonSchema({"type": "string", "pattern": "^[0-9.]+ ?%$", "examples": ["2%"]})
]

Workloads = Mapping[str, type[Parameters]]
"""Maps the name of each workload to the model of its parameters."""


def _of_the_workload(value: Any, handler: ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
    """Validates parameters with the model of the study's workload, from the models in the validation context."""
    model = (info.context or {}).get(info.data.get("workload"))
    if isinstance(value, Parameters) or not isinstance(value, dict):
        return handler(value)
    if model is None:  # mistakes.py reports an unknown workload
        return value
    # Validated as JSON, since a strict model accepts lists for tuples only in JSON.
    return model.model_validate_json(json.dumps(value))


WorkloadParameters = Annotated[
    SerializeAsAny[Parameters],
    WrapValidator(_of_the_workload),
    WithJsonSchema({"type": "object", "additionalProperties": True}),
]


def _memory(value: Any) -> float:
    """
    >>> _memory("64G"), _memory("512 GB")
    (64.0, 512.0)
    """
    match = re.fullmatch(r"(\d{1,5}(?:\.\d)?) ?GB?", str(value))
    if match is None:
        raise ValueError(f"{str(value)!r} is no amount of memory; write one such as 64G")
    return float(match[1])


Gigabytes = Annotated[
    float,
    BeforeValidator(_memory),
    WithJsonSchema({"type": "string", "pattern": "^[0-9.]+ ?GB?$", "examples": ["64G"]}),
]


class HostSpec(Strict):
    """A machine to measure on. It has to accept an SSH key of this user, and needs no other service."""

    ssh: Annotated[str, Field(examples=["me@big.example"], pattern=r"^([\w.-]+@)?[\w][\w.-]*(:\d{1,5})?$")]
    """The host's address: `[user@]name[:port]`, or a name in ~/.ssh/config."""
    path: Annotated[str, Field(pattern=r"^(/|~/)[\w.+/-]*[\w+-]$")] = "~/rqps"
    """The folder on the host for all files of rqps: its checkout, builds, loaded tables, and the run under way. It
    should be on the disk that is to be measured."""
    memory: Gigabytes | None = None
    """The host's memory, such as 64G. A machine with clearly less memory is refused, since it must be another
    machine."""
    parameters: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """Parameters for this host, by workload, such as `sysbench: {threads: 8}`. They override those of a study."""


class WhatIfSpec(Strict):
    """The change that this study tries on a dbms of another study. The other study's page on the regression shows the
    result."""

    study: Name
    change: Annotated[str, Field(min_length=1, examples=["buffer_size = 64M"])]


class StudySpec(Strict):
    """A question, and the runs that answer it."""

    question: Annotated[str, Field(min_length=1, examples=["What did 8.0 cost since 5.6?"])]
    """The question in a sentence, which is the heading of the report."""
    asks: Asks | None = None
    """The kind of the question, which decides the report's first page: what `releases`, `builds` or a `config` cost,
    which of several `parts` costs most, where CPU time goes (`breakdown`), where written bytes go (`writes`), or what
    clients wait for (`waits`). If not given, the kind is `releases`, `builds`, `config` or `parts`, depending on how
    the dbms differ."""
    workload: Annotated[str, Field(examples=["sysbench"])]
    """The workload to run, such as `sysbench`."""
    dbms: Annotated[tuple[str, ...], Field(min_length=1, examples=[["my5624.base", "my8033.base"]])]
    """The servers to compare, each as build.config."""
    base: Annotated[str, Field(examples=["my5624.base"])]
    """The entry of `dbms` that the others are compared with."""
    rounds: Annotated[int, Field(ge=0, le=999, examples=[6])] | None = None
    """Number of repeats, each from new starts of all servers; fewer than 4 give no verdict. With a budget,
    this is the maximum number. It is 0 if the study only counts instructions."""
    budget: Budget | None = None
    """Time for measuring, such as 30m: first a round of all dbms, then rounds of the undecided dbms, until all are
    decided or the time is over."""
    occasions: Annotated[int, Field(ge=1, le=99, examples=[3])] = 1
    """The number of occasions: later occasions measure the whole study again, hours apart, from newly loaded tables.
    The interval of one occasion is valid for its hour only; with three or more occasions, it also covers other hours
    of this machine."""
    layouts: Annotated[int, Field(ge=2, le=99, examples=[16])] | None = None
    """The number of layouts: each round measures the next layout of every build, with its functions in another order.
    The interval then covers the effect of the order. Each build needs a source, and a recipe with `sections`. With
    fewer layouts than rounds, the layouts repeat."""
    apart: Budget = "2h"
    """The time between the end of an occasion and the beginning of the next."""
    method: Literal["duet", "rounds"] | None = None
    """The way to measure a round. `duet`: all dbms are up at once and take turns under load, in slices of
    milliseconds, so that disturbances of the machine affect all of them. `rounds`: one dbms runs after the other. If
    not given, rounds are duets where the workload's steps allow it."""
    twin: bool = True
    """Adds a twin to each round: a second server of the base, which should get the same results. Only duets
    with at least 4 rounds or a budget of at least 5 minutes have a twin."""
    smallest_effect: Annotated[Share, Field(json_schema_extra={"default": "2%"})] = SMALLEST_EFFECT
    """The smallest effect that matters, 2% if not given. A change that is significantly smaller gets the verdict
    `same`, and no more of a budget is spent on it."""
    stacks_rounds: Annotated[int, Field(ge=0, le=999, examples=[2])] = 0
    """Further runs of each dbms while its call stacks are sampled; these runs give no throughput."""
    waits_rounds: Annotated[int, Field(ge=0, le=999, examples=[2])] = 0
    """Further runs of each dbms while perf records where its threads wait; these runs give no throughput."""
    instructions_rounds: Annotated[int, Field(ge=0, le=999, examples=[1])] = 0
    """Further runs of each dbms under callgrind, which counts instructions; these runs take long."""
    not_counted: Annotated[tuple[str, ...], Field(examples=[["my8040_native.common"]])] = ()
    """Entries of `dbms` without runs under callgrind. Builds for one CPU (`-march=native`) may have instructions that
    valgrind does not know; their server then ends by SIGILL."""
    caches: bool = False
    """Simulates cache misses in runs that count instructions, with the first-level caches of this CPU. The last-level
    cache has 4 MB in odd rounds, as if neighbours used the rest, and this CPU's size in even rounds."""
    parameters: Annotated[WorkloadParameters, Field(default_factory=dict, validate_default=True)]
    """The workload's parameters: its steps, sizes and times."""
    hosts: Annotated[tuple[str, ...], Field(examples=[["big", "small"]])] = ()
    """The hosts to measure on, all at the same time; this machine, if no host is named."""
    placement: PlacementKind | None = None
    """The CPUs of server and load generator: one CPU for both (`same-cpu`), all CPUs, with each client on the CPU of
    the thread that serves it (`by-connection`), separate CPUs (`split`), or all CPUs without placement (`free`). If
    not given, rqps chooses by the number of CPUs of the host and the number of clients."""
    seed: Annotated[int, Field(ge=0, lt=2**63)] | None = None
    """The seed of the random order; it is derived from the study's name if not given."""
    what_if: WhatIfSpec | None = None
    """The change that this study tries, and the study that it tries the change for; `rqps.what_if` writes this
    key."""
    level_of: Name | None = None
    """The study that measured all instruments of a scenario together. This study measures groups of them one by one.
    `rqps run` writes this key."""
    against: Literal["last", "base"] | None = None
    """The dbms that each round measures together with the newest version of a rebuilt build: the version before it
    and the base (`last`), or the base alone (`base`); `last` if not given."""
    earlier: SkipJsonSchema[dict[str, tuple[str, ...]]] = Field(default_factory=dict)
    """Maps the dbms of a build's newest version to the dbms of the build's earlier versions, latest first; rqps
    writes this key."""
    measure_parts_of: Annotated[str, Field(examples=["my8033.ps-all-enabled"])] | None = None
    """An entry of `dbms`. After the study, rqps divides the instruments of its scenario into parts and measures each
    part alone. Parts that cost something are divided again, level by level; each level is a study of its own."""

    @model_validator(mode="after")
    def _can_be_measured(self) -> Self:
        if self.rounds is None and self.budget is None:
            raise ValueError("rounds and budget are missing; write for instance `rounds: 6` or `budget: 30m`")
        if self.rounds == 0 and not self.instructions_rounds:
            raise ValueError("rounds: 0 is for a study that counts instructions; write instructions_rounds, too")
        if unknown := [dbms for dbms in self.not_counted if dbms not in self.dbms]:
            raise ValueError(f"not_counted has {', '.join(unknown)}, which is not in dbms; write a dbms of the study")
        if self.method == "duet" and (reason := self.parameters.not_sliced):
            raise ValueError(f"method: duet is not for {self.workload}: {reason}; write rounds, or leave it out")
        if self.budget is not None and not self.duet:
            raise ValueError("a budget is for duets of several dbms; write `rounds: 6` in its place")
        return self

    @property
    def named(self) -> dict[str, Dbms]:
        """Maps each dbms, earlier versions included, to the names of its build and its config."""
        earlier = (dbms for others in self.earlier.values() for dbms in others)
        return {dbms: build_and_config(dbms) for dbms in (*self.dbms, self.base, *earlier)}

    @property
    def builds(self) -> tuple[str, ...]:
        """The names of the builds of `dbms`."""
        named = self.named
        return tuple(dict.fromkeys(named[dbms].build for dbms in self.dbms))

    @property
    def current(self) -> tuple[str, ...]:
        """The dbms to measure: all except earlier versions of a build, unless such a version is the base."""
        earlier = {dbms for others in self.earlier.values() for dbms in others}
        return tuple(dbms for dbms in self.dbms if dbms not in earlier or dbms == self.base)

    def layout_of(self, build: BuildSpec, number: int) -> int | None:
        """The layout of a build in round `number`: the build's own or, if the study has `layouts`, the next one in
        each round. Two builds with the same layout number do not have their functions in the same order."""
        return build.layout if self.layouts is None else (build.layout or 1) + (number - 1) % self.layouts

    @property
    def apart_s(self) -> int:
        return seconds(self.apart)

    @property
    def budget_s(self) -> int | None:
        return None if self.budget is None else seconds(self.budget)

    def parameters_on(self, host: HostSpec) -> Parameters:
        """The parameters on a host: the study's parameters, overridden by those of the host."""
        if not (own := host.parameters.get(self.workload)):
            return self.parameters
        asked = self.parameters.model_dump(mode="json", exclude_unset=True)
        # Validated as JSON, since a strict model accepts lists for tuples only in JSON.
        return type(self.parameters).model_validate_json(json.dumps(asked | own))

    @property
    def duet(self) -> bool:
        """True if all dbms of a round are up at once and take turns."""
        sliced = not self.parameters.not_sliced and self.method != "rounds"
        return sliced and len(self.dbms) > 1 and self.rounds != 0

    extends: Name | None = None
    """The study from which this study inherits each key and each parameter that it does not set itself."""


class RunsFile(Strict):
    """The contents of runs.yaml."""

    builds: dict[Name, BuildSpec]
    """Server binaries by name, with the source of each."""
    configs: dict[Name, ConfigSpec]
    """Named sets of server options."""
    hosts: dict[Name, HostSpec] = Field(default_factory=dict)
    """Other machines to measure on, by name."""
    studies: dict[Name, StudySpec]
    """Studies by name: questions, and the runs that answer them."""

    def with_study(
        self, study: str, changes: Mapping[str, Any], called: str = "", **sections: Mapping[str, Any]
    ) -> Self:
        """A copy of the file with changes to a study. If `called` is given, the study itself stays, and the changed
        study is added under the name `called`. `sections` replaces whole sections, such as builds or configs."""
        changed = self.studies[study].model_copy(update=dict(changes))
        return self.model_copy(update={**sections, "studies": {**self.studies, called or study: changed}})


def schema_text(workloads: Workloads) -> str:
    """The JSON schema of a runs.yaml: the schema of the models, with the schema of each workload's parameters."""
    schema = RunsFile.model_json_schema()
    files = {"type": "string", "examples": ["published.yaml"]}
    about = "Files beside this one with more builds, configs, hosts and studies."
    schema["properties"]["include"] = {"type": "array", "items": files, "description": about}
    del schema["required"]  # an included file may lack sections
    study = schema["$defs"]["StudySpec"]
    study["properties"]["workload"]["enum"] = list(workloads)
    required = study.pop("required")
    long_enough = [{"required": [*required, either]} for either in ("rounds", "budget")]
    study["anyOf"] = [*long_enough, {"required": ["extends"]}]
    study["allOf"] = []
    for workload, model in workloads.items():
        parameters = model.model_json_schema(ref_template=f"#/$defs/{model.__name__}/$defs/{{model}}")
        schema["$defs"][model.__name__] = parameters
        named = {"properties": {"workload": {"const": workload}}}
        takes = {"properties": {"parameters": {"$ref": f"#/$defs/{model.__name__}"}}}
        study["allOf"].append({"if": named, "then": takes})
    schema = {"$schema": "http://json-schema.org/draft-07/schema#", **schema}
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
