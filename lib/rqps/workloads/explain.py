"""How a server says that it will read."""

import re
from typing import Any

from pymysql.cursors import DictCursor

from rqps.engines.instance import Connection, query

Plan = dict[str, Any]
LONGEST_STATEMENT = 300


def explain(connection: Connection, statement: str) -> Plan:
    """The first row of a statement's plan, by the names of EXPLAIN's columns.

    Since 9.0 the plan comes as a tree unless it is asked for as rows. 5.5 neither understands that nor explains
    anything but a SELECT, and finds rows that are to be changed in the same way.
    """
    form = "FORMAT=TRADITIONAL "
    if str(query(connection, "SELECT VERSION()")[0][0]).startswith("5.5."):
        form = ""
        statement = re.sub(r"^(?:UPDATE|DELETE FROM) (\S+) .*?WHERE", r"SELECT * FROM \1 WHERE", statement)
    with connection.cursor(DictCursor) as cursor:
        cursor.execute(f"EXPLAIN {form}{statement}")
        return cursor.fetchone() or {}


def plan_row(step: str, statement: str, plan: Plan) -> Plan:
    """A row of the table `plans`."""
    rows = plan.get("rows")
    return {
        "step": step,
        "statement": statement[:LONGEST_STATEMENT],
        "access": plan.get("type"),
        "possible_keys": plan.get("possible_keys"),
        "key": plan.get("key"),
        "rows": None if rows is None else int(rows),
        "extra": plan.get("Extra"),
    }
