"""Published results: quoted, calculated again, redrawn, and ours beside them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import altair as alt
import polars as pl
from great_tables import GT, loc, style

from rqps.published import Published, checks, quoted
from rqps.published import compare_published as side_by_side
from rqps.published import read as figures
from rqps.published.figures import KINDS
from rqps.show import (
    INK,
    LIMITS,
    MUTED,
    Column,
    Row,
    Sentences,
    colour_of,
    in_order,
    interval_of,
    spread,
    table,
    titled,
    two_lines,
)
from rqps.show.heatmap import PLAIN_AXIS, colour_of_cells, ink_of_cells

__all__ = ["beside", "figures", "findings", "in_short", "listed", "redrawn", "tally"]

ROW_PX, COLUMN_PX, LABELS_PX, LINE_PX = 20, 33, 190, 13
NEAR = 0.15
_LINES = "split(datum.value, ' ')"
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
    """One row per step, one column per comparison: theirs as printed, ours the mean of the rounds."""
    numbers = found.numbers
    if numbers.is_empty():
        return Sentences(["There is no number of ours to set beside them."])
    there = set(numbers["column"])
    names = [name for name in in_order(found.conditions["column"]) if name in there]

    def colour(row: Row | None) -> str | None:
        return colour_of(row["value"], row["verdict"] or "") if row else None

    columns = [Column(name, form=_beside_cell, colour=colour, align="center") for name in names]
    made = table(
        spread(numbers, "column", ["group", "step"]),
        [Column("step"), *columns],
        name="beside",
        group="group",
        note="Theirs as printed, without a spread; ours the mean of the rounds, its interval and their number. "
        "An empty cell was not measured.",
    )
    heads = style.css("vertical-align: bottom; font-size: 11px; font-weight: 400;")
    return made.tab_style(heads, loc.column_labels(names)).tab_style(
        style.css("padding: 4px 3px; font-size: 13px;"), loc.body(columns=names)
    )


def _beside_cell(row: Row) -> str:
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


def printed_heatmap(ratios: pl.DataFrame, how: str) -> Any:
    """Steps by label, each cell with the ratio as it was printed."""
    ratios = ratios.select("step", "label", "printed", "value")
    below, above = (ratios["value"] < LIMITS[2]).sum(), (ratios["value"] >= LIMITS[3]).sum()
    claim = f"Of {ratios.height} printed ratios {below} are below {LIMITS[2]} and {above} are {LIMITS[3]} or more."
    labels = in_order(ratios["label"])
    many, words = len(labels) > 9, _LINES
    if many:  # the host once, above the first of its columns
        first = {label.split()[0]: label for label in reversed(labels)}
        words = f"indexof({list(first.values())}, datum.value) < 0 ? ['', {_LINES}[1]] : {_LINES}"
    top: dict[str, Any] = {"labelExpr": words, "orient": "top", "labelAngle": 0, "labelLimit": 0}
    # Lines of a label grow downwards from where a single one would stand: into the cells.
    top |= {"labelPadding": 2 + LINE_PX * (max(len(label.split()) for label in labels) - 1)}
    top |= {"labelOverlap": False, "labelFontSize": 9 if many else 12}
    base = alt.Chart(ratios).encode(
        x=alt.X("label:N", sort=labels, axis=alt.Axis(**top, **PLAIN_AXIS)),
        y=alt.Y("step:N", sort=in_order(ratios["step"]), axis=alt.Axis(**PLAIN_AXIS)),
        tooltip=["step:N", "label:N", alt.Tooltip("printed:N", title="as printed")],
    )
    chart = alt.layer(
        base.mark_rect(stroke="#ffffff", strokeWidth=1).encode(color=colour_of_cells("value")),
        base.mark_text(fontSize=11).encode(text="printed:N", color=ink_of_cells("value")),
    ).properties(width="container", height=ROW_PX * ratios["step"].n_unique())
    return titled(chart, claim, how, min_width_px=LABELS_PX + COLUMN_PX * len(labels))


def delays_chart(delays: pl.DataFrame) -> Any:
    """Microseconds that ut_delay(x) waits, a line per host; the dashed one is where it waits x."""
    points = delays.select("host", "x", pl.col("value").alias("microseconds"))
    per_x = points.filter(pl.col("x") > 0).group_by("host").agg((pl.col("microseconds") / pl.col("x")).mean())
    near = ((per_x["microseconds"] - 1).abs() <= NEAR).sum()
    top = int(points["x"].max())  # type: ignore[arg-type]
    base = alt.Chart(points).encode(
        x=alt.X("x:Q", axis=alt.Axis(values=list(range(top + 1)), format="d")),
        y="microseconds:Q",
        color=alt.Color("host:N", sort=in_order(points["host"]), legend=alt.Legend(title=None)),
        tooltip=["host:N", "x:Q", "microseconds:Q"],
    )
    even = alt.Chart(pl.DataFrame({"x": [0, top], "microseconds": [0, top]})).encode(x="x:Q", y="microseconds:Q")
    dashed = even.mark_line(color=MUTED, strokeDash=[5, 4])
    drawn = alt.layer(dashed, base.mark_line(), base.mark_circle(size=45, opacity=1))
    claim = f"ut_delay(X) waits X microseconds, to within {NEAR:.0%}, on {near} of {per_x.height} hosts."
    return titled(
        drawn.properties(width="container", height=260), claim, "As printed; on the dashed line it would be X."
    )


def response_times_chart(times: pl.DataFrame) -> Any:
    """A bar per release, with and without the performance schema, with the printed number at its end."""
    times = times.drop("half")
    rows, kinds = in_order(times["release"]), in_order(times["schema"])
    base = alt.Chart(times).encode(
        x=alt.X("value:Q", title=None),
        y=alt.Y("release:N", sort=rows, title=None, axis=alt.Axis(ticks=False, domain=False)),
        yOffset=alt.YOffset("schema:N", sort=kinds),
    )
    one = alt.Chart(pl.DataFrame({"value": [1.0]})).mark_rule(color=INK).encode(x="value:Q")
    drawn = alt.layer(
        base.mark_bar().encode(color=alt.Color("schema:N", sort=kinds, legend=alt.Legend(title=None))),
        base.mark_text(align="left", dx=4, color=INK).encode(text="printed:N"),
        one,
    ).properties(width="container", height=46 * len(rows))
    claim = f"A lookup takes {min(times['value']):.2f} to {max(times['value']):.2f} times as long as in the base."
    return titled(drawn, claim, "The base is 5.0.85; as the text gives it.")
