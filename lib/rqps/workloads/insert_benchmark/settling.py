"""The wait before the first step with queries: what the writes before it have put off is done, or is known.

The published client waits a time that follows from the size of the tables, and does not look whether that was enough.
Here that time is the limit, and the wait ends when hardly a page is dirty and hardly a transaction unpurged.
"""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from rqps.engines.instance import Connection, Server, query
from rqps.store.manifest import Warning_
from rqps.workloads.insert_benchmark.engine import SETTLING, Row, looked_at
from rqps.workloads.insert_benchmark.parameters import InsertBenchmarkParameters
from rqps.workloads.load_generator import DATABASE
from rqps.workloads.sysbench.flush import MOST_DIRTY_SHARE, MOST_UNPURGED, eager, is_55

PUBLISHED = {
    "innodb_idle_flush_pct": 100,
    "innodb_max_dirty_pages_pct_lwm": 1,
    "innodb_max_dirty_pages_pct": 1,
}
"""What the published client sets meanwhile, in an order in which the second is never above the third."""
LOOK_S = 0.25


def settle(server: Server, parameters: InsertBenchmarkParameters, step: str) -> tuple[list[Row], list[Warning_]]:
    """Waits as the study asks; rows of `engine` until the step begins, and what was not done in time."""
    connection = server.connect()
    rows: list[Row] = []
    begun = time.monotonic()
    fixed = parameters.wait == "published"
    with ExitStack() as stack:
        stack.enter_context(eager(connection, PUBLISHED if fixed else None))
        stack.enter_context(_analyzed(server, parameters.tables))
        _purge_binary_logs(connection)
        while True:
            rows.append(looked_at(server, connection, step, SETTLING))
            rows[-1]["second"] = passed = time.monotonic() - begun
            if passed >= parameters.wait_s or (not fixed and not left(rows[-1])):
                break
            if not fixed and is_55(connection):
                _wake_purge(connection, parameters.tables[0])
            time.sleep(max(0.0, min(LOOK_S, begun + parameters.wait_s - time.monotonic())))
    before = looked_at(server, connection, step, "before")
    before["waited_s"] = time.monotonic() - begun
    connection.close()
    return [*rows, before], list(_warnings(rows[-1], parameters, step))


def left(row: Row) -> str:
    """What is left to do, in words; empty if nothing."""
    share = row["dirty_kb"] / row["buffer_pool_kb"]
    if share <= MOST_DIRTY_SHARE and row["history_length"] <= MOST_UNPURGED:
        return ""
    return (
        f"{share:.1%} of the buffer pool is dirty, {MOST_DIRTY_SHARE:.0%} may be; "
        f"{row['history_length']:,} transactions are not purged, {MOST_UNPURGED} may be"
    )


def _warnings(last: Row, parameters: InsertBenchmarkParameters, step: str) -> Iterator[Warning_]:
    if what := left(last):
        limit = f"{parameters.wait_s:.0f} s"
        when = f"after the published wait of {limit}" if parameters.wait == "published" else f"within {limit}"
        yield Warning_(kind="not settled", text=f"the writes before were not settled {when}: {what}", step=step)


@contextmanager
def _analyzed(server: Server, tables: Sequence[str]) -> Iterator[None]:
    """New statistics are made meanwhile; the wait is not over before they are there."""

    def analyze() -> None:
        connection = server.connect()
        for name in tables:
            query(connection, f"ANALYZE TABLE {DATABASE}.{name}")
        connection.close()

    thread = threading.Thread(target=analyze, daemon=True)
    thread.start()
    yield
    thread.join()


def _purge_binary_logs(connection: Connection) -> None:
    """By a statement that every version has; those of the writes are not needed any more."""
    if int(query(connection, "SELECT @@log_bin")[0][0]):
        query(connection, "PURGE BINARY LOGS BEFORE NOW()")


def _wake_purge(connection: Connection, table: str) -> None:
    """In 5.5 purge sleeps until somebody commits. Changes one row, and changes it back."""
    for change in ("+ 1", "- 1"):
        query(
            connection,
            f"UPDATE {DATABASE}.{table} SET price = price {change} ORDER BY transactionid LIMIT 1",
        )
