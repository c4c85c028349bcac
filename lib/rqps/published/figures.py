"""Reads `data/published` strictly: if any row is broken, one error names each broken row by file, line and column."""

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import polars as pl
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, ValidationInfo, field_validator

from rqps.errors import RqpsError, instead
from rqps.stats import PUBLISHED
from rqps.study.document import Document, Problem, all_at_once, parse

FOLDER = Path(__file__).parents[3] / "data" / "published"

KINDS = {
    "contradiction": "not both can be right",
    "imprecise": "the wording claims more than the numbers support",
    "slip": "a name, label or version is mixed up, and the meaning is clear",
    "unclear": "the sentence leaves open what is meant",
    "repeat": "measured twice with different results: not a mistake, but it shows the spread of the numbers",
}

PROSE_UNITS = ["ratio", "percent", "percent more", "count", "CPU/query", "transactions/s", "switches/operation"]
PROSE_UNITS += ["pages/operation", "MB", "GB", "ns", "us"]
FILES = {
    # `dbms` is the printed name, which differs between tables; `build` is one name for the server in all tables.
    "rqps": ("source section host threads dbms base build step value unit", ["ratio"]),
    # `host` is from the heading of the table's section, `threads` from the table's name.
    "per_operation": (
        "source section table part host threads dbms build step metric value unit",
        [*dict.fromkeys(PUBLISHED.values()), "ratio"],
    ),
    # `row` is the host's name as printed in the table.
    "busy_wait": ("source table row host version function compiled value unit", ["ns"]),
    "ut_delay": ("source table host version x value unit", ["us"]),
    "timers": ("source table host timer metric value unit", ["ticks/s", "ticks", "cycles"]),
    "prose": ("source place host step dbms base metric sign value unit about", PROSE_UNITS),
}
"""Maps each file to its columns and to the units of its numbers. Two rows that differ only in number and unit are a
mistake."""
MAY_BE_EMPTY = {"prose": {"host", "step", "dbms", "base", "about"}}
WHOLE = {"threads", "x"}

_MORE = "more"
_NUMBER = re.compile(r"\d+(\.\d+)?")
T = TypeVar("T")


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Host(_Strict):
    hardware: str
    cores: int | None = None
    threads: int | None = None
    tables: int | None = None
    rows_per_table: int | None = None


class Source(_Strict):
    author: str
    author_printed: bool
    title: str | None
    date: str | None = Field(pattern=r"^\d{4}-\d\d-\d\d$")
    dated: str
    url: str | None = None
    measured: str
    seconds: dict[Literal["read", "write"], int] = Field(default_factory=dict)
    hosts: dict[str, Host]


class Check(_Strict):
    """An assertion of a source that the source's own figures contradict or confirm. Without `figures` it was checked
    by reading only."""

    source: str
    place: str
    kind: str
    says: str
    evidence: str
    difference: str = ""
    rounding: str = ""
    """A text on whether rounding explains the difference; empty if no number was rounded."""
    figures: str = ""
    """A query in SQL on the published numbers; the check is evaluated for each row of its result."""
    holds: str = ""
    """A condition in SQL on the columns of `figures`: true for a row that agrees with the source's assertion. If
    `holds` is empty, every row contradicts the source."""

    @field_validator("source", "kind")
    @classmethod
    def _is_known(cls, word: str, info: ValidationInfo) -> str:
        context: Any = info.context
        if word not in context[info.field_name]:
            raise ValueError(f"{word!r} is none of {', '.join(context[info.field_name])}")
        return word


_CHECKS = TypeAdapter(tuple[Check, ...])


@dataclass(frozen=True)
class Published:
    """Every published number. Each frame has the number as `printed`, its `value`, and its maximum rounding error,
    `half`: half a unit of the last printed digit."""

    sources: dict[str, Source]
    rqps: pl.DataFrame
    per_operation: pl.DataFrame
    busy_wait: pl.DataFrame
    ut_delay: pl.DataFrame
    timers: pl.DataFrame
    prose: pl.DataFrame
    checks: tuple[Check, ...]
    readings: tuple[Check, ...]
    views: str


