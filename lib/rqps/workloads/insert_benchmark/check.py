"""What has to be true of the server and its tables before a step is measured, asked of the server itself."""

import re
from collections.abc import Iterator
from typing import Any

from rqps.engines.instance import Connection, Server, query
from rqps.errors import RqpsError
from rqps.workloads.explain import explain, plan_row
from rqps.workloads.insert_benchmark.parameters import InsertBenchmarkParameters
from rqps.workloads.insert_benchmark.steps import INDEX, LOAD, Step, find
from rqps.workloads.sysbench.process import DATABASE

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
    "PRIMARY": "transactionid",
    "marketsegment": "productid,customerid,price",
    "registersegment": "cashregisterid,customerid,price",
    "pdc": "price,dateandtime,customerid",
}
AN_ID = {"product": "5000", "register": "500", "price": "250"}
"""Values for which a query is explained."""


def check_empty(connection: Connection) -> None:
    """Refuses a server that has tables already: l.i0 begins with none."""
    if found := _tables(connection):
        told = ", ".join(f"{name} with about {_rows(connection, name)} rows" for name in found)
        raise RqpsError(
            f"{DATABASE}: l.i0 begins without tables, and there are {told}",
            fix="remove the loaded data of this build from the cache; they are made again",
        )


def check_tables(connection: Connection, step: Step, parameters: InsertBenchmarkParameters) -> None:
    """Each table is as the steps before this one leave it: columns, indexes, and about how many rows."""
    found, due = _tables(connection), sorted(parameters.tables)
    if found != due:
        raise _left_over(step, DATABASE, "tables", ", ".join(due), ", ".join(found) or "none")
    for name in due:
        _check_table(connection, name, step, parameters)


def _check_table(connection: Connection, name: str, step: Step, parameters: InsertBenchmarkParameters) -> None:
    which = f"WHERE table_schema = '{DATABASE}' AND table_name = '{name}'"
    engine = query(connection, f"SELECT engine FROM information_schema.tables {which}")[0][0]
    _must_be(step, name, "engine", "InnoDB", engine)
    told = query(connection, f"SELECT column_name, column_type FROM information_schema.columns {which}")
    columns = {str(column): re.sub(r"int\(\d+\)", "int", str(kind)) for column, kind in told}
    _must_be(step, name, "columns", _words(COLUMNS), _words(columns))
    told = query(
        connection,
        "SELECT index_name, GROUP_CONCAT(column_name ORDER BY seq_in_index) "
        f"FROM information_schema.statistics {which} GROUP BY index_name",
    )
    indexes = {str(index).removeprefix(f"{name}_"): str(on) for index, on in told}
    wanted = INDEXES if step.kind not in (LOAD, INDEX) else {"PRIMARY": INDEXES["PRIMARY"]}
    _must_be(step, name, "indexes", _words(wanted), _words(indexes))
    rows = loaded_rows(step, parameters)
    low, high = query(connection, f"SELECT MIN(transactionid), MAX(transactionid) FROM {DATABASE}.{name}")[0]
    there = 0 if high is None else int(high) - int(low) + 1
    # Later on a statement that was refused may have left a gap in the ids, so there may seem to be more.
    if there < rows or (step.kind == INDEX and there > rows):
        raise _left_over(step, f"{DATABASE}.{name}", "rows", f"{rows:,}", f"ids for {there:,}")


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


def _tables(connection: Connection) -> list[str]:
    return sorted(str(name) for (name,) in query(connection, f"SHOW TABLES FROM {DATABASE}"))


def _rows(connection: Connection, name: str) -> int:
    which = f"WHERE table_schema = '{DATABASE}' AND table_name = '{name}'"
    return int(query(connection, f"SELECT table_rows FROM information_schema.tables {which}")[0][0] or 0)


def _words(named: dict[str, str]) -> str:
    return ", ".join(f"{name} {of}" for name, of in sorted(named.items()))


def _must_be(step: Step, table: str, what: str, asked: str, found: str) -> None:
    if asked != found:
        raise _left_over(step, f"{DATABASE}.{table}", what, asked, found)


def _left_over(step: Step, where: str, what: str, asked: str, found: str) -> RqpsError:
    return RqpsError(
        f"{step.name}: {where}: asked for {what} {asked}, found {found}",
        fix="somebody else changed the tables, or the steps before did not do their part; see their rows in the run",
    )
