"""Strict reading of `data/published`: a broken row is named by file, line and column, and nothing is read past it."""

import csv
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import polars as pl
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from rqps.errors import RqpsError
from rqps.stats import PUBLISHED
from rqps.study.document import Document, Problem, all_at_once, instead, parse

FOLDER = Path(__file__).parents[3] / "data" / "published"
FIX = "put the row right, or take the file from git again: git checkout -- data/published"

KINDS = {
    "contradiction": "not both can be right",
    "imprecise": "the wording claims more than the numbers bear",
    "slip": "a name, label or version is mixed up, and the meaning is clear",
    "unclear": "the sentence leaves open what is meant",
    "repeat": "measured twice with different results: no mistake, but it shows how far the numbers reach",
}

COSTS = PUBLISHED
"""The columns of a per-operation table, in the order in which they are printed, and their units."""

PROSE_UNITS = ["ratio", "percent", "percent more", "count", "CPU/query", "transactions/s", "switches/operation"]
PROSE_UNITS += ["pages/operation", "MB", "GB", "ns", "us"]
FILES = {
    # `dbms` is a name as it is printed; `build` is the same name for the same server in every table.
    "rqps": ("source section host threads dbms base build step value unit", ["ratio"]),
    # `host` is of the section in which the table stands, `threads` of the table's own name.
    "per_operation": (
        "source section table part host threads dbms build step metric value unit",
        [*dict.fromkeys(COSTS.values()), "ratio"],
    ),
    # `row` is the host as that table calls it.
    "busy_wait": ("source table row host version function compiled value unit", ["ns"]),
    "ut_delay": ("source table host version x value unit", ["us"]),
    "timers": ("source table host timer metric value unit", ["ticks/s", "ticks", "cycles"]),
    "prose": ("source place host step dbms base metric sign value unit about", PROSE_UNITS),
}
"""Each file's columns, and the units of its numbers. No two rows have all but number and unit the same."""
MAY_BE_EMPTY = {"prose": {"host", "step", "dbms", "base", "about"}}
WHOLE = {"threads", "x"}

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


class Seconds(_Strict):
    read: int
    write: int


class Source(_Strict):
    author: str
    author_printed: bool
    title: str | None
    date: str | None = Field(pattern=r"^\d{4}-\d\d-\d\d$")
    dated: str
    url: str | None = None
    measured: str
    seconds: Seconds | None = None
    hosts: dict[str, Host]


class Check(_Strict):
    """A statement of a source and what its own figures say to it; without `figures`, it was found by reading.

    All but `kind`, `figures` and `holds` are templates with the columns of `figures` in braces.
    """

    source: str
    place: str
    kind: str
    says: str
    evidence: str
    difference: str = ""
    rounding: str = ""
    """Says whether rounding explains the difference; empty where no number was rounded."""
    figures: str = ""
    """SQL for one row per finding."""
    holds: str = ""
    """The relation of these columns that the statement needs; without it, every row is a finding."""


@dataclass(frozen=True)
class Published:
    """Every published number. Each frame has `printed` beside `value`, and `half`, half of its last digit."""

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
    """Read all files of a folder, `data/published` of this checkout if none is given."""
    place = Path(folder) if folder else FOLDER
    names = ["sources.yaml", "checks.yaml", "readings.yaml", "views.sql", *(f"{name}.csv" for name in FILES)]
    if missing := [name for name in names if not (place / name).is_file()]:
        raise RqpsError(
            f"{place}: there is no {', '.join(missing)}", fix="work in a whole checkout, or give the folder"
        )
    sources = _yaml(place / "sources.yaml", TypeAdapter(dict[str, Source]))
    return Published(
        sources=sources,
        **{name: _frame(place / f"{name}.csv", name, sources) for name in FILES},
        checks=_checks(place / "checks.yaml", sources),
        readings=_checks(place / "readings.yaml", sources),
        views=(place / "views.sql").read_text(encoding="utf-8"),
    )


def _yaml(path: Path, model: TypeAdapter[T], wrong: Callable[[T], Iterable[Problem]] = lambda _: ()) -> T:
    """A file by its model; `wrong` finds mistakes that the model allows."""
    document = parse(path.read_text(encoding="utf-8"))
    problems = list(document.problems)
    if not problems:
        try:
            value = model.validate_python(document.value)
        except ValidationError as error:
            problems = [Problem(each["loc"], each["msg"]) for each in error.errors()]
        else:
            problems = list(wrong(value))
    if problems:
        raise all_at_once(str(path), problems, document)
    return value


def _checks(path: Path, sources: dict[str, Source]) -> tuple[Check, ...]:
    """The checks of a file. Each names a kind that is explained, and a source that is there or a column."""

    known = {"source": [*sources, "{source}"], "kind": [*KINDS]}

    def wrong(checks: tuple[Check, ...]) -> Iterator[Problem]:
        for number, check in enumerate(checks):
            for name, words in known.items():
                if (word := getattr(check, name)) not in words:
                    yield Problem((number, name), f"{word!r} is none of {', '.join(words)}")

    return _yaml(path, TypeAdapter(tuple[Check, ...]), wrong)


def _frame(path: Path, name: str, sources: dict[str, Source]) -> pl.DataFrame:
    with path.open(encoding="utf-8", newline="") as opened:
        reader = csv.reader(opened)
        lines = [(reader.line_num, row) for row in reader]
    columns = FILES[name][0].split()
    problems = list(_problems(lines, name, columns, sources))
    if problems:
        raise RqpsError(all_at_once(str(path), problems, Document()).message, fix=FIX)
    frame = pl.DataFrame([row for _, row in lines[1:]], schema=dict.fromkeys(columns, pl.String), orient="row")
    decimals = pl.col("value").str.extract(r"\.(\d+)$").str.len_bytes().fill_null(0).cast(pl.Int32)
    return frame.with_columns(
        pl.col("value").alias("printed"),
        pl.col("value").cast(pl.Float64),
        (0.5 * pl.lit(10.0).pow(-decimals)).alias("half"),
        *(pl.col(each).cast(pl.Int64) for each in columns if each in WHOLE),
    )


def _problems(
    lines: list[tuple[int, list[str]]], name: str, columns: list[str], sources: dict[str, Source]
) -> Iterator[Problem]:
    head = lines[0][1] if lines else []
    if head != columns:
        yield Problem((), f"the columns are {', '.join(head)}; they have to be {', '.join(columns)}", 1)
        return
    first: dict[tuple[str, ...], int] = {}
    for line, values in lines[1:]:
        if len(values) != len(columns):
            yield Problem((), f"{len(values)} values, and there are {len(columns)} columns", line)
            continue
        row = dict(zip(columns, values, strict=True))
        yield from (Problem((column,), text, line) for column, text in _wrong(row, name, sources))
        key = tuple(value for column, value in row.items() if column not in ("value", "unit"))
        if key in first:
            yield Problem(("value",), f"the same number as on line {first[key]}; keep one", line)
        first.setdefault(key, line)


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
