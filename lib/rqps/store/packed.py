"""Packed studies: one parquet file per table with the rows of all runs, and one with the runs and their manifests.

These files are in a folder, below a URL that polars reads, or in one file (`releases.rqps`, a zip file of such
folders).
"""

import hashlib
import io
import re
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl
from polars.exceptions import PanicException, PolarsError
from pydantic import TypeAdapter

from rqps.engines.cache import sha256
from rqps.errors import RqpsError
from rqps.store.manifest import PACKED_RUNS, Manifest, StudyCard, right_version
from rqps.store.older import columns_up_to_date
from rqps.store.run_frames import FACT, RUNS, WARNING, in_order, of_mode, runs_frame
from rqps.store.run_tables import MANIFESTS, deferred, rows_in
from rqps.store.schemas import IDENTITY, TABLES
from rqps.store.write import VERSION_KEY
from rqps.study import Mode

SUFFIX = ".rqps"
CARD_KEY, FILES_KEY = "rqps_study", "rqps_files"
"""Keys in the metadata of `runs.parquet`: the study's card, and the size and SHA-256 of each other file."""
DIGEST = f"{PACKED_RUNS}.sha256"
"""Name of the file with the digest of `runs.parquet`, in the format of sha256sum."""
PACKED_COLUMNS = {
    **RUNS,
    "conditions": pl.List(pl.Struct(FACT)),
    "warnings": pl.List(pl.Struct(WARNING)),
    **{name: kind for name, kind in MANIFESTS.items() if name not in RUNS},
}
_RUN_FOLDER = r"^(failed/)?run=[\w.@-]+(/\w[\w.@-]*)?$"
"""A pattern of valid names for a run's folder. A packed study may come from anybody, and unpacking creates folders
with these names on this machine."""
_REFUSED = re.compile(r"\b40[13]\b|Forbidden|Access ?Denied|Permission ?denied|SignatureDoesNotMatch|Unauth", re.I)
_CREDENTIALS = (
    "see that your credentials may read it: polars takes them from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, from "
    "~/.aws, or as the store's other clients do"
)
_ROWS_AT_ONCE = 2**22  # a multiple of the rows in a row group of a packed file
MOST_NAMED = 5
_LONGEST_LIST = 1 << 20
"""Maximum size, in bytes, of a packed file's zip directory, which has the names and offsets of all files in it."""
_UNREADABLE = (PolarsError, PanicException, OSError, EOFError, zipfile.BadZipFile, RuntimeError, KeyError, ValueError)
"""Errors that a damaged file may raise. RuntimeError: a changed bit may mark a zip file as encrypted."""


