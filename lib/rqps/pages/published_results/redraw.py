"""Published studies redrawn: numbers as they were printed, coloured like ours."""

from typing import Any

import altair as alt
import polars as pl
from great_tables import GT, loc, style

from rqps.view.tables import painted, plain_table
from rqps.view.text import Sentences
from rqps.view.theme import COLOURS, INK, LIMITS, MUTED, in_order, titled

ROW_PX, COLUMN_PX, LABELS_PX = 20, 33, 190
LINE_PX = 13
NEAR = 0.15
WIDTHS = {
    "kind": "120px",
    "place": "105px",
    "says": "160px",
    "evidence": "225px",
    "difference": "95px",
    "rounding": "95px",
    "found": "90px",
}
_LINES = "split(datum.value, ' ')"


def published_heatmap(rqps: pl.DataFrame, how: str) -> Any:
    """Steps by label, each cell with the ratio as it was printed. The frame has the columns of `rqps_table`."""
    cells = rqps.select("step", "label", "printed", "value")
    below, above = (cells["value"] < LIMITS[2]).sum(), (cells["value"] >= LIMITS[3]).sum()
    claim = f"Of {cells.height} printed ratios {below} are below {LIMITS[2]} and {above} are {LIMITS[3]} or more."
    labels = in_order(cells["label"])
    lines = max(len(label.split()) for label in labels)
    plain: dict[str, Any] = {"title": None, "ticks": False, "domain": False}
    many, words = len(labels) > 9, _LINES
    if many:  # the host once, above the first of its columns
        first = {label.split()[0]: label for label in reversed(labels)}
        words = f"indexof({list(first.values())}, datum.value) < 0 ? ['', {_LINES}[1]] : {_LINES}"
    # Lines of a label grow downwards from where a single one would stand: into the cells.
    top: dict[str, Any] = {"labelExpr": words, "labelPadding": 2 + LINE_PX * (lines - 1)}
    top |= {
        "orient": "top",
        "labelAngle": 0,
        "labelLimit": 0,
        "labelOverlap": False,
        "labelFontSize": 9 if many else 12,
    }
    base = alt.Chart(cells).encode(
        x=alt.X("label:N", sort=labels, axis=alt.Axis(**top, **plain)),
        y=alt.Y("step:N", sort=in_order(cells["step"]), axis=alt.Axis(**plain)),
        tooltip=["step:N", "label:N", alt.Tooltip("printed:N", title="as printed")],
    )
    colour = alt.Color(
        "value:Q",
        scale=alt.Scale(type="threshold", domain=list(LIMITS), range=list(COLOURS)),
        legend=alt.Legend(title="ratio", gradientLength=240, direction="horizontal", format=".2f"),
    )
    dark = f"datum.value < {LIMITS[0]} || datum.value >= {LIMITS[-1]}"
    ink = alt.when(dark).then(alt.value("#ffffff")).otherwise(alt.value(INK))
    chart = alt.layer(
        base.mark_rect(stroke="#ffffff", strokeWidth=1).encode(color=colour),
        base.mark_text(fontSize=11).encode(text="printed:N", color=ink),
    ).properties(width="container", height=ROW_PX * cells["step"].n_unique())
    return titled(chart, claim, how, min_width_px=LABELS_PX + COLUMN_PX * len(labels))


def published_delays(delays: pl.DataFrame) -> Any:
    """Microseconds that ut_delay(x) waits, a line a host; the dashed one is where it waits x."""
    points = delays.select("host", "x", pl.col("value").alias("microseconds"))
    each = (
        points.filter(pl.col("x") > 0)
        .group_by("host")
        .agg((pl.col("microseconds") / pl.col("x")).mean())["microseconds"]
    )
    near = ((each - 1).abs() <= NEAR).sum()
    hosts, top = in_order(points["host"]), int(points["x"].max())  # type: ignore[arg-type]
    base = alt.Chart(points).encode(
        x=alt.X("x:Q", axis=alt.Axis(values=list(range(top + 1)), format="d")),
        y=alt.Y("microseconds:Q"),
        color=alt.Color("host:N", sort=hosts, legend=alt.Legend(title=None)),
        tooltip=["host:N", "x:Q", "microseconds:Q"],
    )
    even = alt.Chart(pl.DataFrame({"x": [0, top], "microseconds": [0, top]})).mark_line(
        color=MUTED, strokeDash=[5, 4]
    )
    drawn = alt.layer(
        even.encode(x="x:Q", y="microseconds:Q"), base.mark_line(), base.mark_circle(size=45, opacity=1)
    ).properties(width="container", height=260)
    claim = f"ut_delay(X) waits X microseconds, to within {NEAR:.0%}, on {near} of {len(hosts)} hosts."
    return titled(drawn, claim, "As printed; on the dashed line it would be X.")


