"""Studies as plain polars frames; the first columns of each say which run a row is from."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
from polars.exceptions import PanicException, PolarsError
from polars.io.plugins import register_io_source

from rqps.store.manifest import (
    CARD,
    MANIFEST,
    SCHEMA_VERSION,
    Manifest,
    StudyCard,
    check_files,
    damaged,
    data_folder,
    finished,
    finished_runs,
    leaves,
    read_manifest,
    read_study_card,
    right_version,
    study_folder,
)
from rqps.store.schemas import IDENTITY, MODE_TABLES, TABLES, WORKLOAD_TABLES, Columns
from rqps.store.upgrade import LATER_TABLES, upgraded
from rqps.store.write import VERSION_KEY
from rqps.study import Mode

_FILE = "file"
_RUN: Columns = {
    "mode": pl.String,
    "position": pl.Int32,
    "seed": pl.Int64,
    **dict.fromkeys(("workload", "identity", "version", "version_comment"), pl.String),
    **dict.fromkeys(("build_source", "build_digest", "rqps_version", "git_revision"), pl.String),
    **dict.fromkeys(("started_at", "ended_at"), pl.Datetime("ms", "UTC")),
    "elapsed_s": pl.Float64,
    "measured_s": pl.Float64,
    "outcome": pl.String,
    "error": pl.String,
}
"""Columns of `runs` that are fields of the manifest."""
_RUNS = {
    **IDENTITY,
    **_RUN,
    "placement": pl.String,
    "parameters": pl.String,  # as JSON with sorted keys, so that equal ones are equal
    "folder": pl.String,
}
_CONDITIONS = {**IDENTITY, **dict.fromkeys(("kind", "name", "value"), pl.String)}
_WARNINGS = {**IDENTITY, "kind": pl.String, "step": pl.String, "text": pl.String}
_Runs = Sequence[tuple[Path, Manifest]]


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
    slices: pl.LazyFrame
    """The slices of a duet's servers; only of duets."""
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

    Duets of the base with itself (`health`) are read by themselves, and so are runs that were looked into more
    closely (`stacks`, `instructions`), since they were slower; None reads all, to list them.
    """
    folder = study_folder(study, data)
    runs = [(path, manifest) for path, manifest in finished(folder) if mode in (None, manifest.mode)]
    return _study(read_study_card(folder), folder, runs, finished_runs(folder, "failed"))


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
    members = tuple(sorted(path.parent for path in (*folder.glob(MANIFEST), *folder.glob(f"*/{MANIFEST}"))))
    runs = [(each, read_manifest(each)) for each in members]
    dbms = tuple(dict.fromkeys(manifest.dbms for _, manifest in runs))
    card = read_study_card(above).model_copy(update={"dbms": dbms, "rounds": 1})
    return _study(card, above, runs, ())


def _study(card: StudyCard, folder: Path, runs: _Runs, failed: Sequence[Path]) -> Study:
    return Study(
        card=card,
        folder=folder,
        runs=_runs_frame(runs),
        failed=_runs_frame([(path, read_manifest(path)) for path in failed]),
        conditions=_conditions_frame([manifest for _, manifest in runs]),
        warnings=_warnings_frame([manifest for _, manifest in runs]),
        steps=_collected("steps", runs, _rows("steps", runs)),
        **{name: _table(name, runs) for name in TABLES if name != "steps"},
    )


def _table(name: str, runs: _Runs) -> pl.LazyFrame:
    """The files of all runs as one frame. Each is opened only when rows are asked for: a study may have thousands."""

    def rows(
        columns: list[str] | None, condition: pl.Expr | None, limit: int | None, _: int | None
    ) -> Iterator[pl.DataFrame]:
        found = _rows(name, runs)
        found = found if condition is None else found.filter(condition)
        found = found if columns is None else found.select(columns)
        yield _collected(name, runs, found if limit is None else found.head(limit))

    return register_io_source(rows, schema={**IDENTITY, **TABLES[name]}, is_pure=True)


def _collected(name: str, runs: _Runs, rows: pl.LazyFrame) -> pl.DataFrame:
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


def _rows(name: str, runs: _Runs) -> pl.LazyFrame:
    """The rows of all files, those of an older version brought up to date. Files alike are one scan."""
    whose: list[dict[str, Any]] = []
    alike: dict[tuple[str, str, str], list[Path]] = {}
    for folder, manifest in runs:
        path = folder / f"{name}.parquet"
        if MODE_TABLES.get(name, manifest.mode) != manifest.mode or (metadata := _metadata(path, manifest)) is None:
            continue
        whose.append({_FILE: str(path), **_identity(manifest)})
        form = str(metadata.get(VERSION_KEY)), manifest.workload, metadata.get("ARROW:schema", str(path))
        alike.setdefault(form, []).append(path)
    known = pl.LazyFrame(whose, schema={_FILE: pl.String, **IDENTITY})
    found = [pl.LazyFrame(schema={**IDENTITY, **TABLES[name]})]
    for (version, workload, _), paths in alike.items():
        rows = pl.scan_parquet(paths, glob=False, include_file_paths=_FILE)
        if version != str(SCHEMA_VERSION):
            rows = upgraded(name, rows, workload)
        joined = rows.join(known, on=_FILE, how="left", maintain_order="left")
        found.append(joined.select(*IDENTITY, *TABLES[name].names()))
    return pl.concat(found)


def _metadata(path: Path, manifest: Manifest) -> Mapping[str, str] | None:
    """The metadata of a run's table; None where the run may be without its file."""
    if manifest.files and path.name not in manifest.files:
        return None
    check_files([(path.parent, manifest)], [path.name])
    try:
        metadata = pl.read_parquet_metadata(path)
    except (OSError, PolarsError) as error:
        of_another = WORKLOAD_TABLES.get(path.stem, manifest.workload) != manifest.workload
        no_duet = path.stem == "slices" and "/" not in manifest.run
        older = manifest.schema_version < SCHEMA_VERSION and path.stem in LATER_TABLES
        if (manifest.outcome == "failed" or of_another or no_duet or older) and not path.exists():
            return None
        raise damaged(path, str(error)) from error
    right_version(path, str(metadata.get(VERSION_KEY)))
    return metadata