@dataclass(frozen=True)
class Packed:
    """The files of a packed study."""

    place: str
    source: Callable[[str], str | Path | bytes]
    """Maps the name of a file to the path, URL or bytes from which polars reads it."""
    card: StudyCard
    files: dict[str, tuple[int, str]]
    _checked: set[str] = field(default_factory=set)

    def frames(self, mode: Mode | None) -> dict[str, Any]:
        """Maps the names of the frames of `Study` to frames with the runs of a mode; None means all modes."""
        with _reading(self.place, PACKED_RUNS):
            rows_in(source := self.source(PACKED_RUNS), len(PACKED_COLUMNS))
            rows = pl.scan_parquet(source)
            every = rows.drop("manifest", "asked").collect()
            # If an older rqps packed the study, newer columns are missing: they are computed from the manifests.
            if later := RUNS.keys() - every.columns:
                written = rows.select("folder", "manifest").collect().iter_rows()
                runs = runs_frame([(Path(name), Manifest.model_validate_json(text)) for name, text in written])
                every = every.join(runs.select("folder", *later), on="folder", how="left", maintain_order="left")
            for name in every["folder"].filter(~every["folder"].str.contains(_RUN_FOLDER)).head(1):
                raise ValueError(f"{name!r} is not the name of a folder of runs")
        failed = pl.col("outcome") == "failed"
        ok = every.filter(~failed, of_mode(mode))
        if ok["run"].is_duplicated().any():
            raise damaged(f"{self.place}/{PACKED_RUNS}", "it has a run twice, which would count as two rounds")
        metadata: dict[str, Any] = {
            "runs": in_order(ok.select(*RUNS)),
            "failed": in_order(every.filter(failed).select(*RUNS)),
            "conditions": _rows_in(ok, "conditions"),
            "warnings": _rows_in(ok, "warnings"),
            "manifests": rows.select(*MANIFESTS),
        }
        metadata |= {name: self._table(name, ok["run"], every) for name in TABLES}
        with _reading(self.place, "steps.parquet"):
            return metadata | {"steps": metadata["steps"].collect()}

    def is_there(self, name: str) -> None:
        """Refuses a table that is missing or incomplete."""
        try:
            with _reading(self.place, name):
                if (table := name.removesuffix(".parquet")) in TABLES:
                    self._height(table, self.source(name))
        except FileNotFoundError as error:
            raise damaged(f"{self.place}/{name}", str(error)) from error

    def check(self) -> None:
        """Refuses files that changed since they were packed."""
        for name in self.files:
            self._as_packed(name)

    def _as_packed(self, name: str) -> str | Path | bytes:
        """The place or the bytes from which polars reads a file of the packed study. The file's digest is checked on
        first use, except in an object store, which checks digests itself."""
        source = self.source(name)
        if name not in self._checked and not isinstance(source, str):
            digest, was = _digest(source), self.files[name][1]
            if digest != was:
                raise damaged(f"{self.place}/{name}", f"its SHA-256 is {digest}, and was {was} when it was packed")
            self._checked.add(name)
        return source

    def _height(self, table: str, source: str | Path | bytes) -> int:
        size = len(source) if isinstance(source, bytes) else self.files[f"{table}.parquet"][0]
        return rows_in(source, len(IDENTITY) + len(TABLES[table]), size)

    def _table(self, name: str, runs: pl.Series, every: pl.DataFrame) -> pl.LazyFrame:
        schema = {**IDENTITY, **TABLES[name]}
        file = f"{name}.parquet"
        if file not in self.files:
            return pl.LazyFrame(schema=schema)
        has_rows = every.filter(pl.col("tables").list.contains(name))["run"]
        # If all runs are wanted, no filter is used, since a filter of a hundred million rows takes long.
        wanted = True if has_rows.is_in(runs.implode()).all() else pl.col("run").is_in(runs.implode())

        def scanned(source: str | Path | bytes) -> pl.LazyFrame:
            return pl.scan_parquet(source, schema=schema, extra_columns="ignore", missing_columns="insert")

        newer = columns_up_to_date(name)

        def parts() -> Iterator[pl.LazyFrame]:
            with _reading(self.place, file):
                rows = scanned(source := self._as_packed(file))
                height = self._height(name, source)
            for at in range(0, height, _ROWS_AT_ONCE):
                # Of a slice, polars reads all rows; without one it leaves out those that a filter does not need.
                part = rows.slice(at, _ROWS_AT_ONCE) if height > _ROWS_AT_ONCE else rows
                yield part.with_columns(**newer)

        remote = "://" in self.place
        rows = scanned(f"{self.place}/{file}").with_columns(**newer) if remote else deferred(schema, parts)
        return rows.select(*schema).filter(wanted)


