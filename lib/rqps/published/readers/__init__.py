"""Readers of results that others have measured. Each format is one module of this folder.

A reader has a `TITLE`; `claims(path)`, which decides by a file's name or beginning if the file has this format; and
`read(files)`, which yields a `Result` for each step and an `Unread` for each file or line that it can't read.
`rqps.published.importing` groups the results into rounds and runs and writes the tables.
"""

import gzip
import math
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any, NamedTuple, Protocol, cast

MOST_BYTES = 64_000_000
"""Maximum size of one unpacked file, in bytes. The output of a step has a few thousand bytes, or a million with a
line per second."""
LONGEST_WORD = 120
WORKLOAD = "sysbench"
"""The workload of a result whose reader sets no other workload."""
_THOUSANDS = re.compile(r"-?\d{1,3}(?:\.\d{3})+(?:,\d+)?")
_DOTTED = re.compile(r"(?<![\d.])(\d{1,2}\.\d{1,2}(?:\.\d{1,3})?)(?![\d.])")
_DIGITS = (re.compile(r"my(\d)(\d)(\d{2})(?!\d)"), re.compile(r"pg(\d\d)(\d{1,2})(?!\d)"))
_BUILD_AND_CONFIG = re.compile(r"[\w-]+\.[A-Za-z][\w-]*")


@dataclass(frozen=True)
class Result:
    """The result of one step of one dbms, measured by somebody else, in the columns of the table `steps`."""

    file: Path
    origin: Path
    """The folder or file that has the results of one run. If two results of the same dbms and step have different
    origins, they are different rounds."""
    dbms: str
    """The name of the dbms in the source: `build.config`, or any other name."""
    step: str
    columns: Mapping[str, Any]
    engine: str = ""
    version: str = ""
    host: str = ""
    round: int | None = None
    """None if the source does not number its rounds."""
    workload: str = WORKLOAD
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """The size of the tables, as far as the source gives it."""
    machine: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    tools: Mapping[str, str] = field(default_factory=dict)
    intervals: Sequence[Mapping[str, Any]] = ()
    more_files: tuple[Path, ...] = ()
    """Further files that the result was read from."""
    summary: bool = False
    """True for a result from a summary, which is used only if the output that it sums up no longer exists."""


class Unread(NamedTuple):
    """A file, or a part of a file, that was not imported, with the reason."""

    place: str
    reason: str


class Reader(Protocol):
    """A module of this folder."""

    TITLE: str

    def claims(self, path: Path) -> bool: ...
    def read(self, files: Sequence[Path]) -> Iterator[Result | Unread]: ...


def readers() -> list[Reader]:
    """Every reader; the first that claims a file reads it."""
    names = sorted(module.name for module in iter_modules([str(Path(__file__).parent)]))
    return [cast(Reader, import_module(f"{__name__}.{name}")) for name in names]


def text_of(path: Path) -> str:
    """The text of a file, gzipped or not; ValueError if it is damaged or too long."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            raw = file.read(MOST_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"can't be read: {error}") from error
    if len(raw) > MOST_BYTES:
        raise ValueError(f"has more than {MOST_BYTES:,} bytes, and no result of a step has")
    return raw.decode("utf-8", errors="replace").replace("\r\n", "\n")


def name_of(path: Path) -> str:
    """The name of a file without `.gz`."""
    return path.name.removesuffix(".gz")


def number(text: str, *, decimal_comma: bool = True) -> float:
    """Parses a number with a decimal point or, with `decimal_comma`, a decimal comma; raises ValueError otherwise.

    >>> number("1234.5"), number("1234,5"), number("1.234,5")
    (1234.5, 1234.5, 1234.5)
    """
    words = text.strip()
    if decimal_comma and "," in words:
        words = (words.replace(".", "") if _THOUSANDS.fullmatch(words) else words).replace(",", ".")
    value = float(words)
    if not math.isfinite(value):
        raise ValueError(f"{text!r} is not a finite number")
    return value


def one_line(text: str) -> str:
    """A text from a source as one line of printable characters.

    >>> one_line("point\\nquery\\x1b[31m")
    'point query [31m'
    """
    return " ".join("".join(sign if sign.isprintable() else " " for sign in text).split())[:LONGEST_WORD]


def version_in(name: str) -> str:
    """The version in the name of a dbms; empty if it has none.

    >>> version_in("my8044_rel_o2nofp.z12a"), version_in("pg1611_def"), version_in("mysql-8.0.33"), version_in("mine")
    ('8.0.44', '16.11', '8.0.33', '')
    """
    if match := _DOTTED.search(name):
        return match[1]
    numbers = next((match.groups() for form in _DIGITS if (match := form.match(name))), ())
    return ".".join(str(int(part)) for part in numbers)


def build_and_config_in(name: str) -> tuple[str, str]:
    """Derives build and config from the name of a dbms in the source, which may be any text.

    >>> build_and_config_in("my8033.ps0"), build_and_config_in("mysql-8.0.33"), build_and_config_in("x y/z")
    (('my8033', 'ps0'), ('mysql-8-0-33', 'imported'), ('x-y-z', 'imported'))
    """
    if _BUILD_AND_CONFIG.fullmatch(name):
        build, _, config = name.partition(".")
        return build.lstrip("-") or "unnamed", config
    return re.sub(r"[^A-Za-z0-9_]+", "-", name).strip("-") or "unnamed", "imported"
