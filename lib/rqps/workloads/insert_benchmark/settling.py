"""Reads InnoDB's debt around the steps of the insert benchmark (rows of the table `engine`) and waits until it is
paid.

Before the first step with queries the published client waits a time that depends on the size of the tables. Here
that time is the limit, and the wait ends when almost no page is dirty and almost no transaction unpurged.
"""

import time
from collections.abc import Sequence
from contextlib import closing
from typing import Any

from rqps.engines.mysql import innodb
from rqps.engines.mysql.dialect import tables_of
from rqps.engines.mysql.instance import Connection, Server, query
from rqps.engines.mysql.reports import read_status
from rqps.engines.sources.fetching import size_bytes
from rqps.store.manifest import Warning_
from rqps.workloads.insert_benchmark.parameters import InsertBenchmarkParameters
from rqps.workloads.load_generator import DATABASE

Row = dict[str, Any]
SETTLING = "settling"
PUBLISHED = {
    "innodb_idle_flush_pct": 100,
    "innodb_max_dirty_pages_pct_lwm": 1,
    "innodb_max_dirty_pages_pct": 1,
}
"""Options that the published client sets meanwhile, ordered so that the second is never above the third."""
LOOK_S = 0.25


def debt_row(server: Server, connection: Connection, step: str, moment: str) -> Row:
    """The debt now. While it settles no table is read, since some releases flush everything only when idle."""
    low, high = (None, None) if moment == SETTLING else ids(connection)
    return {
        "step": step,
        "moment": moment,
        "second": None,
        "waited_s": None,
        **innodb.read_debt(connection),
        "tables_kb": size_bytes(server.directory / DATABASE) / 1024,
        "datadir_kb": size_bytes(server.directory) / 1024,
        "rows_low": low,
        "rows_high": high,
    }


def rows_deleted(connection: Connection) -> int:
    """Rows deleted by all connections since the server started."""
    return int(read_status(connection, "Innodb_rows_deleted")["innodb_rows_deleted"])


def ids(connection: Connection, tables: Sequence[str] | None = None) -> tuple[int | None, int | None]:
    """The lowest and the highest primary key of tables, by default of all existing ones."""
    tables = tables_of(connection, DATABASE) if tables is None else tables
    both = "SELECT MIN(transactionid), MAX(transactionid) FROM"
    ranges = [query(connection, f"{both} {DATABASE}.{name}")[0] for name in tables]
    id_ranges = [(low, high) for low, high in ranges if low is not None]
    return min((low for low, _ in id_ranges), default=None), max((high for _, high in id_ranges), default=None)


def settle(server: Server, parameters: InsertBenchmarkParameters, step: str) -> tuple[list[Row], list[Warning_]]:
    """Waits as the study asks; returns rows of `engine` until the step begins, and a warning if the debt was not
    paid in time."""
    rows: list[Row] = []
    begun = time.monotonic()
    fixed = parameters.wait == "published"
    with closing(server.connect()) as connection:
        with innodb.eager(connection, PUBLISHED if fixed else None):
            for table in parameters.tables:
                query(connection, f"ANALYZE TABLE {DATABASE}.{table}")
            if int(query(connection, "SELECT @@log_bin")[0][0]):  # the logs of the writes are not needed any more
                query(connection, "PURGE BINARY LOGS BEFORE NOW()")
            while True:
                rows.append(debt_row(server, connection, step, SETTLING))
                rows[-1]["second"] = passed = time.monotonic() - begun
                if passed >= parameters.wait_s or (not fixed and not innodb.left(rows[-1])):
                    break
                if not fixed:
                    innodb.wake_purge(connection, f"{DATABASE}.{parameters.tables[0]}", "price", "transactionid")
                time.sleep(max(0.0, min(LOOK_S, begun + parameters.wait_s - time.monotonic())))
        before = debt_row(server, connection, step, "before")
    before["waited_s"] = time.monotonic() - begun
    if not (what := innodb.left(rows[-1])):
        return [*rows, before], []
    when = f"{'after the published wait of' if fixed else 'within'} {parameters.wait_s:.0f} s"
    text = f"the writes before were not settled {when}: {what}"
    return [*rows, before], [Warning_(kind="not settled", text=text, step=step)]
