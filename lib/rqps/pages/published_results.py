"""Two tables for the page on published results: contradictions in these results, and published ratios beside ours."""

import polars as pl
from great_tables import GT, loc, style

from rqps.published.compare_published import Beside
from rqps.published.figures import KINDS
from rqps.show import Column, Row, Sentences, colour_of, in_order, interval_of, spread, table, two_lines

DRAWN = ("host", "step", "server", "printed", "value")
"""Columns of the published ratios that a heat map uses."""
_KIND_COLOURS = dict(zip(KINDS, ("#a63c06", "#b05a1c", "#5f6b76", "#5f6b76", "#0072b2"), strict=True))
_FINDING = {  # label and width of each column
    "kind": ("kind", "120px"),
    "place": ("place", "105px"),
    "says": ("it says", "160px"),
    "evidence": ("the evidence", "225px"),
    "difference": ("how much", "95px"),
    "rounding": ("is it rounding?", "95px"),
    "found": ("found in", "90px"),
}


def findings_table(findings: pl.DataFrame) -> GT:
    """One row per contradiction, grouped by source; a note below the table explains the kinds of contradiction."""
    kinds = [kind for kind in KINDS if kind in set(findings["kind"])]
    columns = [Column(name, label, form=_kind if name == "kind" else "") for name, (label, _) in _FINDING.items()]
    name, note = "-".join(["contradictions", *kinds]), " ".join(f"{kind}: {KINDS[kind]}." for kind in kinds)
    rows = table(findings, columns, name=name, group="source", note=note)
    widths = {name: width for name, (_, width) in _FINDING.items()}
    return rows.tab_style(style.css("vertical-align: top;"), loc.body()).cols_width(widths)


def beside_table(both: Beside) -> GT | Sentences:
    """A table with one row per step and one column per comparison. Published ratios are shown as printed, our ratios
    as means over rounds."""
    if both.numbers.is_empty():
        return Sentences(["No study of ours has a number to compare with the published ones."])
    compared = set(both.numbers["column"])
    names = [name for name in in_order(both.conditions["column"]) if name in compared]

    def colour(row: Row | None) -> str | None:
        return colour_of(row["value"], row["verdict"] or "") if row else None

    columns = [Column(name, form=_ratio, colour=colour, align="center") for name in names]
    rows = table(
        spread(both.numbers, "column", ["group", "step"]),
        [Column("step"), *columns],
        name="beside",
        group="group",
        note="Published ratios as printed, without a spread; the others are means of rounds, with their interval and "
        "the number of rounds. An empty cell was not measured.",
    )
    heads = style.css("vertical-align: bottom; font-size: 11px; font-weight: 400;")
    return rows.tab_style(heads, loc.column_labels(names)).tab_style(
        style.css("padding: 4px 3px; font-size: 13px;"), loc.body(columns=names)
    )


def _ratio(row: Row) -> str:
    if row["rounds"] is None:
        return str(row["printed"])
    return two_lines(f"<b>{row['printed']}</b>", f"{interval_of(row)} · n={row['rounds']}")


def _kind(kind: str) -> str:
    return f'<b style="color:{_KIND_COLOURS[kind]}">{kind}</b>'
