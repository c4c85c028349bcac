"""The bytes that a server wrote and read, its syncs and its flushed pages, from the counters that each release has.

The bytes of the redo log are the growth of its sequence number (LSN). The status counter of the redo log is too high:
it counts a 512-byte block each time that the block is rewritten with more content, while the kernel writes the page
with this block once.
"""

import re
from contextlib import suppress
from pathlib import Path

import psutil

from rqps.engines import FLUSHED, MADE_DIRTY, PROCESS_BYTES, CountOf, Counts

REDO_LSN = "redo_lsn"
FILE_BYTES = "file_bytes_written"
"""The name, in the table `status`, of the rows with the bytes that the server wrote to one kind of file. The column
`object` names the kind."""


def _files(*kinds: str) -> tuple[CountOf, ...]:
    return tuple(CountOf(FILE_BYTES, kind) for kind in kinds)


_DATA, _DOUBLEWRITE, _REDO = _files("innodb/innodb_data_file", "innodb/innodb_dblwr_file", "innodb/innodb_log_file")
_TEMPORARY = _files("innodb/innodb_temp_file", "sql/io_cache", "innodb/innodb_merge_temp_file")
_BINARY_LOG = _files("sql/binlog", "sql/binlog_index", "sql/binlog_cache")
DATA_FILES = "data_files_bytes"
_DATA_FILE = re.compile(r".*\.(ibd|ibu|ibt)|(ibdata|ibtmp|undo_?)\d+")


def seen_from_outside(pid: int, directory: Path) -> dict[str, str]:
    """The total size of InnoDB's data files, whose growth 5.7 does not count, and the bytes that the kernel counts as
    written by the process. Both are read together with the status, since background threads keep writing."""
    sizes = 0
    for file in directory.rglob("*"):
        if _DATA_FILE.fullmatch(file.name):
            with suppress(FileNotFoundError):  # the file was dropped meanwhile
                sizes += file.stat().st_size
    status = {DATA_FILES: str(sizes)}
    with suppress(psutil.Error):  # only users who may trace the process can read this counter
        status[PROCESS_BYTES] = str(psutil.Process(pid).io_counters().write_bytes)
    return status


def written_kb(grew: Counts, now: Counts) -> dict[str, float]:
    """Maps each purpose to the KB written in a step, from each counter's growth and its value after the step.
    Purposes that a release or a config does not count are missing. Empty for older runs without the redo log's
    sequence number: the redo log's status counter does not match the bytes of its files."""
    if REDO_LSN not in grew:
        return {}
    page = now.get("innodb_page_size", 0)
    pages = grew.get("innodb_pages_written", 0) * page
    copies = grew.get(_DOUBLEWRITE, grew.get("innodb_dblwr_pages_written", 0) * page)
    copies_in_data_files = 0 if _DOUBLEWRITE in now else copies
    # Since 8.0, the files of temporary tables count as temporary files, but `innodb_pages_written` has their pages,
    # too.
    if _DATA in grew:
        pages_elsewhere = max(0, pages + copies_in_data_files - grew[_DATA])
        pages -= min(pages_elsewhere, grew.get(_TEMPORARY[0], 0))
    of = {"redo log": grew[REDO_LSN], "data pages": pages, "doublewrite": copies}
    filled = [grew[_DATA] - pages - copies_in_data_files] if _DATA in grew else []
    filled += [grew[DATA_FILES]] if DATA_FILES in grew else []
    if filled:
        of["growing files"] = max(filled)
    if _DATA in grew:
        of["temporary files"] = sum(grew.get(name, 0) for name in _TEMPORARY)
        of["binary log"] = sum(grew.get(name, 0) for name in _BINARY_LOG)
        known = {_DATA, _DOUBLEWRITE, _REDO, *_TEMPORARY, *_BINARY_LOG}
        files = (key for key in grew if isinstance(key, CountOf) and key.name == FILE_BYTES)
        of["other files"] = sum(grew[key] for key in files if key not in known)
    return {purpose: value / 1024 for purpose, value in of.items()}


def read_kb(grew: Counts, now: Counts) -> dict[str, float]:
    """Maps each purpose to the KB of pages read. Pages that neither a statement nor read-ahead asked for are those of
    purge, change buffer merges and index creation."""
    page_kb = now.get("innodb_page_size", 0) / 1024
    if not {"innodb_pages_read", "innodb_buffer_pool_reads"} <= grew.keys():
        return {}
    single = grew["innodb_buffer_pool_reads"]
    ahead = sum(grew.get(f"innodb_buffer_pool_read_ahead{kind}", 0) for kind in ("", "_rnd"))
    others = max(0.0, grew["innodb_pages_read"] - single - ahead)
    pages = {"single pages": single, "read-ahead": ahead, "other pages": others}
    return {purpose: number * page_kb for purpose, number in pages.items()}


def syncs(grew: Counts, _now: Counts) -> dict[str, float]:
    """Maps each purpose to the number of InnoDB's syncs. The counter of all syncs includes those of the redo log."""
    if not {"innodb_data_fsyncs", "innodb_os_log_fsyncs"} <= grew.keys():
        return {}
    of_log = grew["innodb_os_log_fsyncs"]
    return {"redo log": of_log, "data files": max(0.0, grew["innodb_data_fsyncs"] - of_log)}


def pages(grew: Counts, _now: Counts) -> dict[str, float]:
    """The number of pages flushed, and the number of pages made dirty. InnoDB does not count pages made dirty, so
    this function adds the growth in the number of dirty pages to the number of flushed pages."""
    if not {"innodb_buffer_pool_pages_flushed", "innodb_buffer_pool_pages_dirty"} <= grew.keys():
        return {}
    flushed = grew["innodb_buffer_pool_pages_flushed"]
    return {FLUSHED: flushed, MADE_DIRTY: max(0.0, flushed + grew["innodb_buffer_pool_pages_dirty"])}
