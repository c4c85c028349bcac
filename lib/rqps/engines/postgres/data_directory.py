"""Data directories: an empty one for each build, and others with loaded tables. Every run gets a copy of a loaded
one."""

import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter

from rqps import keeper
from rqps.engines import Option, Say, Start
from rqps.engines.cache import cache_dir, copy_folder, made_once, short_key
from rqps.engines.postgres.build import Build
from rqps.engines.postgres.client import DATABASE, USER, Connection
from rqps.engines.postgres.pg_settings import OFF, READ, Setting, plain, settings_of
from rqps.engines.postgres.postmaster import ANSWER_PATIENCE_S, Server, start
from rqps.engines.postgres.unprivileged import server_user
from rqps.errors import RqpsError

SHAPING = {"locale": "C", "encoding": "UTF8", "data_checksums": "off", "locale_provider": "", "wal_segsize": ""}
"""Maps the options that decide what initdb writes to their values for configs that do not set them."""
FILE = "known.json"
_KNOWN = TypeAdapter(dict[str, Setting])
QUICK = ("-c", "fsync=off", "-c", "autovacuum=off")
"""Server options for loading tables; they have no effect on the loaded data. Commits stay synchronous: right after
asynchronous commits, a vacuum could not mark their rows as visible to all, and index-only scans would read the table,
too."""


@dataclass(frozen=True)
class Origin:
    """The origin of a data directory: a build, and the options that decide what initdb writes."""

    build: Build
    shape: Mapping[str, str]

    @property
    def folder(self) -> Path:
        key = short_key(self.build.digest, dict(sorted(self.shape.items())), QUICK)
        return cache_dir() / "data" / f"{self.build.name}-{self.build.version}-{key}"


def origin(build: Build, asked: Mapping[str, Option]) -> Origin:
    """The origin of the data of a dbms. Two configs with the same options for initdb share it."""
    return Origin(build, SHAPING | {name: plain(asked[name].value) for name in SHAPING if name in asked})


def known(source: Origin, say: Say) -> dict[str, Setting]:
    """The settings of a build after initdb, read from a server once."""
    return _KNOWN.validate_json((_empty(source, say) / FILE).read_bytes())


def known_before(version: str | None) -> dict[str, Setting]:
    """The settings that servers of a version reported on this machine before; of all versions if none is given."""
    settings: dict[str, Setting] = {}
    for file in (cache_dir() / "data").glob(f"*-{version or '*'}-*/initdb/{FILE}"):
        settings |= _KNOWN.validate_json(file.read_bytes())
    return settings


def loaded(source: Origin, name: str, load: Callable[[Server], None], say: Say) -> Path:
    """A data directory with the tables that `load` makes. It is made once for each `name`."""
    start_from = _empty(source, say)

    def make(work: Path) -> None:
        say(f"{source.build.name}: loading {name}")
        copy_folder(start_from / "data", work / "data")
        log = source.folder / f"{name}.log"  # stays if the load fails
        with _running(source.build, work / "data", log) as server:
            load(server)
            with server.connect() as connection:
                connection.query("CHECKPOINT")
        log.unlink(missing_ok=True)

    return made_once(source.folder / name, make, say) / "data"


def _empty(source: Origin, say: Say) -> Path:
    """A folder with a new data directory, which contains our database, and a file with its server's settings. It is
    made once."""

    def make(work: Path) -> None:
        if user := server_user():
            say(f"{source.build.name}: PostgreSQL does not run as root: it runs as {user.name}")
        say(f"{source.build.name}: initialising an empty data directory")
        _initdb(source, work / "data")
        log = source.folder / "initdb.log"
        with _running(source.build, work / "data", log) as server:
            with Connection(server.socket, ANSWER_PATIENCE_S, database="postgres") as connection:
                connection.query(f"CREATE DATABASE {DATABASE}")
            with server.connect() as connection:
                (work / FILE).write_bytes(_KNOWN.dump_json(settings_of(connection.query(READ)), indent=1))
        log.unlink(missing_ok=True)

    return made_once(source.folder / "initdb", make, say)


def _initdb(source: Origin, data: Path) -> None:
    build, user, folder = source.build, server_user(), data.with_name("bin")
    data.mkdir(mode=0o700)
    if user:
        user.own(data)
    environment = {"PATH": "/usr/bin:/bin", "TZ": "UTC", **build.environment}
    initdb, its_own = build.initdb(folder)
    help_text = subprocess.run(
        [*initdb, "--help"], env=environment, stdout=subprocess.PIPE, text=True, check=False
    ).stdout
    call = [*(user.prefix if user else ()), *initdb, *its_own, "-D", str(data), "-N", "-A", "trust", "-U", USER]
    done = subprocess.run(
        keeper.command("exec", [*call, *_shape_options(source, help_text)], cpus=()),
        capture_output=True,
        env=environment,
        cwd=data.parent,
    )
    shutil.rmtree(folder, ignore_errors=True)
    if done.returncode != 0:
        output = (done.stdout + done.stderr).decode(errors="replace").splitlines()
        raise RqpsError(
            f"{build.name} ({build.version}): initdb made no data directory:\n" + "\n".join(output[-10:]),
            fix="see what initdb says above: a locale or a library that is missing is named there",
        )


def _shape_options(source: Origin, help_text: str) -> Iterator[str]:
    """The options of initdb. Fails if the release lacks one that the config asks for. Since 18, initdb enables
    checksums by default."""
    for name, value in source.shape.items():
        option = f"--{name.replace('_', '-')}"
        if name == "data_checksums":
            if value.lower() in OFF:
                if "--no-data-checksums" in help_text:
                    yield "--no-data-checksums"
                continue
            yield option
        elif value:
            if option not in help_text:
                raise RqpsError(
                    f"{source.build.name}: initdb of PostgreSQL {source.build.version} has no {option}",
                    fix=f"take {name} out of the config, or compare releases that have it",
                )
            yield f"{option}={value}"


def _running(build: Build, data: Path, log: Path) -> AbstractContextManager[Server]:
    """Starts a server on `data` for the block. Fails if the server does not stop cleanly afterwards."""
    return start(build, data, Start(log), QUICK).making(f"making data of {build.name}")
