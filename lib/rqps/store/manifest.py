"""The folder of a study with its card, and the manifest of each run, written last: without it, no run happened."""

import json
import os
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rqps.errors import RqpsError
from rqps.study import Mode

CARD = "study.json"
MANIFEST = "manifest.json"
SET_ASIDE = ".until-"
"""In the name of a study's folder that was set aside, before the time; no study's name has a dot."""
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
    """Placements by number of clients, where steps with another number were placed otherwise."""
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
    """Each dbms has so many; with a budget 1, and others where they decide something."""
    budget_s: int | None = None
    looks: int = 1
    """Numbers of rounds at which the verdicts may have been looked at, to go on where they were undecided: these
    share the chance of a false call."""
    parameters: dict[str, Any]
    absent: dict[str, str] = Field(default_factory=dict)
    """Reasons by dbms, where a version lacks what its config asks for: those of `dbms` that have no runs."""


def read_manifest(folder: Path) -> Manifest:
    path = folder / MANIFEST
    try:
        facts = json.loads(path.read_bytes())
        right_version(path, facts["schema_version"])  # one of another version may have other keys
        return Manifest.model_validate(facts)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise damaged(path, str(error)) from error


def read_study_card(folder: Path) -> StudyCard:
    path = folder / CARD
    try:
        return StudyCard.model_validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        raise damaged(path, str(error)) from error


def right_version(path: Path, version: object) -> None:
    if str(version) not in map(str, range(1, SCHEMA_VERSION + 1)):
        raise RqpsError(
            f"{path}: schema version {version}, and this rqps reads 1 to {SCHEMA_VERSION}",
            fix="read it with the rqps that wrote it (the manifest says which), or measure it again",
        )


def damaged(path: Path, why: str) -> RqpsError:
    return RqpsError(
        f"{path}: can't be read: {why}",
        fix=f"move {path.parent} away and run the study again: only what is missing is measured",
    )


def study_folder(study: str, data: str | Path | None = None) -> Path:
    """The folder of a study: of what was measured here, or else of the committed sample."""
    root = data_folder(data)
    for kind in ("raw", "sample"):
        folder = root / kind / f"study={study}"
        if (folder / CARD).is_file():
            return folder
    there = studies(root)
    raise RqpsError(
        f"{root}: there is no study {study!r}",
        fix=f"give one of: {', '.join(there)}" if there else f"measure it: rqps run {study}",
    )


def studies(root: Path) -> tuple[str, ...]:
    """The names of the studies below a data folder, without those that were set aside as `study=S.until-…`."""
    cards = (*root.glob(f"raw/study=*/{CARD}"), *root.glob(f"sample/study=*/{CARD}"))
    names = {card.parent.name.removeprefix("study=") for card in cards}
    return tuple(sorted(name for name in names if SET_ASIDE not in name))


def data_folder(data: str | Path | None = None) -> Path:
    """The `data` folder: the one given, $RQPS_DATA, or the nearest above the working directory."""
    named = data or os.environ.get("RQPS_DATA")
    if named:
        if not Path(named).is_dir():
            raise RqpsError(
                f"{named}: there is no such data folder", fix="give the folder that has raw/ in it, or make it"
            )
        return Path(named)
    for above in (Path.cwd(), *Path.cwd().parents):
        if any((above / "data" / kind).is_dir() for kind in ("raw", "sample")):
            return above / "data"
    raise RqpsError(
        f"{Path.cwd()}: no data folder here or above",
        fix="work inside the checkout, or set RQPS_DATA to the folder with raw/ and sample/ in it",
    )


def finished_runs(folder: Path, failed: str = "") -> tuple[Path, ...]:
    """The folders of a study's runs that have a manifest, in the order of their names; or those below `failed`."""
    found = (path.parent for form in ("run=*", "run=*/*") for path in (folder / failed).glob(f"{form}/{MANIFEST}"))
    return tuple(sorted(found))


def leaves(facts: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """The values of nested mappings, each with its path.

    >>> dict(leaves({"cpu": {"model": "x"}, "cpus": 2}))
    {'cpu.model': 'x', 'cpus': 2}
    """
    for name, value in facts.items():
        if isinstance(value, Mapping):
            yield from leaves(value, f"{above}{name}.")
        else:
            yield above + name, value
