"""Reading a study: plain polars frames, each with the columns in front that say which run a row is from."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
from polars.exceptions import PolarsError
from pydantic import ValidationError

from rqps.errors import RqpsError
from rqps.modes import Mode
from rqps.store.find import CARD, MANIFEST, failed_runs, finished_runs, study_folder
from rqps.store.flat import IDENTITY, conditions_frame, identity, runs_frame, warnings_frame
from rqps.store.manifest import Manifest, StudyCard
from rqps.store.schemas import MODE_TABLES, SCHEMA_VERSION, TABLES
from rqps.store.write import VERSION_KEY


@dataclass(frozen=True)
class Study:
    """What a study's runs of one mode measured. Small frames are read; the big ones are lazy: `.collect()` them."""

    card: StudyCard
    folder: Path
    runs: pl.DataFrame
    """One row a finished run."""
    failed: pl.DataFrame
    """One row a try that failed, with its error."""
    conditions: pl.DataFrame
    """What each run ran under, one row a fact: options, parameters, placement, machine, tools."""
    warnings: pl.DataFrame
    """What the runs themselves noticed."""
    steps: pl.DataFrame
    intervals: pl.LazyFrame
    latencies: pl.LazyFrame
    counters: pl.LazyFrame
    status: pl.LazyFrame
    settings: pl.LazyFrame
    stacks: pl.LazyFrame
    """Sampled call stacks; only of runs of that mode."""
    instructions: pl.LazyFrame
    """Instructions by call stack; only of runs of that mode."""


def load(study: str, data: str | Path | None = None, mode: Mode | None = "throughput") -> Study:
    """Read a study: from `data` (or $RQPS_DATA, or the nearest data folder), raw/ first, then sample/.

    Runs that were looked into more closely (`stacks`, `instructions`) are read by themselves, since they were slower;
    None reads all, to list them.
    """
    folder = study_folder(study, data)
    return _study(read_study_card(folder), folder, finished_runs(folder), failed_runs(folder), mode)


def load_run(folder: str | Path) -> Study:
    """Read the folder of one run as a study of that run alone; for one that failed too."""
    folder = Path(folder)
    above = next((path for path in folder.parents if (path / CARD).is_file()), folder.parent)
    card = read_study_card(above).model_copy(update={"dbms": (read_manifest(folder).dbms,), "rounds": 1})
    return _study(card, above, (folder,), (), None)


def read_manifest(folder: Path) -> Manifest:
    """Read a run's manifest."""
    path = folder / MANIFEST
    _right_version(path, _json(path).get("schema_version"))
    try:
        return Manifest.model_validate_json(path.read_bytes())
    except ValidationError as error:
        raise _damaged(path, str(error)) from error


def read_study_card(folder: Path) -> StudyCard:
    """Read what a study asks."""
    path = folder / CARD
    try:
        return StudyCard.model_validate(_json(path))
    except ValidationError as error:
        raise _damaged(path, str(error)) from error


def _study(card: StudyCard, folder: Path, runs: Sequence[Path], failed: Sequence[Path], mode: Mode | None) -> Study:
    ok = [(path, manifest) for path in runs if mode in (None, (manifest := read_manifest(path)).mode)]
    return Study(
        card=card,
        folder=folder,
        runs=runs_frame(ok),
        failed=runs_frame([(path, read_manifest(path)) for path in failed]),
        conditions=conditions_frame([manifest for _, manifest in ok]),
        warnings=warnings_frame([manifest for _, manifest in ok]),
        steps=_table("steps", ok).collect(),
        intervals=_table("intervals", ok),
        latencies=_table("latencies", ok),
        counters=_table("counters", ok),
        status=_table("status", ok),
        settings=_table("settings", ok),
        stacks=_table("stacks", ok),
        instructions=_table("instructions", ok),
    )


def _table(name: str, runs: Sequence[tuple[Path, Manifest]]) -> pl.LazyFrame:
    empty = pl.LazyFrame(schema={**IDENTITY, **TABLES[name]})
    having = [(path, manifest) for path, manifest in runs if MODE_TABLES.get(name, manifest.mode) == manifest.mode]
    return pl.concat([empty, *(_scan(folder / f"{name}.parquet", manifest) for folder, manifest in having)])


def _scan(path: Path, manifest: Manifest) -> pl.LazyFrame:
    try:
        version = pl.read_parquet_metadata(path).get(VERSION_KEY)
    except (OSError, PolarsError) as error:
        if manifest.outcome == "failed" and not path.exists():
            return pl.LazyFrame(schema={**IDENTITY, **TABLES[path.stem]})
        raise _damaged(path, str(error)) from error
    _right_version(path, version)
    whose = [pl.lit(value, IDENTITY[name]).alias(name) for name, value in identity(manifest).items()]
    return pl.scan_parquet(path).select(*whose, pl.all())


def _right_version(path: Path, version: object) -> None:
    if str(version) != str(SCHEMA_VERSION):
        raise RqpsError(
            f"{path}: schema version {version}, and this rqps reads {SCHEMA_VERSION}",
            fix="read it with the rqps that wrote it (the manifest says which), or measure it again",
        )


def _json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise _damaged(path, str(error)) from error
    if not isinstance(found, dict):
        raise _damaged(path, "not a JSON object")
    return found


def _damaged(path: Path, why: str) -> RqpsError:
    return RqpsError(
        f"{path}: can't be read: {why}",
        fix=f"move {path.parent} away and run the study again: only what is missing is measured",
    )
