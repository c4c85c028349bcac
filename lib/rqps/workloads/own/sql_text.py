"""Splits SQL text into statements, not inside quoted text and comments, and finds the placeholders for values."""

import re
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

_ENDS = {"`": re.compile(r"[^`]*`"), "/*": re.compile(r".*?\*/", re.DOTALL)}
_TEXT_ENDS = {
    True: {quote: re.compile(rf"[^{quote}\\]*(?:\\.[^{quote}\\]*)*{quote}", re.DOTALL) for quote in "'\""},
    False: {quote: re.compile(f"[^{quote}]*{quote}") for quote in "'\""},
}
_DELIMITER = re.compile(r"\s*DELIMITER\s+(\S+)\s*$", re.IGNORECASE)
_PLACE = re.compile(r"\{([A-Za-z_]\w*)\}|\?")
READS = re.compile(r"[\s(]*(?:SELECT|WITH|VALUES|TABLE|SHOW)\b", re.IGNORECASE)
"""Matches the beginning of a statement that returns rows and changes none."""


class Piece(NamedTuple):
    """A part of an SQL text. Its kind is `code`, `quoted`, `comment`, or `end` (the delimiter of a statement)."""

    kind: str
    text: str


class Scanner:
    """Splits lines into pieces. `open` is the quote or comment that is still open at the end of a line, if any."""

    def __init__(self, *, backslash: bool = True, hash_comments: bool = False) -> None:
        """`backslash`: in quoted text, a backslash escapes the next character; `hash_comments`: # begins a
        comment."""
        self.open = ""
        self.backslash = backslash
        self._hash = r"|\#" if hash_comments else ""
        self.delimiter = ";"

    @property
    def delimiter(self) -> str:
        return self._delimiter

    @delimiter.setter
    def delimiter(self, text: str) -> None:
        self._delimiter = text
        begins = rf"\b[eE]'|['\"`]|--(?=\s|$){self._hash}|/\*|\$(?:[A-Za-z_]\w*)?\$"
        self._begins = re.compile(f"{re.escape(text)}|{begins}")

    def pieces(self, line: str) -> Iterator[Piece]:
        at = 0
        while at < len(line):
            if self.open:
                closing = self._end_of(self.open).match(line, at)
                kind = "comment" if self.open == "/*" else "quoted"
                yield Piece(kind, line[at : closing.end() if closing else None])
                if closing is None:
                    return
                at, self.open = closing.end(), ""
                continue
            begin = self._begins.search(line, at)
            if before := line[at : begin.start() if begin else None]:
                yield Piece("code", before)
            if begin is None:
                return
            at = begin.end()
            if begin[0] == self.delimiter:
                yield Piece("end", begin[0])
            elif begin[0] in ("--", "#"):
                yield Piece("comment", line[begin.start() :])
                return
            else:
                yield Piece("comment" if begin[0] == "/*" else "quoted", begin[0])
                self.open = begin[0]

    def _end_of(self, begin: str) -> "re.Pattern[str]":
        if begin in ("e'", "E'"):  # a text whose backslashes escape, whatever those of other texts do
            return _TEXT_ENDS[True]["'"]
        return (
            _TEXT_ENDS[self.backslash].get(begin)
            or _ENDS.get(begin)
            or re.compile(rf".*?{re.escape(begin)}", re.DOTALL)
        )


class Line(NamedTuple):
    """A statement with the number of its first line; `ended` is true if its delimiter was found."""

    number: int
    text: str
    ended: bool


def statements(lines: Iterable[str], scanner: Scanner, *, psql: bool = False) -> Iterator[Line]:
    """Yields the statements of a text, without comments that begin with -- or #; comments between /* and */ are kept.
    Text after the last delimiter is yielded as a statement that has not ended. With `psql`, lines that begin with a
    backslash are skipped, since they are commands of psql."""
    begun = 0
    parts: list[str] = []
    for number, line in enumerate(lines, 1):
        if not parts and not scanner.open and (other := _DELIMITER.match(line)):
            scanner.delimiter = other[1]
            continue
        if psql and not parts and not scanner.open and line.startswith("\\"):
            continue
        for piece in scanner.pieces(line):
            if piece.kind == "end":
                if text := "".join(parts).strip():
                    yield Line(begun, text, True)
                parts = []
            elif piece.kind != "comment" or not piece.text.startswith(("--", "#")):
                if not parts and not piece.text.strip():
                    continue
                begun = begun if parts else number
                parts.append(piece.text)
    if text := "".join(parts).strip():
        yield Line(begun, text, False)


class Statement(NamedTuple):
    """A statement: the texts before, between and after its values, and the name of each value."""

    texts: tuple[str, ...]
    names: tuple[str, ...]

    @property
    def reads(self) -> bool:
        return bool(READS.match("".join(self.texts)))

    def with_values(self, literals: dict[str, str]) -> str:
        """
        >>> Statement(("SELECT ", " + 1"), ("a",)).with_values({"a": "7"})
        'SELECT 7 + 1'
        """
        values = [literals[name] for name in self.names]
        return "".join(text + value for text, value in zip(self.texts, [*values, ""], strict=True))


def parse(sql: str, names: Collection[str]) -> list[Statement]:
    """The statements of a step. {name} marks the place of the value with that name; each ? marks the place of the
    next value that has no {name} in the text.

    >>> parse("SELECT c FROM t WHERE id = ? AND d = '?'; COMMIT", ["id"])[0]
    Statement(texts=('SELECT c FROM t WHERE id = ', " AND d = '?'"), names=('id',))
    """
    scanner, parsed = Scanner(), []
    named = {match[1] for match in _PLACE.finditer(sql)} & {*names}
    in_order = iter([name for name in names if name not in named])
    for line in statements(sql.splitlines(keepends=True), Scanner()):
        texts, used = [""], list[str]()
        for part in line.text.splitlines(keepends=True):
            for piece in scanner.pieces(part):
                at = 0
                for match in _PLACE.finditer(piece.text) if piece.kind == "code" else ():
                    name = str(match[1] or next(in_order, "?"))
                    if name == "?" and named:  # if other values are marked by {name}, this ? is an operator
                        continue
                    if name not in names:
                        known = f"the values are {', '.join(names)}" if names else "there are no values"
                        raise ValueError(f"{match[0]} in {line.text[:80]!r} has no value; {known}")
                    texts[-1] += piece.text[at : match.start()]
                    texts.append("")
                    used.append(name)
                    at = match.end()
                texts[-1] += piece.text[at:]
        if scanner.open:
            raise ValueError(f"{line.text[:80]!r} does not close {scanner.open}")
        parsed.append(Statement(tuple(texts), tuple(used)))
    if unused := [name for name in names if name not in {name for one in parsed for name in one.names}]:
        raise ValueError(f"the value {unused[0]!r} is in no statement; write {{{unused[0]}}} or ? where it belongs")
    return parsed
