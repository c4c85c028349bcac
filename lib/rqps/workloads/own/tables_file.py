"""Loads tables and rows from a file of SQL or a dump, statement by statement, and checks that the file is
complete."""

import gzip
import hashlib
import re
import zlib
from collections.abc import Iterable, Iterator
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

from rqps.engines.cache import sha256
from rqps.errors import RqpsError
from rqps.study.reading import beside_runs_yaml
from rqps.workloads.own.sql_text import Scanner, statements

DIGITS = 16
SHOWN = 120
"""Maximum number of characters of a statement in an error message: the rest may be rows."""
PATIENCE_S = 3600.0
_GZIP = b"\x1f\x8b"
_BEGINS = {
    re.compile(r"^-- (?:MySQL|MariaDB) dump "): "-- Dump completed",
    re.compile(r"^-- PostgreSQL database dump\s*$"): "-- PostgreSQL database dump complete",
}
"""Maps a pattern of a dump's first lines to the beginning of the last line of a complete dump."""
_FIRST_LINES = 20
_SCHEMA_FILES, _DATA_FILES = ("*-schema.sql*",), ("*.sql*",)


def find(name: str) -> Path:
    """The file or folder of this name: an absolute path, or one relative to the folder of runs.yaml."""
    path = Path(name).expanduser()
    path = path if path.is_absolute() else beside_runs_yaml(name)
    if not path.exists():
        raise ValueError(f"no such file: {path}; give a dump or a file of SQL, from the root or beside runs.yaml")
    if not (path.is_file() or path.is_dir()):
        raise ValueError(f"{path} is neither a file nor a folder")
    if not files_of(path):
        raise ValueError(f"{path} has no files *-schema.sql; give a file of SQL, or a folder that mydumper wrote")
    return path


def files_of(path: Path) -> list[Path]:
    """The files of a dump in the order of loading: in a folder, files with tables come before files with rows."""
    if path.is_file():
        return [path]
    tables = sorted({file for form in _SCHEMA_FILES for file in path.glob(form)})
    rows = sorted({file for form in _DATA_FILES for file in path.glob(form) if "-schema" not in file.name})
    return [*tables, *rows] if tables else []


def digest_of(path: Path) -> str:
    """The first digits of the SHA-256 of a dump."""
    files = files_of(path)
    return _digest(tuple((file, file.stat().st_size, file.stat().st_mtime_ns) for file in files))


@cache
def _digest(files: tuple[tuple[Path, int, int], ...]) -> str:
    digests = [sha256(file) for file, _, _ in files]
    if len(digests) == 1:
        return digests[0][:DIGITS]
    named = "".join(f"{file.name} {digest}\n" for (file, _, _), digest in zip(files, digests, strict=True))
    return hashlib.sha256(named.encode()).hexdigest()[:DIGITS]


def unchanged(name: str, digest: str, key: str = "tables") -> Path:
    """The path of a file; raises an error if the file has changed. `key` is the parameter that names it."""
    try:
        path = find(name)
    except ValueError as error:
        raise RqpsError(f"{key}: {error}", fix="put the file back") from None
    if (now := digest_of(path)) != digest:
        raise RqpsError(
            f"{path}: has changed: its SHA-256 begins with {now}, and was {digest} for this study",
            fix="put the file back, or start the command again for a study of the new file",
        )
    return path


def load(server: Any, database: str, path: Path) -> None:
    """Loads a dump into this database of an empty server, whatever database the dump was taken from."""
    with closing(server.connect()) as connection:
        connection.dialect.query(connection, f"CREATE SCHEMA {database}")
    with closing(server.connect(database, patience_s=PATIENCE_S)) as connection:
        for file in files_of(path):
            _load_file(server, connection, file)
        sql = connection.dialect
        tables = list(tables_of(connection, database))
        if not tables:
            raise RqpsError(f"{path}: creates no table", fix="give a dump, or a file with CREATE TABLE and INSERT")
        for schema, table in tables:
            sql.analyze(connection, f"{sql.quoted(schema)}.{sql.quoted(table)}")


def tables_of(connection: Any, database: str) -> Iterator[tuple[str, str]]:
    """The schema and the name of each table."""
    sql = connection.dialect
    for schema in sql.schemas(connection, database):
        yield from ((schema, table) for table in sql.tables_of(connection, schema))


def _load_file(server: Any, connection: Any, file: Path) -> None:
    sql = connection.dialect
    lines = Lines(file)
    scanner = Scanner(backslash=sql.BACKSLASH_ESCAPES, hash_comments=sql.BACKSLASH_ESCAPES)
    source = iter(lines)
    for line in statements(source, scanner, psql=not sql.BACKSLASH_ESCAPES):
        where = f"{file.name}, line {line.number}"
        if not line.ended and (scanner.open or line.text.upper().startswith(("INSERT", "REPLACE", "COPY"))):
            raise _cut_off(file, f"the statement that begins in line {line.number} has no end")
        try:
            if not (statement := sql.of_a_dump(line.text)):
                continue
            if sql.takes_rows(statement):
                sql.copy_rows(connection, statement, _rows(source, file, line.number))
            else:
                sql.query(connection, statement)
        except sql.REFUSALS as error:
            if server.ended(within_s=1):
                raise server.end_of(where) from None
            words = ": ".join(map(str, error.args))[:300]
            raise RqpsError(
                f"{where}: {server.name} refused {line.text[:SHOWN]!r}: {words}",
                fix="a dump of another release may use what this release lacks: remove the statement from the file",
            ) from None
    lines.refuse_cut_off()


def _rows(source: Iterator[str], file: Path, number: int) -> Iterator[str]:
    for row in source:
        if row.rstrip("\r\n") == "\\.":
            return
        yield row
    raise _cut_off(file, f"the rows of the COPY in line {number} have no end")


class Lines(Iterable[str]):
    """The lines of a file, gzipped or not. `refuse_cut_off` raises an error if a dump lacks its last line."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._due, self._came = "", False

    def __iter__(self) -> Iterator[str]:
        with self.file.open("rb") as raw:
            packed = raw.read(2) == _GZIP
        if self.file.name.endswith((".zst", ".bz2", ".xz", ".dump", ".tar")):
            raise RqpsError(
                f"{self.file}: is not SQL as text", fix="unpack it, or gzip it; pg_dump writes SQL by -Fp"
            )
        try:
            with gzip.open(self.file, "rb") if packed else self.file.open("rb") as lines:
                for number, line in enumerate(lines, 1):
                    text = line.decode("utf-8", "surrogateescape")
                    if number == 1 and text.startswith("PGDMP"):
                        raise RqpsError(f"{self.file}: is in pg_dump's own format", fix="dump it as SQL: pg_dump -Fp")
                    if number <= _FIRST_LINES:
                        self._due = self._due or next((end for form, end in _BEGINS.items() if form.match(text)), "")
                    self._came = self._came or bool(self._due and text.startswith(self._due))
                    yield text
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise _cut_off(self.file, f"it can't be unpacked to its end: {error}") from None

    def refuse_cut_off(self) -> None:
        if self._due and not self._came:
            raise _cut_off(self.file, f"it has no line {self._due!r}, with which such a dump ends")


def _cut_off(file: Path, why: str) -> RqpsError:
    return RqpsError(f"{file}: is cut off: {why}", fix="dump the tables again, or copy all of the file")
