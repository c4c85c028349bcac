"""How much the storage engine has put off: what is not purged, not flushed, not checkpointed; rows of `engine`."""

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rqps.engines.instance import Connection, Server, query
from rqps.workloads.load_generator import DATABASE
from rqps.workloads.sysbench.flush import transactions_unpurged

Row = dict[str, Any]
SETTLING = "settling"
REDO = re.compile(r"Log sequence number\s+(\d+).*?Last checkpoint at\s+(\d+)", re.DOTALL)


def looked_at(server: Server, connection: Connection, step: str, moment: str) -> Row:
    """One row: the state of the engine at this moment. While it settles no table is read, since some releases flush
    all only when nobody is at work."""
    status = _pairs(connection, "SHOW GLOBAL STATUS LIKE 'Innodb%'")
    settings = _pairs(connection, "SHOW GLOBAL VARIABLES LIKE 'innodb%'")
    page_kb = int(status["innodb_page_size"]) / 1024
    low, high = (None, None) if moment == SETTLING else ids(connection)
    return {
        "step": step,
        "moment": moment,
        "second": None,
        "waited_s": None,
        "history_length": transactions_unpurged(connection),
        "dirty_kb": int(status["innodb_buffer_pool_pages_dirty"]) * page_kb,
        "buffer_pool_kb": int(status["innodb_buffer_pool_pages_total"]) * page_kb,
        "checkpoint_age_kb": _checkpoint_age_kb(connection),
        "redo_capacity_kb": _redo_capacity_kb(status, settings),
        "tables_kb": apparent_kb(server.data / DATABASE),
        "datadir_kb": apparent_kb(server.data),
        "rows_low": low,
        "rows_high": high,
    }


def rows_deleted(connection: Connection) -> int:
    """By all connections since the server started."""
    return int(_pairs(connection, "SHOW GLOBAL STATUS LIKE 'Innodb_rows_deleted'")["innodb_rows_deleted"])


def ids(connection: Connection, tables: Sequence[str] | None = None) -> tuple[int | None, int | None]:
    """The lowest and the highest primary key of tables, by default of all that are there."""
    if tables is None:
        tables = [str(name) for (name,) in query(connection, f"SHOW TABLES FROM {DATABASE}")]
    both = "SELECT MIN(transactionid), MAX(transactionid) FROM"
    ends = [query(connection, f"{both} {DATABASE}.{name}")[0] for name in tables]
    found = [(low, high) for low, high in ends if low is not None]
    return min((low for low, _ in found), default=None), max((high for _, high in found), default=None)


def apparent_kb(folder: Path) -> float:
    """How long all files below a folder are together; those that go meanwhile don't count."""
    total = 0
    for where, _, names in os.walk(folder):
        for name in names:
            try:
                total += (Path(where) / name).lstat().st_size
            except FileNotFoundError:
                continue
    return total / 1024


def _pairs(connection: Connection, statement: str) -> dict[str, str]:
    return {str(name).lower(): str(value) for name, value in query(connection, statement)}


def _checkpoint_age_kb(connection: Connection) -> float:
    report = query(connection, "SHOW ENGINE INNODB STATUS")[0][2]
    found = REDO.search(report)
    assert found, report
    return (int(found[1]) - int(found[2])) / 1024


def _redo_capacity_kb(status: dict[str, str], settings: dict[str, str]) -> float:
    """Since 8.0.30 the log changes its size by itself; before, it is some files of one size."""
    if "innodb_redo_log_capacity_resized" in status:
        return int(status["innodb_redo_log_capacity_resized"]) / 1024
    return int(settings["innodb_log_file_size"]) * int(settings["innodb_log_files_in_group"]) / 1024
