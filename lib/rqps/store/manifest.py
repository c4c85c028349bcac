"""The manifest of a run, written last: a folder without one did not happen. And the card of a study."""

import json
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rqps.errors import RqpsError
from rqps.store.find import CARD, MANIFEST
from rqps.study import Mode

SCHEMA_VERSION = 2
"""Version 1 had of a step its name and threads only; upgrade.py reads it."""


class _Frozen(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Warning_(_Frozen):
    """A fact that a reader of the number has to know. Warnings travel with the number."""

    kind: str
    """A short name to group by: `steal`, `placement`, `plan`, `load`, `errors`."""
    text: str
    step: str | None = None


class Placement(_Frozen):
    """CPUs that the server, the load generator and the observer were pinned to."""

    kind: Literal["same-cpu", "split", "free", "by-clients"]
    server_cpus: tuple[int, ...]
    client_cpus: tuple[int, ...]
    observer_cpus: tuple[int, ...]


class Manifest(_Frozen):
    schema_version: int = SCHEMA_VERSION
    study: str
    run: str
    host: str
    dbms: str
    build: str
    config: str
    mode: Mode = "throughput"
    round: int
    position: int
    """The place of this run in the study's random order, from 0."""
    seed: int
    workload: str
    identity: str
    """Digest of all that was asked for: dbms options, build, workload, parameters, placement."""
    version: str
    version_comment: str
    build_source: str
    build_digest: str
    options: dict[str, str]
    """Options of the config, as they were translated for this version."""
    parameters: dict[str, Any]
    placement: Placement
    placements: dict[int, Placement] = Field(default_factory=dict)
    """By number of clients, where steps with another number were placed otherwise."""
    rqps_version: str
    git_revision: str | None
    tools: dict[str, str]
    """Versions of the programs at work: sysbench, python, polars, kernel."""
    machine: dict[str, Any]
    started_at: datetime
    ended_at: datetime
    elapsed_s: float
    measured_s: float
    """Seconds in measured steps and their warm-up."""
    outcome: Literal["ok", "failed"]
    error: str | None = None
    warnings: tuple[Warning_, ...] = Field(default=())


class StudyCard(_Frozen):
    """`study.json` beside a study's runs: its question, so that the data needs no runs.yaml."""

    study: str
    question: str
    workload: str
    base: str
    dbms: tuple[str, ...]
    rounds: int
    parameters: dict[str, Any]
    absent: dict[str, str] = Field(default_factory=dict)
    """Reasons by dbms, where a version lacks what its config asks for: those of `dbms` that have no runs."""


def read_manifest(folder: Path) -> Manifest:
    """Read a run's manifest."""
    path = folder / MANIFEST
    try:
        manifest = Manifest.model_validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        right_version(path, _json(path).get("schema_version"))  # one of another version may have other keys
        raise damaged(path, str(error)) from error
    right_version(path, manifest.schema_version)
    return manifest


def read_study_card(folder: Path) -> StudyCard:
    """Read the card of a study: its question, base and dbms."""
    path = folder / CARD
    try:
        return StudyCard.model_validate(_json(path))
    except ValidationError as error:
        raise damaged(path, str(error)) from error


def right_version(path: Path, version: object) -> None:
    if str(version) not in map(str, range(1, SCHEMA_VERSION + 1)):
        raise RqpsError(
            f"{path}: schema version {version}, and this rqps reads 1 to {SCHEMA_VERSION}",
            fix="read it with the rqps that wrote it (the manifest says which), or measure it again",
        )


def _json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise damaged(path, str(error)) from error
    if not isinstance(found, dict):
        raise damaged(path, "not a JSON object")
    return found


def damaged(path: Path, why: str) -> RqpsError:
    return RqpsError(
        f"{path}: can't be read: {why}",
        fix=f"move {path.parent} away and run the study again: only what is missing is measured",
    )
