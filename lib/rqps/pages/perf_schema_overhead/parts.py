"""Parts of the performance schema: the CPU that each adds alone, their sum, the whole, and the rest."""

from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Any

import altair as alt
import polars as pl

from rqps import show
from rqps.engines.mysql.perf_schema import DISABLED, ENABLED
from rqps.show import INK, Nothing
from rqps.show.theme import numbers
from rqps.stats import STUDENT, absolute
from rqps.stats.metrics import CPU
from rqps.stats.scenarios import cpu_costs, scenario_rounds
from rqps.store.read import Study

SUM, REST = "sum of the parts", "left over"
_ROLES = {
    "part": ("a part alone", "#56b4e9"),
    "sum": ("their sum", "#0072b2"),
    "whole": ("all at once", "#1c2630"),
    "rest": ("left over", "#d55e00"),
    "within": ("a piece of a part", "#b9dff5"),
}
_ALL_HANG_ON = ("global_instrumentation", "thread_instrumentation")
_MOST_TRIED = 14  # scenarios of which every choice is tried: 16384
_KEYS = ("host", "build", "step", "position", "scenario")

Enabled = Mapping[str, frozenset[str]]
"""Instruments and consumers of each scenario."""


def scenario_parts(study: Study) -> pl.DataFrame:
    """CPU µs per operation that each part adds to all-disabled, their sum within a round, all-enabled, and the rest.

    `role` is part, sum, whole, rest, or `within` for a piece of a part; `covers` is its share of all-enabled.
    """
    rounds = scenario_rounds(study).filter(metric=CPU, against=DISABLED)
    found = [
        part
        for _, of_build in rounds.group_by("host", "build", maintain_order=True)
        for part in _of_build(of_build, _enabled(study.settings, of_build))
    ]
    if not found:
        return pl.DataFrame(schema=[*_KEYS, "role"])
    added = {"estimate": "added", "low": "added_low", "high": "added_high"}
    costs = cpu_costs(study, DISABLED).select(*_KEYS, **added)  # one figure here and in the table of costs
    return pl.concat(found).update(costs, on=_KEYS)


def disjoint(enabled: Enabled) -> tuple[str, ...]:
    """Those of named sets that share nothing and together have the most; of equally good choices, that of most sets.

    >>> disjoint({"mdl": frozenset("a"), "waits": frozenset("abc"), "stages": frozenset("d")})
    ('waits', 'stages')
    >>> disjoint({"a": frozenset("a"), "b": frozenset("b"), "both": frozenset("ab")})
    ('a', 'b')
    """
    names = sorted(enabled, key=lambda name: (-len(enabled[name]), name))[:_MOST_TRIED]
    choices = (choice for count in range(len(names) + 1) for choice in combinations(names, count))
    sized = [(sum(len(enabled[name]) for name in choice), choice) for choice in choices]
    alone = [(size, choice) for size, choice in sized if size == len(_union(choice, enabled))]
    return max(alone, key=lambda each: (each[0], len(each[1])), default=(0, ()))[1]


def _union(choice: tuple[str, ...], enabled: Enabled) -> frozenset[str]:
    return frozenset().union(*(enabled[name] for name in choice))


def _enabled(settings: pl.LazyFrame, of_build: pl.DataFrame) -> Enabled:
    """Instruments and consumers that each scenario enables beyond all-disabled."""
    dbms = dict(of_build.select("dbms", "scenario").unique().rows())
    base = of_build["base"][0]
    on = settings.filter(
        pl.col("kind").is_in(["instrument", "consumer"]),
        pl.col("value") == "YES",
        ~pl.col("name").is_in(list(_ALL_HANG_ON)),
        pl.col("dbms").is_in([*dbms, base]),
    )
    by_dbms = {str(name): frozenset(of) for name, of in on.group_by("dbms").agg("name").collect().rows()}
    always = by_dbms.get(base, frozenset())
    return {scenario: by_dbms.get(name, frozenset()) - always for name, scenario in dbms.items()}


def _of_build(rounds: pl.DataFrame, enabled: Enabled) -> Iterator[pl.DataFrame]:
    """The parts of one build on one host; nothing where it lacks the whole or has no part."""
    smaller = {name: on for name, on in enabled.items() if on and on < enabled.get(ENABLED, frozenset())}
    chosen = disjoint(smaller)
    if not chosen:
        return
    keys = [*_KEYS[:-1], "round"]
    wide = rounds.filter(pl.col("scenario").is_in([*smaller, ENABLED])).pivot(
        "scenario", index=keys, values="difference", maintain_order=True
    )
    wide = wide.drop_nulls([*chosen, ENABLED]).with_columns(pl.sum_horizontal(*chosen).alias(SUM))
    wide = wide.with_columns((pl.col(ENABLED) - pl.col(SUM)).alias(REST))
    pieces = list(_pieces(smaller, chosen))
    wide = wide.with_columns(value.alias(name) for name, value, _ in pieces)
    whole, together = len(enabled[ENABLED]), len(_union(chosen, enabled))
    described = [(name, "part", len(enabled[name]) / whole) for name in chosen]
    described += [(SUM, "sum", together / whole), (ENABLED, "whole", 1.0), (REST, "rest", 1 - together / whole)]
    described += [(name, "within", size / whole) for name, _, size in pieces]
    about = pl.DataFrame(described, schema=["scenario", "role", "covers"], orient="row")
    values = wide.unpivot(about["scenario"].to_list(), index=keys, variable_name="scenario").drop_nulls("value")
    if not values.is_empty():
        yield absolute(values, STUDENT, keys=_KEYS).join(about, on="scenario", maintain_order="left")


