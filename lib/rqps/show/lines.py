"""Charts over time: lines of throughput and counters, and the slices, cycles and rounds of a duet."""

from typing import Any

import altair as alt
import polars as pl

from rqps import stats
from rqps.numbers import formatted, in_percent
from rqps.show.rows import MOST_POINTS, slim
from rqps.show.sentences import comparison, finding
from rqps.show.theme import INK, MUTED, SERIES, colours, dbms_colours, numbers, titled
from rqps.show.words import NOT_COMPARED, Nothing, Sentences, by_host, in_order, rounds_of, shown_of
from rqps.stats.metrics import THROUGHPUT
from rqps.store import Study

PANEL_HEIGHT_PX = 130
AXES_PX = 90
MOST_STEPS = 6
CYCLES_SHOWN, MOST_CYCLES = 4, 400
DUET_WIDTH_PX = 680
NO_DUET = "Here every dbms ran by itself, or had a load of its own: there are no slices with operations to show."
_SECONDS = alt.Axis(grid=False, tickMinStep=1, format="~g")
NUMBERS = "format(datum.value, abs(datum.value) < 1000 ? '~g' : '~s')"
"""Vega expression for the labels of an axis: 40k for 40,000, but 0.5 and not 500m."""
NUMBERS_AXIS = alt.Axis(tickCount=4, labelExpr=NUMBERS)


def throughput(series: pl.DataFrame) -> Any:
    """Operations/s in each second, one panel per step: the median over the rounds, and a band from the lowest to the
    highest round."""
    if series.is_empty():
        return Nothing(["The load generator of this workload does not report each second."])
    series = by_host(series)
    lines = series.filter(pl.col("step").is_in(in_order(series["step"])[:MOST_STEPS]))
    if lines.group_by("step", "dbms").len()["len"].max() == 1:
        return Nothing(["Each step was measured for a second only, which has no course."])
    dbms = in_order(lines["dbms"])
    base = alt.Chart(slim(lines, "step", "dbms", "second", "estimate", "low", "high", "n")).encode(
        x=alt.X("second:Q", title="seconds since the step began", axis=_SECONDS),
        color=colours("dbms", dbms_colours(dbms)),
        tooltip=["dbms:N", "second:Q", *numbers(",.0f")],
    )
    y = alt.Y("estimate:Q", title="operations/s", scale=alt.Scale(zero=True), axis=NUMBERS_AXIS)
    panel = alt.layer(
        base.mark_area(opacity=0.14).encode(y=alt.Y("low:Q", title="operations/s"), y2="high:Q"),
        base.mark_line(strokeWidth=1.8).encode(y=y),
    )
    of_line = lines.group_by("step", "dbms").agg((pl.col("estimate").std() / pl.col("estimate").mean()).alias("cv"))
    worst = of_line.drop_nulls("cv").sort("cv", "step", "dbms", descending=[True, False, False]).row(0, named=True)
    claim = (
        f"From second to second throughput varies by at most {in_percent(worst['cv'])} of its mean ({worst['step']}, "
        f"{worst['dbms']})."
    )
    how = f"Median of {rounds_of(lines['n'])}, in a band from the lowest to the highest; the warm-up is left out."
    if lines["n"].max() == 1:
        how = "Measured seconds only, the warm-up is left out; n is one run, so there is no band."
    some = shown_of(lines["step"].n_unique(), series["step"].n_unique())
    return _panels(panel, "step", in_order(lines["step"]), claim, how + some)


