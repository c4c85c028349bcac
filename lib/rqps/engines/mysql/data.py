"""Data directories of MySQL: the options that change their files, and the steps by which each version initialises a
new data directory."""

import os
import re
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter

from rqps.engines import Option, Say, Start, preparation
from rqps.engines.cache import copy_folder
from rqps.engines.mysql.build import Build
from rqps.engines.mysql.instance import Server, mysqld, start
from rqps.engines.mysql.options import argument
from rqps.engines.mysql.reports import Known, read_known
from rqps.errors import RqpsError

SHAPING = (
    *("character_set_server", "collation_server", "innodb_checksum_algorithm", "innodb_data_file_path"),
    *("innodb_default_row_format", "innodb_file_per_table", "innodb_fill_factor", "innodb_page_size"),
    *("innodb_undo_tablespaces", "lower_case_table_names"),
)
"""Options that change the files of a table when it is made. Only configs with the same values of these options share
data directories."""

QUICK = {
    "performance_schema": "OFF",
    "innodb_buffer_pool_size": "512M",
    "innodb_flush_log_at_trx_commit": "0",
    "sync_binlog": "0",
    "innodb_fast_shutdown": "0",  # purges and merges everything, so that no round inherits debt
    "innodb_buffer_pool_dump_at_shutdown": "OFF",
}
"""Options that are set only while tables are loaded, if the version has them. They do not change the loaded data."""

REDO_FILE = re.compile(r"ib_logfile\d+|#ib_redo\d+(_tmp)?")
MOST_REREAD_BYTES = 1 << 30
"""Maximum number of bytes of redo log files that are read again before a run: more would take long and fill the page
cache."""


@dataclass(frozen=True)
class Origin(preparation.Origin[Known]):
    build: Build

    EMPTY, LOG = "initialised", ".err"
    REPORT = TypeAdapter(Known)

    def initialise(self, data: Path, say: Say) -> None:  # noqa: ARG002
        if self.build.empty_data:
            copy_folder(self.build.empty_data, data)
        elif self.build.number >= (5, 7, 6):
            self.mysqld(data, *_arguments(self.shape, "loose-"), "--initialize-insecure")
        else:
            for schema in ("mysql", "test"):
                (data / schema).mkdir(parents=True)
            self.mysqld(data, *_arguments(self.shape, "loose-"), "--bootstrap", sql=_system_tables(self.build))

    def mysqld(self, data: Path, *arguments: str, sql: bytes = b"") -> None:
        """Runs mysqld once, to initialise a data directory."""
        self.call([*mysqld(self.build, data), *arguments], {}, data.parent, sql)

    def start(self, data: Path, log: Path, known: Known | None) -> Server:
        if known is None:
            shape = _arguments(self.shape, "loose-")
            return start(self.build, data, Start(log), (*shape, "--loose-performance-schema=ON"))
        quick = {key: value for key, value in {**QUICK, **self.shape}.items() if key in known.variables}
        return start(self.build, data, Start(log), (*_arguments(quick), "--skip-log-bin"))

    def report(self, server: Server) -> Known:
        with closing(server.connect()) as connection:
            return read_known(connection)

    def stopped(self, data: Path) -> None:
        """Deletes the redo log files, which are not needed after a clean stop. 5.5 does not start if their size is
        not the configured one."""
        if self.build.number < (8, 0, 30):
            for file in data.glob("ib_logfile*"):
                file.unlink()


def reread_redo_files(data: Path) -> None:
    """Reads the redo log files into the kernel's cache again, in pages of 4 KB.

    Some file systems (ext4 since Linux 6.16) cache a file in folios as large as the writes that filled the file, up
    to 2 MB. When one byte of a folio changes after a sync, the kernel counts the whole folio as written by the
    process, and a small write to a large folio takes more time than to a small one. The folios would differ between
    releases: 5.7 fills its log by writes of 1 MB, while the log of 8.0 was copied with the data directory.
    """
    rest = MOST_REREAD_BYTES
    for file in sorted(path for path in data.rglob("*") if REDO_FILE.fullmatch(path.name)):
        # 8.0 renames spare redo log files, so a listed file may be gone when it is opened.
        with suppress(FileNotFoundError), file.open("rb", buffering=0) as log:
            os.fsync(log)  # only pages that are on the disk can leave the cache
            os.posix_fadvise(log.fileno(), 0, rest, os.POSIX_FADV_DONTNEED)
            os.posix_fadvise(log.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
            while rest > 0 and (read := log.read(min(rest, 1 << 20))):
                rest -= len(read)


def origin_of(build: Build, asked: Mapping[str, Option]) -> Origin:
    return Origin(build, {name: argument(asked[name].value, build.version) for name in SHAPING if name in asked})


def _arguments(options: Mapping[str, str], prefix: str = "") -> tuple[str, ...]:
    """Options as words of a command line. With the prefix `loose-`, releases that lack an option ignore it."""
    return tuple(f"--{prefix}{name.replace('_', '-')}={value}" for name, value in options.items())


def _system_tables(build: Build) -> bytes:
    """The statements that mysql_install_db, a script in shell or Perl, sends to a server before 5.7. rqps reads the
    statements from the release's SQL files, so it needs neither shell nor Perl."""
    share = build.directory / "share"
    scripts = ("mysql_system_tables.sql", "mysql_system_tables_data.sql")
    if missing := [name for name in scripts if not (share / name).exists()]:
        raise RqpsError(
            f"{build.name}: {share} has no {' and no '.join(missing)}",
            fix="give the path of a whole server tree: its share directory holds the scripts for the system tables",
        )
    return b"USE mysql;\n" + b"\n".join((share / name).read_bytes() for name in scripts)