def packed_at(place: str) -> Packed | None:
    """The packed study at a path or URL, if there is one."""
    if "://" in place:
        if place.endswith(SUFFIX):
            fix = "download the file and load that, or upload the folder that `rqps pack --out FOLDER` makes"
            raise RqpsError(f"{place}: a packed file can't be read from a URL", fix=fix)
        try:
            packed = _opened(place, lambda name: f"{place}/{name}")
        except FileNotFoundError:
            return None
        with ThreadPoolExecutor() as requests:  # in parallel, since each request takes long
            list(requests.map(packed.is_there, packed.files))
        return packed
    path = Path(place)
    file = next((above for above in (path, *path.parents) if above.suffix == SUFFIX and above.is_file()), None)
    if file is not None:
        return _in_file(file, path.relative_to(file).as_posix())
    if not (path / PACKED_RUNS).is_file():
        return None
    if (written := path / DIGEST).is_file() and written.read_bytes()[:64] != _digest(path / PACKED_RUNS).encode():
        raise damaged(f"{path}/{PACKED_RUNS}", f"its SHA-256 is not the one in {DIGEST}")
    packed = _opened(place, lambda name: path / name)
    for name, (size, _) in packed.files.items():
        size_bytes = (path / name).stat().st_size if (path / name).is_file() else 0
        if size_bytes != size:
            raise damaged(f"{path / name}", f"it has {size_bytes:,} bytes, and had {size:,} when it was packed")
    return packed


def _in_file(file: Path, folder: str) -> Packed | None:
    with _reading(file.parent, file.name), file.open("rb") as archive:
        size = file.stat().st_size
        archive.seek(max(0, size - _LONGEST_LIST))
        members = zipfile.ZipFile(io.BytesIO(archive.read())).infolist()  # fails if the zip directory is too long
        if any(info.compress_type for info in members) or sum(info.file_size for info in members) > size:
            raise ValueError("its contents are compressed, which rqps pack does not do")
        paths = [Path(info.filename) for info in members]
        folders = [path.parent.as_posix() for path in paths if path.name == PACKED_RUNS]
    chosen = folders[0] if folders and folder == "." else folder
    levels = {folders[0], *(f"{folders[0]}-{number}" for number in range(1, len(folders)))} if folders else set()
    if folder == "." and levels != {*folders}:
        named = " or ".join(f"{file}/{name}" for name in folders[:MOST_NAMED])
        raise RqpsError(f"{file}: contains {len(folders)} studies", fix=f"name one of them: {named}")
    if chosen not in folders:
        return None

    def source(name: str) -> bytes:
        with _reading(file.parent, file.name), zipfile.ZipFile(file) as archive:
            return archive.read(f"{chosen}/{name}")

    return _opened(f"{file}/{chosen}", source)


def _opened(place: str, source: Callable[[str], str | Path | bytes]) -> Packed:
    with _reading(place, PACKED_RUNS):
        metadata = pl.read_parquet_metadata(source(PACKED_RUNS))
    right_version(f"{place}/{PACKED_RUNS}", metadata.get(VERSION_KEY))
    with _reading(place, PACKED_RUNS):
        files = TypeAdapter(dict[str, tuple[int, str]]).validate_json(metadata[FILES_KEY])
        if any("/" in name for name in files):
            raise ValueError("it names files outside its folder")
        return Packed(place, source, StudyCard.model_validate_json(metadata[CARD_KEY]), files)


def _digest(source: Path | bytes) -> str:
    return hashlib.sha256(source).hexdigest() if isinstance(source, bytes) else sha256(source)


def _rows_in(runs: pl.DataFrame, column: str) -> pl.DataFrame:
    """One row per element of a column of lists, with the columns that identify its run."""
    some = runs.filter(pl.col(column).list.len() > 0).select(*IDENTITY, column)
    return some.explode(column).unnest(column)


def damaged(place: str, why: str) -> RqpsError:
    reach = "see that the store can be reached and the file there is whole: AWS_ENDPOINT_URL, AWS_REGION, …"
    fix = reach if "://" in place else "copy it again from where it was packed"
    return RqpsError(f"{place}: can't be read: {why}", fix=fix)


@contextmanager
def _reading(place: str | Path, file: str) -> Iterator[None]:
    """Converts the error of an unreadable file into an RqpsError. The error of a missing file is left to the
    caller."""
    try:
        yield
    except FileNotFoundError:
        raise
    except _UNREADABLE as error:
        if "://" in str(place) and _REFUSED.search(str(error)):
            raise RqpsError(f"{place}/{file}: no permission to read it", fix=_CREDENTIALS) from error
        raise damaged(f"{place}/{file}", str(error)) from error