def _identity(manifest: Manifest) -> dict[str, Any]:
    return {name: getattr(manifest, name) for name in IDENTITY}


def _runs_frame(runs: _Runs) -> pl.DataFrame:
    rows = [
        {
            **{name: getattr(manifest, name) for name in (*IDENTITY, *_RUN)},
            "placement": manifest.placement.kind,
            "parameters": json.dumps(manifest.parameters, sort_keys=True),
            "folder": str(folder),
        }
        for folder, manifest in runs
    ]
    return pl.DataFrame(rows, schema=_RUNS).sort("host", "position", "run")


def _conditions_frame(manifests: Sequence[Manifest]) -> pl.DataFrame:
    """One row per run and fact; a nested fact has its path as its name: `cpu.model`."""
    rows = [
        (*_identity(manifest).values(), kind, name, _text(value))
        for manifest in manifests
        for kind, facts in _facts(manifest).items()
        for name, value in leaves(facts)
    ]
    return pl.DataFrame(rows, schema=_CONDITIONS, orient="row")


def _facts(manifest: Manifest) -> dict[str, dict[str, Any]]:
    by_clients = {
        f"with {number} client{'' if number == 1 else 's'}": placed.model_dump()
        for number, placed in manifest.placements.items()
    }
    return {
        "option": manifest.options,
        "parameter": manifest.parameters,
        "placement": manifest.placement.model_dump() | by_clients,
        "machine": manifest.machine,
        "tool": {"rqps": manifest.rqps_version, "revision": manifest.git_revision, **manifest.tools},
    }


def _text(value: Any) -> str | None:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return None if value is None else str(value)


def _warnings_frame(manifests: Sequence[Manifest]) -> pl.DataFrame:
    rows = [
        {**_identity(manifest), **warning.model_dump()} for manifest in manifests for warning in manifest.warnings
    ]
    return pl.DataFrame(rows, schema=_WARNINGS)
