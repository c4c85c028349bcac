"""The card of a study (study.json: its question and settings) and the manifest of each run (manifest.json).

A manifest is written last: a run without one does not count.
"""

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
from rqps.store.older import facts_up_to_date
from rqps.study import SMALLEST_EFFECT, Asks, Mode, PlacementKind

CARD = "study.json"
MANIFEST = "manifest.json"
ASKED = "asked.json"
"""Name of the file beside a manifest with everything that was requested of the run."""
PACKED_RUNS = "runs.parquet"
"""Name of the file of a packed study with the manifests of all runs; it is written last."""
LEVELS = "levels.yaml"
"""Name of the file beside a study's runs that defines its levels: further studies, which measure parts of a scenario
one by one."""
SET_ASIDE = ".until-"
"""Separates study and time in the name of a folder that was set aside. No study's name has a dot, so no study is
mistaken for such a folder."""
SCHEMA_VERSION = 7
READABLE = ("2", "3", "4", "5", "6", "7")
"""Schema versions that can be read. Version 1, before any release, stored only a step's name and threads. In version
2, only the run's id tells which server of a duet a manifest describes. Manifests have the engine from version 4 on,
the occasion from version 5 on, the layout from version 6 on. Status counters have the column `object` from
version 7 on."""
SEAL = "digest_of_this"
MOST_BYTES = 1_000_000
"""Maximum size of a manifest or card. A usual one has about ten thousand bytes."""
LONGEST_REASON = 500
"""Maximum length, in characters, of the reason why a file can't be read."""


class _Frozen(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class _Sealed(_Frozen):
    """Facts that are stored together with a digest of them, so that any change of the file is detected."""

    digest_of_this: str | None = None
    """None in files from before the digest was introduced."""


class Warning_(_Frozen):
    """A fact about a run that a reader of its numbers has to know."""

    kind: str
    """A short name by which warnings are grouped: `steal`, `placement`, `plan`, `load`, `errors`."""
    text: str
    step: str | None = None


class Placement(_Frozen):
    """CPUs that the server, the load generator and the observer were pinned to."""

    kind: PlacementKind | Literal["by-clients", "not known"]
    server_cpus: tuple[int, ...]
    client_cpus: tuple[int, ...]
    observer_cpus: tuple[int, ...]


class File(_Frozen):
    """A file beside the manifest: its size, modification time and digest when the manifest was written."""

    size_bytes: int
    modified_ns: int
    sha256: str


class Imported(_Frozen):
    """The source of a run that somebody else measured."""

    source: str
    """The path of the imported folder or file."""
    files: int
    digest: str
    """sha256 over the digests of all imported files."""


class Manifest(_Sealed):
    schema_version: int = SCHEMA_VERSION
    study: str
    run: str
    unit: str
    """The id that the runs of a duet share; for a dbms that was measured alone, the id of its run."""
    side: str | None
    """The name of this server in a duet, a dbms or the twin; None for a dbms that was measured alone."""
    twin: bool
    """True for the base's second copy in a duet."""
    host: str
    dbms: str
    engine: str
    build: str
    config: str
    mode: Mode = "throughput"
    occasion: int
    """The number of the occasion on which the run was measured, from 1."""
    round: int
    position: int
    """The place of this run in the study's random order, from 0."""
    seed: int
    workload: str
    identity: str
    """Digest of everything that was requested of the run: options, build, workload, parameters, placement."""
    version: str
    version_comment: str
    build_source: str
    build_digest: str
    layout: int | None = None
    """The number of the build's layout; None if the build was not linked again."""
    compiled: dict[str, str] = Field(default_factory=dict)
    """Facts about the compilation of the program, read from its file; empty in older manifests."""
    options: dict[str, str]
    """Options of the config, with the names and values that this version of the engine takes."""
    parameters: dict[str, Any]
    placement: Placement
    placements: dict[int, Placement] = Field(default_factory=dict)
    """Maps numbers of clients to placements, if the placement depends on the number of clients."""
    rqps_version: str
    git_revision: str | None
    tools: dict[str, str]
    """Versions of the programs that measured: sysbench, python, polars, kernel."""
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
    """Maps the name of each file beside the manifest, with a table or the request, to its size and digest; empty in
    manifests from before the digests were introduced."""
    imported: Imported | None = None

    @model_validator(mode="before")
    @classmethod
    def _up_to_date(cls, facts: Any) -> Any:
        """Converts the facts of an older manifest to the current format."""
        return facts_up_to_date(facts, SCHEMA_VERSION) if isinstance(facts, dict) else facts


class WhatIf(_Frozen):
    """The change that this study tries on a dbms of another study."""

    study: str
    change: str
    """The change in words, such as `buffer_size = 64M`."""


class BuildVersion(_Frozen):
    """One version of a build: the program that was at the build's path on a host when it was measured. A rebuild at
    this path makes the next version."""

    build: str
    """The build's name in runs.yaml."""
    number: int
    name: str
    """The name of this version in its runs: `mine` for the first, `mine@2` for the second."""
    host: str
    program: str
    digest: str
    """sha256 of the program."""
    since: datetime
    revision: str | None = None
    """The commit of the program's source tree, with a + if it had uncommitted changes; None without a source tree."""
    note: str = ""
    """A remark by the person who built it."""


class StudyCard(_Sealed):
    """The content of `study.json` beside a study's runs: the question and the settings, for readers of the data who
    have no runs.yaml."""

    study: str = Field(pattern=r"^[^/.][^/]*$")
    """The study's name, which is also part of the name of its folder."""
    question: str
    asks: Asks | None = None
    """The kind of the question; None if it is derived from the dbms."""
    imported: bool = False
    """True for results that somebody else measured."""
    workload: str
    base: str
    dbms: tuple[str, ...]
    rounds: int | None
    """Number of rounds of each dbms; None if the study has a budget, which adds rounds for undecided comparisons."""
    budget_s: int | None = None
    occasions: int = 1
    """The number of planned occasions. Each has the number of `rounds`, or the whole budget `budget_s`."""
    looks: int = 1
    """The number of times that verdicts are computed: the planned interim analyses of a study with a budget, 1 for a
    study without a budget, and 1 more for each time that rounds are added to a study that has verdicts. All these
    times share the probability of a false verdict."""
    smallest_effect: float = SMALLEST_EFFECT
    """The smallest effect that matters, as a share. A change that is certainly smaller gets the verdict `same`."""
    parameters: dict[str, Any]
    what_if: WhatIf | None = None
    builds: tuple[BuildVersion, ...] = ()
    """The versions of builds that may be rebuilt at their path; the versions of each build are in order."""
    absent: dict[str, str] = Field(default_factory=dict)
    """Maps each dbms that has no runs to the reason: its version lacks a feature that its config requests."""


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
        if not S_ISREG(now.st_mode):  # opening a pipe would block
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
            f"{path}: schema version {version}, but this rqps reads only {' and '.join(READABLE)}",
            fix="update rqps to the version that wrote this, which the manifests name, or to a later version",
        )


