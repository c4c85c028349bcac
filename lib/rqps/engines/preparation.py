"""Prepares the dbms of engines with servers: translates their options, and makes data directories with loaded tables.

Each build has an empty data directory, which is initialised but has no user tables, and a data directory for each
set of loaded tables. Every run gets a copy of a directory with loaded tables.
"""

import difflib
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from pydantic import TypeAdapter

from rqps import keeper
from rqps.engines import Build, Option, Say
from rqps.engines.cache import cache_dir, copy_folder, made_once, short_key
from rqps.engines.server import LAST_LINES, KeptServer
from rqps.errors import RqpsError

Report = TypeVar("Report")
Value = str | int | float | bool
FILE = "known.json"


@dataclass(frozen=True)
class Translated:
    """The options of a command line, and the settings that the server then has to report."""

    arguments: tuple[str, ...] = ()
    expected: Mapping[str, str] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    """The options whose key ends in `?` and that this version of the engine does not have."""


def translate(
    asked: Mapping[str, Option],
    known: Mapping[str, Any],
    translated: Callable[[str, Value], Translated | None],
    has: str,
) -> Translated:
    """Translates the options `asked` one by one by `translated`, which returns None if the version lacks the option,
    and raises a ValueError for an impossible value. One error, which begins with `has`, names all wrong options."""
    parts, wrong, files = [], [], ""
    for name, option in asked.items():
        where = f", which {option.line} sets" * bool(option.line)
        try:
            part = translated(name, option.value)
        except ValueError as error:
            wrong.append(f"{name}: {error}{where}")
            continue
        if part or option.optional:
            parts.append(part or Translated(left_out=(name,)))
        else:
            near = difflib.get_close_matches(name, known, n=1)
            wrong.append(f"no option {name}" + (f" (did you mean {near[0]}?)" if near else "") + where)
            files = files or " (in an option file, begin its name with loose_)" * bool(where)
    if wrong:
        raise RqpsError(
            f"{has} {'; '.join(wrong)}",
            fix=f"correct the config, or end an option's key with ?{files} to leave it out where a version does not "
            "have it",
        )
    return Translated(
        tuple(argument for part in parts for argument in part.arguments),
        {name: value for part in parts for name, value in part.expected.items()},
        tuple(name for part in parts for name in part.left_out),
    )


@dataclass(frozen=True)
class Origin(ABC, Generic[Report]):
    """Identifies data directories: the build that makes them, and the options that change their files. Configs with
    the same values of these options share data directories."""

    build: Build
    shape: Mapping[str, str]

    EMPTY: ClassVar[str]
    """The name of the folder with the data directory that has no user tables."""
    REPORT: ClassVar[TypeAdapter[Any]]
    """The type of a server's report about its own settings."""
    LOG: ClassVar[str]
    """The suffix of the file names of server logs."""
    KEY: ClassVar[tuple[object, ...]] = ()
    """Further values on which the contents of data directories depend."""

    @abstractmethod
    def initialise(self, data: Path, say: Say) -> None:
        """Initialises a new data directory, without user tables."""

    @abstractmethod
    def start(self, data: Path, log: Path, known: Report | None) -> KeptServer:
        """Starts a server: to load tables, or to ask the server for its settings if none are `known` yet."""

    @abstractmethod
    def report(self, server: Any) -> Report:
        """Asks the first server on a newly initialised data directory for the server's settings."""

    def settle(self, server: Any) -> None:
        """Called before a server with loaded tables stops."""

    def stopped(self, data: Path) -> None:
        """Called after a server on `data` has stopped."""

    @property
    def folder(self) -> Path:
        key = short_key(self.build.digest, dict(sorted(self.shape.items())), *self.KEY)
        return cache_dir() / "data" / f"{self.build.name}-{self.build.version}-{key}"

    def known(self, say: Say) -> Report:
        """The settings of the build, which its server reported when its data directory was first initialised."""
        report: Report = self.REPORT.validate_json((self._empty(say) / FILE).read_bytes())
        return report

    @classmethod
    def known_before(cls, version: str | None) -> tuple[list[Report], str]:
        """The settings that servers of a version have reported on this machine, and the version. If no server of this
        version has run here: the settings of servers of all versions, and the words `of any version`."""
        for pattern, words in ((version, version), ("*", "of any version")):
            files = (cache_dir() / "data").glob(f"*-{pattern}-*/{cls.EMPTY}/{FILE}") if pattern else ()
            if reports := [cls.REPORT.validate_json(file.read_bytes()) for file in files]:
                return reports, str(words)
        return [], ""

    def loaded(self, name: str, load: Callable[[Any], None], say: Say) -> Path:
        """A data directory with the tables that `load` makes. The directory is made once for each `name`."""
        empty, known = self._empty(say), self.known(say)

        def make(work: Path) -> None:
            say(f"{self.build.name}: loading {name}")
            copy_folder(empty / "data", work / "data")
            with self._running(work / "data", name, known) as server:
                load(server)
                self.settle(server)

        return made_once(self.folder / name, make, say) / "data"

    def _empty(self, say: Say) -> Path:
        """A folder, made once, with a newly initialised data directory, and a file with its server's settings."""

        def make(work: Path) -> None:
            say(f"{self.build.name}: initialising an empty data directory")
            self.initialise(work / "data", say)
            with self._running(work / "data", self.EMPTY, None) as server:
                (work / FILE).write_bytes(self.REPORT.dump_json(self.report(server), indent=1))

        return made_once(self.folder / self.EMPTY, make, say)

    def call(self, command: Sequence[str], environment: Mapping[str, str], work: Path, sql: bytes = b"") -> None:
        """Runs a program in the folder `work`, to initialise a data directory. If the program fails, the error shows
        the end of the program's output."""
        done = subprocess.run(
            keeper.command("exec", [*command], cpus=()),
            input=sql,
            capture_output=True,
            env={"PATH": "/usr/bin:/bin", **environment, **self.build.environment},
            cwd=work,
        )
        if done.returncode != 0:
            output = (done.stdout + done.stderr).decode(errors="replace").splitlines()
            raise RqpsError(
                f"{self.build.name} ({self.build.version}): its empty data directory could not be made:\n"
                + "\n".join(output[-LAST_LINES:]),
                fix="see what the program says above; a library or a locale that is missing is named there",
            )

    @contextmanager
    def _running(self, data: Path, name: str, known: Report | None) -> Iterator[KeptServer]:
        log = self.folder / f"{name}{self.LOG}"  # this file stays if the block fails
        with self.start(data, log, known).making(f"making data of {self.build.name}") as server:
            yield server
        log.unlink(missing_ok=True)
        self.stopped(data)
