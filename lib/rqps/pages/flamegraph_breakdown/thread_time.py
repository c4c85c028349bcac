"""What the server's threads do with a client's time, as shares of it."""

from collections.abc import Sequence
from typing import Any

import altair as alt
import polars as pl

from rqps.stats.metrics import usable
from rqps.view.rows import height_of, row_axis, slim, with_rows
from rqps.view.text import Sentences
from rqps.view.theme import GRID, INK, SERIES, by_host, rounds_of, titled

CONNECTION = "connection"
KINDS = {
    "seen_network": "waiting for the client",
    "seen_lock": "waiting for a lock",
    "seen_disk": "waiting for the disk",
    "seen_timer": "sleeping",
    "seen_other": "waiting for something else",
}
RUNNING, NO_CPU, BLOCKED = "running", "waiting for a CPU", "waiting"
ORDER = (RUNNING, NO_CPU, *KINDS.values(), BLOCKED)

_KEYS = ("host", "dbms", "round", "step")
MOST_ROWS = 60
_FEW = alt.Axis(tickCount=6, format="%")


def time_of_threads(threads: pl.DataFrame | pl.LazyFrame, steps: pl.DataFrame) -> pl.DataFrame:
    """µs of its connection's thread that an operation takes, by what the thread does meanwhile.

    The parts of a step add up to the time of its connections. `running` is what a profile explains; it and
    `waiting for a CPU` are exact, the rest is divided by how often threads were seen at what, or is all `waiting`
    where that is not known. `steps` are those of the same runs.
    """
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
    parts = {
        RUNNING: pl.col("running_s"),
        NO_CPU: pl.col("waiting_s"),
        **{
            kind: pl.when(known).then(pl.col("blocked_s") * pl.col(seen) / pl.col("seen")).otherwise(0.0)
            for seen, kind in KINDS.items()
        },
        BLOCKED: pl.when(known).then(0.0).otherwise("blocked_s"),
    }
    long = whole.select(*_KEYS, "operations", *(part.alias(kind) for kind, part in parts.items())).unpivot(
        index=[*_KEYS, "operations"], variable_name="kind", value_name="seconds"
    )
    return (
        long.filter((pl.col("seconds") > 0) | pl.col("kind").is_in([RUNNING, NO_CPU]))
        .with_columns(share=pl.col("seconds") / pl.col("seconds").sum().over(_KEYS))
        .select(
            *_KEYS,
            pl.col("kind").cast(pl.Enum(ORDER)),
            (pl.col("seconds") * 1e6 / pl.col("operations")).alias("us_per_operation"),
            "share",
        )
        .sort(*_KEYS, "kind")
    )


def threads_not_told(threads: pl.DataFrame | pl.LazyFrame) -> list[str]:
    """The dbms whose threads were watched, but none of which could be told to serve a client."""
    roles = threads.lazy().select("dbms", "role").unique().collect()
    serving = roles.filter(role=CONNECTION)["dbms"]
    return roles.filter(~pl.col("dbms").is_in(serving.to_list()))["dbms"].unique().sort().to_list()


