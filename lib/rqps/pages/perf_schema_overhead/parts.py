"""Do the parts of the performance schema add up to the whole? What each adds alone, and what is left over."""

from collections.abc import Iterator, Mapping
from itertools import combinations

import polars as pl

from rqps.stats.perf_schema import CPU, DISABLED, ENABLED
from rqps.stats.summary import estimates

SUM, REST, WHOLE = "sum of the parts", "left over", "all-enabled"

_ALL_HANG_ON = ("global_instrumentation", "thread_instrumentation")
_MOST_TRIED = 14
"""Scenarios of which every choice is tried; that many have 16384."""


def scenario_parts(ratios: pl.DataFrame, settings: pl.LazyFrame) -> pl.DataFrame:
    """CPU µs an operation that each part adds to all-disabled, their sum, all-enabled, and what of it is left over.

    Parts are the scenarios that have nothing in common and together the most of what all-enabled has. Sums are taken
    within a round. `kind` is part, sum, whole or rest, or `within` for a piece of a part that another scenario tells
    apart from it; `covers` is the share of what is enabled at all that is in it.
    """
    added = ratios.filter(metric=CPU, against=DISABLED).with_columns(
        added_us=pl.col("me_value") - pl.col("base_value")
    )
    found = [
        _of_build(of_build, _enabled(settings, of_build))
        for _, of_build in added.group_by("host", "build", maintain_order=True)
    ]
    empty = pl.DataFrame(schema=_SCHEMA)
    return pl.concat([empty, *(frame.select(*_SCHEMA) for frame in found if not frame.is_empty())])


_SCHEMA: dict[str, type[pl.DataType]] = {
    "host": pl.String,
    "build": pl.String,
    "step": pl.String,
    "position": pl.Int32,
    "kind": pl.String,
    "scenario": pl.String,
    "n": pl.Int32,
    "median": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "coverage": pl.Float64,
    "covers": pl.Float64,
}


def disjoint(enabled: Mapping[str, frozenset[str]]) -> tuple[str, ...]:
    """Of named sets those that share nothing and together hold the most; of equally good choices, that of most sets.

    >>> disjoint({"mdl": frozenset("a"), "waits": frozenset("abc"), "stages": frozenset("d")})
    ('waits', 'stages')
    >>> disjoint({"a": frozenset("a"), "b": frozenset("b"), "both": frozenset("ab")})
    ('a', 'b')
    """
    names = sorted(enabled, key=lambda name: (-len(enabled[name]), name))[:_MOST_TRIED]
    choices = (choice for count in range(len(names) + 1) for choice in combinations(names, count))
    alone = (choice for choice in choices if _size(choice, enabled) == len(_union(choice, enabled)))
    return max(alone, key=lambda choice: (_size(choice, enabled), len(choice)), default=())


def _size(choice: tuple[str, ...], enabled: Mapping[str, frozenset[str]]) -> int:
    return sum(len(enabled[name]) for name in choice)


def _union(choice: tuple[str, ...], enabled: Mapping[str, frozenset[str]]) -> frozenset[str]:
    return frozenset().union(*(enabled[name] for name in choice))


def _enabled(settings: pl.LazyFrame, of_build: pl.DataFrame) -> dict[str, frozenset[str]]:
    """What each scenario enables beyond all-disabled: instruments and consumers by name."""
    dbms = dict(of_build.select("dbms", "scenario").unique().rows())
    base = of_build["base"][0]
    on = (
        settings.filter(
            pl.col("kind").is_in(["instrument", "consumer"]),
            pl.col("value") == "YES",
            ~pl.col("name").is_in(list(_ALL_HANG_ON)),
            pl.col("dbms").is_in([*dbms, base]),
        )
        .group_by("dbms")
        .agg(pl.col("name").unique())
        .collect()
    )
    by_dbms = {str(name): frozenset(names) for name, names in on.rows()}
    always = by_dbms.get(base, frozenset())
    return {scenario: by_dbms.get(name, frozenset()) - always for name, scenario in dbms.items()}


def _of_build(added: pl.DataFrame, enabled: Mapping[str, frozenset[str]]) -> pl.DataFrame:
    if ENABLED not in enabled:
        return pl.DataFrame()
    smaller = {name: on for name, on in enabled.items() if on and on < enabled[ENABLED]}
    chosen = disjoint(smaller)
    if not chosen:
        return pl.DataFrame()
    keys = ["host", "build", "step", "position", "round"]
    wide = added.filter(pl.col("scenario").is_in([*smaller, ENABLED])).pivot(
        "scenario", index=keys, values="added_us", maintain_order=True
    )
    if not {*chosen, ENABLED} <= set(wide.columns):
        return pl.DataFrame()
    wide = wide.drop_nulls([*chosen, ENABLED])
    if wide.is_empty():
        return pl.DataFrame()
    pieces = dict(_pieces(smaller, chosen, wide.columns))
    wide = wide.with_columns(value.alias(name) for name, (value, _) in pieces.items())
    wide = wide.with_columns(pl.sum_horizontal(*chosen).alias(SUM))
    wide = wide.with_columns((pl.col(ENABLED) - pl.col(SUM)).alias(REST))
    whole = len(enabled[ENABLED])
    shares = {name: len(enabled[name]) / whole for name in chosen} | {ENABLED: 1.0}
    shares[SUM] = len(_union(chosen, enabled)) / whole
    shares[REST] = 1 - shares[SUM]
    shares |= {name: size / whole for name, (_, size) in pieces.items()}
    kinds = dict.fromkeys(chosen, "part") | {SUM: "sum", ENABLED: "whole", REST: "rest"}
    kinds |= dict.fromkeys(pieces, "within")
    long = wide.unpivot(on=list(kinds), index=keys, variable_name="scenario", value_name="added_us").drop_nulls()
    summed = estimates(long, ["host", "build", "step", "position", "scenario"], "added_us")
    return summed.with_columns(
        pl.col("scenario").replace_strict(kinds, return_dtype=pl.String).alias("kind"),
        pl.col("scenario").replace_strict(shares, return_dtype=pl.Float64).alias("covers"),
    )


def _pieces(
    enabled: Mapping[str, frozenset[str]], chosen: tuple[str, ...], measured: list[str]
) -> Iterator[tuple[str, tuple[pl.Expr, int]]]:
    """What of a part another scenario has by itself, or lacks a single thing of: by name, its µs and how much it is.

    Metadata locks are a piece of all waits; digests are what statements have beyond statements without digests.
    """
    for part in chosen:
        for name, on in enabled.items():
            if on < enabled[part] and name in measured:
                beyond = enabled[part] - on
                if len(beyond) == 1:
                    yield f"{next(iter(beyond))}, of {part}", (pl.col(part) - pl.col(name), 1)
                elif len(on) <= len(beyond):
                    yield f"{name}, of {part}", (pl.col(name), len(on))
