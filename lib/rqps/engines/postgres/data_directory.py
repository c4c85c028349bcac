"""Data directories of PostgreSQL, which initdb makes."""

import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter

from rqps.engines import Option, Say, Start, preparation
from rqps.engines.postgres.build import Build
from rqps.engines.postgres.client import DATABASE, USER, Connection
from rqps.engines.postgres.pg_settings import OFF, READ, Setting, plain, settings_of
from rqps.engines.postgres.postmaster import ANSWER_PATIENCE_S, Server, start
from rqps.engines.postgres.unprivileged import server_user
from rqps.errors import RqpsError

SHAPING = {
    **{"locale": "C", "encoding": "UTF8", "data_checksums": "off", "locale_provider": "", "wal_segsize": ""},
    "icu_locale": None,
}
"""The options that decide what initdb writes, with their values for configs that do not set them. Configs with
the same values share data directories. None means that an option counts for this only if a config sets it."""
LOADING = ("default_toast_compression",)
"""Options of the server that decide how it stores rows, if the release has them."""
QUICK = ("-c", "fsync=off", "-c", "autovacuum=off")
"""Server options for loading tables; they have no effect on the loaded data. Commits stay synchronous: right after
asynchronous commits, a vacuum could not mark their rows as visible to all, and index-only scans would read the table,
too."""


@dataclass(frozen=True)
class Origin(preparation.Origin[dict[str, Setting]]):
    build: Build

    EMPTY, LOG = "initdb", ".log"
    REPORT = TypeAdapter(dict[str, Setting])
    KEY = (QUICK,)

    def initialise(self, data: Path, say: Say) -> None:
        user, folder = server_user(), data.with_name("bin")
        if user:
            say(f"{self.build.name}: PostgreSQL does not run as root: it runs as {user.name}")
        data.mkdir(mode=0o700)
        if user:
            user.own(data)
        environment = {"PATH": "/usr/bin:/bin", "TZ": "UTC", **self.build.environment}
        initdb, its_own = self.build.initdb(folder)
        help_text = subprocess.run(
            [*initdb, "--help"], env=environment, stdout=subprocess.PIPE, text=True, check=False
        ).stdout
        call = [*(user.prefix if user else ()), *initdb, *its_own, "-D", str(data), "-N", "-A", "trust", "-U", USER]
        options = [*self._options(help_text)]
        try:
            self.call([*call, *options], environment, data.parent)
        except RqpsError as error:
            asked = f"{error.message}\nThe config asks for {' '.join(options)}."
            raise RqpsError(asked, fix=error.fix) from error
        shutil.rmtree(folder, ignore_errors=True)

    def start(self, data: Path, log: Path, known: dict[str, Setting] | None) -> Server:
        own = {name: value for name, value in self.shape.items() if name in LOADING and name in (known or {})}
        words = [word for name, value in own.items() for word in ("-c", f"{name}={value}")]
        return start(self.build, data, Start(log), (*QUICK, *words))

    def report(self, server: Server) -> dict[str, Setting]:
        """Creates the database of rqps, then reads the server's settings."""
        with Connection(server.socket, ANSWER_PATIENCE_S, database="postgres") as connection:
            connection.query(f"CREATE DATABASE {DATABASE}")
        with server.connect() as connection:
            return settings_of(connection.query(READ))

    def settle(self, server: Server) -> None:
        with server.connect() as connection:
            connection.query("CHECKPOINT")

    def _options(self, help_text: str) -> Iterator[str]:
        """The options of initdb. Fails if the release lacks one that the config asks for. An option to disable
        checksums exists only from 18 on, where initdb enables checksums by default."""
        for name, value in self.shape.items():
            if name in LOADING:
                continue
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
                        f"{self.build.name}: initdb of PostgreSQL {self.build.version} has no {option}",
                        fix=f"take {name} out of the config, or compare releases that have it",
                    )
                yield f"{option}={value}"


def origin_of(build: Build, asked: Mapping[str, Option]) -> Origin:
    shape = SHAPING | {name: plain(asked[name].value) for name in (*SHAPING, *LOADING) if name in asked}
    return Origin(build, {name: value for name, value in shape.items() if value is not None})