def counters(series: pl.DataFrame) -> Any:
    """The counters of one run or one duet over time, one panel per measure."""
    if series.is_empty():
        return Nothing(["Nothing was sampled: no step lasts a number of seconds here."])
    several = series["run"].n_unique() > 1
    who = in_order(series["who"])
    shown = slim(_thinned(series), "measure", "who", "step", "second", "value")
    panel = (alt.Chart(shown).mark_line(strokeWidth=1.6)).encode(
        x=alt.X("second:Q", title="seconds since the first step began", axis=_SECONDS),
        y=alt.Y("value:Q", title=None, axis=NUMBERS_AXIS),
        color=alt.Color("who:N", title=None, scale=alt.Scale(domain=who, range=list(SERIES))),
        detail="step:N",
        tooltip=["who:N", "step:N", "second:Q", alt.Tooltip("value:Q", format=",.3~f")],
    )
    dbms = series.filter(pl.col("who").str.starts_with("dbms"), measure="CPUs busy")
    busy = dbms.select(pl.col("value").median()).item()
    claim = "No counters were recorded."
    if busy is not None:
        cpus = formatted(busy, ".2f")
        claim = f"{'A' if several else 'The'} dbms had {cpus} CPUs busy, in the median of the seconds."
    how = "One row per second from the system's own counters; n is one run, so there is no interval."
    if several:
        how += " In a duet the counters of client and host are of all its dbms together."
    return _panels(panel, "measure", in_order(series["measure"]), claim, how)


def _panels(panel: Any, column: str, order: list[str], claim: str, how: str) -> Any:
    header = alt.Header(labelAnchor="start", labelOrient="top", labelPadding=4)
    chart = (
        panel.properties(height=PANEL_HEIGHT_PX, width=680)
        .facet(row=alt.Row(f"{column}:N", sort=order, title=None, header=header), spacing=14)
        .resolve_scale(y="independent")
    )
    made = titled(chart, claim, how, min_width_px=300)
    # A facet can't adapt to the page's width: a script of the page sets the width, minus the width of the axis.
    made.usermeta["rqps"]["axes"] = AXES_PX
    return made


def panels(panel: Any, by: str, order: list[str], claim: str, how: str, *, width_px: int) -> Any:
    """Small charts with shared axes, one for each value of the column `by`, three in a row."""
    header = alt.Header(title=None, labelAnchor="start", labelFontSize=12, labelPadding=2)
    facet = alt.Facet(f"{by}:N", sort=order, header=header)
    drawn = panel.properties(width=width_px).facet(facet=facet, columns=3, spacing=12)
    made = titled(alt.vconcat(drawn), claim, how)
    made.usermeta["rqps"] |= {"panel": width_px + 25, "minWidth": 300}
    return made


