"""Between steps that write and steps that read: what was written goes to disk and is purged, and that is checked.

The published tests ask the server to flush and wait a time that follows from the size of the tables. Here that time
is only the limit: the server says when it is done, and one that is not done in time fails the run.
"""

import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from rqps.engines.instance import Connection, Server, query
from rqps.errors import RqpsError
from rqps.workloads.load_generator import DATABASE
from rqps.workloads.sysbench.parameters import SysbenchParameters

EAGER = {
    "innodb_io_capacity_max": 20_000,
    "innodb_io_capacity": 20_000,
    "innodb_idle_flush_pct": 100,
    "innodb_max_dirty_pages_pct_lwm": 0,
    "innodb_max_dirty_pages_pct": 0,
    "innodb_purge_rseg_truncate_frequency": 1,  # the history's length is told anew only so often
}
"""Set until all is flushed, in this order, since some are limits of others; where the version has them."""
EAGER_IN_55 = EAGER | {"innodb_purge_batch_size": 1}
"""There purge sleeps while there is less to do than one batch, and is woken by a commit that gives it more."""

MOST_DIRTY_SHARE = 0.01
"""Of the buffer pool's pages. The published tests ask for 1 %, too."""
MOST_UNPURGED = 100
"""Transactions; a server at rest need not come to none."""
SECONDS_BETWEEN_LOOKS = 0.2


def flush(server: Server, parameters: SysbenchParameters) -> None:
    """Waits until hardly a page is dirty and hardly a transaction unpurged; makes new statistics meanwhile."""
    connection = server.connect()
    deadline = time.monotonic() + parameters.flush_limit_s
    with eager(connection):
        for number in range(1, parameters.tables + 1):
            query(connection, f"ANALYZE TABLE {DATABASE}.sbtest{number}")
        while left := _left(connection):
            if time.monotonic() > deadline:
                raise RqpsError(
                    f"flush: not done within {parameters.flush_limit_s:.0f} s: {left}",
                    fix="set flush_seconds in the study's parameters to a higher number",
                )
            if is_55(connection):
                _wake_purge(connection)
            time.sleep(SECONDS_BETWEEN_LOOKS)
    connection.close()


def is_55(connection: Connection) -> bool:
    """Whether this is MySQL 5.5, which writes in hexadecimal, and sleeps."""
    return str(query(connection, "SELECT VERSION()")[0][0]).startswith("5.5.")


def _wake_purge(connection: Connection) -> None:
    """Changes one row, and changes it back."""
    for change in ("+ 1", "- 1"):
        query(connection, f"UPDATE {DATABASE}.sbtest1 SET k = k {change} ORDER BY id LIMIT 1")


def _left(connection: Connection) -> str:
    """What is left to do, in words; empty if nothing."""
    status = dict(query(connection, "SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_pages_%'"))
    dirty, pages = int(status["Innodb_buffer_pool_pages_dirty"]), int(status["Innodb_buffer_pool_pages_total"])
    unpurged = transactions_unpurged(connection)
    if dirty <= MOST_DIRTY_SHARE * pages and unpurged <= MOST_UNPURGED:
        return ""
    return (
        f"{dirty} pages of {pages} are dirty, {MOST_DIRTY_SHARE:.0%} may be; "
        f"{unpurged} transactions are not purged, {MOST_UNPURGED} may be"
    )


def transactions_unpurged(connection: Connection) -> int:
    """Transactions whose old row versions are not purged.

    The history's length alone won't do: before 5.7 it is corrected only now and then, and stays where it was when
    nothing is left. How far purge has come is told apart from it, in numbers that 5.5 writes in hexadecimal.
    """
    report = query(connection, "SHOW ENGINE INNODB STATUS")[0][2]
    found = re.search(
        r"Trx id counter (\w+)\s+Purge done for trx's n:o < (\w+).*?History list length (\d+)", report, re.DOTALL
    )
    assert found, report
    base = 16 if is_55(connection) else 10
    return min(int(found[1], base) - int(found[2], base), int(found[3]))


@contextmanager
def eager(connection: Connection, options: Mapping[str, int] | None = None) -> Iterator[None]:
    """The server's options set so that it flushes and purges all it can, and set back afterwards."""
    options = options or (EAGER_IN_55 if is_55(connection) else EAGER)
    held = {str(name): value for name, value in query(connection, "SHOW GLOBAL VARIABLES LIKE 'innodb%'")}
    had = {name: held[name] for name in options if name in held}
    try:
        for name in had:
            query(connection, f"SET GLOBAL {name} = {options[name]}")
        yield
    finally:
        for name in reversed(had):
            query(connection, f"SET GLOBAL {name} = {had[name]}")
