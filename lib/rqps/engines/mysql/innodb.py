"""InnoDB's debt, the work that it has put off: rows to purge, dirty pages to flush, redo since the last
checkpoint."""

import math
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rqps.engines.mysql.instance import Connection, query
from rqps.engines.mysql.reports import is_55, read_status, read_variables
from rqps.numbers import in_percent, percent

EAGER = {
    "innodb_io_capacity_max": 20_000,
    "innodb_io_capacity": 20_000,
    "innodb_idle_flush_pct": 100,
    "innodb_max_dirty_pages_pct_lwm": 0,
    "innodb_max_dirty_pages_pct": 0,
    "innodb_purge_rseg_truncate_frequency": 1,  # 1: purge updates the history list length whenever it runs
}
"""Options that are set while the server flushes and purges, if the version has them. They are set in this order,
since some limit the values of others."""
EAGER_IN_55 = EAGER | {"innodb_purge_batch_size": 1}
"""The options of `EAGER` and one more for 5.5, where purge sleeps while it has less work than one batch."""

MOST_DIRTY_SHARE = 0.01
"""Maximum share of dirty pages in the buffer pool at which flushing counts as done; 1 % in the published tests,
too."""
MOST_UNPURGED = 100
"""Maximum number of unpurged transactions at which purge counts as done; even an idle server may not reach 0."""

_PURGE = re.compile(r"Trx id counter (\w+)\s+Purge done for trx's n:o < (\w+).*?History list length (\d+)", re.DOTALL)
REDO = re.compile(r"Log sequence number\s+(\d+).*?Last checkpoint at\s+(\d+)", re.DOTALL)


def left(debt: Mapping[str, Any]) -> str:
    """A message about the debt in a row of the table `engine`; empty if the dirty pages are within `MOST_DIRTY_SHARE`
    and the unpurged transactions within `MOST_UNPURGED`."""
    share, unpurged = debt["dirty_kb"] / debt["buffer_pool_kb"], debt["history_length"]
    if share <= MOST_DIRTY_SHARE and unpurged <= MOST_UNPURGED:
        return ""
    return (
        f"{in_percent(share)} of the buffer pool is dirty, {percent(MOST_DIRTY_SHARE)} may be; "
        f"{unpurged:,} transactions are not purged, {MOST_UNPURGED} may be"
    )


def read_debt(connection: Connection) -> dict[str, float]:
    """InnoDB's current debt of purge, flushing and checkpoints, as the columns of the raw table `engine`.

    The history list length alone is not enough: before 5.7 it is updated only now and then, and keeps its old value
    when purge has finished. So `history_length` is limited to the distance between the next transaction id and the
    id up to which purge is done. 5.5 prints both ids in hexadecimal.
    """
    status, settings = read_status(connection, "Innodb%"), read_variables(connection, "innodb%")
    report = str(query(connection, "SHOW ENGINE INNODB STATUS")[0][2])
    purge, redo = _PURGE.search(report), REDO.search(report)
    assert purge, report
    assert redo, report
    page_kb = int(status["innodb_page_size"]) / 1024
    base = 16 if is_55(connection) else 10
    # Releases before 8.0.30 lack this counter: their redo log is a number of files of one size.
    resized = status.get("innodb_redo_log_capacity_resized")
    files = (int(settings.get(f"innodb_log_{what}", 0)) for what in ("file_size", "files_in_group"))
    return {
        "history_length": min(int(purge[1], base) - int(purge[2], base), int(purge[3])),
        "dirty_kb": int(status["innodb_buffer_pool_pages_dirty"]) * page_kb,
        "buffer_pool_kb": int(status["innodb_buffer_pool_pages_total"]) * page_kb,
        "checkpoint_age_kb": (int(redo[1]) - int(redo[2])) / 1024,
        "redo_capacity_kb": (int(resized) if resized else math.prod(files)) / 1024,
    }


def wake_purge(connection: Connection, table: str, column: str, key: str) -> None:
    """Wakes the purge of 5.5, which sleeps until a transaction commits: changes one row and changes it back."""
    if is_55(connection):
        for change in ("+ 1", "- 1"):
            query(connection, f"UPDATE {table} SET {column} = {column} {change} ORDER BY {key} LIMIT 1")


@contextmanager
def eager(connection: Connection, options: Mapping[str, int] | None = None) -> Iterator[None]:
    """Sets the server's options so that it flushes and purges as much as it can, and restores them afterwards."""
    options = options or (EAGER_IN_55 if is_55(connection) else EAGER)
    before = read_variables(connection, "innodb%")
    had = {name: before[name] for name in options if name in before}
    try:
        for name in had:
            query(connection, f"SET GLOBAL {name} = {options[name]}")
        yield
    finally:
        for name in reversed(had):
            query(connection, f"SET GLOBAL {name} = {had[name]}")
