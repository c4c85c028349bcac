"""Charts of printed numbers, coloured like ours."""

from typing import Any

import altair as alt
import polars as pl

from rqps.view import COLOURS, INK, LIMITS, MUTED, in_order, titled

ROW_PX, COLUMN_PX, LABELS_PX, LINE_PX = 20, 33, 190, 13
NEAR = 0.15
_LINES = "split(datum.value, ' ')"
_PLAIN: dict[str, Any] = {"title": None, "ticks": False, "domain": False}


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
        x=alt.X("label:N", sort=labels, axis=alt.Axis(**top, **_PLAIN)),
        y=alt.Y("step:N", sort=in_order(ratios["step"]), axis=alt.Axis(**_PLAIN)),
        tooltip=["step:N", "label:N", alt.Tooltip("printed:N", title="as printed")],
    )
    scale = alt.Scale(type="threshold", domain=list(LIMITS), range=list(COLOURS))
    legend = alt.Legend(title="ratio", gradientLength=240, direction="horizontal", format=".2f")
    dark = f"datum.value < {LIMITS[0]} || datum.value >= {LIMITS[-1]}"
    ink = alt.when(dark).then(alt.value("#ffffff")).otherwise(alt.value(INK))
    chart = alt.layer(
        base.mark_rect(stroke="#ffffff", strokeWidth=1).encode(
            color=alt.Color("value:Q", scale=scale, legend=legend)
        ),
        base.mark_text(fontSize=11).encode(text="printed:N", color=ink),
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