def _thinned(series: pl.DataFrame) -> pl.DataFrame:
    """The series with at most `MOST_POINTS` points: seconds are grouped into intervals of equal length, and each
    interval has the mean of its values."""
    lines = series.select("measure", "who", "step").n_unique()
    seconds = float(series["second"].max() or 1)  # type: ignore[arg-type]
    piece_s = max(1.0, seconds * series.select("measure", "who").n_unique() / max(1, MOST_POINTS - lines))
    if piece_s == 1.0:
        return series
    at = (pl.col("second") // piece_s * piece_s).alias("second")
    return series.group_by("measure", "who", "step", at, maintain_order=True).agg(pl.col("value").mean())


def duet(study: Study, rounds: pl.DataFrame, compared: pl.DataFrame) -> Any:
    """A chart of the ratio of throughput farthest from 1 and the data behind it: the slices of some cycles of the
    first round, the ratio of each cycle of the first round, and the ratio of each round."""
    compared = compared.filter(metric=THROUGHPUT)
    if compared.is_empty():
        return Sentences([NOT_COMPARED])
    in_cycles = rounds.filter(pl.col("cycles").is_not_null(), metric=THROUGHPUT).select("step").unique()
    compared = compared.join(in_cycles, on="step", how="semi", maintain_order="left")
    if compared.is_empty():
        return Nothing([NO_DUET])
    host, step, dbms = stats.strongest(compared)
    of_it = {"host": host, "step": step, "dbms": dbms, "metric": THROUGHPUT}
    number = compared.filter(**of_it).row(0, named=True)
    of_number = rounds.filter(**of_it).sort("round")
    first = of_number.row(0, named=True)
    of_first = pl.col("run").is_in([first["base_run"], first["run"]]) & (pl.col("step") == step)
    rate = (pl.col("operations") / pl.col("busy_us") * 1e6).alias(THROUGHPUT)
    of_round = study.slices.filter(of_first).with_columns(rate).collect()
    sides = [number["base"], dbms]
    # Slices are numbered over all servers of the duet: where the chart has a gap, another dbms had the load.
    shown = of_round.filter(pl.col("cycle") < CYCLES_SHOWN).sort("slice")
    slices = alt.Chart(slim(shown, "dbms", "cycle", "slice", "operations", THROUGHPUT)).mark_bar(size=9)
    above = slices.encode(
        x=_along("slice"),
        y=alt.Y(f"{THROUGHPUT}:Q", title="operations/s", axis=NUMBERS_AXIS),
        color=colours("dbms", dbms_colours(sides)),
        tooltip=["dbms:N", "cycle:Q", "slice:Q", "operations:Q", alt.Tooltip(f"{THROUGHPUT}:Q", format=",.0f")],
    )
    cycles = _ratios(of_round, first)
    at = alt.Chart(pl.DataFrame({"ratio": [first["ratio"]]})).mark_rule(color=INK).encode(y="ratio:Q")
    middle = alt.layer(_dots(cycles, "cycle", size=16, opacity=0.7, color=MUTED), at)
    mean = alt.Chart(pl.DataFrame([{name: number[name] for name in ("n", "estimate", "low", "high")}]))
    below = [
        _dots(of_number.select("round", "ratio", "cycles"), "round", size=40, color=INK),
        mean.mark_rule(color=INK).encode(y="estimate:Q", tooltip=numbers(".3f")),
    ]
    if number["low"] is not None:
        below.insert(0, mean.mark_rect(opacity=0.15, color=SERIES[1]).encode(y="low:Q", y2="high:Q"))
    how = (
        f"Above, {CYCLES_SHOWN} cycles of round {first['round']}: in each all dbms have the load, one after the "
        f"other and back; gaps are slices of others. In the middle the ratio of each cycle of that round, and "
        f"that of its totals, {formatted(first['ratio'], '.3f')}. Below, the ratio of each round, their mean, and "
        "its interval."
    )
    panels = [
        panel.properties(width=DUET_WIDTH_PX, height=PANEL_HEIGHT_PX) for panel in (above, middle, alt.layer(*below))
    ]
    chart = alt.vconcat(*panels, spacing=14).resolve_scale(color="independent")
    place = host if compared["host"].n_unique() > 1 else ""
    made = titled(chart, finding(f"{step}: {comparison(number)}", place=place), how, min_width_px=300)
    made.usermeta["rqps"]["panel"] = DUET_WIDTH_PX
    return made


def _ratios(of_round: pl.DataFrame, first: dict[str, Any]) -> pl.DataFrame:
    """The ratio of throughput, me / base, in each cycle of a round."""
    rate = pl.col("operations").sum() / pl.col("busy_us").sum()
    sides = [of_round.filter(run=run).group_by("cycle").agg(rate=rate) for run in (first["run"], first["base_run"])]
    both = sides[0].join(sides[1], on="cycle", suffix="_of_base").sort("cycle").head(MOST_CYCLES)
    return both.select("cycle", ratio=pl.col("rate") / pl.col("rate_of_base"))


def _dots(rows: pl.DataFrame, along: str, **mark: Any) -> Any:
    more = [f"{name}:Q" for name in rows.columns if name != "ratio"]
    return (
        alt.Chart(slim(rows, *rows.columns))
        .mark_circle(**mark)
        .encode(
            x=_along(along).scale(padding=20),
            y=alt.Y("ratio:Q", scale=alt.Scale(zero=False, padding=8), axis=alt.Axis(tickCount=4)),
            tooltip=[*more, alt.Tooltip("ratio:Q", format=".4f")],
        )
    )


def _along(name: str) -> alt.X:
    return alt.X(f"{name}:Q", title=name, axis=alt.Axis(grid=False, tickMinStep=1))
