"""Bars of an operation's cost by component, and of its connection's time by what the thread does meanwhile."""

from typing import Any

import altair as alt
import polars as pl

from rqps import show
from rqps.pages.flamegraph_breakdown.findings import Profile
from rqps.profile.call_tree import FOLD_BELOW
from rqps.profile.components import component_colours
from rqps.show.flame import figure, with_error
from rqps.show.theme import MUTED
from rqps.stats import most_changed, usable

MOST_ROWS = 48
NAMED = 10
REST = "the rest"
CONNECTION = "connection"
KINDS = {"seen_network": "waiting for the client", "seen_lock": "waiting for a lock"}
KINDS |= {"seen_disk": "waiting for the disk", "seen_timer": "sleeping", "seen_other": "waiting for something else"}
RUNNING, NO_CPU, BLOCKED = "running", "waiting for a CPU", "waiting"
ORDER = (RUNNING, NO_CPU, *KINDS.values(), BLOCKED)
MOST_ROWS_OF_TIME = 60

_CELL = ["host", "step", "dbms"]
_KEYS = ("host", "dbms", "round", "step")


def components(profile: Profile) -> Any:
    """Stacked bars of an operation's components, base first, relative to the whole operation's cost for its base."""
    parts = profile.components
    if parts.is_empty():
        return show.Nothing(["No profile, so there is nothing to divide."])
    bars = _by_dbms(parts)
    ratios = parts.select(*_CELL, (pl.col("me_measured") / pl.col("base_measured")).alias("estimate"))
    shown = most_changed(ratios.unique(maintain_order=True), MOST_ROWS // bars.select("dbms", "host").n_unique())
    named = _named(bars)
    bars = show.with_rows(show.by_host(bars.filter(pl.col("step").is_in(shown)))).with_columns(
        pl.when(pl.col("part").is_in(named)).then("part").otherwise(pl.lit(REST)).alias("kind")
    )
    bars = bars.group_by("step", "dbms", "row", "kind", maintain_order=True).agg(pl.col("cost", "share").sum())
    totals = bars.group_by("row", maintain_order=True).agg(pl.col("share", "cost").sum())
    totals = totals.with_columns(pl.col("cost").map_elements(figure, pl.String).alias("label"))
    known = component_colours()
    colours = {part: known.get(part, MUTED) for part in named} | {REST: show.GRID}
    unit = parts["unit"][0]
    room = show.room(1.12, totals["share"])
    chart = _stacked(bars, totals, colours, f"{unit}, base = 1", room=room, unit=unit)
    how = (
        f"Each bar is the measured cost, divided as the profile of its stacks is; means of "
        f"{show.rounds_of(parts['n'].to_list())}. Figures are {unit}. Parts that are small everywhere are in "
        f"“{REST}”; errors stand in the tables below."
    )
    return show.titled(chart, _greatest(parts), how, min_width_px=700)


def explorer(profile: Profile, by: str = "") -> Any:
    """The map of all comparisons, with the breakdown and the flame graph of each. `by` names it in addresses."""
    frames = (profile.operations, profile.components, profile.functions, profile.trees)
    return show.flame.explorer(*frames, by=by, fold_below=FOLD_BELOW)


def thread_time(threads: pl.DataFrame | pl.LazyFrame, steps: pl.DataFrame) -> Any:
    """One bar per step and dbms, of the whole time of its connections; a profile explains the first part."""
    time, nameless = time_of_threads(threads, steps), without_connections(threads)
    if time.is_empty():
        return show.Nothing(["What the threads did with their time was not recorded."])
    most_steps = max(1, MOST_ROWS_OF_TIME // time.select("dbms", "host").n_unique())
    shown = show.in_order(time["step"])[:most_steps]
    parts = show.with_rows(show.by_host(_means(time)).filter(pl.col("step").is_in(shown)))
    parts = parts.with_columns(pl.col("kind").cast(pl.String))
    running, whole = pl.col("cost").filter(pl.col("kind") == RUNNING).sum(), pl.col("cost").sum()
    written = (cost.map_elements("{:,.1f}".format, pl.String) for cost in (running, whole))
    totals = parts.group_by("row", "step", "dbms", maintain_order=True).agg(
        pl.col("share").sum(), explained=running / whole, label=pl.format("{} of {} µs", *written)
    )
    kinds = [kind for kind in ORDER if kind in parts["kind"].to_list()]
    others = (show.GRID, *show.SERIES)
    colours = {kind: show.INK if kind == RUNNING else others[place % 10] for place, kind in enumerate(kinds)}
    title = "of the time of its connection's thread"
    chart = _stacked(parts, totals, colours, title, room=alt.Scale(domainMax=1.3), unit="µs/operation", percent=True)
    rounds = time.group_by(_CELL).agg(pl.col("round").n_unique())["round"].to_list()
    without = f" Of {', '.join(nameless)} the threads have no names, and are not here." if nameless else ""
    how = (
        "Running is CPU time of the thread, which a profile divides; it and waiting for a CPU are exact. The rest is "
        "divided by how often the thread was seen at it. Where the client has the same CPU (placement same-cpu or "
        "by-connection), waiting for a CPU is mostly the client's turn: the thread is ready, and the client works. "
        f"Figures: µs running, of µs in all, per operation; "
        f"{'means of ' * (max(rounds) > 1)}{show.rounds_of(rounds)}.{without}"
    )
    ordered = totals.sort("explained").to_dicts()
    least, most = (f"{row['explained']:.0%} ({row['step']}, {row['dbms']})" for row in (ordered[0], ordered[-1]))
    claim = f"A profile of CPU explains from {least} to {most} of the time of the connections' threads."
    return show.titled(chart, claim, how, min_width_px=420)


def time_of_threads(threads: pl.DataFrame | pl.LazyFrame, steps: pl.DataFrame) -> pl.DataFrame:
    """µs of its connection's thread that an operation takes, by what the thread does; together the connections' time.
    All but running and waiting for a CPU is divided by how often threads were seen at what."""
    serving = threads.lazy().filter(role=CONNECTION).collect()
    per_s = usable(steps).select("run", *_KEYS, per_s=pl.col("operations") / pl.col("elapsed_s"))
    whole = serving.join(per_s, on=["run", *_KEYS], maintain_order="left").with_columns(
        operations=pl.col("per_s") * pl.col("elapsed_s"),  # while the threads were watched
        blocked_s=pl.max_horizontal(
            pl.col("threads") * pl.col("elapsed_s") - pl.col("running_s") - pl.col("waiting_s"), 0.0
        ),
        seen=pl.sum_horizontal(*KINDS, ignore_nulls=False),
    )
    known = pl.col("seen").fill_null(0) > 0
    divided = pl.when(known).then(pl.col("blocked_s") / pl.col("seen")).otherwise(0.0)
    parts = {
        RUNNING: pl.col("running_s"),
        NO_CPU: pl.col("waiting_s"),
        **{kind: pl.when(known).then(divided * pl.col(seen)).otherwise(0.0) for seen, kind in KINDS.items()},
        BLOCKED: pl.when(known).then(0.0).otherwise("blocked_s"),
    }
    long = whole.select(*_KEYS, "operations", *(part.alias(kind) for kind, part in parts.items())).unpivot(
        index=[*_KEYS, "operations"], variable_name="kind", value_name="seconds"
    )
    there = long.filter((pl.col("seconds") > 0) | pl.col("kind").is_in([RUNNING, NO_CPU]))
    return there.select(
        *_KEYS,
        pl.col("kind").cast(pl.Enum(ORDER)),
        us_per_operation=pl.col("seconds") * 1e6 / pl.col("operations"),
        share=pl.col("seconds") / pl.col("seconds").sum().over(_KEYS),
    ).sort(*_KEYS, "kind")


def without_connections(threads: pl.DataFrame | pl.LazyFrame) -> list[str]:
    """The dbms whose threads were watched, but none of which was recognised as serving a client."""
    roles = threads.lazy().select("dbms", "role").unique().collect()
    return sorted({*roles["dbms"]} - {*roles.filter(role=CONNECTION)["dbms"]})


def _stacked(
    bars: pl.DataFrame,
    totals: pl.DataFrame,
    colours: dict[str, str],
    title: str,
    *,
    room: alt.Scale,
    unit: str,
    percent: bool = False,
) -> Any:
    """Bars of `share` by `kind`, one per `row`, in the order of `colours`; `totals` has their labels."""
    place = {kind: number for number, kind in enumerate(colours)}
    axis, height = show.row_axis(bars)
    kinds = [kind for kind in colours if kind in bars["kind"].to_list()]
    ticks = alt.Axis(tickCount=6, format="%") if percent else alt.Axis(tickCount=8)
    x = alt.X("share:Q", stack="zero", title=title, axis=ticks, scale=room)
    legend = alt.Legend(title=None, columns=3 if percent else 4, labelLimit=180)
    placed = bars.with_columns(pl.col("kind").replace_strict(place, return_dtype=pl.Int32).alias("place"))
    scale = alt.Scale(domain=kinds, range=[colours[kind] for kind in kinds])
    colour = alt.Color("kind:N", sort=kinds, scale=scale, legend=legend)
    tooltip: list[Any] = ["row:N", alt.Tooltip("kind:N", title="part")]
    tooltip += [alt.Tooltip("cost:Q", format=",.3~f", title=unit), alt.Tooltip("share:Q", format=".1%")]
    return alt.layer(
        alt.Chart(show.slim(placed, "row", "kind", "place", "cost", "share"))
        .mark_bar(height=14, stroke="#ffffff", strokeWidth=0.5)
        .encode(x=x, y=axis, color=colour, order="place:Q", tooltip=tooltip),
        alt.Chart(show.slim(totals, "row", "share", "label"))
        .mark_text(align="left", dx=5, fontSize=11, color=show.INK)
        .encode(x="share:Q", y=axis, text="label:N"),
    ).properties(width="container", height=height)


def _by_dbms(parts: pl.DataFrame) -> pl.DataFrame:
    """One row per component of each dbms; the base's are those of its first comparison."""
    keys = ["host", "step"]
    base = parts.select(*keys, "part", "base_measured", dbms="base", cost="base_estimate")
    base = base.unique([*keys, "part"], keep="first", maintain_order=True)
    me = parts.select(*keys, "part", "base_measured", "dbms", cost="me_estimate")
    both = pl.concat([base, me]).with_columns((pl.col("cost") / pl.col("base_measured")).alias("share"))
    of_steps = both.partition_by(keys, as_dict=True)
    return pl.concat(of_steps[cell] for cell in parts.select(keys).unique(maintain_order=True).iter_rows())


def _named(bars: pl.DataFrame) -> list[str]:
    """The components that matter most anywhere; their order is that of their mean."""
    share = pl.col("share")
    most = bars.group_by("part", maintain_order=True).agg(most=share.max(), mean=share.mean())
    named = most.sort("most", descending=True, maintain_order=True).head(NAMED)
    return named.sort("mean", descending=True, maintain_order=True)["part"].to_list()


def _greatest(parts: pl.DataFrame) -> str:
    """The component that grew most, in a sentence."""
    most = parts.sort("estimate", descending=True, maintain_order=True).row(0, named=True)
    if most["low"] <= 0:
        return f"No component of any step costs more than with {most['base']} beyond its error."
    cost = with_error(most["estimate"], most["high"] - most["estimate"])
    return f"The greatest increase is of {most['part']}: {cost} {most['unit']} in {most['step']} for {most['dbms']}."


def _means(time: pl.DataFrame) -> pl.DataFrame:
    """The mean of the rounds; a kind that a round has none of counts as none."""
    rounds = time.group_by(_CELL).agg(pl.col("round").n_unique().alias("rounds"))
    sums = time.group_by(*_CELL, "kind", maintain_order=True).agg(pl.col("us_per_operation").sum())
    means = sums.join(rounds, on=_CELL).with_columns((pl.col("us_per_operation") / pl.col("rounds")).alias("cost"))
    share = pl.col("cost") / pl.col("cost").sum().over(_CELL)
    return means.with_columns(share.alias("share")).sort(*_CELL, "kind")
