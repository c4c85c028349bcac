"""The PostgreSQL engine: translates a config into the options of the build's version, and starts the server with
them."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rqps.engines import Counted, Say, Start, Watch
from rqps.engines.asked import Asked
from rqps.engines.postgres import pg_settings
from rqps.engines.postgres.block_io import IMAGES_COMPRESSED, WAL_LSN, seen_from_outside
from rqps.engines.postgres.build import Build, locate, source
from rqps.engines.postgres.client import Connection
from rqps.engines.postgres.data_directory import SHAPING, Origin, origin_of
from rqps.engines.postgres.pg_settings import Setting, canonical, mismatches, plain, translate
from rqps.engines.postgres.postmaster import Server, start
from rqps.engines.postgres.unprivileged import server_user
from rqps.engines.preparation import Translated
from rqps.engines.sources.programs import refuse_here

counted = Counted("PostgresMain", "connection", marker="pg_sleep")
"""The function in which a backend serves its client. More specific functions, such as exec_bind_message, are inlined
in some builds."""
BESIDE_IT_BYTES = 200 << 20
USUAL_BUFFERS = "128MB"
PAGE_BYTES = 8192
_PAGES = Setting("0", "8kB", "integer")
OUR_SOURCES = (
    *("default", "override", "client", "session", "command line"),
    *("configuration file", "environment variable", "dynamic default"),
)
"""The sources in pg_settings that a setting may have; a setting from another source is an error. The environment is
allowed, since rqps sets it."""
SOURCES = "SELECT name, source FROM pg_settings WHERE source NOT IN ('default', 'client')"
STATUS = {
    "pg_stat_database": "WHERE datname = current_database()",
    "pg_stat_bgwriter": "",
    "pg_stat_checkpointer": "",
    "pg_stat_wal": "",
}
"""Maps each statistics view to the clause that selects its one row. The numbers in that row are part of a step's
status. Some releases lack some views."""
IO = """
SELECT concat_ws('.', 'io', backend_type, object, context, a.key), a.value
FROM pg_stat_io v, json_each_text(row_to_json(v)) a
WHERE a.key ~ '^(read|write|extend)(s|_bytes)$|^fsyncs$' AND a.value <> '0'"""
"""The counters of pg_stat_io, which exists since 16."""
PROVIDERS = {"c": "libc", "i": "icu", "b": "builtin"}
"""Maps the letters in pg_database to names of locale providers."""
LSN_DIFFERENCE = "pg_wal_lsn_diff"
WAL = f"""
SELECT {LSN_DIFFERENCE}(pg_current_wal_lsn(), '0/0'), (current_setting('wal_compression') <> 'off')::int"""
"""Reads the position up to which the WAL is written, and 1 if full-page images in the WAL are compressed, else 0."""
_NUMBER = re.compile(r"-?\d+(\.\d+)?")
AUTOVACUUM = "SELECT sum(autovacuum_count), sum(autoanalyze_count), sum(n_dead_tup) FROM pg_stat_user_tables"


def memory_bytes(asked: Asked) -> int:
    option = asked.options.get("shared_buffers")
    try:
        buffers = PAGE_BYTES * int(canonical(plain(option.value) if option else USUAL_BUFFERS, _PAGES))
    except ValueError:  # `prepare` refuses this value
        buffers = 0
    return BESIDE_IT_BYTES + buffers


def foresee(asked: Asked) -> None:
    """Raises the errors of `prepare` that can be found without fetching or starting a server."""
    server_user()
    origin = source(asked.build, asked.build_spec)
    refuse_here(asked, origin, locate)
    reports, version = Origin.known_before(origin.version or asked.build_spec.version)
    if settings := {name: setting for known in reports for name, setting in known.items()}:
        translate(_of_the_server(asked), settings, dbms=asked.dbms, version=version)


def prepare(asked: Asked, say: Say) -> "PreparedServer":
    """Prepares the dbms of a run: fetches the build if needed, and translates the config for its release."""
    build = locate(asked.build, asked.build_spec, say)
    origin = origin_of(build, asked.options)
    translated = translate(_of_the_server(asked), origin.known(say), dbms=asked.dbms, version=build.version)
    return PreparedServer(asked.dbms, asked.config, build, origin, translated)


def _of_the_server(asked: Asked) -> dict[str, Any]:
    return {name: option for name, option in asked.options.items() if name not in SHAPING}


@dataclass(frozen=True)
class PreparedServer:
    """A dbms whose build is on this machine, with its config translated for the build's release."""

    dbms: str
    config: str
    build: Build
    origin: Origin
    translated: Translated

    @property
    def options(self) -> Mapping[str, str]:
        return {**{name: value for name, value in self.origin.shape.items() if value}, **self.translated.expected}

    @property
    def in_words(self) -> Mapping[str, str]:
        user = server_user()
        return {
            "options left out": ", ".join(self.translated.left_out) or "none",
            "connections": "a process each",
            "runs as": f"{user.name}, since PostgreSQL refuses to run as root" if user else "the user of rqps",
        }

    def loaded(self, name: str, load: Callable[[Server], None], say: Say) -> Path:
        return self.origin.loaded(name, load, say)

    def open(self, directory: Path, asked: Start) -> "MeasuredServer":
        server = start(self.build, directory, asked, self.translated.arguments)
        return MeasuredServer(**vars(server), prepared=self)


prepared = PreparedServer


