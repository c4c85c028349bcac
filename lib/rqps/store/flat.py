"""Manifests as frames: one row per run, per condition, per warning."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from rqps.store.manifest import Manifest

IDENTITY: dict[str, pl.DataType] = {
    "study": pl.String(),
    "run": pl.String(),
    "host": pl.String(),
    "dbms": pl.String(),
    "build": pl.String(),
    "config": pl.String(),
    "round": pl.Int32(),
}

_RUN: dict[str, pl.DataType] = {
    "mode": pl.String(),
    "position": pl.Int32(),
    "seed": pl.Int64(),
    "workload": pl.String(),
    "identity": pl.String(),
    "version": pl.String(),
    "version_comment": pl.String(),
    "build_source": pl.String(),
    "build_digest": pl.String(),
    "rqps_version": pl.String(),
    "git_revision": pl.String(),
    "started_at": pl.Datetime("ms", "UTC"),
    "ended_at": pl.Datetime("ms", "UTC"),
    "elapsed_s": pl.Float64(),
    "measured_s": pl.Float64(),
    "outcome": pl.String(),
    "error": pl.String(),
}

_RUNS = {
    **IDENTITY,
    **_RUN,
    "placement": pl.String(),
    "parameters": pl.String(),  # as JSON with sorted keys, so that equal ones are equal
    "folder": pl.String(),
}
_FACT = {"kind": pl.String(), "name": pl.String(), "value": pl.String()}
_WARNINGS = {**IDENTITY, "kind": pl.String(), "step": pl.String(), "text": pl.String()}


def identity(manifest: Manifest) -> dict[str, Any]:
    """The columns that name the run of a row."""
    return {name: getattr(manifest, name) for name in IDENTITY}


def runs_frame(runs: Sequence[tuple[Path, Manifest]]) -> pl.DataFrame:
    """One row per run, with its folder."""
    rows = [
        {
            **identity(manifest),
            **{name: getattr(manifest, name) for name in _RUN},
            "placement": manifest.placement.kind,
            "parameters": json.dumps(manifest.parameters, sort_keys=True),
            "folder": str(folder),
        }
        for folder, manifest in runs
    ]
    return pl.DataFrame(rows, schema=_RUNS).sort("host", "position", "run")


def conditions_frame(manifests: Sequence[Manifest]) -> pl.DataFrame:
    """One row per run and fact; a nested fact has its path as its name: `cpu.model`."""
    numbers: list[int] = []
    kinds: list[str] = []
    names: list[str] = []
    values: list[str | None] = []
    for number, manifest in enumerate(manifests):
        for kind, facts in (
            ("option", manifest.options),
            ("parameter", manifest.parameters),
            ("placement", manifest.placement.model_dump() | _by_clients(manifest)),
            ("machine", manifest.machine),
            ("tool", {"rqps": manifest.rqps_version, "revision": manifest.git_revision, **manifest.tools}),
        ):
            _add_leaves(facts, "", names, values)
            kinds += [kind] * (len(names) - len(kinds))
        numbers += [number] * (len(names) - len(numbers))
    whose = pl.DataFrame([identity(manifest) for manifest in manifests], schema=IDENTITY)
    facts_of = pl.DataFrame([kinds, names, values], schema=_FACT)
    return pl.concat([whose[numbers], facts_of], how="horizontal")


def warnings_frame(manifests: Sequence[Manifest]) -> pl.DataFrame:
    """One row per warning of a run."""
    rows = [{**identity(manifest), **warning.model_dump()} for manifest in manifests for warning in manifest.warnings]
    return pl.DataFrame(rows, schema=_WARNINGS)


def _by_clients(manifest: Manifest) -> dict[str, Any]:
    words = {number: f"with {number} client{'' if number == 1 else 's'}" for number in manifest.placements}
    return {words[number]: placed.model_dump() for number, placed in manifest.placements.items()}


def _add_leaves(facts: Mapping[str, Any], above: str, names: list[str], values: list[str | None]) -> None:
    """Collected as columns, since a big study has tens of thousands of facts."""
    for name, value in facts.items():
        if isinstance(value, Mapping):
            _add_leaves(value, f"{above}{name}.", names, values)
            continue
        names.append(f"{above}{name}")
        if isinstance(value, list | tuple):
            values.append(", ".join(map(str, value)))
        else:
            values.append(None if value is None else str(value))
