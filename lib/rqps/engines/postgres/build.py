"""A PostgreSQL build: postgres and initdb found in a tree, with the libraries that they need, and their version."""

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from rqps import engines
from rqps.engines import Say, sources
from rqps.engines.asked import BuildSpec
from rqps.engines.sources import Sought, Source
from rqps.engines.sources.programs import ask, library_environment
from rqps.errors import RqpsError

BINARIES = ("bin", "usr/lib/postgresql/*/bin", "usr/bin", "pgsql/bin", ".")
_VERSION = re.compile(r"\(PostgreSQL\) (\d+\.\d+(?:\.\d+)?)")


@dataclass(frozen=True)
class Build(engines.Build):
    """A server binary on this machine, and the program that makes its data directories."""

    @property
    def initdb(self) -> Path:
        return self.program.with_name("initdb")

    @property
    def major(self) -> str:
        """The part of the version that data directories share: `9.6`, `14`."""
        return ".".join(self.version.split(".")[: 2 if self.number < (10,) else 1])


def source(name: str, spec: BuildSpec) -> Source:
    return sources.source_of(name, spec, Sought("postgres", server_in, "postgresql-17"))


def locate(name: str, spec: BuildSpec, say: Say) -> Build:
    """The build that `spec` asks for: fetched if needed, its version checked against the promised one."""
    origin = source(name, spec)
    program = server_in(tree := origin.fetch(name, say))
    assert program is not None  # or fetching it had failed
    environment = library_environment(name, program, say)
    facts = sources.asked_once(program, lambda: {"version": _ask_version(program, environment)})
    sources.refuse_other_version(name, spec, origin, facts["version"])
    how = sources.how_compiled(program)
    return Build(
        name, facts["version"], origin.words, tree, program, (str(program),), facts["digest"], environment, how
    )


def server_in(tree: Path) -> Path | None:
    """The server of an installation that has initdb beside it."""
    for place in (program for folder in BINARIES for program in sorted(tree.glob(f"{folder}/postgres"))):
        if place.is_file() and place.stat().st_mode & 0o111 and place.with_name("initdb").is_file():
            return place
    return None


def known_version(tree: Path) -> str | None:
    """The version of the server in a tree, if it was asked before."""
    return sources.asked_before(server_in(tree)).get("version")


def _ask_version(program: Path, environment: dict[str, str]) -> str:
    try:
        answer = ask([str(program), "--version"], environment)
    except (OSError, subprocess.TimeoutExpired) as error:
        fix = "give a build for this machine (Linux, x86-64)"
        raise RqpsError(f"{program} can't be run: {error}", fix=fix) from error
    version = _VERSION.search(answer.stdout)
    if answer.returncode != 0 or version is None:
        raise RqpsError(
            f"{program} does not report its version (exit status {answer.returncode}): {answer.stdout[-400:]}",
            fix=f"make this work first: {program} --version; a beta has no version that could be promised",
        )
    return version[1]
