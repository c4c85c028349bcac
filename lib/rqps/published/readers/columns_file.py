"""Reads a table with a row for each dbms, step and round, as CSV or parquet, in the columns of the table `steps`.

`dbms`, `step`, and either `operations_per_s` or `operations` with `elapsed_s` are needed. Numbers may have a decimal
comma if commas do not separate the columns.
"""

import csv
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
from polars.exceptions import PanicException, PolarsError

from rqps.published.readers import Result, Unread, name_of, number, one_line, text_of
from rqps.published.readers.sysbench_text import step_columns
from rqps.store.schemas import STEPS

TITLE = "tables with a row per step"
MOST_ROWS = 1_000_000
_ENDINGS = (".csv", ".tsv", ".parquet")
_NEEDED = ("dbms", "step")
_OF_RUN = ("dbms", "engine", "version", "host", "round", "table_rows", "tables", "cpus")
_COMPUTED = ("position", "table_position", "started_at", "step")
_SEPARATORS = (",", ";", "\t", "|")


def claims(path: Path) -> bool:
    """True for a CSV, TSV or parquet file, unless it is one of the summaries that another reader knows."""
    name = name_of(path)
    return name.endswith(_ENDINGS) and not name.startswith(("qps.", "o.met.", "mrg."))


def read(files: Sequence[Path]) -> Iterator[Result | Unread]:
    """The result of each row; a row with an invalid value is left out, and the other rows are read."""
    for path in files:
        try:
            rows, decimal_comma = _rows(path)
        except (ValueError, OSError, csv.Error, PolarsError, PanicException) as error:
            yield Unread(str(path), one_line(str(error)))
            continue
        columns = set().union(*rows[:1])
        missing = [name for name in _NEEDED if name not in columns]
        if missing or not ("operations_per_s" in columns or {"operations", "elapsed_s"} <= columns):
            words = (
                f"needs the columns dbms, step, operations and elapsed_s; it has {', '.join(sorted(columns)[:12])}"
            )
            yield Unread(str(path), one_line(words))
            continue
        if unknown := sorted(columns - {*STEPS, *_OF_RUN}):
            yield Unread(str(path), one_line(f"unknown columns: {', '.join(unknown[:12])}"))
        for line, row in enumerate(rows, start=1):
            try:
                yield _result(path, row, decimal_comma=decimal_comma)
            except ValueError as error:
                yield Unread(f"{path}, row {line}", one_line(str(error)))


def _rows(path: Path) -> tuple[list[dict[str, Any]], bool]:
    """The rows of a file, and True if a comma in their numbers is a decimal comma."""
    if name_of(path).endswith(".parquet"):
        frame = pl.scan_parquet(path, glob=False).head(MOST_ROWS + 1).collect()
        if frame.height > MOST_ROWS:
            raise ValueError(f"has more than {MOST_ROWS:,} rows")
        return frame.to_dicts(), False
    text = text_of(path).removeprefix("\ufeff")
    head = text.partition("\n")[0]
    separator = max(_SEPARATORS, key=head.count)
    lines = list(csv.DictReader(io.StringIO(text, newline=""), delimiter=separator))
    if len(lines) > MOST_ROWS:
        raise ValueError(f"has more than {MOST_ROWS:,} rows")
    return [{str(name).strip(): value for name, value in line.items() if name} for line in lines], separator != ","


def _result(path: Path, row: Mapping[str, Any], *, decimal_comma: bool) -> Result:
    columns: dict[str, Any] = {}
    for name, kind in STEPS.items():
        if row.get(name) not in (None, "") and name not in _COMPUTED:
            columns[name] = _value(name, row[name], kind, decimal_comma=decimal_comma)
    step, dbms = (one_line(str(row.get(name) or "")) for name in ("step", "dbms"))
    if not step or not dbms:
        raise ValueError("has no step or no dbms")
    if "operations_per_s" not in columns:
        if not columns.get("operations") or not columns.get("elapsed_s"):
            raise ValueError("has no operations or no elapsed_s")
        columns["operations_per_s"] = columns["operations"] / columns["elapsed_s"]
    if columns["operations_per_s"] <= 0:
        raise ValueError(f"operations_per_s is {columns['operations_per_s']:g}")
    numbers = {
        name: int(_value(name, row[name], pl.Int64, decimal_comma=decimal_comma))
        for name in ("round", "table_rows", "tables", "cpus")
        if row.get(name) not in (None, "")
    }
    known = {"clients": 1, "unit": "query", "errors": 0, **step_columns(step), **columns}
    return Result(
        file=path,
        origin=path,
        dbms=dbms,
        step=step,
        columns=known,
        engine=one_line(str(row.get("engine") or "")),
        version=one_line(str(row.get("version") or "")),
        host=one_line(str(row.get("host") or "")),
        round=numbers.get("round"),
        parameters={name: numbers[name] for name in ("tables", "table_rows") if name in numbers},
        machine={"cpus": numbers["cpus"]} if "cpus" in numbers else {},
    )


def _value(name: str, value: Any, kind: Any, *, decimal_comma: bool) -> Any:
    """Converts a value to the type of its column; raises a ValueError that names the column if this fails."""
    if kind == pl.String:
        return one_line(str(value))
    if kind == pl.Boolean:
        return str(value).strip().lower() in ("true", "1", "yes")
    try:
        amount = number(value, decimal_comma=decimal_comma) if isinstance(value, str) else float(value)
        if not math.isfinite(amount):
            raise ValueError
    except (TypeError, ValueError):
        hint = ": write it with a point, without separators" if "," in str(value) else ""
        raise ValueError(f"{name} is {value!r}, which is no number{hint}") from None
    if amount < 0:
        raise ValueError(f"{name} is {amount:g}")
    if kind.is_integer():
        if amount != int(amount) or (amount > 2**31 - 1 and kind == pl.Int32):
            raise ValueError(f"{name} is {amount:g}, but has to be a whole number")
        return int(amount)
    return amount
