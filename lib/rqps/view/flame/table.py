"""Tables beside a drawing: what a difference is made of, for readers who can't see it and where no script runs."""

from collections.abc import Mapping
from html import escape
from typing import Any

import polars as pl

from rqps.view.flame.look import figure, with_error
from rqps.view.flame.tree import Tree
from rqps.view.theme import COST_SIGNS, VERDICT_COLOURS, verdict_words

BAR_PX = 60
MOST_FUNCTIONS = 25
WORDS = verdict_words("cost")
_NUMBER = ' class="number"'


def functions_of(tree: Tree) -> pl.DataFrame:
    """What each function costs by itself, wherever it was called from; a tree tells no error of that."""
    frames = pl.DataFrame(
        {"part": tree.name, "component": tree.component, "base_cost": tree.base_self, "me_cost": tree.me_self},
        schema_overrides={"base_cost": pl.Float64, "me_cost": pl.Float64},
    )
    functions = frames.group_by("part", "component", maintain_order=True).agg(pl.col("base_cost", "me_cost").sum())
    return functions.with_columns(
        (pl.col("me_cost") - pl.col("base_cost")).alias("difference"),
        pl.lit(None, pl.Float64).alias("error"),
        pl.lit(None, pl.String).alias("verdict"),
    )


def parts_table(parts: pl.DataFrame, what: str, *, base: str, me: str, unit: str) -> str:
    """One row a part, the greatest difference first, with a bar to either side. `what` is component or function."""
    rows = parts.sort(pl.col("difference").abs(), descending=True, maintain_order=True)
    most = float(rows["difference"].abs().max() or 1.0)  # type: ignore[arg-type]
    names = [what, "component"] if what == "function" else [what]
    head = "".join(f'<th scope="col">{name}</th>' for name in names)
    head += "".join(f'<th scope="col"{_NUMBER}>{escape(name)}</th>' for name in ("difference", "", base, me))
    head += '<th scope="col">verdict</th>' if rows["verdict"].null_count() < rows.height else ""
    body = "".join(_row(row, what, most) for row in rows.iter_rows(named=True)) + _whole(rows, what)
    return (
        '<div class="table" style="overflow-x:auto"><table class="plain rqps-parts">'
        f'<caption style="text-align:left">{escape(unit)}, by {what}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def functions_table(functions: pl.DataFrame, *, base: str, me: str, unit: str) -> str:
    """The functions whose own cost changed most, folded away."""
    most = functions.top_k(MOST_FUNCTIONS, by=pl.col("difference").abs())
    of_all = (
        f"The {most.height} of {functions.height} functions" if functions.height > most.height else "The functions"
    )
    return (
        f"<details><summary>{of_all} whose own cost changed most, as a table</summary>"
        f"{parts_table(most, 'function', base=base, me=me, unit=unit)}</details>"
    )


def _row(row: Mapping[str, Any], what: str, most: float) -> str:
    cells = [f'<td class="rqps-{what}" style="min-width:118px">{escape(row["part"])}</td>']
    if what == "function":
        cells.append(f"<td>{escape(row['component'])}</td>")
    by = with_error(row["difference"], row["error"] or 0.0).replace(" ", "\u00a0")  # not to be broken
    cells += [f"<td{_NUMBER}>{by}</td><td>{_bar(row, most)}</td>"]
    cells += [f"<td{_NUMBER}>{figure(row[side])}</td>" for side in ("base_cost", "me_cost")]
    if row["verdict"]:
        cells.append(f"<td>{COST_SIGNS[row['verdict']]} {WORDS[row['verdict']]}</td>")
    return f"<tr>{''.join(cells)}</tr>"


def _whole(parts: pl.DataFrame, what: str) -> str:
    """The operation, which the parts add up to."""
    if what != "component" or "base_measured" not in parts.columns:
        return ""
    base, me, error = parts.select("base_measured", "me_measured", "measured_error").row(0)
    told = (with_error(me - base, error), "", figure(base), figure(me))
    return f"<tr><td><b>all</b></td>{''.join(f'<td{_NUMBER}><b>{each}</b></td>' for each in told)}<td></td></tr>"


def _bar(row: Mapping[str, Any], most: float) -> str:
    wide = BAR_PX * abs(row["difference"]) / most
    left = BAR_PX - wide if row["difference"] < 0 else BAR_PX
    colour = VERDICT_COLOURS[row["verdict"] or "same"]
    margins = f"0 {2 * BAR_PX - left - wide:.0f}px 0 {left:.0f}px"
    return f'<div style="width:{wide:.0f}px;height:12px;margin:{margins};background:{colour}"></div>'
