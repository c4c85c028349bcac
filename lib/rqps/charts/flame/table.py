"""Tables beside a drawing, for readers who can't see it, and for where no script runs."""

from collections.abc import Iterable, Sequence
from html import escape

import polars as pl

from rqps.charts.flame.look import figure
from rqps.charts.flame.tree import Tree


def functions_of(tree: Tree) -> pl.DataFrame:
    """What each function costs by itself, wherever it was called from; the greatest change first."""
    frames = pl.DataFrame(
        {"name": tree.name, "component": tree.component, "base": tree.base_self, "me": tree.me_self},
        schema_overrides={"base": pl.Float64, "me": pl.Float64},
    )
    functions = frames.group_by("name", "component", maintain_order=True).agg(pl.col("base", "me").sum())
    by = (pl.col("me") - pl.col("base")).alias("difference")
    return functions.with_columns(by).sort(pl.col("difference").abs(), descending=True, maintain_order=True)


def functions_table(functions: pl.DataFrame, *, base: str, me: str, unit: str) -> str:
    """HTML of it."""
    head = ("function", "component", f"{base}, {unit}", f"{me}, {unit}", "difference")
    rows = (
        (name, component, figure(before), figure(after), figure(by, signed=True))
        for name, component, before, after, by in functions.iter_rows()
    )
    return table(head, rows, numbers=3)


def table(head: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: int) -> str:
    """A plain table whose last columns are numbers."""
    first = len(head) - numbers
    names = "".join(f'<th{_is_number(at >= first)} scope="col">{escape(name)}</th>' for at, name in enumerate(head))
    body = "".join(
        f"<tr>{''.join(f'<td{_is_number(at >= first)}>{escape(cell)}</td>' for at, cell in enumerate(row))}</tr>"
        for row in rows
    )
    return (
        '<div class="table" style="overflow-x:auto"><table class="plain">'
        f"<thead><tr>{names}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _is_number(is_it: bool) -> str:
    return ' class="number" style="text-align:right"' if is_it else ""
