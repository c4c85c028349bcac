"""A duet as a picture: slices of some cycles, the ratios of a round's cycles, and those of all rounds."""

from typing import Any

import altair as alt
import polars as pl

from rqps import stats
from rqps.store import Study
from rqps.view.lines import NUMBERS_AXIS
from rqps.view.rows import slim
from rqps.view.theme import INK, MUTED, SERIES, numbers, titled
from rqps.view.words import NOT_COMPARED, Sentences, number_of

CYCLES_SHOWN, MOST_CYCLES = 4, 400
HEIGHT_PX, WIDTH_PX = 130, 680
NO_DUET = "No duet: here every dbms ran by itself, so that there are no slices to show."


def duet(study: Study, rounds: pl.DataFrame, compared: pl.DataFrame) -> Any:
    """The number farthest from 1, from its slices: some cycles of its first round, all of them, and all rounds."""
    if compared.is_empty():
        return Sentences([NOT_COMPARED])
    step, dbms = stats.strongest(compared)
    number = compared.filter(step=step, dbms=dbms, metric="operations_per_s").row(0, named=True)
    of_number = rounds.filter(step=step, dbms=dbms, metric="operations_per_s", host=number["host"]).sort("round")
    first = of_number.row(0, named=True)
    runs = dict.fromkeys((first["base_run"], first["run"]))
    rate = (pl.col("operations") / pl.col("busy_us") * 1e6).alias("operations_per_s")
    found = study.slices.filter(pl.col("run").is_in(list(runs)), step=step).with_columns(rate).collect()
    if found.is_empty():
        return Sentences([NO_DUET])
    cycles = _ratios(found.filter(pl.col("cycle") < MOST_CYCLES), first)
    shown = found.filter(pl.col("cycle") < CYCLES_SHOWN).sort("slice")
    sides = [number["base"], dbms]
    # A slice begins where the one before it ends; those of other servers lie between.
    colour = alt.Color("dbms:N", title=None, sort=sides, scale=alt.Scale(domain=sides, range=list(SERIES[:2])))
    of_slice: list[Any] = [
        "dbms:N",
        "cycle:Q",
        "slice:Q",
        "operations:Q",
        alt.Tooltip("operations_per_s:Q", format=",.0f"),
    ]
    slices = alt.Chart(slim(shown, "dbms", "cycle", "slice", "operations", "operations_per_s")).mark_bar(size=9)
    above = slices.encode(
        x=alt.X("slice:Q", title="slice", axis=alt.Axis(grid=False, tickMinStep=1)),
        y=alt.Y("operations_per_s:Q", title="operations/s", axis=NUMBERS_AXIS),
        color=colour,
        tooltip=of_slice,
    )
    y = alt.Scale(zero=False, padding=8)
    of_cycle: list[Any] = ["cycle:Q", alt.Tooltip("ratio:Q", format=".4f")]
    middle = (
        alt.Chart(slim(cycles, "cycle", "ratio"))
        .mark_circle(size=16, opacity=0.7, color=MUTED)
        .encode(
            x=alt.X("cycle:Q", title="cycle", axis=alt.Axis(grid=False, tickMinStep=1)),
            y=alt.Y("ratio:Q", title="ratio", scale=y, axis=alt.Axis(tickCount=4)),
            tooltip=of_cycle,
        )
    )
    at = alt.Chart(pl.DataFrame({"ratio": [first["ratio"]]})).mark_rule(color=INK).encode(y="ratio:Q")
    below = _rounds(of_number, number, y)
    how = (
        f"Above, {CYCLES_SHOWN} cycles of round {first['round']}: in each all dbms have the load, one after the "
        f"other and back; gaps are slices of others. In the middle the ratio of each cycle of that round, and "
        f"their median, {first['ratio']:.3f}. Below, the ratio of each round, their mean, and its interval."
    )
    panels = [panel.properties(width=WIDTH_PX, height=HEIGHT_PX) for panel in (above, alt.layer(middle, at), below)]
    chart = alt.vconcat(*panels, spacing=14).resolve_scale(color="independent")
    made = titled(chart, f"{step}: {dbms} does {number_of(number)} of {number['base']}.", how, min_width_px=300)
    made.usermeta["rqps"]["panel"] = WIDTH_PX
    return made


def _ratios(slices: pl.DataFrame, first: dict[str, Any]) -> pl.DataFrame:
    """The ratio of each cycle that both have whole, as `stats` divides them."""
    of_cycle = slices.group_by("run", "cycle").agg(pl.col("operations", "busy_us").sum(), pl.len())
    rates = of_cycle.filter(pl.col("len") == 2).select("run", "cycle", rate=pl.col("operations") / pl.col("busy_us"))
    base = rates.filter(run=first["base_run"]).select("cycle", base_rate="rate")
    return (
        rates.filter(run=first["run"])
        .join(base, on="cycle")
        .select("cycle", ratio=pl.col("rate") / pl.col("base_rate"))
        .sort("cycle")
    )


def _rounds(of_number: pl.DataFrame, number: dict[str, Any], y: alt.Scale) -> Any:
    mean = pl.DataFrame([{name: number[name] for name in ("n", "median", "low", "high")}])
    of_round: list[Any] = ["round:Q", "cycles:Q", alt.Tooltip("ratio:Q", format=".4f")]
    dots = alt.Chart(slim(of_number, "round", "ratio", "cycles")).mark_circle(size=40, color=INK)
    layers: list[Any] = [
        dots.encode(
            x=alt.X("round:Q", title="round", axis=alt.Axis(grid=False, tickMinStep=1), scale=alt.Scale(padding=20)),
            y=alt.Y("ratio:Q", title="ratio", scale=y, axis=alt.Axis(tickCount=4)),
            tooltip=of_round,
        ),
        alt.Chart(mean).mark_rule(color=INK).encode(y="median:Q", tooltip=numbers(".3f")),
    ]
    if number["low"] is not None:
        layers.insert(0, alt.Chart(mean).mark_rect(opacity=0.15, color=SERIES[1]).encode(y="low:Q", y2="high:Q"))
    return alt.layer(*layers)
