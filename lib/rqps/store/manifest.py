"""The folder of a study with its card, and the manifest of each run, written last: without it, no run happened."""

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from stat import S_ISREG
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, model_validator

from rqps.engines.cache import sha256
from rqps.errors import RqpsError, instead
from rqps.study import SMALLEST_EFFECT, Asks, Mode, PlacementKind

CARD = "study.json"
MANIFEST = "manifest.json"
ASKED = "asked.json"
"""The file beside a manifest with everything that was requested."""
PACKED_RUNS = "runs.parquet"
"""The file of a packed study with all its manifests, written last."""
LEVELS = "levels.yaml"
"""The file beside a study's runs that describes the studies of its parts."""
SET_ASIDE = ".until-"
"""Stands before the time in the name of a study's folder that was set aside; no study's name has a dot."""
SCHEMA_VERSION = 5
READABLE = ("2", "3", "4", "5")
"""Versions 1 (before any release) knew only a step's name and threads. In version 2 only the run's id named the
side of a duet; until version 3 a manifest named no engine, until version 4 no occasion."""
ENGINE_OF = {"db-bench": "rocksdb"}
"""The engines of older manifests, which named none, by workload; all other workloads were MySQL's."""
SEAL = "digest_of_this"
MOST_BYTES = 1_000_000
"""A usual manifest or card has about ten thousand."""
LONGEST_REASON = 500
"""Characters of the reason why a file can't be read."""


