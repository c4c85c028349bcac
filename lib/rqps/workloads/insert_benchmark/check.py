"""Checks before a step is measured: the tables and the plans, asked of the server itself."""

import re
from collections.abc import Iterator
from typing import Any

from rqps.engines.mysql.instance import Connection, Server, query
from rqps.engines.mysql.reports import explain, plan_row
from rqps.errors import RqpsError
from rqps.workloads.insert_benchmark.parameters import InsertBenchmarkParameters
from rqps.workloads.insert_benchmark.steps import INDEX, LOAD, Step, find
from rqps.workloads.load_generator import DATABASE
from rqps.workloads.table_check import LOAD_AGAIN, Table, check_table, must_be, tables_of

COLUMNS = {
    "transactionid": "bigint",
    "dateandtime": "datetime",
    "cashregisterid": "int",
    "customerid": "int",
    "productid": "int",
    "price": "int",
    "data": "varchar(4000)",
}
INDEXES = {
    "marketsegment": ["productid", "customerid", "price"],
    "registersegment": ["cashregisterid", "customerid", "price"],
    "pdc": ["price", "dateandtime", "customerid"],
}
AN_ID = {"product": "5000", "register": "500", "price": "250"}
"""Values for which a query is explained."""
LEFT_OVER = "somebody else changed the tables, or the steps before did not do their part; see their rows in the run"


def check_empty(connection: Connection) -> None:
    """Refuse a server that has tables already: l.i0 begins with none."""
    if found := tables_of(connection, DATABASE):
        listed = ", ".join(f"{name} with about {_rows(connection, name)} rows" for name in found)
        raise RqpsError(f"{DATABASE}: l.i0 begins without tables, and there are {listed}", fix=LOAD_AGAIN)


def check_tables(connection: Connection, step: Step, parameters: InsertBenchmarkParameters) -> None:
    """Each table is as the steps before this one leave it: columns, indexes, and about how many rows."""
    found, due = tables_of(connection, DATABASE), sorted(parameters.tables)
    must_be(f"{step.name}: {DATABASE}", "tables", due, found, fix=LEFT_OVER)
    rows = loaded_rows(step, parameters)
    for name in due:
        added = {} if step.kind in (LOAD, INDEX) else INDEXES
        indexes = {"PRIMARY": ["transactionid"]} | {f"{name}_{index}": columns for index, columns in added.items()}
        asked = Table("innodb", COLUMNS, indexes)
        check_table(connection, DATABASE, name, asked, of=f"{step.name}: ", fix=LEFT_OVER)
        low, high = query(connection, f"SELECT MIN(transactionid), MAX(transactionid) FROM {DATABASE}.{name}")[0]
        there = 0 if high is None else int(high) - int(low) + 1
        # Later on a statement that was refused may have left a gap in the ids, so there may seem to be more.
        if there < rows or (step.kind == INDEX and there > rows):
            must_be(f"{step.name}: {DATABASE}.{name}", "rows", f"{rows:,}", f"ids for {there:,}", fix=LEFT_OVER)


def loaded_rows(step: Step, parameters: InsertBenchmarkParameters) -> int:
    """Rows that a table has at least before a step: what is only inserted, and by steps that no time ends.

    >>> asked = InsertBenchmarkParameters(form="2021", load_rows=3000, write_rows=500)
    >>> [loaded_rows(find(name, "2021"), asked) for name in ("l.x", "l.i1", "q100.1", "q100.2")]
    [3000, 3100, 3600, 3600]
    """
    clients = parameters.clients if parameters.shared_table else 1
    before = [find(name, parameters.form) for name in parameters.measured[: parameters.measured.index(step.name)]]
    return clients * sum(parameters.rows(each) for each in before if not each.deletes and each.rate is None)


def explained(server: Server, step: Step, parameters: InsertBenchmarkParameters) -> list[dict[str, Any]]:
    """The plans of a step's queries on the first table; rows of `plans`. Fails where one is not as it has to be."""
    connection = server.connect(DATABASE)
    rows = [plan_row(step.name, text, explain(connection, text)) for text in _examples(step, connection, parameters)]
    connection.close()
    for row in rows:
        forced = re.search(r"FORCE INDEX \((\w+)\)", row["statement"])
        index = forced[1] if forced else "PRIMARY"
        covered = forced is None or "Using index" in str(row["extra"]).split("; ")
        if row["key"] != index or not covered:
            raise RqpsError(
                f"{step.name}: the server reads by index {row['key']} ({row['extra']}), and {index} alone was due: "
                + row["statement"],
                fix="this server can't do what the step is named for; leave it out of the study",
            )
    return rows


def _examples(step: Step, connection: Connection, parameters: InsertBenchmarkParameters) -> Iterator[str]:
    low = int(query(connection, "SELECT MIN(transactionid) FROM pi1")[0][0])
    some = ", ".join(str(low + number) for number in range(parameters.query_rows))
    for text in step.queries:
        yield text.format(table="pi1", rows=parameters.query_rows, ids=some, **AN_ID)


def _rows(connection: Connection, name: str) -> int:
    which = f"WHERE table_schema = '{DATABASE}' AND table_name = '{name}'"
    return int(query(connection, f"SELECT table_rows FROM information_schema.tables {which}")[0][0] or 0)
