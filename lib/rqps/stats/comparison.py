"""The tidy frame that every table, chart and sentence reads: one row per host, step, metric and dbms."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

import polars as pl

from rqps.stats import verdict
from rqps.stats.conditions import all_warnings, with_warnings
from rqps.stats.estimate import MEDIAN, STUDENT, Statistic
from rqps.stats.metrics import COMPARED, THROUGHPUT, THROUGHPUTS, measured
from rqps.stats.pairing import VERDICT_SETTINGS, judgeable, rounds, rounds_within_build
from rqps.store.read import Study

STEP = ("host", "step", "position", "table_position", "kind", "range", "group", "clients")
KEYS = (*STEP, "metric", "base", "dbms", "build", "config")
_FOLLOWING = {*STEP[2:], "build", "config"}
"""Keys that are determined by the others; grouping without them takes half the time."""


def compare(
    paired: pl.DataFrame, of: Literal["ratio", "difference"] = "ratio", keys: Sequence[str] | None = None
) -> pl.DataFrame:
    """The paired rounds of each comparison as one estimate with its interval, its verdict and what it would take.

    `estimate, low, high` are of the ratio me / base, or of the difference me - base. `sure_low, sure_high` decide the
    verdict; `smallest_effect`, the study's, is a share of the base: what is surely less is `same`. Other `keys` than
    the usual ones must have `metric` among them.
    """
    paired = judgeable(paired)
    keys = [name for name in keys or KEYS if name in paired.columns]
    follows = _FOLLOWING if {"step", "dbms"} <= set(keys) else set()
    one = [name for name in keys if name not in follows]
    medians = [pl.col(f"{side}_value").median().alias(f"{side}_estimate") for side in ("base", "me")]
    following = [pl.col(name).first() for name in (*keys, *VERDICT_SETTINGS) if name in (*follows, *VERDICT_SETTINGS)]
    found = estimated(paired, one, of).join(
        paired.group_by(one).agg(*following, *medians), on=one, how="left", maintain_order="left"
    )
    is_ratio = of == "ratio"
    null = 1.0 if is_ratio else 0.0
    smallest = pl.col("smallest_effect")
    near = smallest if is_ratio else smallest * pl.col("base_estimate")
    better = pl.col("metric").is_in(THROUGHPUTS)
    decided = verdict.decided(
        sure=STUDENT.sure, null=null, near=near, more_is_better=better, low="sure_low", high="sure_high"
    )
    needs = verdict.needs(
        sure=STUDENT.sure, too_few=STUDENT.too_few, null=null, near=near, low="sure_low", high="sure_high"
    )
    rounds_needed = verdict.rounds_needed(null=null, near=near, low="sure_low", high="sure_high")
    figures = ("n", "base_estimate", "me_estimate", "estimate", "low", "high", "coverage")
    decision = ("sure_low", "sure_high", "verdict", "needs", "rounds_needed", *VERDICT_SETTINGS)
    found = found.with_columns(decided.alias("verdict")).with_columns(
        needs.alias("needs"), rounds_needed=pl.when(verdict="unsure").then(rounds_needed)
    )
    return found.select(*keys, *figures, *decision)


def estimated(frame: pl.DataFrame, keys: Sequence[str], of: str) -> pl.DataFrame:
    """One estimate per group, with `sure_low, sure_high` that hold for all of them together: they decide verdicts.

    What surely differs can't be called so by mistake, so the interval is as wide as the others need (Holm, 1979). It
    is wider where a study was measured until it was decided, in so many `looks` at it.
    """
    covering = STUDENT.estimates(frame, keys, of)
    found = covering(verdict.COVERAGE)
    looks = max(frame["looks"].to_list(), default=1) if "looks" in frame.columns else 1
    differ, before = 0, -1
    while differ > before:
        wide = covering(verdict.coverage_of_each(found.height - differ, looks))
        found = found.with_columns(sure_low=wide["low"], sure_high=wide["high"])
        before, differ = differ, verdict.surely_differ(found, 1.0 if of == "ratio" else 0.0)
    return found


def change(first: pl.DataFrame, second: pl.DataFrame) -> pl.DataFrame:
    """The tidy frames of two studies, such as last month's and today's, as one, of the comparisons that both have.

    `estimate, low, high` are of the second ratio / the first, with a verdict; `first` and `second` are their rows.
    Rounds of two studies are no pairs: the ends of both intervals are squared and added (Zou and Donner, 2008).
    """
    keys = ["step", "dbms", "metric"]
    sides = {"first": first, "second": second}
    ours, theirs = (each.select(*keys, pl.struct(pl.all()).alias(side)) for side, each in sides.items())
    both = ours.join(theirs, on=keys, maintain_order="left")
    one, other = (pl.col(side).struct.field for side in sides)
    ratio = other("estimate") / one("estimate")

    def end(way: int, of_other: str, of_one: str) -> pl.Expr:
        reach = [(other(of_other) / other("estimate")).log(), (one(of_one) / one("estimate")).log()]
        return ratio * (way * (reach[0] ** 2 + reach[1] ** 2).sqrt()).exp()

    found = both.with_columns(
        *(one(name) for name in ("host", "base")),
        *(pl.min_horizontal(one(name), other(name)).alias(name) for name in ("n", "coverage")),
        estimate=ratio,
        low=end(-1, "low", "high"),
        high=end(1, "high", "low"),
        sure_low=end(-1, "sure_low", "sure_high"),
        sure_high=end(1, "sure_high", "sure_low"),
        smallest_effect=pl.max_horizontal(one("smallest_effect"), other("smallest_effect")),
    )
    decided = verdict.decided(
        sure=STUDENT.sure,
        near=pl.col("smallest_effect"),
        more_is_better=pl.col("metric").is_in(THROUGHPUTS),
        low="sure_low",
        high="sure_high",
    )
    return found.with_columns(decided.alias("verdict"))


def absolute(values: pl.DataFrame, statistic: Statistic = MEDIAN, keys: Sequence[str] | None = None) -> pl.DataFrame:
    """Absolute values in the same columns, without base and verdict."""
    return statistic.estimate(values, [name for name in keys or KEYS if name in values.columns], "value")


@lru_cache(maxsize=2)  # most sections of a page begin with it
def relate(study: Study) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Rounds of a study against its base, and the tidy frame of them with warnings, in the order of tables."""
    paired = rounds(measured(study, COMPARED), study.runs, study.card.base)
    return paired, with_warnings(in_tables(compare(paired)), all_warnings(study))