class _Frozen(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Sealed(_Frozen):
    """Facts in a file with a digest of themselves, so that any change is detected."""

    digest_of_this: str | None = None
    """None in files from before the digest was introduced."""


class Warning_(_Frozen):
    """A fact that the reader of a number has to know. Warnings travel with the number."""

    kind: str
    """A short name to group by: `steal`, `placement`, `plan`, `load`, `errors`."""
    text: str
    step: str | None = None


class Placement(_Frozen):
    """CPUs that the server, the load generator and the observer were pinned to."""

    kind: PlacementKind | Literal["by-clients", "not known"]
    server_cpus: tuple[int, ...]
    client_cpus: tuple[int, ...]
    observer_cpus: tuple[int, ...]


class File(_Frozen):
    """A file beside the manifest: its size, time of change and digest when the manifest was written."""

    size_bytes: int
    modified_ns: int
    sha256: str


class Imported(_Frozen):
    """The source of a run that was measured by somebody else, and imported."""

    source: str
    """The folder or file, as it was named."""
    files: int
    digest: str
    """sha256 of the digests of all its files."""


class Manifest(_Sealed):
    schema_version: int = SCHEMA_VERSION
    study: str
    run: str
    unit: str
    """The id of everything that was up together."""
    side: str | None
    """The name of this side of a duet; None for a dbms that was measured alone."""
    twin: bool
    """True for the base's second copy in a duet."""
    host: str
    dbms: str
    engine: str
    build: str
    config: str
    mode: Mode = "throughput"
    occasion: int
    """The number of the occasion on which it was measured, from 1."""
    round: int
    position: int
    """The place of this run in the study's random order, from 0."""
    seed: int
    workload: str
    identity: str
    """Digest of everything that was requested: options, build, workload, parameters, placement."""
    version: str
    version_comment: str
    build_source: str
    build_digest: str
    compiled: dict[str, str] = Field(default_factory=dict)
    """Facts about the compilation of the program, read from its file; empty in older manifests."""
    options: dict[str, str]
    """Options of the config, as they were translated for this version."""
    parameters: dict[str, Any]
    placement: Placement
    placements: dict[int, Placement] = Field(default_factory=dict)
    """Placements by number of clients, if steps with other numbers were placed differently."""
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
    files: dict[str, File] = Field(default_factory=dict)
    """The tables and the request, by file name; empty in manifests from before digests were stored."""
    imported: Imported | None = None

    @model_validator(mode="before")
    @classmethod
    def _up_to_date(cls, facts: Any) -> Any:
        """Brings the facts of an older manifest up to date: the only place that knows older formats."""
        if not isinstance(facts, dict) or facts.get("schema_version") not in (2, 3, 4):
            return facts
        older: dict[str, Any] = {"schema_version": SCHEMA_VERSION}
        if facts["schema_version"] < 4:
            older["engine"] = ENGINE_OF.get(str(facts.get("workload")), "mysql")
        if facts["schema_version"] == 2:
            unit, _, side = str(facts.get("run")).partition("/")
            older |= {"unit": unit, "side": side or None, "twin": bool(side) and side != facts.get("dbms")}
        return {"occasion": 1, **facts, **older}


class WhatIf(_Frozen):
    """The change that a study tries on a dbms of another one."""

    study: str
    change: str
    """In words: `buffer_size = 64M`."""


class BuildVersion(_Frozen):
    """A build as it was at its place on a host when it was first measured; rebuilt there, it is the next version."""

    build: str
    """Its name in runs.yaml."""
    number: int
    name: str
    """The build of its runs: `mine`, and `mine@2` of the second version."""
    host: str
    program: str
    digest: str
    """sha256 of the program."""
    since: datetime
    revision: str | None = None
    """The commit of its source tree, with a + where files have been changed since; None where it is in none."""
    note: str = ""
    """The remark of whoever built it."""


class StudyCard(_Sealed):
    """`study.json` beside a study's runs: its question and settings, so that the data needs no runs.yaml."""

    study: str = Field(pattern=r"^[^/.][^/]*$")
    """Its folder is named after it."""
    question: str
    asks: Asks | None = None
    """The kind of the question; None where it follows from the dbms."""
    imported: bool = False
    """True for results that somebody else measured."""
    workload: str
    base: str
    dbms: tuple[str, ...]
    rounds: int | None
    """Rounds of each dbms; None with a budget, which adds rounds as long as they decide something."""
    budget_s: int | None = None
    occasions: int = 1
    """The number of occasions that are planned, each with these rounds or this budget."""
    looks: int = 1
    """The number of interim analyses that may stop the study early: they share the chance of a false call."""
    smallest_effect: float = SMALLEST_EFFECT
    """The smallest effect that matters, as a share. A change that is certainly smaller gets the verdict `same`."""
    parameters: dict[str, Any]
    what_if: WhatIf | None = None
    builds: tuple[BuildVersion, ...] = ()
    """The versions of builds that may be rebuilt at their place, those of a build in their order."""
    absent: dict[str, str] = Field(default_factory=dict)
    """Reasons by dbms, for versions that lack a feature that their config requests. These dbms have no runs."""


Sealed = TypeVar("Sealed", bound=_Sealed)


def read_manifest(folder: Path) -> Manifest:
    return _unsealed(folder / MANIFEST, Manifest)


def read_study_card(folder: Path) -> StudyCard:
    return _unsealed(folder / CARD, StudyCard)


def sealed(facts: _Sealed) -> str:
    """The text of a manifest or card, with its digest."""
    plain = json.loads(facts.model_dump_json())
    return json.dumps({**plain, SEAL: _digest(plain)}, indent=2, ensure_ascii=False) + "\n"


def _unsealed(path: Path, kind: type[Sealed]) -> Sealed:
    try:
        now = path.stat()
        if not S_ISREG(now.st_mode):  # a pipe would be waited for
            raise ValueError("it is not a regular file")
        facts: Sealed = _read(path, kind, (now.st_ino, now.st_size, now.st_ctime_ns))
        return facts
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise damaged(path, str(error)) from error


@lru_cache(maxsize=5000)  # a page reads the manifests of a study several times
def _read(path: Path, kind: type[Sealed], _as_it_is: tuple[int, ...]) -> Sealed:
    with path.open("rb") as file:
        if len(text := file.read(MOST_BYTES + 1)) > MOST_BYTES:
            raise ValueError(f"it has more than {MOST_BYTES:,} bytes")
    facts = dict(json.loads(text))
    if kind is Manifest:
        right_version(path, facts["schema_version"])  # another version may have other keys
    if facts.get(SEAL, digest := _digest(facts)) != digest:
        raise ValueError("it was changed after it was written")
    return kind.model_validate(facts)


def _digest(facts: Mapping[str, Any]) -> str:
    others = {name: value for name, value in facts.items() if name != SEAL}
    return hashlib.sha256(json.dumps(others, sort_keys=True).encode()).hexdigest()


def right_version(path: Path | str, version: object) -> None:
    if str(version) not in READABLE:
        raise RqpsError(
            f"{path}: schema version {version}, and this rqps reads {' and '.join(READABLE)}",
            fix="update rqps to the one that wrote it, which the manifests name, or to a later one",
        )


def damaged(path: Path, why: str) -> RqpsError:
    what = "it" if path.name == CARD else path.parent
    fix = f"put a whole copy of it there, or move {what} away and run the study again: only what is missing is made"
    return RqpsError(f"{path}: can't be read: {why[:LONGEST_REASON]}", fix=fix)


def study_folder(study: str, data: str | Path | None = None) -> Path:
    """The folder of a study: measured here, or else the committed sample."""
    root = data_folder(data)
    for kind in ("raw", "sample"):
        folder = root / kind / f"study={study}"
        if (folder / CARD).is_file():
            return folder
    names = studies(root)
    hint = f"; {instead(study, names, 'studies there')}" if names else ""
    raise RqpsError(f"{root}: there is no study {study!r}{hint}", fix=f"name one that is there, or: rqps run {study}")


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
    """The folders of a study's runs that have a manifest, sorted by name; or those below `failed`."""
    folders = (path.parent for form in ("run=*", "run=*/*") for path in (folder / failed).glob(f"{form}/{MANIFEST}"))
    return tuple(sorted(folders))


def finished(folder: Path) -> tuple[tuple[Path, Manifest], ...]:
    """The finished runs of a study. Refuses a manifest in the folder of another run: a copy would count as one
    more round."""
    runs = tuple((path, read_manifest(path)) for path in finished_runs(folder))
    studies = Counter(manifest.study for _, manifest in runs)
    for path, manifest in runs:
        own = folder / f"run={manifest.run}"
        if own != path or manifest.study != studies.most_common(1)[0][0]:
            as_well = f", which is in {own} as well" if own != path and (own / MANIFEST).is_file() else ""
            raise RqpsError(
                f"{path}: its manifest is that of run {manifest.run} of study {manifest.study}{as_well}",
                fix="move it out of the study's folder: a run counts in its own place, and once",
            )
    return runs


def check_files(runs: Iterable[tuple[Path, Manifest]], names: Iterable[str] = (), *, thorough: bool = False) -> None:
    """Refuses files that changed since they were measured. It compares sizes, and digests if the time of change
    differs, or always if `thorough`. `names` limits the check to some files."""
    chosen = set(names)
    for folder, manifest in runs:
        for name, was in manifest.files.items():
            if not chosen or name in chosen:
                _check_file(folder / name, was, thorough)


def _check_file(path: Path, was: File, thorough: bool) -> None:
    try:
        now = path.stat()
        if now.st_size != was.size_bytes:
            raise damaged(path, f"it has {now.st_size:,} bytes, and was measured with {was.size_bytes:,}")
        if (thorough or now.st_mtime_ns != was.modified_ns) and sha256(path) != was.sha256:
            raise damaged(path, "its bytes are not those that were measured")
    except OSError as error:
        raise damaged(path, str(error)) from error


def leaves(facts: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """The values of nested mappings by path.

    >>> dict(leaves({"cpu": {"model": "x"}, "cpus": 2}))
    {'cpu.model': 'x', 'cpus': 2}
    """
    for name, value in facts.items():
        if isinstance(value, dict):  # as in JSON; a check for `Mapping` takes longer
            yield from leaves(value, f"{above}{name}.")
        else:
            yield above + name, value