def damaged(path: Path, why: str) -> RqpsError:
    what = "it" if path.name == CARD else path.parent
    fix = f"put a good copy in its place, or move {what} away and run the study again: it makes only what is missing"
    return RqpsError(f"{path}: can't be read: {why[:LONGEST_REASON]}", fix=fix)


def study_folder(study: str, data: str | Path | None = None) -> Path:
    """The folder of a study: in `raw/`, if it was measured here, or else in `sample/`, which is in git."""
    root = data_folder(data)
    for kind in ("raw", "sample"):
        folder = root / kind / f"study={study}"
        if (folder / CARD).is_file():
            return folder
    names = studies(root)
    hint = f"; {instead(study, names, 'studies there')}" if names else ""
    raise RqpsError(f"{root}: there is no study {study!r}{hint}", fix=f"name one that exists, or: rqps run {study}")


def studies(root: Path) -> tuple[str, ...]:
    """The names of the studies below a data folder, without studies that were set aside as `study=S.until-…`."""
    cards = (*root.glob(f"raw/study=*/{CARD}"), *root.glob(f"sample/study=*/{CARD}"))
    names = {card.parent.name.removeprefix("study=") for card in cards}
    return tuple(sorted(name for name in names if SET_ASIDE not in name))


def data_folder(data: str | Path | None = None) -> Path:
    """The data folder: `data` if given, else $RQPS_DATA, else the nearest folder `data` in or above the working
    directory."""
    named = data or os.environ.get("RQPS_DATA")
    if named:
        if not Path(named).is_dir():
            raise RqpsError(
                f"{named}: there is no such data folder", fix="give the folder that contains raw/, or create this one"
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
    """The folders of a study's runs that have a manifest, sorted by name; if `failed` is given, only those in this
    subfolder."""
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
                f"{path}: its manifest belongs to run {manifest.run} of study {manifest.study}{as_well}",
                fix="move this folder out of the study's folder: a run counts once, in the folder with its name",
            )
    return runs


def check_files(runs: Iterable[tuple[Path, Manifest]], names: Iterable[str] = (), *, thorough: bool = False) -> None:
    """Refuses files of runs that changed since the manifest was written. A file's size is always compared with the
    manifest; its digest is compared if the modification time differs or if `thorough`. `names` limits the check
    to some files."""
    chosen = set(names)
    for folder, manifest in runs:
        for name, was in manifest.files.items():
            if not chosen or name in chosen:
                _check_file(folder / name, was, thorough)


def _check_file(path: Path, was: File, thorough: bool) -> None:
    try:
        now = path.stat()
        if now.st_size != was.size_bytes:
            raise damaged(path, f"it has {now.st_size:,} bytes, but had {was.size_bytes:,} when it was measured")
        if (thorough or now.st_mtime_ns != was.modified_ns) and sha256(path) != was.sha256:
            raise damaged(path, "its bytes are not those that were measured")
    except OSError as error:
        raise damaged(path, str(error)) from error


def leaves(facts: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Yields each value of nested mappings with its path.

    >>> dict(leaves({"cpu": {"model": "x"}, "cpus": 2}))
    {'cpu.model': 'x', 'cpus': 2}
    """
    for name, value in facts.items():
        if isinstance(value, dict):  # as in JSON; a check for `Mapping` takes longer
            yield from leaves(value, f"{above}{name}.")
        else:
            yield above + name, value