def published_response_times(times: pl.DataFrame, how: str) -> Any:
    """A bar a release, with and without the performance schema, with the printed number at its end."""
    rows, kinds = in_order(times["release"]), in_order(times["schema"])
    base = alt.Chart(times).encode(
        x=alt.X("value:Q", title=None),
        y=alt.Y("release:N", sort=rows, title=None, axis=alt.Axis(ticks=False, domain=False)),
        yOffset=alt.YOffset("schema:N", sort=kinds),
    )
    colour = alt.Color("schema:N", sort=kinds, legend=alt.Legend(title=None))
    one = alt.Chart(pl.DataFrame({"value": [1.0]})).mark_rule(color=INK).encode(x="value:Q")
    text = base.mark_text(align="left", dx=4, color=INK).encode(text="printed:N")
    drawn = alt.layer(base.mark_bar().encode(color=colour), text, one)
    claim = f"A lookup takes {min(times['value']):.2f} to {max(times['value']):.2f} times as long as in the base."
    return titled(drawn.properties(width="container", height=46 * len(rows)), claim, how)


def published_costs(per_operation: pl.DataFrame) -> GT:
    """Per-operation tables: the absolute number, below it the printed ratio to the first row."""
    key = ["section", "table", "dbms", "metric"]
    ratio = per_operation.filter(part="relative").select(*key, pl.col("printed").alias("ratio"))
    cells = per_operation.filter(part="absolute").join(ratio, on=key, how="left", maintain_order="left")
    text = pl.format("{}{}", "printed", pl.format(" ×{}", "ratio").fill_null(""))
    wide = cells.with_columns(text.alias("cell"), pl.format("{}: {}", "section", "table").alias("of")).pivot(
        "metric", index=["of", "dbms"], values="cell", maintain_order=True
    )
    metrics = wide.columns[2:]
    name = "-".join(["costs", *in_order(cells["source"]), *in_order(cells["step"].str.extract(r"^([a-z-]+)"))])
    return (
        plain_table(wide, name, "× is the ratio to the first row, as printed.")
        .tab_stub(rowname_col="dbms", groupname_col="of")
        .cols_align("right", columns=metrics)
    )


def contradictions_table(contradictions: pl.DataFrame, kinds: dict[str, str]) -> GT:
    """One row a place, grouped by source."""
    colour = dict(zip(kinds, ("#a63c06", "#e08244", "#5f6b76", "#5f6b76", "#0072b2"), strict=True))
    shown = contradictions.select("source", "kind", "place", "says", "evidence", "difference", "rounding", "found")
    there = {kind: means for kind, means in kinds.items() if kind in contradictions["kind"]}
    name = "-".join(["contradictions", *there])
    table = plain_table(shown, name, " ".join(f"{kind}: {means}." for kind, means in there.items()))
    table = table.tab_stub(groupname_col="source").cols_label(
        says="it says", evidence="the evidence", difference="how much", rounding="is it rounding?", found="found in"
    )
    for kind, ink in colour.items():
        table = table.tab_style(style.text(color=ink, weight="bold"), loc.body("kind", pl.col("kind") == kind))
    top = style.css("vertical-align: top;")
    return table.tab_style(top, loc.body()).cols_width(WIDTHS)


def beside_table(numbers: pl.DataFrame) -> GT | Sentences:
    """A row a step, a column a comparison: theirs as printed, ours the median of the rounds with its interval."""
    if numbers.is_empty():
        return Sentences(["There is no number of ours to set beside them."])
    columns = in_order(numbers.sort("whose", descending=True, maintain_order=True)["column"])
    cell = pl.struct("printed", "low", "high", "rounds").map_elements(_beside_cell, pl.String).alias("cell")
    wide = numbers.with_columns(cell).pivot("column", index=["group", "step"], values="cell", maintain_order=True)
    table = plain_table(
        wide.select("group", "step", *columns),
        "beside",
        "Theirs as printed, without a spread; ours the median of the rounds, its interval and their number. "
        "An empty cell was not measured.",
    )
    table = table.tab_stub(groupname_col="group").fmt(_as_it_is, columns=columns)
    table = table.cols_align("center", columns=columns).tab_style(
        style.css("vertical-align: bottom; font-size: 11px; font-weight: 400;"), loc.column_labels(columns)
    )
    table = table.tab_style(style.css("padding: 4px 3px; font-size: 13px;"), loc.body(columns=columns))
    return painted(table, numbers.select("step", "column", "value"), wide["step"].to_list())


def _beside_cell(row: dict[str, Any]) -> str:
    if row["rounds"] is None:
        return str(row["printed"])
    reach = "no interval" if row["low"] is None else f"{row['low']:.2f}–{row['high']:.2f}"
    small = "font-size:10px;white-space:nowrap"
    return f'<b>{row["printed"]}</b><br><span style="{small}">{reach} · n={row["rounds"]}</span>'


def _as_it_is(value: str | None) -> str:
    return value or "–"  # made above, from numbers
