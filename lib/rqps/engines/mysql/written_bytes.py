"""The bytes that a server wrote since its start, by purpose, as its own counters have them in each release.

The redo log counts by its sequence number. Its status counter adds a block of 512 bytes again each time that it is
written with more in it, and the kernel writes the page of the file that holds it once.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import psutil

from rqps.engines import PROCESS_BYTES

REDO_LSN = "redo_lsn"
FILES = "file_bytes_written."
"""The beginning of the names, in the table `status`, of the bytes that the server wrote to a kind of files."""
_DATA, _DOUBLEWRITE, _REDO = (f"{FILES}innodb/innodb_{kind}_file" for kind in ("data", "dblwr", "log"))
_TEMPORARY = (f"{FILES}innodb/innodb_temp_file", f"{FILES}sql/io_cache", f"{FILES}innodb/innodb_merge_temp_file")
_BINARY_LOG = (f"{FILES}sql/binlog", f"{FILES}sql/binlog_index", f"{FILES}sql/binlog_cache")


DATA_FILES = "data_files_bytes"
_DATA_FILE = re.compile(r".*\.(ibd|ibu|ibt)|(ibdata|ibtmp|undo_?)\d+")


def seen_from_outside(pid: int, directory: Path) -> dict[str, str]:
    """The bytes of InnoDB's data files, whose filling 5.7 counts nowhere, and those that the kernel counts for the
    process, at the moment of the status: a second later background threads have written more."""
    sizes = 0
    for file in directory.rglob("*"):
        if _DATA_FILE.fullmatch(file.name):
            with suppress(FileNotFoundError):  # dropped meanwhile
                sizes += file.stat().st_size
    status = {DATA_FILES: str(sizes)}
    with suppress(psutil.Error):  # readable only for users who may trace the process
        status[PROCESS_BYTES] = str(psutil.Process(pid).io_counters().write_bytes)
    return status


def written_kb(grew: Mapping[str, float], now: Mapping[str, float]) -> dict[str, float]:
    """The KB by purpose, by what each counter grew and its value now. What a release or a config does not count is
    missing. Runs of before the redo log's sequence number was read are not explained: the bytes of its counter are
    not those of its file."""
    if REDO_LSN not in grew:
        return {}
    page = now.get("innodb_page_size", 0)
    pages = grew.get("innodb_pages_written", 0) * page
    copies = grew.get(_DOUBLEWRITE, grew.get("innodb_dblwr_pages_written", 0) * page)
    of = {"redo log": grew[REDO_LSN], "data pages": pages, "doublewrite": copies}
    in_data_files = pages if _DOUBLEWRITE in now else pages + copies
    filled = [grew[_DATA] - in_data_files] if _DATA in grew else []
    filled += [grew[DATA_FILES]] if DATA_FILES in grew else []
    if filled:
        of["growing files"] = max(filled)
    if _DATA in grew:
        of["temporary files"] = sum(grew.get(name, 0) for name in _TEMPORARY)
        of["binary log"] = sum(grew.get(name, 0) for name in _BINARY_LOG)
        known = {_DATA, _DOUBLEWRITE, _REDO, *_TEMPORARY, *_BINARY_LOG}
        of["other files"] = sum(grew[name] for name in grew if name.startswith(FILES) and name not in known)
    return {purpose: value / 1024 for purpose, value in of.items()}
