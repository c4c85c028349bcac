"""Written and read bytes and syncs of a server, by purpose, from the counters that each release has.

Since 16, pg_stat_io has the reads, writes, extensions of files and syncs by kind of process. Before 16, one counter
has the pages that all processes but the checkpointer and the background writer wrote, including pages that extend
files. The bytes of the write-ahead log are the growth of its sequence number (LSN), which all releases report.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

import psutil

from rqps.engines import PROCESS_BYTES

PAGE_KB = 8
WAL_LSN, IMAGES_COMPRESSED = "wal_lsn", "wal_images_compressed"
DATA_FILES, WAL_FILES = "data_files_bytes", "wal_files_bytes"
_CHECKPOINTS = ("bgwriter.buffers_checkpoint", "checkpointer.buffers_written")  # moved to the second view in 17
_KINDS = {"checkpointer": "checkpoints", "background writer": "background writer"}
_Io = dict[tuple[str, str, str], float]
"""Maps a kind of process, an object and a context (the first columns of pg_stat_io) to a number of operations, or to
KB."""


def seen_from_outside(pids: Iterable[int], directory: Path) -> dict[str, str]:
    """The total sizes of data files and of WAL files, and the bytes that the kernel counts as written by the server's
    processes. The kernel adds the bytes of processes that have ended to those of the first process, their parent."""
    sizes = {DATA_FILES: 0, WAL_FILES: 0}
    for file in directory.rglob("*"):
        top = file.relative_to(directory).parts[0]
        name = DATA_FILES if top in ("base", "global") else WAL_FILES if top in ("pg_wal", "pg_xlog") else ""
        if name and "pgsql_tmp" not in file.parts:
            with suppress(FileNotFoundError):  # dropped meanwhile
                sizes[name] += file.stat().st_size * file.is_file()
    status = {name: str(size) for name, size in sizes.items()}
    with suppress(psutil.Error):  # readable only for users who may trace the processes
        written = 0
        for pid in pids:
            with suppress(psutil.NoSuchProcess):
                written += psutil.Process(pid).io_counters().write_bytes
        status[PROCESS_BYTES] = str(written)
    return status


def written_kb(grew: Mapping[str, float], now: Mapping[str, float]) -> dict[str, float]:
    """Maps each purpose to the KB written in a step. A full-page image counts as 8 KB, although the server leaves out
    the free space of the page. If images are compressed, their size is unknown, and they count as WAL."""
    of = _write_ahead_log(grew, now)
    if name := next((name for name in _CHECKPOINTS if name in grew), ""):
        of["checkpoints"] = grew[name] * PAGE_KB
    if "bgwriter.buffers_clean" in grew:
        of["background writer"] = grew["bgwriter.buffers_clean"] * PAGE_KB
    if "database.temp_bytes" in grew:
        of["temporary files"] = grew["database.temp_bytes"] / 1024
    grown = grew[DATA_FILES] / 1024 if DATA_FILES in grew else None
    if any(name.startswith("io.") for name in now):
        for (kind, thing, context), kb in _io_kb(grew, "write").items():
            if thing != "wal" and kind not in _KINDS:
                purpose = _purpose(kind, thing, context)
                of[purpose] = of.get(purpose, 0) + kb
        extended = sum(kb for (_, thing, _), kb in _io_kb(grew, "extend").items() if thing == "relation")
        of["growing files"] = max(extended, grown or 0)
    elif "bgwriter.buffers_backend" in grew:
        kb = grew["bgwriter.buffers_backend"] * PAGE_KB
        of["backends and vacuum"] = kb if grown is None else max(0, kb - grown)
    if grown is not None:
        of.setdefault("growing files", grown)
    return of


def _write_ahead_log(grew: Mapping[str, float], now: Mapping[str, float]) -> dict[str, float]:
    """The KB of the WAL, of its full-page images and of new WAL files. In runs by older versions of rqps, which did
    not read the LSN, the KB of the WAL come from pg_stat_wal, which exists since 14."""
    logged = grew.get(WAL_LSN, grew.get("wal.wal_bytes"))
    if logged is None:
        return {}
    of = {"WAL": logged / 1024}
    if "wal.wal_fpi" in grew and now.get(IMAGES_COMPRESSED) == 0:
        of["full-page images"] = min(grew["wal.wal_fpi"] * PAGE_KB, of["WAL"])
        of["WAL"] -= of["full-page images"]
    return of | ({"new WAL files": grew[WAL_FILES] / 1024} if WAL_FILES in grew else {})


def read_kb(grew: Mapping[str, float], now: Mapping[str, float]) -> dict[str, float]:
    """Maps each purpose to the KB read into the server's buffers, from the disk or from the kernel's cache."""
    if not any(name.startswith("io.") for name in now):
        return {"pages": grew["database.blks_read"] * PAGE_KB} if "database.blks_read" in grew else {}
    of: dict[str, float] = {}
    for (kind, thing, context), kb in _io_kb(grew, "read").items():
        purpose = "scans" if context == "bulkread" else _purpose(kind, thing, context)
        of[purpose] = of.get(purpose, 0) + kb
    return of


def syncs(grew: Mapping[str, float], _now: Mapping[str, float]) -> dict[str, float]:
    """Maps each purpose to the number of syncs. From 14 to 17, pg_stat_wal counts the syncs of the WAL."""
    of = {"WAL": grew["wal.wal_sync"]} if "wal.wal_sync" in grew else {}
    for (_, thing, _), number in _io(grew, "fsyncs").items():
        purpose = "WAL" if thing == "wal" else "data files"
        of[purpose] = of.get(purpose, 0) + number
    return of


def _purpose(kind: str, thing: str, context: str) -> str:
    if thing == "temp relation":
        return "temporary tables"
    if thing == "wal":
        return "WAL"
    return "vacuum" if context == "vacuum" or kind.startswith("autovacuum") else _KINDS.get(kind, "backends")


def _io_kb(grew: Mapping[str, float], verb: str) -> _Io:
    """The KB that the operations of one kind (`verb`: read, write or extend) moved, by kind of process, object and
    context. Since 18, one operation may move several pages, and pg_stat_io counts bytes."""
    pages = {place: number * PAGE_KB for place, number in _io(grew, f"{verb}s").items()}
    return pages | {place: size / 1024 for place, size in _io(grew, f"{verb}_bytes").items()}


def _io(grew: Mapping[str, float], counter: str) -> _Io:
    return {
        (kind, thing, context): value
        for name, value in grew.items()
        if name.startswith("io.") and name.endswith(f".{counter}")
        for _, kind, thing, context, _ in [name.split(".")]
    }
