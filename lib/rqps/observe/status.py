"""What the server says of itself: its status counters, before and after a step."""

from collections.abc import Mapping
from typing import Any

import polars as pl
import pymysql

from rqps.store.schemas import STATUS


def read_status(connection: "pymysql.Connection[Any]") -> dict[str, str]:
    """Every global status value by its name in lower case."""
    with connection.cursor() as cursor:
        cursor.execute("SHOW GLOBAL STATUS")
        return {str(name).lower(): str(value) for name, value in cursor.fetchall()}


def status_rows(step: str, moment: str, status: Mapping[str, str]) -> pl.DataFrame:
    """One reading as rows of the table `status`; the moment is before or after."""
    rows = [{"step": step, "moment": moment, "name": name, "value": value} for name, value in status.items()]
    return pl.DataFrame(rows, schema=STATUS)