def _pieces(enabled: Enabled, chosen: tuple[str, ...]) -> Iterator[tuple[str, pl.Expr, int]]:
    """Pieces of a part that another scenario has by itself, or of which it lacks a single thing: name, µs, size.
    Metadata locks are a piece of all waits; digests are what statements have beyond statements without digests."""
    for part in chosen:
        for name, on in enabled.items():
            if on < enabled[part]:
                beyond = enabled[part] - on
                if len(beyond) == 1:
                    yield f"{next(iter(beyond))}, of {part}", pl.col(part) - pl.col(name), 1
                elif len(on) <= len(beyond):
                    yield f"{name}, of {part}", pl.col(name), len(on)


def parts_chart(study: Study) -> Any:
    """Bars in groups by step: what each part adds to all-disabled, their sum, the whole, and the rest."""
    parts = scenario_parts(study)
    if parts.is_empty():
        return Nothing(["No build of this study has all-disabled, all-enabled and parts of it that share nothing."])
    rank = pl.col("role").replace_strict(list(_ROLES), range(len(_ROLES)), return_dtype=pl.Int8)
    words, shades = zip(*_ROLES.values(), strict=True)
    rows = parts.sort("position", "build", rank, "scenario", maintain_order=True).with_columns(
        step_on_build(parts),
        pl.col("role").replace_strict(list(_ROLES), words, return_dtype=pl.String),
        pl.format("{} µs", pl.col("estimate").map_elements("{:+,.2f}".format, pl.String)).alias("label"),
        pl.max_horizontal("estimate", "high", pl.lit(0.0)).alias("end"),
    )
    rows = show.with_rows(rows, "step", "scenario")
    covered = alt.Tooltip("covers:Q", format=".0%", title="of what is enabled")
    tooltip = ["row:N", "role:N", *numbers("+,.2f", ", µs"), covered]
    title = "server CPU added to all-disabled, µs per operation"
    x = alt.X("estimate:Q", title=title, scale=show.room(1.2, rows["end"]))
    colour = alt.Color("role:N", title=None, scale=alt.Scale(domain=list(words), range=list(shades)))
    shown = ("row", "scenario", "role", "n", "estimate", "low", "high", "coverage", "covers", "label", "end")
    axis, height = show.row_axis(rows, "step", "scenario")
    base = alt.Chart(show.slim(rows, *shown)).encode(y=axis, tooltip=tooltip)
    bars = base.mark_bar(height=13).encode(x=x, color=colour)
    intervals = base.mark_rule(color=INK, strokeWidth=2).encode(x="low:Q", x2="high:Q")
    how = (
        "Parts are the scenarios that share no instrument or consumer; they have "
        f"{min(parts.filter(role='sum')['covers']):.0%} of what all-enabled has. Sums are taken within a round: "
        f"mean of {show.rounds_of(parts['n'])}, the line is the interval ({show.coverage_of(parts['coverage'])})."
    )
    return show.on_rows([bars, intervals, show.row_labels(base, "end")], height, _claim(parts), how)


def step_on_build(frame: pl.DataFrame) -> pl.Expr:
    """The column `step`, with the build where the frame has several."""
    several = frame["build"].n_unique() > 1
    return (pl.format("{} on {}", "step", "build") if several else pl.col("step")).alias("step")


def _claim(parts: pl.DataFrame) -> str:
    """A sentence on the first step: whether the rounds separate the sum from the whole."""
    first = parts.filter(position=parts["position"].min(), build=show.in_order(parts["build"])[0])
    of_role = {row["role"]: row for row in first.to_dicts()}
    rest, whole = of_role["rest"], of_role["whole"]
    left_over = f"{rest['estimate']:+.1f} µs of {whole['estimate']:.1f} are left over"
    if rest["low"] is None:
        return f"{whole['step']}: {left_over}, in one round."
    none = rest["low"] <= 0 <= rest["high"]
    add_up = "add up to the whole as far as the rounds show" if none else "do not add up to the whole"
    return f"{whole['step']}: the parts {add_up}; {left_over}, {show.interval_of(rest, '+.1f')}."