def relate_configs(study: Study, compared: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Rounds of the configs within each build, and the tidy frame of them."""
    paired = rounds_within_build(measured(study, COMPARED), study.runs, study.card.base)
    return paired, relate_pairs(paired, compared)


def relate_pairs(paired: pl.DataFrame, compared: pl.DataFrame) -> pl.DataFrame:
    """The tidy frame of paired rounds. The rows of those that are in `compared`, the study's own frame, are taken
    from there, so that a fact has one figure and one verdict on all pages."""
    keys = ["host", "step", "base", "dbms"]
    own = compared.join(paired, on=keys, how="semi", maintain_order="left")
    others = in_tables(compare(paired.join(compared, on=keys, how="anti", maintain_order="left")))
    return pl.concat([own.select(others.columns), others])


def over_steps(paired: pl.DataFrame, steps: pl.DataFrame) -> pl.DataFrame:
    """The geometric mean of each dbms over the steps of a study, with its interval and no verdict: the mean of the
    rounds, in each of which all steps count alike. Steps that hold a rate do not say what a server can do; they and
    rounds that lack a step are left out.

    >>> rows = [("scan", 1, 0.8), ("insert", 1, 0.5), ("scan", 2, 0.8), ("insert", 2, 0.5), ("scan", 3, 0.9)]
    >>> paired = pl.DataFrame(rows, schema=["step", "round", "ratio"], orient="row")
    >>> paired = paired.with_columns(host=pl.lit("vm"), metric=pl.lit("x"), base=pl.lit("a"), dbms=pl.lit("b"))
    >>> steps = pl.DataFrame({"step": ["scan", "insert"], "target_per_s": [None, None]})
    >>> over_steps(paired, steps).select("steps", "n", pl.col("estimate").round(3)).row(0)
    (2, 2, 0.632)
    """
    keys = ["host", "metric", "base", "dbms"]
    held = steps.drop_nulls("target_per_s")["step"].unique().to_list()
    free = paired.filter(~pl.col("step").is_in(held)).with_columns(steps=pl.col("step").n_unique().over(keys))
    within = (pl.col("error").fill_null(0.0) ** 2).sum().sqrt() / pl.len() if "error" in free.columns else pl.lit(0.0)
    of_rounds = free.group_by(*keys, "steps", "round", maintain_order=True).agg(
        pl.len(), ratio=pl.col("ratio").log().mean().exp(), error=within
    )
    whole = of_rounds.filter(pl.col("len") == pl.col("steps"), pl.col("steps") > 1)
    return STUDENT.estimate(whole, [*keys, "steps"], "ratio")


def between_hosts(compared: pl.DataFrame) -> pl.DataFrame:
    """Each ratio of a further host relative to the same of the first one, `than`: 1 where they agree. Rounds of two
    hosts have nothing to do with each other, so the squares of both intervals add up, by their logarithms.

    >>> keys = {"step": "scan", "metric": "operations_per_s", "base": "my56.z", "dbms": "my80.z"}
    >>> ratios = [("big", 0.80, 0.78, 0.82), ("small", 0.76, 0.75, 0.77)]
    >>> rows = [{"host": h, **keys, "estimate": m, "low": l, "high": g} for h, m, l, g in ratios]
    >>> between_hosts(pl.DataFrame(rows)).select("than", pl.col("estimate", "low", "high").round(2)).row(0)
    ('big', 0.95, 0.92, 0.98)
    """
    first = compared["host"].first()
    keys, log = ["step", "metric", "base", "dbms"], {name: pl.col(name).log() for name in ("estimate", "low", "high")}
    logs = compared.select("host", *keys, **log)
    half = [(pl.col(f"high{of}") - pl.col(f"low{of}")) / 2 for of in ("", "_of_first")]
    middle, wide = pl.col("estimate") - pl.col("estimate_of_first"), (half[0] ** 2 + half[1] ** 2).sqrt()
    pairs = logs.filter(pl.col("host") != first).join(
        logs.filter(host=first).drop("host"), on=keys, suffix="_of_first", maintain_order="left"
    )
    ends = {"estimate": middle.exp(), "low": (middle - wide).exp(), "high": (middle + wide).exp()}
    return pairs.select("host", *keys, than=pl.lit(first), **ends)


def strongest(compared: pl.DataFrame, metric: str = THROUGHPUT) -> tuple[str, str, str]:
    """The host, step and dbms whose ratio is farthest from 1: the number to check first."""
    rows = compared.filter(metric=metric).sort(pl.col("estimate").log().abs(), descending=True, maintain_order=True)
    host, step, dbms = rows.select("host", "step", "dbms").row(0)
    return host, step, dbms


def in_tables(frame: pl.DataFrame) -> pl.DataFrame:
    """The rows in the order of tables: by group and kind of step, where runs have them in the order of running."""
    return frame.sort("host", "table_position", maintain_order=True)


def most_changed(compared: pl.DataFrame, at_most: int) -> list[str]:
    """The steps whose ratio is farthest from 1, in the order of the frame."""
    size = compared.group_by("step", maintain_order=True).agg(pl.col("estimate").log().abs().max())
    chosen = set(size.top_k(max(at_most, 1), by="estimate")["step"])
    return [step for step in compared["step"].unique(maintain_order=True) if step in chosen]
