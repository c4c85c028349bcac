"""Reads statements to be replayed in their order, from a slow or general log of MySQL, a log of PostgreSQL, or a file
of SQL."""

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

from rqps.workloads.own.sql_text import READS, Scanner, statements
from rqps.workloads.own.tables_file import Lines

Reader = Callable[[Iterable[str]], Iterator[tuple[str, bool]]]
"""Splits the lines of a log into statements; yields each statement, and True if the log has all of its text and
values."""
SLOW_LOG, GENERAL_LOG = "MySQL's slow log", "MySQL's general log"
POSTGRES_LOG, FILE_OF_SQL = "PostgreSQL's log", "a file of SQL"
DIGITS, LONGEST_WORD = 8, 30
_VERB, _TABLE = (
    re.compile(r"([A-Za-z]+)"),
    re.compile(r"\b(?:FROM|INTO|UPDATE)\s+(?:[`\"(]*\w+[`\"]*\.)?[`\"(]*(\w+)", re.IGNORECASE),
)
_FIRST_LINES = 200
"""Number of lines at the beginning of a log from which its format is recognized."""
_DONE_AGAIN = re.compile(r"[\s(]*(?:SELECT|WITH|VALUES|TABLE|INSERT|UPDATE|DELETE|REPLACE)\b", re.IGNORECASE)
"""Matches the first word of a statement that is replayed. Other statements are left out: some contain passwords."""
_TO_A_FILE = re.compile(r"\bINTO\s+(?:OUTFILE|DUMPFILE)\b", re.IGNORECASE)
_SLOW = re.compile(r"# (?:Time|User@Host|Query_time|Thread_id|Schema|Bytes_sent|administrator command)\b")
_GENERAL = re.compile(
    r"(?:\d{4}-\d\d-\d\dT\S+|\d{6} +\d{1,2}:\d\d:\d\d|\t)?\t *\d+ ([A-Z][a-z]+(?: [A-Za-z]+)*)(?:\t(.*))?$", re.DOTALL
)
_BACKEND = re.compile(
    r".*?\b(LOG|DETAIL|ERROR|FATAL|PANIC|WARNING|NOTICE|INFO|HINT|CONTEXT|STATEMENT):  (.*)$", re.DOTALL
)
_BY_BACKEND = re.compile(r"(?:duration: [\d.]+ ms  )?(?:statement|execute [^:]*): (.*)$", re.DOTALL)
_PLACE = re.compile(r"\$(\d+)")
_PARAMETER = re.compile(r"\$(\d+) = ('(?:[^']|'')*'|NULL)")

_COMMENT, _BACKTICKS, _DOLLARS = r"--(?=\s|$)[^\n]*|/\*(?!\+).*?\*/", "`[^`]*`", r"\$(?P<tag>\w*)\$.*?\$(?P=tag)\$"
_NUMBER = r"(?<![\w.$])(?:0x[0-9a-f]+|\d+\.?\d*(?:e[+-]?\d+)?|\.\d+)(?!\w)"
_MYSQL = (
    rf"""(?P<gone>{_COMMENT}|\#[^\n]*)|(?P<name>{_BACKTICKS})|'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*"|{_NUMBER}"""
)
_POSTGRES = rf"""(?P<gone>{_COMMENT})|(?P<name>"[^"]*")|'(?:[^']|'')*'|{_DOLLARS}|{_NUMBER}"""
_DIALECTS = {False: _MYSQL, True: _POSTGRES}
_TOKENS = {of_postgres: re.compile(tokens, re.IGNORECASE | re.DOTALL) for of_postgres, tokens in _DIALECTS.items()}
_SHORTENED = (
    (re.compile(r"(?<=[(,=<>+*/-])(\s*)-\s*\?"), r"\1?"),
    (re.compile(r"\(\s*\?(?:\s*,\s*\?)*\s*\)"), "(...)"),
    (re.compile(r"\(\.\.\.\)(?:\s*,\s*\(\.\.\.\))+"), "(...)"),
)


class Logged(NamedTuple):
    """A statement of a log; `shape` is its text without values, and `digest` identifies the shape."""

    text: str
    shape: str
    digest: str

    @property
    def reads(self) -> bool:
        return bool(READS.match(self.text))

    @property
    def name(self) -> str:
        """The name of the shape: the verb, the table and the digest, as in `select-orders-1a2b3c4d`."""
        verb, table = _VERB.search(self.shape), _TABLE.search(self.shape)
        words = [match[1][:LONGEST_WORD] for match in (verb, table) if match]
        return "-".join([*words, self.digest]).lower()


class StatementLog(NamedTuple):
    """The statements of a log that can be replayed. `left_out` maps each reason for leaving out
    statements to the number of statements left out."""

    form: str
    statements: tuple[Logged, ...]
    left_out: dict[str, int]

    def most_frequent(self, count: int) -> list[Logged]:
        """One statement of each of the `count` most frequent shapes in the log."""
        examples = {one.digest: one for one in self.statements}
        return [examples[digest] for digest, _ in Counter(one.digest for one in self.statements).most_common(count)]