class _StepWatch:
    """Reads the status of a server before and after a step, and counts the work of autovacuum between the two."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._vacuumed = 0.0

    def begin(self) -> Mapping[str, str]:
        return self._read(-1)

    def end(self, transactions: int) -> Mapping[str, str]:  # noqa: ARG002
        return self._read(1)

    def lost(self) -> Iterator[str]:
        if self._vacuumed:
            yield f"autovacuum worked on {self._vacuumed:g} tables in the middle of the step, at the server's cost"

    def _read(self, sign: int) -> Mapping[str, str]:
        with self._server.connect() as connection:
            status = read_status(connection)
        status |= seen_from_outside(self._server.pids, self._server.directory)
        self._vacuumed += sign * sum(float(status[f"autovacuum.{what}"]) for what in ("vacuums", "analyzes"))
        return status


def read_status(connection: Connection) -> dict[str, str]:
    """The numbers of the server's statistics views, named by view and column, and the number of vacuums and analyzes
    by autovacuum so far."""
    names = "SELECT relname FROM pg_class WHERE relname LIKE 'pg_stat_%' UNION SELECT proname FROM pg_proc"
    views = {row[0] for row in connection.query(f"{names} WHERE proname = '{LSN_DIFFERENCE}'")}
    status: dict[str, str] = {}
    for view, which in STATUS.items():
        if view in views:
            rows = connection.query(
                "SELECT a.key, a.value FROM (SELECT row_to_json(v) AS row FROM "
                f"{view} v {which}) r, json_each_text(r.row) a"
            )
            numbers = ((str(name), value) for name, value in rows if value and _NUMBER.fullmatch(value))
            status |= {f"{view.removeprefix('pg_stat_')}.{name}": value for name, value in numbers}
    if "pg_stat_io" in views:
        status |= {str(name): str(value) for name, value in connection.query(IO)}
    wal = WAL if LSN_DIFFERENCE in views else WAL.replace("_wal_lsn", "_xlog_location")  # the names before 10
    ((lsn, compressed),) = connection.query(wal)
    status |= {WAL_LSN: str(lsn), IMAGES_COMPRESSED: str(compressed)}
    ((vacuums, analyzes, dead),) = connection.query(AUTOVACUUM)
    status |= {f"autovacuum.{name}": n or "0" for name, n in (("vacuums", vacuums), ("analyzes", analyzes))}
    return {**status, "autovacuum.dead_rows": dead or "0"}


@dataclass(frozen=True, kw_only=True)
class MeasuredServer(Server):
    """The server of a run. Its settings must match the config at the start."""

    prepared: PreparedServer

    @property
    def name(self) -> str:
        return self.prepared.dbms

    @property
    def version(self) -> str:
        return self._answer("SHOW server_version").split()[0]

    @property
    def version_comment(self) -> str:
        """The platform and the compiler of the server: `x86_64-pc-linux-gnu, compiled by gcc 4.8.4, 64-bit`."""
        return self._answer("SELECT version()").partition(" on ")[2]

    def verify(self) -> list[tuple[str, str, str]]:
        asked, shape = self.prepared.translated.expected, self.prepared.origin.shape
        with self.connect() as connection:
            reported = pg_settings.settings_of(connection.query(pg_settings.READ))
            shown = {name: connection.query(f"SHOW {name}")[0][0] or "" for name in asked if name in reported}
            unasked = connection.query(
                f"SELECT name, source, setting FROM pg_settings WHERE source NOT IN {OUR_SOURCES}"
                " OR sourcefile LIKE '%auto.conf'"
            )
            ((encoding, database),) = connection.query(
                "SELECT pg_encoding_to_char(encoding), row_to_json(d) FROM pg_database d"
                " WHERE datname = current_database()"
            )
        wrong = mismatches(asked, reported)
        wrong += [f"{name}: not in the config, and set to {value!r} by the {where}" for name, where, value in unasked]
        if not f"{self.version}.".startswith(f"{self.build.version}."):
            wrong.insert(0, f"version: asked for {self.build.version}, the server has {self.version}")
        row = json.loads(str(database))
        data = {
            **{"encoding": encoding, "locale": row["datcollate"], "data_checksums": reported["data_checksums"].value},
            "locale_provider": PROVIDERS[row.get("datlocprovider", "c")],  # since 15
            "icu_locale": row.get("daticulocale", row.get("datlocale")),  # the former in 15 and 16
        }
        data = {name: value for name, value in data.items() if shape.get(name)}
        for name, value in data.items():
            if str(value).lower() != shape[name].lower():
                wrong.append(f"{name}: asked for {shape[name]!r}, the data have {value!r}")
        self.refuse(wrong, self.prepared.config)
        verified = [(name, value, shown[name]) for name, value in asked.items()]
        return [*verified, *((name, shape[name], str(value)) for name, value in data.items())]

    def settings(self) -> list[dict[str, Any]]:
        """Every setting as SHOW prints it, and the source of each setting that is not the release's default."""
        with self.connect() as connection:
            values = connection.query("SHOW ALL")
            sources = connection.query(SOURCES)
        rows = [("variable", str(row[0]), row[1] or "") for row in values]
        rows += [("source", str(name), where or "") for name, where in sources]
        return [{"kind": kind, "name": name, "value": value, "timed": None} for kind, name, value in rows]

    def thread_names(self) -> Mapping[int, str]:
        return self.process_roles()

    @contextmanager
    def watching(self, step: str) -> Iterator[Watch]:  # noqa: ARG002
        yield _StepWatch(self)

    def _answer(self, sql: str) -> str:
        with self.connect() as connection:
            return connection.query(sql)[0][0] or ""
