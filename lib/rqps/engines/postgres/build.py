"""A PostgreSQL build: finds postgres and initdb in a tree, the libraries that they need, and their version."""

import re
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rqps import engines
from rqps.engines import Say, sources
from rqps.engines.asked import BuildSpec
from rqps.engines.sources import Sought, Source
from rqps.engines.sources.programs import located, version_of

BINARIES = ("bin", "usr/lib/postgresql/*/bin", "usr/bin", "pgsql/bin", ".")
_VERSION = re.compile(r"\(PostgreSQL\) (\d+(?:(?:\.\d+){1,2}|(?:\.\d+)?(?:devel|alpha\d+|beta\d+|rc\d+)))")
"""Matches the version of a release, and versions such as `19devel`, `18beta1` and `18rc1`, which builds of commits
between releases report."""


@dataclass(frozen=True)
class Build(engines.Build):
    """A server binary on this machine, and the program that makes its data directories."""

    def initdb(self, folder: Path) -> tuple[list[str], list[str]]:
        """The command line of initdb, and further options for it. initdb starts the program `postgres` in its own
        directory. So for a build that comes with its own loader, `folder` gets a copy of initdb, and a script
        `postgres` that starts the server with that loader."""
        program = self.program.with_name("initdb")
        if len(self.argv) == 1:
            return [str(program)], []
        folder.mkdir()
        script = folder / "postgres"
        script.write_text(f'#!/bin/sh\nexec {shlex.join(self.argv)} "$@"\n')
        script.chmod(0o755)
        shutil.copy(program, folder)
        share = self.program.parents[4] / "share/postgresql" / self.major
        return [*self.argv[:-1], str(folder / program.name)], ["-L", str(share)]

    @property
    def major(self) -> str:
        """The major version, `9.6` or `14`: a server starts only on data directories of its own major version."""
        return ".".join(map(str, self.number[: 2 if self.number < (10,) else 1]))


def source(name: str, spec: BuildSpec) -> Source:
    # A build tree has no share directory, which initdb needs.
    trees = "an unpacked release, what make install left (postgres with initdb beside it)"
    return sources.source_of(name, spec, Sought("postgres", server_in, "postgresql-17", trees=trees))


def locate(name: str, spec: BuildSpec, say: Say) -> Build:
    ask = partial(version_of, options=["--version"], pattern=_VERSION)
    return located(Build, name, source(name, spec), spec, ask, say)


def server_in(tree: Path) -> Path | None:
    """The program `postgres` of a tree, if initdb is in the same folder as the program; else None."""
    inside = [path for path in tree.iterdir() if path.is_dir()]
    # An archive may have all its files in one folder, such as postgresql-16.4.
    for root in (tree, *(inside if len(inside) == 1 else ())):
        programs: Iterator[Path] = (
            program for folder in BINARIES for program in sorted(root.glob(f"{folder}/postgres"))
        )
        for place in programs:
            if place.is_file() and place.stat().st_mode & 0o111 and place.with_name("initdb").is_file():
                return place
    return None
