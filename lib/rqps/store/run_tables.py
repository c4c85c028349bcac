"""Reads each table from all run folders as one lazy frame, whose files are opened only when rows are needed."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import polars as pl
from polars.exceptions import PanicException, PolarsError
from polars.io.plugins import register_io_source

from rqps.store.manifest import ASKED, MANIFEST, Manifest, check_files, damaged, right_version
from rqps.store.older import columns_up_to_date
from rqps.store.run_frames import Runs, identity
from rqps.store.schemas import IDENTITY, MODE_TABLES, NEWER_TABLES, TABLES, WORKLOAD_TABLES, Columns
from rqps.store.write import VERSION_KEY

_FILE = "file"
_AT_ONCE_BYTES = 32 * 1024**2
"""Files are read in groups of about this size, one group at a time: a study may be larger than memory."""
MOST_VALUES, VALUES_A_BYTE = 20_000_000, 200
"""Limits: a file may have at most MOST_VALUES values, plus VALUES_A_BYTE for each of its bytes. Otherwise a few bytes
could declare more rows than fit into memory. Valid files stay below the limits: a file of `settings`, whose rows
repeat in every run, has 85 values per byte."""
_COUNTED_AT_ONCE = 200
"""The number of files whose rows are counted in one query."""
MANIFESTS: Columns = {"folder": pl.String, "tables": pl.List(pl.String), "manifest": pl.String, "asked": pl.String}


def run_table(name: str, runs: Runs) -> pl.LazyFrame:
    """One table of all runs as a lazy frame. Its files, which may be thousands, are opened when rows are needed."""
    return deferred({**IDENTITY, **TABLES[name]}, lambda: _rows(name, runs), partial(_collected, name, runs))


def manifests(runs: Runs) -> pl.LazyFrame:
    """One row per run: its manifest as it was written, its request, and the names of its tables."""

    def rows() -> Iterator[pl.LazyFrame]:
        yield pl.LazyFrame([_manifest_row(folder) for folder, _ in runs], schema=MANIFESTS)

    return deferred(MANIFESTS, rows)


def rows_in(files: Any, columns: int, size_bytes: int = 0) -> int:
    """The number of rows that files declare in their metadata; ValueError if that exceeds the limit for their
    size."""
    rows: int = pl.scan_parquet(files, glob=False).select(pl.len()).collect().item()
    if rows * columns > MOST_VALUES + VALUES_A_BYTE * size_bytes:
        raise ValueError(f"it says that it has {rows:,} rows, in {size_bytes:,} bytes")
    return rows


def deferred(
    schema: Columns,
    parts: Callable[[], Iterator[pl.LazyFrame]],
    collected: Callable[[pl.LazyFrame], pl.DataFrame] = pl.LazyFrame.collect,
) -> pl.LazyFrame:
    """A lazy frame that collects the frames of `parts` one after the other when rows are needed."""

    def rows(
        columns: list[str] | None, condition: pl.Expr | None, limit: int | None, _: int | None
    ) -> Iterator[pl.DataFrame]:
        left = limit
        for part in chain([pl.LazyFrame(schema=schema)], parts()):
            rows = part if condition is None else part.filter(condition)
            rows = rows if columns is None else rows.select(columns)
            frame = collected(rows if left is None else rows.head(left))
            yield frame
            left = None if left is None else left - frame.height
            if left == 0:
                return

    return register_io_source(rows, schema=schema, is_pure=True)


def _collected(name: str, runs: Runs, rows: pl.LazyFrame) -> pl.DataFrame:
    try:
        return rows.collect()
    except (OSError, PolarsError, PanicException) as error:
        check_files(runs, [f"{name}.parquet"], thorough=True)
        for path in (folder / f"{name}.parquet" for folder, _ in runs):
            try:
                pl.read_parquet(path, hive_partitioning=False)
            except FileNotFoundError:
                continue
            except (OSError, PolarsError, PanicException) as why:
                raise damaged(path, str(why)) from error
        raise


def _rows(name: str, runs: Runs) -> Iterator[pl.LazyFrame]:
    """The rows of all files; several files are read in one scan."""
    files = []
    for folder, manifest in runs:
        path = folder / f"{name}.parquet"
        if manifest.mode in MODE_TABLES.get(name, (manifest.mode,)) and _is_there(path, manifest):
            files.append((path, manifest))
    _refuse_excess([path for path, _ in files], len(TABLES[name]))
    for some in _at_once(files):
        yield _of_files(name, some)


def _refuse_excess(files: Sequence[Path], columns: int) -> None:
    sizes = {path: path.stat().st_size for path in files}
    by_size = sorted(files, key=lambda path: sizes[path])
    for some in (by_size[at : at + _COUNTED_AT_ONCE] for at in range(0, len(files), _COUNTED_AT_ONCE)):
        with suppress(PolarsError, PanicException, ValueError):
            # The number of rows that a file may declare grows with its size. If all these files together declare no
            # more rows than the smallest file may, none declares too many, and one check is enough.
            rows_in(some, columns, sizes[some[0]])
            continue
        for path in some:
            try:
                rows_in(path, columns, sizes[path])
            except (OSError, PolarsError, PanicException, ValueError) as error:
                raise damaged(path, str(error)) from error


def _of_files(name: str, files: Runs) -> pl.LazyFrame:
    """The rows of several files. The columns that identify the run are looked up per file, not per row."""
    schema = pl.Schema({**IDENTITY, **TABLES[name]})
    named: list[dict[str, Any]] = [{_FILE: str(path), **identity(manifest)} for path, manifest in files]
    known = pl.DataFrame(named, schema={_FILE: pl.String, **IDENTITY})

    def rows(
        columns: list[str] | None, condition: pl.Expr | None, limit: int | None, _: int | None
    ) -> Iterator[pl.DataFrame]:
        shown, where = columns or schema.names(), pl.lit(True) if condition is None else condition
        asks = set(where.meta.root_names())
        of_runs, of_rows = asks <= IDENTITY.keys(), asks.isdisjoint(IDENTITY)
        whose = known.filter(where) if of_runs else known
        if whose.is_empty():
            yield pl.DataFrame(schema=schema).select(shown)
            return
        asked = asks.union(shown)
        newer = {column: expr for column, expr in columns_up_to_date(name).items() if column in asked}
        read = asked.union(*(expr.meta.root_names() for expr in newer.values()))
        own, of_run = ([column for column in of if column in read] for of in (TABLES[name], IDENTITY))
        file = [_FILE] if of_run else []
        scanned = pl.scan_parquet(
            whose[_FILE].to_list(),
            glob=False,
            schema=TABLES[name],
            extra_columns="ignore",
            missing_columns="insert",  # null in files that are older than a column
            include_file_paths=_FILE if of_run else None,
            use_statistics=False,  # a file mostly has one row group, so its statistics would skip nothing
        )
        current = scanned.with_columns(**newer)
        frame = current.filter(where if of_rows else True).select(*file, *own).collect()
        if of_run:
            frame = beside(frame, whose.select(_FILE, *of_run), _FILE)
        yield frame.filter(True if of_rows else where).select(shown)[:limit]

    return register_io_source(rows, schema=schema, is_pure=True)


def beside(rows: pl.DataFrame, known: pl.DataFrame, *on: str) -> pl.DataFrame:
    """Joins rows with `known`, which has each key once. Adjacent rows with the same key are looked up together: a
    plain join takes ten times as long."""
    alike = rows.select(pl.struct(on).rle().struct.unnest())
    keys = alike.select(pl.col("value").struct.unnest())
    joined = keys.join(known, on=on, how="left", maintain_order="left", validate="m:1").drop(on)
    places = alike.select(pl.int_range(pl.len()).repeat_by("len").explode()).to_series()
    return rows.hstack(joined[places])


def _at_once(files: Sequence[tuple[Path, Manifest]]) -> Iterator[list[tuple[Path, Manifest]]]:
    some: list[tuple[Path, Manifest]] = []
    size = 0
    for path, manifest in files:
        some.append((path, manifest))
        size += path.stat().st_size
        if size >= _AT_ONCE_BYTES:
            yield some
            some, size = [], 0
    if some:
        yield some


def _is_there(path: Path, manifest: Manifest) -> bool:
    """True if the run has this file. Existing files are verified; an optional file may be absent."""
    if manifest.files:
        check_files([(path.parent, manifest)], [path.name])
        return path.name in manifest.files
    try:
        metadata = pl.read_parquet_metadata(path)
    except (OSError, PolarsError, PanicException) as error:
        of_another = WORKLOAD_TABLES.get(path.stem, manifest.workload) != manifest.workload
        newer = path.stem in NEWER_TABLES
        no_duet = path.stem == "slices" and manifest.side is None
        if (manifest.outcome == "failed" or of_another or newer or no_duet) and not path.exists():
            return False
        raise damaged(path, str(error)) from error
    right_version(path, str(metadata.get(VERSION_KEY)))
    return True


def _manifest_row(folder: Path) -> dict[str, Any]:
    asked = folder / ASKED
    return {
        "folder": str(folder),
        "tables": [name for name in TABLES if (folder / f"{name}.parquet").is_file()],
        "manifest": (folder / MANIFEST).read_text(encoding="utf-8"),
        "asked": asked.read_text(encoding="utf-8") if asked.is_file() else None,
    }
