"""What operations cost, in the plain form in which such studies are published, but with the step's name in front."""

from collections.abc import Mapping
from typing import Any

import polars as pl

from rqps.view.flame.look import figure, with_error
from rqps.view.theme import COST_SIGNS, by_host, in_order

COLUMN = 25


def operations_text(operations: pl.DataFrame) -> str:
    """Steps by dbms: the cost, the sign of the verdict, and the difference to the base with its error."""
    if operations.is_empty():
        return "No operation was looked into on both sides."
    rows = by_host(operations)
    cells = {(row["step"], row["dbms"]): row for row in rows.iter_rows(named=True)}
    dbms, base = in_order(rows["dbms"]), rows["base"][0]
    lines = [f"{rows['unit'][0]}, and the difference to {base}", f"col-1 : {base}"]
    lines += [f"col-{number} : {name}" for number, name in enumerate(dbms, 2)]
    steps = in_order(rows["step"])
    first = max(len(step) for step in ("step", *steps)) + 2
    head = "".join(f"col-{number}".ljust(COLUMN) for number in range(2, len(dbms) + 2))
    lines += ["", f"{'step'.ljust(first)}{'col-1'.ljust(10)}{head}".rstrip()]
    for step in steps:
        of_step = [cells.get((step, name)) for name in dbms]
        of_base = next(figure(row["base_cost"]) for row in of_step if row)
        told = (f"{figure(row['me_cost'])} {_by(row)}" if row else "-" for row in of_step)
        line = step.ljust(first) + of_base.ljust(10) + "".join(each.ljust(COLUMN) for each in told)
        lines.append(line.rstrip())
    return "\n".join(lines)


def _by(row: Mapping[str, Any]) -> str:
    return f"{COST_SIGNS[row['verdict']]} {with_error(row['difference'], row['error'])} n={row['n']}"
