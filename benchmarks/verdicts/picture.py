"""The picture of a real duet in docs/verdicts.md: its slices, its cycles, its rounds."""

from pathlib import Path
from typing import Any

import altair as alt
import polars as pl
import rqps
from rqps import stats
from rqps.show.theme import GRID, INK, MUTED, SERIES, VERDICT_COLOURS
from rqps.store.read import Study
from rqps.study import SMALLEST_EFFECT

CYCLES_SHOWN = 4
WIDTH_PX = 700


def draw(name: str, dbms: str | None, step: str, data: Path | None, to: Path) -> None:
    """Writes the picture of one step of a study as SVG."""
    study = rqps.load(name, data)
    base = study.card.base
    me = dbms or next(other for other in study.card.dbms if other != base)
    values = stats.measured(study, ("operations_per_s",))
    paired = stats.rounds(values, study.runs, base)
    compared = stats.compare(paired).filter(step=step, dbms=me)
    own = paired.filter(step=step, dbms=me)
    first = own["round"].min()
    charts = [
        _slices(study, step, first, base, me),
        _cycles(study, step, base, me, own.filter(round=first)),
        _rounds(own, compared),
    ]
    to.parent.mkdir(parents=True, exist_ok=True)
    chart: Any = (
        alt.vconcat(*charts, spacing=22)
        .resolve_scale(color="independent")
        .configure(font="sans-serif", background="#ffffff")
    )
    chart = chart.configure_axis(gridColor=GRID, labelColor=INK, titleColor=MUTED, titleFontWeight="normal")
    chart = chart.configure_title(anchor="start", color=INK, subtitleColor=MUTED, fontSize=13, offset=8)
    chart.configure_view(stroke=None).configure_legend(titleColor=MUTED, labelColor=INK).save(to)
    print(f"{to}: {name}, {me} against {base}, {step}, {compared['verdict'].item()}")


def _slices(study: Study, step: str, number: Any, base: str, me: str) -> Any:
    every = study.slices.filter(pl.col("step") == step, pl.col("round") == number).sort("slice").collect()
    ends = pl.col("busy_us").cum_sum() / 1e3
    shown = (
        every.filter(pl.col("cycle").is_between(1, CYCLES_SHOWN))  # the first cycle finds cold caches
        .with_columns(
            (ends - pl.col("busy_us") / 1e3).alias("from"),
            ends.alias("to"),
            (pl.col("operations") / pl.col("busy_us") * 1e6).alias("operations a second"),
        )
        .with_columns((pl.col("from") + pl.col("to")).truediv(2).alias("middle"))
    )
    names = [base, me, *sorted(set(shown["dbms"]) - {base, me})]
    colour = alt.Color(
        "dbms:N", scale=alt.Scale(domain=names, range=[*SERIES]), title=None, legend=alt.Legend(orient="top")
    )
    time = alt.X("from:Q", title="milliseconds", scale=alt.Scale(nice=False))
    bars = (
        alt.Chart(shown)
        .mark_rect(stroke="#ffffff", strokeWidth=0.5)
        .encode(
            time, x2="to", y=alt.Y("operations a second:Q", axis=alt.Axis(format="~s")), y2=alt.datum(0), color=colour
        )
    )
    edges = shown.group_by("cycle", maintain_order=True).agg(pl.col("from").min(), pl.col("to").max())
    cycles = edges.with_columns(
        pl.format("cycle {}", "cycle").alias("name"), (pl.col("from") + pl.col("to")).truediv(2).alias("middle")
    )
    lines = alt.Chart(cycles).mark_rule(color=INK, strokeDash=[3, 3]).encode(x="to:Q")
    words = (
        alt.Chart(cycles)
        .mark_text(color=INK, baseline="bottom", dy=-4)
        .encode(x="middle:Q", y=alt.value(0), text="name")
    )
    order = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[: len(names)]
    turns = " ".join(order + order[::-1])
    title = f"Slices: all servers are up, one at a time has the load, in the order {turns}, which is a cycle"
    return (bars + lines + words).properties(width=WIDTH_PX, height=110, title=title)


def _cycles(study: Study, step: str, base: str, me: str, round_: pl.DataFrame) -> Any:
    of_round = study.slices.filter(pl.col("step") == step, pl.col("round") == round_["round"].item())
    rate = pl.col("operations").sum() / pl.col("busy_us").sum()
    rates = of_round.group_by("cycle", "dbms").agg(rate).collect().pivot("dbms", index="cycle", values="operations")
    dots = rates.sort("cycle").select("cycle", ratio=pl.col(me) / pl.col(base)).drop_nulls()
    low, high = dots.select(
        pl.col("ratio").quantile(0.01).alias("low"), pl.col("ratio").quantile(0.99).alias("high")
    ).row(0)
    axis = alt.Y("ratio:Q", title="me / base", scale=alt.Scale(domain=[low - 0.02, high + 0.02], clamp=True))
    points = (
        alt.Chart(dots)
        .mark_circle(size=14, color=MUTED, opacity=0.6)
        .encode(alt.X("cycle:Q", scale=alt.Scale(nice=False)), axis)
    )
    middle = alt.Chart(round_).mark_rule(color=SERIES[1], strokeWidth=2).encode(y="ratio:Q")
    title = (
        f"Cycles: each has a ratio; that of the totals of this round's {dots.height} is {round_['ratio'].item():.3f}"
    )
    return (points + middle).properties(width=WIDTH_PX, height=110, title=title)


def _rounds(own: pl.DataFrame, compared: pl.DataFrame) -> Any:
    ratio, error = pl.col("ratio"), pl.col("error").fill_null(0)
    values = own.sort("round").select(
        pl.format("round {}", "round").alias("of"),
        "ratio",
        (ratio.log() - 2 * error).exp().alias("low"),
        (ratio.log() + 2 * error).exp().alias("high"),
        pl.lit("round").alias("kind"),
    )
    page = compared.select(
        pl.lit("page").alias("of"), pl.col("estimate").alias("ratio"), "low", "high", pl.col("verdict").alias("kind")
    )
    shown = pl.concat([values, page.select(values.columns)]).with_row_index("order")
    colours = {"round": MUTED, **VERDICT_COLOURS}
    colour = alt.Color("kind:N", scale=alt.Scale(domain=list(colours), range=list(colours.values())), legend=None)
    where = alt.Y("of:N", sort=alt.SortField("order"), title=None)
    near = SMALLEST_EFFECT
    ends = [*(shown[name].drop_nulls().to_list() for name in ("low", "high"))]
    domain = [min(1 - 1.2 * near, *ends[0]), max(1 + 1.2 * near, *ends[1])]
    scale = alt.X(
        "ratio:Q", title="me / base", axis=alt.Axis(tickCount=8), scale=alt.Scale(domain=domain, zero=False)
    )
    band = alt.Chart(pl.DataFrame({"from": [1 - near], "to": [1 + near]})).mark_rect(color=GRID, opacity=0.6)
    same = band.encode(x="from:Q", x2="to:Q")
    lines = alt.Chart(shown).mark_rule(strokeWidth=2).encode(alt.X("low:Q"), alt.X2("high:Q"), where, colour)
    points = alt.Chart(shown).mark_circle(size=60, opacity=1).encode(scale, where, color=colour)
    verdict, low, high = compared.select("verdict", "low", "high").row(0)
    interval = "" if low is None else f" ({low:.3f} to {high:.3f})"
    title = f"Rounds, from new starts: their mean is {compared['estimate'].item():.3f}{interval}: {verdict}"
    return (same + lines + points).properties(width=WIDTH_PX, height=18 * shown.height + 10, title=title)
