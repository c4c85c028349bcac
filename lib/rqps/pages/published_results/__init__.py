"""Published results: quoted, calculated again, redrawn, and ours beside them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
from great_tables import GT, loc, style

from rqps.pages.published_results.redrawn import delays_chart, printed_heatmap, response_times_chart
from rqps.published import Published, checks, quoted
from rqps.published import beside as side_by_side
from rqps.published import read as figures
from rqps.published.figures import KINDS
from rqps.view import Column, Sentences, colour_of, in_order, interval_of, spread, table, two_lines

__all__ = ["beside", "figures", "findings", "in_short", "listed", "redrawn", "tally"]

_KIND_COLOURS = dict(zip(KINDS, ("#a63c06", "#e08244", "#5f6b76", "#5f6b76", "#0072b2"), strict=True))
_FINDING = {  # label and width of each column
    "kind": ("kind", "120px"),
    "place": ("place", "105px"),
    "says": ("it says", "160px"),
    "evidence": ("the evidence", "225px"),
    "difference": ("how much", "95px"),
    "rounding": ("is it rounding?", "95px"),
    "found": ("found in", "90px"),
}
_AS_PRINTED = "rQPS against 8.0.28, as printed."
_FROM_TEXT = {
    "perf-schema-2023": "Throughput without it relative to with it, as the text gives it.",
    "insert-benchmark-8027": "Throughput against 5.6.49, as the text gives it.",
}


def in_short(numbers: Published) -> Sentences:
    """The page in four sentences."""
    return Sentences(quoted.in_short(numbers, checks.contradictions(numbers)))


def tally(numbers: Published) -> str:
    """Findings of each kind in each source."""
    return quoted.tally(checks.contradictions(numbers))


def findings(numbers: Published, *kinds: str) -> GT:
    """One row per place that does not hold, of these kinds, grouped by source."""
    frame = checks.contradictions(numbers).filter(pl.col("kind").is_in(kinds))
    there = [kind for kind in KINDS if kind in set(frame["kind"])]
    columns = [Column(name, label, form=_kind if name == "kind" else "") for name, (label, _) in _FINDING.items()]
    name, note = "-".join(["contradictions", *there]), " ".join(f"{kind}: {KINDS[kind]}." for kind in there)
    made = table(frame, columns, name=name, group="source", note=note)
    widths = {name: width for name, (_, width) in _FINDING.items()}
    return made.tab_style(style.css("vertical-align: top;"), loc.body()).cols_width(widths)


def listed(numbers: Published, name: str) -> GT:
    """A small table: how ratios agree, sentences that hold, what a text quotes, timers, hosts, sources."""
    frames: dict[str, Callable[[], pl.DataFrame]] = {
        "agreement": lambda: checks.agreement(checks.view(numbers, "ratios")),
        "right": lambda: checks.checked(numbers).filter(kind="agrees"),
        "oltp": lambda: quoted.quotes(numbers, "perf-schema-oltp-2017"),
        "rocksdb": lambda: quoted.quotes(numbers, "rocksdb-leveled-2024"),
    }
    frame = frames[name]() if name in frames else quoted.small_tables(numbers)[name]
    sentences = [Column("source"), Column("place"), Column("says", "it says"), Column("evidence", "the evidence")]
    return table(frame, sentences if name == "right" else None, name=name)


def redrawn(numbers: Published, what: str, costs_of: str = "") -> Any:
    """The ratios that a source printed, its costs of the steps that begin so, or the waits of `ut_delay`."""
    if costs_of:
        return _costs(numbers.per_operation.filter(pl.col("step").str.starts_with(costs_of), source=what))
    if what == "ut_delay":
        return delays_chart(numbers.ut_delay.filter(version="8.0.40"))
    if what == "point-lookups-2014":
        return response_times_chart(quoted.response_times(numbers))
    if what in _FROM_TEXT:
        return printed_heatmap(quoted.quoted_ratios(numbers, what), _FROM_TEXT[what])
    return printed_heatmap(quoted.rqps_table(numbers, what), _AS_PRINTED)


def beside(numbers: Published, study: str, data: str | Path | None = None) -> tuple[Sentences, GT | Sentences, GT]:
    """Ours beside theirs: what differs, the numbers, and what each column was measured on."""
    found = side_by_side.beside(numbers, study, data)
    conditions = table(found.conditions, name="beside-conditions")
    return Sentences(side_by_side.what_differs(found)), beside_table(found), conditions


def beside_table(found: side_by_side.Beside) -> GT | Sentences:
    """One row per step, one column per comparison: theirs as printed, ours the median of the rounds."""
    numbers = found.numbers
    if numbers.is_empty():
        return Sentences(["There is no number of ours to set beside them."])
    there = set(numbers["column"])
    names = [name for name in in_order(found.conditions["column"]) if name in there]

    def colour(row: dict[str, Any] | None) -> str | None:
        return colour_of(row["value"]) if row else None

    columns = [Column(name, form=_beside_cell, colour=colour, align="center") for name in names]
    made = table(
        spread(numbers, "column", ["group", "step"]),
        [Column("step"), *columns],
        name="beside",
        group="group",
        note="Theirs as printed, without a spread; ours the median of the rounds, its interval and their number. "
        "An empty cell was not measured.",
    )
    heads = style.css("vertical-align: bottom; font-size: 11px; font-weight: 400;")
    return made.tab_style(heads, loc.column_labels(names)).tab_style(
        style.css("padding: 4px 3px; font-size: 13px;"), loc.body(columns=names)
    )


def _beside_cell(row: dict[str, Any]) -> str:
    if row["rounds"] is None:
        return str(row["printed"])
    return two_lines(f"<b>{row['printed']}</b>", f"{interval_of(row)} · n={row['rounds']}")


def _kind(kind: str) -> str:
    return f'<b style="color:{_KIND_COLOURS[kind]}">{kind}</b>'


def _costs(per_operation: pl.DataFrame) -> GT:
    wide = quoted.costs_table(per_operation)
    steps = per_operation["step"].str.extract(r"^([a-z-]+)")
    return table(
        wide,
        [Column(metric, align="right") for metric in wide.columns[2:]],
        name="-".join(["costs", *in_order(per_operation["source"]), *in_order(steps)]),
        group="of",
        rows="dbms",
        note="× is the ratio to the first row, as printed.",
    )
