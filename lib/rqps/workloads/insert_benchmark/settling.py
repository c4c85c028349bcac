"""Reads a server's debt before, during and after steps of the insert benchmark, as rows of the table `engine`, and
waits until the server has worked off this debt.

Before the first step with queries the published client waits a time that depends on the size of the tables. Here
that time is the maximum, and the wait ends when hardly any debt is left.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from threading import Event
from typing import Any

from rqps.engines.sources.fetching import size_bytes
from rqps.numbers import sized
from rqps.store.manifest import Warning_
from rqps.workloads.insert_benchmark.parameters import InsertBenchmarkParameters
from rqps.workloads.insert_benchmark.steps import KEY
from rqps.workloads.load_generator import DATABASE

Row = dict[str, Any]
SETTLING, DURING = "settling", "during"
LOOK_S = 0.25


def debt_row(server: Any, connection: Any, step: str, moment: str, debt: Mapping[str, Any] | None = None) -> Row:
    """A row with the current debt. During the wait before a step, the lowest and the highest key are not read from
    the tables, since some releases flush everything only when idle."""
    low, high = (None, None) if moment == SETTLING else ids(connection)
    return {
        "step": step,
        "moment": moment,
        "second": None,
        "waited_s": None,
        **(connection.dialect.read_debt(connection) if debt is None else debt),
        "tables_kb": connection.dialect.tables_bytes(server, connection, DATABASE) / 1024,
        "datadir_kb": size_bytes(server.directory) / 1024,
        "rows_low": low,
        "rows_high": high,
    }


@contextmanager
def reading_debt(server: Any, load: Any, every_s: float, rows: list[Row]) -> Iterator[None]:
    """Adds a row with the current debt to `rows` every `every_s` seconds while a load runs, over a connection of
    its own."""
    ended = Event()
    with closing(server.connect()) as connection, ThreadPoolExecutor(1, "rqps-debt") as executor:

        def read() -> None:
            while not ended.wait(every_s):
                debt = connection.dialect.read_debt(connection)
                if (second := load.own_s) is not None:
                    rows.append({"step": load.name, "moment": DURING, "second": second, **debt})

        running = executor.submit(read)
        try:
            yield
        finally:
            ended.set()
        running.result()  # raises the error with which the thread ended, if any


def ids(connection: Any, tables: Sequence[str] | None = None) -> tuple[int | None, int | None]:
    """The lowest and the highest primary key of these tables, by default of all existing tables."""
    sql = connection.dialect
    tables = sql.tables_of(connection, DATABASE) if tables is None else tables
    both = f"SELECT MIN({KEY}), MAX({KEY}) FROM {DATABASE}."
    ranges = [sql.query(connection, f"{both}{name}")[0] for name in tables]
    id_ranges = [(int(low), int(high)) for low, high in ranges if low is not None]
    return min((low for low, _ in id_ranges), default=None), max((high for _, high in id_ranges), default=None)


def settle(server: Any, parameters: InsertBenchmarkParameters, step: str) -> tuple[list[Row], list[Warning_]]:
    """Waits as the parameters ask; returns rows of the table `engine` read meanwhile, and a warning if debt is
    left."""
    rows: list[Row] = []
    begun, wait_s = time.monotonic(), parameters.wait_s
    fixed, tables = parameters.wait == "published", [f"{DATABASE}.{name}" for name in parameters.tables]
    left = ""
    with closing(server.connect()) as connection:
        limit_s, change = None if fixed else wait_s, ("price", KEY)
        paying = connection.dialect.settling(server, tables, change=change, published=fixed, limit_s=limit_s)
        with closing(paying) as debts:
            for debt, left in debts:
                rows.append(debt_row(server, connection, step, SETTLING, debt))
                rows[-1]["second"] = passed = time.monotonic() - begun
                if passed >= wait_s or (not fixed and not left):
                    break
                time.sleep(max(0.0, min(LOOK_S, begun + wait_s - time.monotonic())))
        before = debt_row(server, connection, step, "before")
    before["waited_s"] = time.monotonic() - begun
    if not left:
        return [*rows, before], []
    when = f"{'after the published wait of' if fixed else 'within'} {sized(wait_s)} s"
    text = f"the debt of earlier steps was not worked off {when}: {left}"
    return [*rows, before], [Warning_(kind="not settled", text=text, step=step)]
