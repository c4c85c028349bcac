"""Moved to `table`; this door closes when its last user has moved."""

from typing import Any

import polars as pl
from great_tables import GT, loc, style

from rqps.view.table import Column, _styled, table
from rqps.view.table import ratio_cell as ratio_cell
from rqps.view.theme import colour_of, ink_on_colour


def plain_table(frame: pl.DataFrame, name: str, note: str = "", **labels: str) -> GT:
    """Any small frame as a table."""
    return table(frame, [Column(each, labels.get(each, "")) for each in frame.columns], name=name, note=note)


def styled(frame: pl.DataFrame, name: str, **groups: Any) -> GT:
    """A frame in our style."""
    return _styled(frame, name, groups.get("groupname_col", ""), groups.get("rowname_col", ""))


def painted(table: GT, cells: pl.DataFrame, steps: list[str]) -> GT:
    """The table with its ratios (`step, column, value`) on their colours; `steps` are its rows."""
    place = {step: number for number, step in enumerate(steps)}
    places: dict[tuple[str, str], list[int]] = {}
    for step, column, value in cells.iter_rows():
        places.setdefault((column, colour_of(value)), []).append(place[step])
    for (column, colour), at in places.items():
        paint = [style.fill(colour), style.text(color=ink_on_colour(colour))]
        table = table.tab_style(paint, loc.body(columns=column, rows=at))
    return table
