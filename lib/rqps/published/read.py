"""Reading `data/published` strictly: a broken row is named by file, line and column, and nothing is read past it."""

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from rqps.errors import RqpsError
from rqps.published.check import KINDS
from rqps.published.columns import FILES, File, Kind
from rqps.published.sources import Reading, Source, read_readings, read_sources
from rqps.study.document import Problem, all_at_once, instead

FOLDER = Path(__file__).parents[3] / "data" / "published"
FIX = "put the row right, or take the file from git again: git checkout -- data/published"

_NUMBER = re.compile(r"\d+(\.\d+)?")
_WHOLE = re.compile(r"\d+")


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
    readings: tuple[Reading, ...]


def read(folder: Path | str | None = None) -> Published:
    """Read all files of a folder, `data/published` of this checkout if none is given."""
    place = Path(folder) if folder else FOLDER
    missing = [name for name in ("sources.yaml", "readings.yaml", *(f"{name}.csv" for name in FILES))
               if not (place / name).is_file()]  # fmt: skip
    if missing:
        raise RqpsError(
            f"{place}: there is no {', '.join(missing)}", fix="work in a whole checkout, or give the folder"
        )
    sources = read_sources(place / "sources.yaml")
    frames = {name: _frame(place / f"{name}.csv", file, sources) for name, file in FILES.items()}
    return Published(
        sources=sources, readings=read_readings(place / "readings.yaml", sources, tuple(KINDS)), **frames
    )


def _frame(path: Path, file: File, sources: dict[str, Source]) -> pl.DataFrame:
    with path.open(encoding="utf-8", newline="") as opened:
        reader = csv.reader(opened)
        lines = [(reader.line_num, row) for row in reader]
    rows, problems = _checked(lines, file, sources)
    if problems:
        error = all_at_once(str(path), problems, {})
        raise RqpsError(error.message, fix=FIX)
    frame = pl.DataFrame(rows, schema=dict.fromkeys(file.columns, pl.String), orient="row")
    whole = [name for name, kind in file.columns.items() if kind == "whole"]
    decimals = pl.col("value").str.extract(r"\.(\d+)$").str.len_bytes().fill_null(0).cast(pl.Int32)
    return frame.with_columns(
        pl.col("value").alias("printed"),
        pl.col("value").cast(pl.Float64),
        (0.5 * pl.lit(10.0).pow(-decimals)).alias("half"),
        pl.col(whole).cast(pl.Int64),
    )


def _checked(
    lines: list[tuple[int, list[str]]], file: File, sources: dict[str, Source]
) -> tuple[list[list[str]], list[Problem]]:
    rows: list[list[str]] = []
    problems: list[Problem] = []
    first: dict[tuple[str, ...], int] = {}
    names = list(file.columns)
    head = lines[0][1] if lines else []
    if head != names:
        return [], [Problem((), f"the columns are {', '.join(head)}; they have to be {', '.join(names)}", 1)]
    for line, row in lines[1:]:
        if len(row) != len(names):
            problems.append(Problem((), f"{len(row)} values, and there are {len(names)} columns", line))
            continue
        named = dict(zip(names, row, strict=True))
        problems += [Problem((name,), text, line) for name, text in _wrong(named, file, sources)]
        key = tuple(named[name] for name in file.key)
        if key in first:
            problems.append(Problem(("value",), f"the same number as on line {first[key]}; keep one", line))
        first.setdefault(key, line)
        rows.append(row)
    return rows, problems


def _wrong(row: dict[str, str], file: File, sources: dict[str, Source]) -> Iterator[tuple[str, str]]:
    for name, word in row.items():
        kind: Kind = file.columns[name]
        hosts = sources[row["source"]].hosts if row["source"] in sources else {}
        if kind == "optional" and not (name == "host" and word):
            continue
        if not word:
            units = f"; the units are {', '.join(file.units)}" if kind == "unit" else ""
            yield name, f"is empty{units}"
        elif kind == "number" and not _NUMBER.fullmatch(word):
            yield name, f"{word!r} is not a number as it is printed: digits, and a point where there are decimals"
        elif kind == "whole" and not _WHOLE.fullmatch(word):
            yield name, f"{word!r} is not a whole number"
        elif kind == "source" and word not in sources:
            yield name, f"sources.yaml has no source {word!r}; {instead(word, sources, 'sources')}"
        elif name == "host" and hosts and word not in hosts:
            yield name, f"{row['source']} has no host {word!r}; {instead(word, hosts, 'hosts')}"
        elif kind == "unit" and word not in file.units:
            yield name, f"{word!r} is no unit here; {instead(word, file.units, 'units')}"
