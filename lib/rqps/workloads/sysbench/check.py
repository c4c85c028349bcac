"""What has to be true of the tables before a step is measured, asked of the server itself."""

from pymysql.cursors import DictCursor

from rqps.errors import RqpsError
from rqps.servers.instance import Connection, query
from rqps.workloads.sysbench.generator import DATABASE
from rqps.workloads.sysbench.parameters import SysbenchParameters
from rqps.workloads.sysbench.steps import Step


def check_tables(connection: Connection, parameters: SysbenchParameters) -> None:
    """Each table is there, is InnoDB's, and holds the rows that were asked for."""
    for number in range(1, parameters.tables + 1):
        table = f"{DATABASE}.sbtest{number}"
        found = query(
            connection,
            "SELECT engine FROM information_schema.tables "
            f"WHERE table_schema = '{DATABASE}' AND table_name = 'sbtest{number}'",
        )
        if not found or str(found[0][0]).lower() != "innodb":
            raise RqpsError(
                f"{table}: asked for engine InnoDB, found {found[0][0] if found else 'no such table'}",
                fix="remove the loaded data of this build from the cache; they are made again",
            )
        rows = int(query(connection, f"SELECT COUNT(*) FROM {table}")[0][0])
        if rows != parameters.table_rows:
            raise RqpsError(
                f"{table}: asked for {parameters.table_rows} rows, found {rows}",
                fix="remove the loaded data of this build from the cache; they are made again",
            )


def warm(connection: Connection, parameters: SysbenchParameters) -> None:
    """Reads every page of each table and index, so that a round does not begin with an empty buffer pool."""
    for number in range(1, parameters.tables + 1):
        table = f"{DATABASE}.sbtest{number}"
        query(connection, f"SELECT COUNT(pad) FROM {table} FORCE INDEX (PRIMARY) WHERE pad <> ''")
        query(connection, f"SELECT COUNT(k) FROM {table} FORCE INDEX (k_{number}) WHERE k >= 0")


def check_plan(connection: Connection, step: Step) -> str | None:
    """The index that EXPLAIN shows for the step's statement; another one than the step is named for fails it."""
    if step.explain is None:
        return None
    wanted = "k_1" if step.index == "k" else step.index
    with connection.cursor(DictCursor) as cursor:
        # Since 9.0 the plan comes as a tree unless it is asked for as rows, which 5.5 does not understand.
        form = "" if connection.get_server_info().startswith("5.5.") else "FORMAT=TRADITIONAL "
        cursor.execute(f"EXPLAIN {form}" + step.explain.format(table=f"{DATABASE}.sbtest1"))
        plan = cursor.fetchone() or {}
    if plan.get("key") != wanted:
        raise RqpsError(
            f"{step.name}: the server reads by {plan.get('key') or 'no index'}, not by {wanted}: {plan}",
            fix="what is measured would not be what the step is named for; look at the table and its statistics",
        )
    return wanted