def shape_of(text: str, *, postgres: bool = False) -> str:
    """The text of a statement without comments, and with ? for each value and (...) for each list of values.

    >>> shape_of("SELECT a1 FROM t  WHERE b IN (1, -2.5, 'x''y') AND c = 0x1f -- now")
    'SELECT a1 FROM t WHERE b IN (...) AND c = ?'
    >>> shape_of("INSERT INTO `t2` VALUES (1, \\"a\\"), (-2, 'b')")
    'INSERT INTO `t2` VALUES (...)'
    """
    text = _TOKENS[postgres].sub(lambda match: " " if match["gone"] else match["name"] or "?", text)
    text = " ".join(text.split())
    for pattern, shorter in _SHORTENED:
        text = pattern.sub(shorter, text)
    return text


@cache
def log_of(path: Path, digest: str, most: int, *, reads_only: bool) -> StatementLog:  # noqa: ARG001 for the cache
    """The first `most` replayable statements of a log. `digest` is a key of the cache: a log that has changed is read
    again."""
    lines = iter(Lines(path))
    first = list(islice(lines, _FIRST_LINES))
    form, read = _form_of(first)
    left_out, taken = Counter[str](), list[Logged]()
    for text, is_whole in read(chain(first, lines)):
        reason = _why_not(text, is_whole=is_whole, reads_only=reads_only)
        if reason:
            left_out[reason] += 1
            continue
        shape = shape_of(text, postgres=form == POSTGRES_LOG)
        taken.append(
            Logged(text, shape, hashlib.sha256(shape.encode("utf-8", "surrogateescape")).hexdigest()[:DIGITS])
        )
        if len(taken) == most:
            break
    return StatementLog(form, tuple(taken), dict(left_out))


def _why_not(text: str, *, is_whole: bool, reads_only: bool) -> str:
    if not _DONE_AGAIN.match(text):
        return "neither read nor write rows"
    if not is_whole:
        return "are cut off, or lack their values"
    if _TO_A_FILE.search(text):
        return "write to a file"
    return "write, and only those that read were asked for" if reads_only and not READS.match(text) else ""


def _form_of(first: list[str]) -> tuple[str, Reader]:
    for form, pattern, read in (
        (SLOW_LOG, _SLOW, _of_slow_log),
        (GENERAL_LOG, _GENERAL, _of_general_log),
        (POSTGRES_LOG, _BACKEND, _of_postgres),
    ):
        if any(pattern.match(line) for line in first):
            return form, read
    return FILE_OF_SQL, _of_sql


def _of_sql(lines: Iterable[str]) -> Iterator[tuple[str, bool]]:
    scanner = Scanner(hash_comments=True)
    for line in statements(lines, scanner):
        yield line.text, line.ended or not scanner.open


def _of_slow_log(lines: Iterable[str]) -> Iterator[tuple[str, bool]]:
    """Each statement follows the comment lines of its entry. A statement that doesn't end with a delimiter was cut
    off when it was logged."""
    between = list[str]()
    for line in chain(lines, ["# Time: end"]):
        if not _SLOW.match(line):
            between.append(line)
            continue
        scanner = Scanner(hash_comments=True)
        for of in statements(between, scanner):
            yield of.text, of.ended
        between = []


def _of_general_log(lines: Iterable[str]) -> Iterator[tuple[str, bool]]:
    command, parts = "", list[str]()
    for line in chain(lines, ["\t 0 Quit"]):
        if not (match := _GENERAL.match(line)):
            parts.append(line)
            continue
        if command in ("Query", "Execute"):
            yield from _one("".join(parts), Scanner(hash_comments=True))
        command, parts = match[1], [match[2] or ""]


def _of_postgres(lines: Iterable[str]) -> Iterator[tuple[str, bool]]:
    """Each statement is in a LOG entry; if it was prepared, its values are in the DETAIL entry that follows."""
    statement, entry, kind = "", "", ""
    for line in chain(lines, [" LOG:  end"]):
        match = _BACKEND.match(line)
        if match is None:
            entry += line.removeprefix("\t")
            continue
        if kind == "DETAIL" and statement and "arameters: " in entry:
            values = dict(_PARAMETER.findall(entry))
            statement = _PLACE.sub(lambda place: values.get(place[1], place[0]), statement)  # noqa: B023 used at once
        elif kind == "LOG" and (by := _BY_BACKEND.match(entry)):
            statement = by[1]
        if match[1] != "DETAIL" and statement:
            without_texts = _TOKENS[True].sub(lambda token: token["name"] or " ", statement)
            has_values = not _PLACE.search(without_texts)
            yield from (
                (text, is_whole and has_values) for text, is_whole in _one(statement, Scanner(backslash=False))
            )
            statement = ""
        kind, entry = match[1], match[2]


def _one(text: str, scanner: Scanner) -> Iterator[tuple[str, bool]]:
    """The statement of a log entry, which may have no delimiter at its end."""
    for line in statements(text.splitlines(keepends=True), scanner):
        yield line.text, not scanner.open
