"""What a difference is made of: one row a component, with a bar to either side."""

from collections.abc import Mapping
from html import escape
from typing import Any

import polars as pl

from rqps.charts.flame.look import figure
from rqps.charts.theme import COST_SIGNS, VERDICT_COLOURS

BAR_PX = 60


def parts_table(parts: pl.DataFrame, *, base: str, me: str, unit: str) -> str:
    """HTML of the breakdown of one cell; a component's name becomes a button where scripts run."""
    most = float(parts["difference"].abs().max() or 1.0)  # type: ignore[arg-type]
    head = ("component", f"{base}, {unit}", f"{me}, {unit}", "difference", "", "verdict")
    names = "".join(
        f'<th scope="col" style="text-align:{_side(at)}">{escape(name)}</th>' for at, name in enumerate(head)
    )
    body = "".join(_row(row, most) for row in parts.iter_rows(named=True))
    return (
        '<div class="table" style="overflow-x:auto"><table class="plain">'
        f"<thead><tr>{names}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _row(row: Mapping[str, Any], most: float) -> str:
    reach = f" ± {figure(row['error'])}" if row["error"] else ""
    cells = (
        f'<td class="rqps-part">{escape(row["component"])}</td>',
        f'<td style="text-align:right">{figure(row["base_cost"])}</td>',
        f'<td style="text-align:right">{figure(row["me_cost"])}</td>',
        f'<td style="text-align:right;white-space:nowrap">{figure(row["difference"], signed=True)}{reach}</td>',
        f"<td>{_bar(row, most)}</td>",
        f"<td>{COST_SIGNS[row['verdict']]}</td>",
    )
    return f"<tr>{''.join(cells)}</tr>"


def _bar(row: Mapping[str, Any], most: float) -> str:
    wide = BAR_PX * abs(row["difference"]) / most
    left = BAR_PX - wide if row["difference"] < 0 else BAR_PX
    colour = VERDICT_COLOURS[row["verdict"]]
    return (
        f'<div style="width:{2 * BAR_PX}px;height:12px">'
        f'<div style="width:{wide:.1f}px;height:12px;margin-left:{left:.1f}px;background:{colour}"></div></div>'
    )


def _side(at: int) -> str:
    return "right" if at in (1, 2, 3) else "left"