def thread_time(time: pl.DataFrame, not_told: Sequence[str] = ()) -> Any:
    """One bar a step and dbms, of the whole time of its connections; the first part is what a profile explains.

    `not_told` are the dbms whose threads could not be told apart.
    """
    if time.is_empty():
        return Sentences(["What the threads did with their time was not recorded."])
    kinds = pl.Series(time["kind"].dtype.categories).to_list()  # type: ignore[attr-defined]
    parts = with_rows(by_host(_means(time)).filter(pl.col("step").is_in(_steps(time))))
    totals = _totals(parts)
    shown = [kind for kind in kinds if kind in parts["kind"].to_list()]
    colours = [INK if kind == RUNNING else (GRID, *SERIES)[place % 10] for place, kind in enumerate(shown)]
    axis, height = row_axis(parts), height_of(parts)
    order = pl.col("kind").cast(pl.String).replace_strict({kind: at for at, kind in enumerate(kinds)})
    bars = slim(
        parts.with_columns(pl.col("kind").cast(pl.String), place=order), "row", "kind", "place", "us", "share"
    )
    chart = alt.layer(
        alt.Chart(bars)
        .mark_bar(height=13)
        .encode(
            x=alt.X(
                "share:Q",
                stack="zero",
                title="of the time of its connection's thread",
                axis=_FEW,
                scale=alt.Scale(domainMax=1.3),
            ),
            y=axis,
            color=alt.Color(
                "kind:N",
                sort=shown,
                scale=alt.Scale(domain=shown, range=colours),
                legend=alt.Legend(title=None, columns=3, labelLimit=180),
            ),
            order="place:Q",
            tooltip=[
                "row:N",
                "kind:N",
                alt.Tooltip("us:Q", format=",.2f", title="µs/operation"),
                alt.Tooltip("share:Q", format=".1%"),
            ],
        ),
        alt.Chart(slim(totals, "row", "share", "label"))
        .mark_text(align="left", dx=5, fontSize=11, color=INK)
        .encode(x="share:Q", y=axis, text="label:N"),
    ).properties(width="container", height=height)
    rounds = time.group_by("host", "dbms", "step").agg(pl.col("round").n_unique())["round"].to_list()
    without = f" Of {', '.join(not_told)} the threads have no names, and are not here." if not_told else ""
    how = (
        "Running is CPU time of the thread, which a profile divides; it and waiting for a CPU are exact. The rest is "
        "divided by how often the thread was seen at it. Where the load generator has the same CPU (placement "
        "same-cpu), waiting for a CPU is mostly the client's turn: the thread is ready, and the client works. "
        "Figures: "
        f"µs running, of µs in all, per operation; {'means of ' * (max(rounds) > 1)}{rounds_of(rounds)}.{without}"
    )
    return titled(chart, _claim(totals), how, min_width_px=420)


def _means(time: pl.DataFrame) -> pl.DataFrame:
    """The mean of the rounds; a kind that a round has none of counts as none."""
    rounds = time.group_by("host", "dbms", "step").agg(pl.col("round").n_unique().alias("rounds"))
    keys = ["host", "step", "dbms"]
    sums = time.group_by(*keys, "kind", maintain_order=True).agg(pl.col("us_per_operation").sum())
    means = sums.join(rounds, on=keys).with_columns((pl.col("us_per_operation") / pl.col("rounds")).alias("us"))
    whole = pl.col("us").sum().over(keys)
    return means.with_columns((pl.col("us") / whole).alias("share"), whole.alias("all_us")).sort(*keys, "kind")


def _totals(parts: pl.DataFrame) -> pl.DataFrame:
    running = pl.col("us").filter(pl.col("kind") == RUNNING).sum()
    label = pl.struct(running.alias("running"), pl.col("us").sum().alias("all"))
    return (
        parts.group_by("row", "step", "dbms", maintain_order=True)
        .agg(pl.col("share").sum(), (running / pl.col("us").sum()).alias("explained"), label.alias("sums"))
        .with_columns(pl.col("sums").map_elements(_of_all, pl.String).alias("label"))
    )


def _of_all(sums: dict[str, float]) -> str:
    return f"{sums['running']:,.1f} of {sums['all']:,.1f} µs"


def _steps(time: pl.DataFrame) -> list[str]:
    steps = time["step"].unique(maintain_order=True)
    return steps.head(max(1, MOST_ROWS // time.select("dbms", "host").n_unique())).to_list()


def _claim(totals: pl.DataFrame) -> str:
    least, most = totals.sort("explained").row(0, named=True), totals.sort("explained").row(-1, named=True)
    return (
        f"A profile of CPU explains from {least['explained']:.0%} ({least['step']}, {least['dbms']}) to "
        f"{most['explained']:.0%} ({most['step']}, {most['dbms']}) of the time of the connections' threads."
    )
