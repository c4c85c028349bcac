"""Tables that a study of many steps begins with: its groups, and its worst steps."""

from typing import Any

import polars as pl
from great_tables import GT, loc, style

from rqps.view.tables import plain_table, ratio_cell
from rqps.view.theme import (
    by_host,
    colour_of,
    coverage_of,
    ink_on,
    legend_of,
    rounds_of,
    signs_of,
)

ALL = "All steps"
SMALL = "font-size:11px;white-space:nowrap"


def group_table(groups: pl.DataFrame) -> GT:
    """One row a dbms, one column a group of steps. The frame is one that `by_group` has made."""
    rows = by_host(groups).with_columns(pl.col("group").replace("", ALL))
    steps = {row["group"]: row["steps"] for row in rows.sort("steps").iter_rows(named=True)}
    cells = rows.with_columns(pl.struct(pl.all()).map_elements(_middle, pl.String).alias("cell"))
    wide = cells.pivot("group", index="dbms", values="cell", maintain_order=True)
    shown = wide.columns[1:]
    note = (
        f"rQPS against {rows['base'][0]}, a step counts once: the median of the steps, below it from the lowest to "
        f"the highest, and how many of them are {_legend()}, each by {_rounds(rows)}."
    )
    table = plain_table(wide, "groups", note, **{group: f"{group} ({steps[group]})" for group in shown})
    table = table.fmt(_as_it_is, columns=shown).cols_align("center", columns=shown)
    for row in rows.iter_rows(named=True):
        table = table.tab_style(_paint(row["middle"]), loc.body(row["group"], pl.col("dbms") == row["dbms"]))
    return table


def worst_table(worst: pl.DataFrame) -> GT:
    """One row a step, the worst first. The frame is one that `worst` has made."""
    rows = by_host(worst).with_row_index("row")
    ratio = pl.struct(pl.all().exclude("warnings")).map_elements(ratio_cell, pl.String)
    cost = pl.struct("cpu", "cpu_low", "cpu_high").map_elements(_cost, pl.String, skip_nulls=False)
    table = plain_table(
        rows.select("step", "dbms", ratio.alias("rqps"), cost.alias("cpu")),
        "worst",
        f"{_shown(rows.height, rows['of_steps'][0])}, each with the dbms that does worst in it. Relative to "
        f"{rows['base'][0]}: median of {rounds_of(rows['n'].to_list())}, {coverage_of(rows['coverage'].to_list())}. "
        f"{legend_of('operations_per_s')} Server CPU/o: its CPU time for an operation, relative to the base.",
        rqps="rQPS",
        cpu="server CPU/o",
    )
    table = table.fmt(_as_it_is, columns=["rqps", "cpu"]).cols_align("center", columns=["rqps", "cpu"])
    for row in rows.iter_rows(named=True):
        table = table.tab_style(_paint(row["median"]), loc.body("rqps", [row["row"]]))
    return table


def _shown(shown: int, of_steps: int) -> str:
    return f"The worst {shown} of {of_steps} steps" if shown < of_steps else "All steps"


def _middle(row: dict[str, Any]) -> str:
    signs = signs_of("operations_per_s")
    counted = " ".join(f"{signs[kind]}{row[kind]}" for kind in ("slower", "faster", "same", "unsure") if row[kind])
    reach = f"{row['low']:.2f} to {row['high']:.2f}"
    return f'<b>{row["middle"]:.2f}</b><br><span style="{SMALL}">{reach}<br>{counted}</span>'


def _cost(row: dict[str, Any]) -> str:
    if row["cpu"] is None:
        return "–"
    reach = "no interval" if row["cpu_low"] is None else f"{row['cpu_low']:.2f}–{row['cpu_high']:.2f}"
    return f'{row["cpu"]:.2f}<br><span style="{SMALL}">{reach}</span>'


def _legend() -> str:
    signs = signs_of("operations_per_s")
    return f"{signs['slower']} slower, {signs['faster']} faster, {signs['same']} the same or {signs['unsure']} unsure"


def _rounds(rows: pl.DataFrame) -> str:
    return rounds_of([*rows["fewest_rounds"], *rows["most_rounds"]])


def _paint(ratio: float) -> list[Any]:
    return [style.fill(colour_of(ratio)), style.text(color=ink_on(ratio))]


def _as_it_is(value: str | None) -> str:
    return value or "–"  # made above, from numbers
