"""Pictures of a study's health: the noise floor of each step, and the rounds side by side."""

from typing import Any

import altair as alt
import polars as pl

from rqps.pages.measurement_health.tables import METRICS, all_steps, on_hosts
from rqps.show import INK, MUTED, ROW_PX, SERIES, VERDICT_COLOURS, Sentences, in_order, on_rows, slim
from rqps.show.lines import panels
from rqps.stats import Health, verdict
from rqps.stats.health import deviations
from rqps.stats.metrics import THROUGHPUT
from rqps.terminal import percent

MOST_STEPS = 60
PANEL_PX = 330
TICKS = [ten * each for ten in (0.001, 0.01, 0.1, 1.0) for each in (1, 2, 5)]
_NOTED = {"as usual": MUTED, "disturbed": SERIES[4], "far": VERDICT_COLOURS["slower"]}


def smallest_differences(found: Health) -> Any:
    """A dot per step and metric: the smallest difference that its rounds resolve."""
    known = on_hosts(found.steps.drop_nulls("noise_floor"))
    if known.is_empty():
        return Sentences([f"It takes {verdict.ROUNDS_FOR_A_VERDICT} rounds to resolve any difference."])
    order = (
        known.group_by("step").agg(pl.col("noise_floor").max()).sort("noise_floor", "step", descending=True)["step"]
    )
    shown = known.filter(pl.col("step").is_in(order.head(MOST_STEPS).to_list()))
    rows = slim(shown, "step", "metric", "rounds", "noise_floor").with_columns(pl.col("metric").replace(METRICS))
    axis = alt.Axis(format="~%", values=TICKS, labelOverlap=True)
    x = alt.X(
        "noise_floor:Q",
        title="smallest difference resolved (logarithmic)",
        scale=alt.Scale(type="log"),
        axis=axis,
    )
    y = alt.Y("step:N", title=None, sort=order.to_list(), axis=alt.Axis(ticks=False, domain=False))
    colour = alt.Color("metric:N", title=None, scale=alt.Scale(domain=list(METRICS.values()), range=list(SERIES)))
    tooltip = ["step:N", "metric:N", "rounds:Q", alt.Tooltip("noise_floor:Q", format=".2p")]
    dots = alt.Chart(rows).mark_point(filled=True, size=60, opacity=0.9)
    dots = dots.encode(x=x, y=y, color=colour, tooltip=tooltip)
    least = found.study.card.smallest_effect
    near = pl.DataFrame({"at": [least]})
    line = alt.Chart(near).mark_rule(color=INK, strokeDash=[4, 3]).encode(x="at:Q")
    of_throughput = found.steps.filter(metric=THROUGHPUT)
    able = int((of_throughput["noise_floor"] <= least).sum())
    claim = f"A difference of {percent(least)} in throughput is resolved in {able} of {all_steps(of_throughput)}."
    how = (
        "Half of the interval that decides, for the dbms of a step whose rounds spread most. The dashed line is "
        f"{percent(least)}, below which a difference is called the same."
        + (f" The {MOST_STEPS} steps with the highest noise floor are shown." if len(order) > MOST_STEPS else "")
    )
    return on_rows([line, dots], ROW_PX * rows["step"].n_unique() + 20, claim, how)


def over_rounds(found: Health) -> Any:
    """The base alone and the ratios to it, round by round: where half of the comparisons are, and where most are."""
    if found.by_round.height < 2 or found.rounds.is_empty():
        return Sentences(["There are no rounds to be compared with each other."])
    at, where = pl.col("off"), ["what", "host", "round"]
    off = deviations(found.rounds.filter(metric=THROUGHPUT))
    names = {"base_off": f"{found.study.card.base} alone", "off": "ratios to it"}
    long = off.select("host", "round", *names).rename(names)
    drawn = (
        long.unpivot(on=list(names.values()), index=["host", "round"], variable_name="what", value_name="off")
        .with_columns(at.exp() - 1)
        .group_by(where)
        .agg(at.median().alias("estimate"), at.quantile(0.1).alias("low"), at.quantile(0.9).alias("high"))
        .join(found.by_round.select("host", "round", "far", "disturbed"), on=["host", "round"])
        .with_columns(
            noted=pl.when("far")
            .then(pl.lit("far"))
            .when("disturbed")
            .then(pl.lit("disturbed"))
            .otherwise(pl.lit("as usual"))
        )
    )
    several = drawn["host"].n_unique() > 1
    drawn = drawn.sort("host", pl.col("what").str.starts_with("ratios"), "round")
    spreads = drawn.group_by("host", "what", maintain_order=True).agg(
        ((pl.col("high") - pl.col("low")) / 2).median().alias("reach")
    )
    if several:
        drawn = drawn.with_columns(pl.format("{}, {}", "what", "host").alias("what"))
    kept = slim(drawn, "what", "round", "estimate", "low", "high", "noted")
    percents = alt.Axis(format="+.0~%", tickCount=5)
    form = [alt.Tooltip(f"{name}:Q", format="+.2%") for name in ("estimate", "low", "high")]
    base = alt.Chart().encode(
        x=alt.X("round:O", title="round", axis=alt.Axis(labelAngle=0, labelOverlap=True)),
        color=alt.Color("noted:N", title=None, scale=alt.Scale(domain=list(_NOTED), range=list(_NOTED.values()))),
        tooltip=["what:N", "round:Q", *form, "noted:N"],
    )
    y = alt.Y("estimate:Q", title="from the middle of all rounds", axis=percents)
    panel = alt.layer(
        base.mark_rule(strokeWidth=5, opacity=0.45).encode(y=alt.Y("low:Q", axis=percents), y2="high:Q"),
        base.mark_point(filled=True, size=45, opacity=1).encode(y=y),
        data=kept,
    ).properties(height=190)
    order = in_order(drawn["what"])
    reaches = [
        f"on {host}: " * several + ", ".join(f"{what} ± {percent(reach)}" for _, what, reach in of_host.iter_rows())
        for (host,), of_host in spreads.group_by("host", maintain_order=True)
    ]
    said = f"From round to round{', ' if several else ': '}{'; '.join(reaches)}."
    how = (
        "Throughput of each round relative to the middle of its comparison's rounds: a dot is the median of all "
        f"steps and dbms, the bar holds eight of ten. {'All' if several else 'Both'} panels have one axis."
    )
    return panels(panel, "what", order, said, how, width_px=PANEL_PX)
