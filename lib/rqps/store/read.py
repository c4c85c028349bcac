"""Studies as plain polars frames; the first columns of each say which run a row is from."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
from polars.exceptions import PolarsError
from polars.io.plugins import register_io_source

from rqps.store.find import CARD, data_folder, failed_runs, finished_runs, study_folder
from rqps.store.flat import IDENTITY, conditions_frame, identity, runs_frame, warnings_frame
from rqps.store.manifest import (
    SCHEMA_VERSION,
    Manifest,
    StudyCard,
    damaged,
    read_manifest,
    read_study_card,
    right_version,
)
from rqps.store.schemas import MODE_TABLES, TABLES, WORKLOAD_TABLES
from rqps.store.upgrade import LATER_TABLES, upgraded
from rqps.store.write import VERSION_KEY
from rqps.study import Mode

_FILE = "file"


@dataclass(frozen=True)
class Study:
    """The runs of a study in one mode. Small frames are read; the big ones are lazy: `.collect()` them."""

    card: StudyCard
    folder: Path
    runs: pl.DataFrame
    """One row per finished run."""
    failed: pl.DataFrame
    """One row per attempt that failed, with its error."""
    conditions: pl.DataFrame
    """One row per run and fact: options, parameters, placement, machine, tools."""
    warnings: pl.DataFrame
    """Warnings that the runs gave."""
    steps: pl.DataFrame
    intervals: pl.LazyFrame
    latencies: pl.LazyFrame
    counters: pl.LazyFrame
    status: pl.LazyFrame
    settings: pl.LazyFrame
    plans: pl.LazyFrame
    """The plans that the server explained before each step."""
    stacks: pl.LazyFrame
    """Sampled call stacks; only of runs in that mode."""
    threads: pl.LazyFrame
    """Time of the server's threads, running and waiting; only of those runs, too."""
    instructions: pl.LazyFrame
    """Instructions by call stack; only of runs in that mode."""
    clients: pl.LazyFrame
    """Operations of each client in each second; only of the insert benchmark."""
    engine: pl.LazyFrame
    """Work that the storage engine has put off, before and after each step; only of the insert benchmark."""


def load(study: str, data: str | Path | None = None, mode: Mode | None = "throughput") -> Study:
    """Read a study: from `data` (or $RQPS_DATA, or the nearest data folder), raw/ first, then sample/.

    Runs that were looked into more closely (`stacks`, `instructions`) are read by themselves, since they were slower;
    None reads all, to list them.
    """
    folder = study_folder(study, data)
    return _study(read_study_card(folder), folder, finished_runs(folder), failed_runs(folder), mode)


def load_levels(study: str, data: str | Path | None = None, mode: Mode = "throughput") -> tuple[Study, ...]:
    """The study, then the studies that measure its parts (STUDY-1, STUDY-2, …), if they have runs in that mode."""
    root = data_folder(data)
    found = [load(study, root, mode)]
    beside = study_folder(study, root).parent
    while (beside / f"study={study}-{len(found)}" / CARD).is_file():
        found.append(load(f"{study}-{len(found)}", root, mode))
    return tuple(each for each in found if not each.runs.is_empty())


def load_run(folder: str | Path) -> Study:
    """Read the folder of one run, finished or failed, as a study of that run alone."""
    folder = Path(folder)
    above = next((path for path in folder.parents if (path / CARD).is_file()), folder.parent)
    card = read_study_card(above).model_copy(update={"dbms": (read_manifest(folder).dbms,), "rounds": 1})
    return _study(card, above, (folder,), (), None)


def _study(card: StudyCard, folder: Path, runs: Sequence[Path], failed: Sequence[Path], mode: Mode | None) -> Study:
    ok = [(path, manifest) for path in runs if mode in (None, (manifest := read_manifest(path)).mode)]
    return Study(
        card=card,
        folder=folder,
        runs=runs_frame(ok),
        failed=runs_frame([(path, read_manifest(path)) for path in failed]),
        conditions=conditions_frame([manifest for _, manifest in ok]),
        warnings=warnings_frame([manifest for _, manifest in ok]),
        steps=_rows("steps", ok).collect(),
        **{name: _table(name, ok) for name in TABLES if name != "steps"},
    )


def _table(name: str, runs: Sequence[tuple[Path, Manifest]]) -> pl.LazyFrame:
    """The files of all runs as one frame. Each is opened only when rows are asked for: a study may have thousands."""

    def rows(
        columns: list[str] | None, condition: pl.Expr | None, limit: int | None, _: int | None
    ) -> Iterator[pl.DataFrame]:
        found = _rows(name, runs)
        found = found if condition is None else found.filter(condition)
        found = found if columns is None else found.select(columns)
        yield (found if limit is None else found.head(limit)).collect()

    return register_io_source(rows, schema={**IDENTITY, **TABLES[name]}, is_pure=True)


def _rows(name: str, runs: Sequence[tuple[Path, Manifest]]) -> pl.LazyFrame:
    """The rows of all files, those of an older version brought up to date. Files alike are one scan."""
    whose: list[dict[str, Any]] = []
    alike: dict[_Form, list[Path]] = {}
    for folder, manifest in runs:
        path = folder / f"{name}.parquet"
        if MODE_TABLES.get(name, manifest.mode) == manifest.mode and (form := _form(path, manifest)) is not None:
            whose.append({_FILE: str(path), **identity(manifest)})
            alike.setdefault(form, []).append(path)
    known = pl.LazyFrame(whose, schema={_FILE: pl.String, **IDENTITY})
    empty = pl.LazyFrame(schema={**IDENTITY, **TABLES[name]})
    return pl.concat([empty, *(_scan(name, form, paths, known) for form, paths in alike.items())])


class _Form(NamedTuple):
    """Facts that files have to share to be read in one scan."""

    version: str
    workload: str
    columns: str


def _form(path: Path, manifest: Manifest) -> _Form | None:
    """A file's form as its metadata say; None where a run may be without the file."""
    try:
        metadata = pl.read_parquet_metadata(path)
    except (OSError, PolarsError) as error:
        if _may_lack(path.stem, manifest) and not path.exists():
            return None
        raise damaged(path, str(error)) from error
    version = str(metadata.get(VERSION_KEY))
    right_version(path, version)
    return _Form(version, manifest.workload, metadata.get("ARROW:schema", str(path)))


def _may_lack(table: str, manifest: Manifest) -> bool:
    of_another = WORKLOAD_TABLES.get(table, manifest.workload) != manifest.workload
    older = manifest.schema_version < SCHEMA_VERSION and table in LATER_TABLES
    return manifest.outcome == "failed" or of_another or older


def _scan(name: str, form: _Form, paths: list[Path], whose: pl.LazyFrame) -> pl.LazyFrame:
    rows = pl.scan_parquet(paths, glob=False, include_file_paths=_FILE)
    if form.version != str(SCHEMA_VERSION):
        rows = upgraded(name, rows, form.workload)
    joined = rows.join(whose, on=_FILE, how="left", maintain_order="left")
    return joined.select(*IDENTITY, *TABLES[name].names())
