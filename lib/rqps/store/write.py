"""Writes the raw tables atomically: each file appears completely or not at all, and the manifest last."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rqps.engines.cache import sha256
from rqps.errors import RqpsError
from rqps.scratch import replacing
from rqps.store.manifest import CARD, MANIFEST, SCHEMA_VERSION, File, Manifest, StudyCard, sealed

if TYPE_CHECKING:
    import polars as pl

VERSION_KEY = "rqps_schema_version"


def write_table(folder: Path, name: str, frame: "pl.DataFrame") -> Path:
    """Writes one raw table into a run's folder; refuses a frame that does not match its schema."""
    from polars.exceptions import SchemaError  # a process that only starts runs does not need polars

    from rqps.store.schemas import TABLES

    path = folder / f"{name}.parquet"
    try:
        ordered = frame.match_to_schema(TABLES[name])
    except SchemaError as error:
        fix = f"build the frame with schema=TABLES[{name!r}] of rqps.store.schemas"
        raise RqpsError(f"{path}: the frame does not fit the table {name!r}: {error}", fix=fix) from error
    with atomically(path) as unfinished:
        version = {VERSION_KEY: str(SCHEMA_VERSION)}
        ordered.write_parquet(unfinished, compression="zstd", compression_level=10, metadata=version)
    return path


def write_manifest(folder: Path, manifest: Manifest) -> Path:
    """Writes the manifest with the digests of the run's files. It must be written last: a run with a manifest counts
    as finished."""
    files = {}
    for path in sorted(folder.glob("*.*")):
        if path.suffix in (".parquet", ".json") and path.name != MANIFEST:
            now = path.stat()
            files[path.name] = File(size_bytes=now.st_size, modified_ns=now.st_mtime_ns, sha256=sha256(path))
    return write_text(folder / MANIFEST, sealed(manifest.model_copy(update={"files": files})))


def write_study_card(folder: Path, card: StudyCard) -> Path:
    """Writes the card of a study beside its runs; `folder` is `data/raw/study=NAME`."""
    return write_text(folder / CARD, sealed(card))


def write_text(path: Path, text: str) -> Path:
    with atomically(path) as unfinished:
        unfinished.write_text(text, encoding="utf-8")
    return path


@contextmanager
def atomically(path: Path) -> Iterator[Path]:
    """Yields a temporary path to write to; the result then replaces `path`, once its bytes are on the disk."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as unfinished:
            yield unfinished
            for part in (*unfinished.rglob("*"), unfinished):
                flush(part)
        flush(path.parent)
    except OSError as error:
        fix = "see that the disk has room and that you may write to the folder, then run the same command again"
        raise RqpsError(f"{path}: could not be written: {error.strerror or error}", fix=fix) from error


def flush(path: Path) -> None:
    """Flushes the bytes of a file, or the entries of a folder, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
