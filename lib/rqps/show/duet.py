"""A duet as a chart: the slices of some cycles, the ratio of each cycle of one round, and the ratio of each round."""

from typing import Any

import altair as alt
import polars as pl

from rqps import stats
from rqps.show.lines import NUMBERS_AXIS
from rqps.show.rows import slim
from rqps.show.sentences import comparison, finding
from rqps.show.theme import INK, MUTED, SERIES, colours, dbms_colours, numbers, titled
from rqps.show.words import NOT_COMPARED, Nothing, Sentences
from rqps.stats.metrics import THROUGHPUT
from rqps.store import Study

CYCLES_SHOWN, MOST_CYCLES = 4, 400
HEIGHT_PX, WIDTH_PX = 130, 680
NO_DUET = "Here every dbms ran by itself, or had a load of its own: there are no slices with operations to show."


def duet(study: Study, rounds: pl.DataFrame, compared: pl.DataFrame) -> Any:
    """The ratio farthest from 1 and its data: slices of some cycles of its first round, the ratio of each cycle of
    that round, and the ratio of each round."""
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
    # Slices follow each other without a gap; between the slices of the two sides lie slices of other servers.
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
        f"that of its totals, {first['ratio']:.3f}. Below, the ratio of each round, their mean, and its interval."
    )
    panels = [panel.properties(width=WIDTH_PX, height=HEIGHT_PX) for panel in (above, middle, alt.layer(*below))]
    chart = alt.vconcat(*panels, spacing=14).resolve_scale(color="independent")
    place = host if compared["host"].n_unique() > 1 else ""
    made = titled(chart, finding(f"{step}: {comparison(number)}", place=place), how, min_width_px=300)
    made.usermeta["rqps"]["panel"] = WIDTH_PX
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