def read(folder: Path | str | None = None) -> Published:
    """Reads all files of a folder; without an argument, of `data/published` in this checkout."""
    place = Path(folder) if folder else FOLDER
    names = ["sources.yaml", "checks.yaml", "readings.yaml", "views.sql", *(f"{name}.csv" for name in FILES)]
    if missing := [name for name in names if not (place / name).is_file()]:
        raise RqpsError(
            f"{place}: there is no {', '.join(missing)}", fix="work in a whole checkout, or give the folder"
        )
    sources = _yaml(place / "sources.yaml", TypeAdapter(dict[str, Source]))
    # A check's source may be `{source}`, which stands for the column `source` of each row of its query.
    known = {"source": [*sources, "{source}"], "kind": [*KINDS]}
    checks, readings = (_yaml(place / f"{name}.yaml", _CHECKS, known) for name in ("checks", "readings"))
    return Published(
        sources=sources,
        **{name: _frame(place / f"{name}.csv", name, sources) for name in FILES},
        checks=checks,
        readings=readings,
        views=(place / "views.sql").read_text(encoding="utf-8"),
    )


def _yaml(path: Path, model: TypeAdapter[T], known: Any = None) -> T:
    """Reads a YAML file and validates it with a model. `known` has the words that some fields may have, such as the
    names of sources."""
    document = parse(path.read_text(encoding="utf-8"))
    problems = document.problems
    if not problems:
        try:
            return model.validate_python(document.value, context=known)
        except ValidationError as error:
            problems = [
                Problem(problem["loc"], problem["msg"].removeprefix("Value error, ")) for problem in error.errors()
            ]
    raise all_at_once(str(path), problems, document)


def _frame(path: Path, name: str, sources: dict[str, Source]) -> pl.DataFrame:
    columns = FILES[name][0].split()
    with path.open(encoding="utf-8", newline="") as opened:
        reader = csv.DictReader(opened, restkey=_MORE, restval="")
        lines = [(reader.line_num, row) for row in reader]
        head = list(reader.fieldnames or [])
    if head != columns:
        wrong = f"the columns are {', '.join(head)}; they have to be {', '.join(columns)}"
        problems = [Problem((), wrong, 1)]
    else:
        problems = list(_problems(lines, name, sources))
    if problems:
        fix = "correct the row, or take the file from git again: git checkout -- data/published"
        raise RqpsError(all_at_once(str(path), problems, Document()).message, fix=fix)
    frame = pl.DataFrame([row for _, row in lines], schema=dict.fromkeys(columns, pl.String))
    decimals = pl.col("value").str.extract(r"\.(\d+)$").str.len_bytes().fill_null(0).cast(pl.Int32)
    return frame.with_columns(
        pl.col("value").alias("printed"),
        pl.col("value").cast(pl.Float64),
        (0.5 * pl.lit(10.0).pow(-decimals)).alias("half"),
        *(pl.col(column).cast(pl.Int64) for column in columns if column in WHOLE),
    )


def _problems(lines: list[tuple[int, dict[str, str]]], name: str, sources: dict[str, Source]) -> Iterator[Problem]:
    first: dict[tuple[str, ...], int] = {}
    for line, row in lines:
        if _MORE in row:
            yield Problem((), "has more values than there are columns", line)
            continue
        yield from (Problem((column,), text, line) for column, text in _wrong(row, name, sources))
        key = tuple(value for column, value in row.items() if column not in ("value", "unit"))
        if first.setdefault(key, line) != line:
            yield Problem(("value",), f"the same number as on line {first[key]}; keep one", line)


def _wrong(row: dict[str, str], name: str, sources: dict[str, Source]) -> Iterator[tuple[str, str]]:
    units = FILES[name][1]
    hosts = sources[row["source"]].hosts if row["source"] in sources else {}
    for column, word in row.items():
        if not word:
            if column not in MAY_BE_EMPTY.get(name, ()):
                yield column, "is empty" + (f"; the units are {', '.join(units)}" if column == "unit" else "")
        elif column == "value" and not _NUMBER.fullmatch(word):
            yield column, f"{word!r} is not a number as it is printed: digits, and a point where there are decimals"
        elif column in WHOLE and not re.fullmatch(r"\d+", word):
            yield column, f"{word!r} is not a whole number"
        elif column == "source" and word not in sources:
            yield column, f"sources.yaml has no source {word!r}; {instead(word, sources, 'sources')}"
        elif column == "host" and hosts and word not in hosts:
            yield column, f"{row['source']} has no host {word!r}; {instead(word, hosts, 'hosts')}"
        elif column == "unit" and word not in units:
            yield column, f"{word!r} is no unit here; {instead(word, units, 'units')}"
