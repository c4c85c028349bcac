"""A PostgreSQL build: finds postgres and initdb in a tree, the libraries that they need, and their version."""

import re
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path

from rqps import engines
from rqps.engines import Say, sources
from rqps.engines.asked import BuildSpec
from rqps.engines.sources import Sought, Source
from rqps.engines.sources.programs import library_environment, version_of

BINARIES = ("bin", "usr/lib/postgresql/*/bin", "usr/bin", "pgsql/bin", ".")
_VERSION = re.compile(r"\(PostgreSQL\) (\d+\.\d+(?:\.\d+)?)")


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
        """The part of the version that has to match that of a data directory: `9.6`, `14`."""
        return ".".join(self.version.split(".")[: 2 if self.number < (10,) else 1])


def source(name: str, spec: BuildSpec) -> Source:
    return sources.source_of(name, spec, Sought("postgres", server_in, "postgresql-17"))


def locate(name: str, spec: BuildSpec, say: Say) -> Build:
    """The build that `spec` asks for, fetched if needed. Fails if its version is not the one that `spec` states."""
    origin = source(name, spec)
    program = server_in(tree := origin.fetch(name, say))
    assert program is not None  # without a program, fetching would have failed
    of_debian = origin.kind == "debian"
    argv = sources.debian.own_loader(tree, program) if of_debian else (str(program),)
    environment = {} if of_debian else library_environment(name, program, say)
    asking, no_beta = ["--version"], "; a beta, such as 18beta1, can't be measured"
    facts = sources.asked_once(program, lambda: {"version": version_of(argv, asking, environment, _VERSION, no_beta)})
    sources.refuse_other_version(name, spec, origin, facts["version"])
    how = sources.how_compiled(program)
    return Build(name, facts["version"], origin.words, tree, program, argv, facts["digest"], environment, how)


def server_in(tree: Path) -> Path | None:
    """The program `postgres` of a tree that has initdb beside it; None if there is none."""
    for place in (program for folder in BINARIES for program in sorted(tree.glob(f"{folder}/postgres"))):
        if place.is_file() and place.stat().st_mode & 0o111 and place.with_name("initdb").is_file():
            return place
    return None


def known_version(tree: Path) -> str | None:
    """The version of the server in a tree; None if rqps has not asked the server for it yet."""
    return sources.asked_before(server_in(tree)).get("version")
