"""The tidy frame that every table, chart and sentence reads: one row per host, step, metric and dbms."""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Literal

import polars as pl

from rqps.stats import verdict
from rqps.stats.conditions import all_warnings, with_warnings
from rqps.stats.estimate import MEDIAN, STUDENT, Statistic
from rqps.stats.layouts import with_layouts
from rqps.stats.metrics import COMPARED, THROUGHPUT, THROUGHPUTS, USUAL_SPREADS, measured, with_counts
from rqps.stats.pairing import VERDICT_SETTINGS, judgeable, rounds, rounds_within_build
from rqps.store.manifest import read_study_card, studies, study_folder
from rqps.store.read import Study, load

STEP = ("host", "step", "position", "table_position", "kind", "range", "group", "clients")
KEYS = (*STEP, "metric", "base", "dbms", "build", "config")
_FOLLOWING = {*STEP[2:], "build", "config", "component"}
"""Key columns whose values follow from the other key columns; grouping without them takes half the time."""


def compare(
    paired: pl.DataFrame,
    of: Literal["ratio", "difference"] = "ratio",
    keys: Sequence[str] | None = None,
    beside: pl.DataFrame | None = None,
) -> pl.DataFrame:
    """One row per comparison of paired rounds: estimate, interval, verdict, and the rounds that a verdict still
    needs.

    `estimate, low, high` describe the ratio me / base, or the difference me - base. The interval `sure_low,
    sure_high` decides the verdict: it is corrected for all comparisons of the frame and of `beside`, another result
    of `compare` on the same page. A comparison is `same` if this whole interval is within the study's
    `smallest_effect` of a ratio of 1, or of a difference of 0. Any `keys` must include `metric`.
    """
    paired = judgeable(paired)
    if "usual_spread" not in paired.columns:
        spread = pl.col("metric").replace_strict(USUAL_SPREADS, default=None, return_dtype=pl.Float64)
        paired = paired.with_columns(usual_spread=spread)
    keys = [name for name in keys or KEYS if name in paired.columns]
    follows = _FOLLOWING if {"step", "dbms"} <= set(keys) else set()
    one = [name for name in keys if name not in follows]
    following = [pl.col(name).first() for name in (*keys, *VERDICT_SETTINGS) if name in (*follows, *VERDICT_SETTINGS)]
    sides = {"base_estimate": pl.col("base_value"), "me_estimate": pl.col("me_value")}
    # Costs of parts are averaged: means of parts add up to the mean cost of the whole, medians do not.
    adds_up = "base_whole" in paired.columns
    middles = {name: values.mean() if adds_up else values.median() for name, values in sides.items()}
    occasions = pl.col("occasion").n_unique() if "occasion" in paired.columns else pl.lit(1)
    about = paired.group_by(one).agg(*following, **middles, occasions=occasions.cast(pl.Int32))
    compared = estimated(paired, one, of, beside).join(about, on=one, how="left", maintain_order="left")
    null = 1.0 if of == "ratio" else 0.0
    near = pl.col("smallest_effect") * (1.0 if of == "ratio" else pl.col("base_estimate"))
    decided = verdict.decided(null=null, near=near, more_is_better=pl.col("metric").is_in(THROUGHPUTS))
    can_settle = ~verdict.for_other_hours()
    rounds_needed = pl.when(can_settle, verdict="unsure").then(verdict.rounds_needed(null=null, near=near))
    figures = ("n", "occasions", "base_estimate", "me_estimate", "estimate", "low", "high", "coverage")
    decision = ("sure_low", "sure_high", "verdict", "needs", "rounds_needed", *VERDICT_SETTINGS)
    compared = compared.with_columns(decided.alias("verdict")).with_columns(
        needs=verdict.needs(null=null, near=near), rounds_needed=rounds_needed
    )
    return compared.select(*keys, *figures, *decision)


def estimated(
    frame: pl.DataFrame, keys: Sequence[str], of: Literal["ratio", "difference"], beside: pl.DataFrame | None = None
) -> pl.DataFrame:
    """One estimate per group, with the interval `sure_low, sure_high` that decides verdicts: it is corrected for all
    groups together.

    By Holm's method (1979), a group that differs significantly does not count in the correction of the other
    groups. A group of too few rounds gets no verdict and does not count, either. The interval is wider for a study
    that was measured until its verdicts were decided: its `looks` share the probability of an error.
    """
    covering = STUDENT.estimates(frame, keys, of)
    rows = covering(verdict.COVERAGE)
    looks = max(frame["looks"].to_list(), default=1) if "looks" in frame.columns else 1
    others, decided = (0, 0) if beside is None else verdict.deciding(beside)
    differ, before = 0, -1
    while differ > before:
        enough, _ = verdict.deciding(rows.with_columns(sure_low="low", sure_high="high"))
        wide = covering(verdict.coverage_of_each(enough - differ + others - decided, looks))
        rows = rows.with_columns(sure_low=wide["low"], sure_high=wide["high"])
        before, (_, differ) = differ, verdict.deciding(rows, 1.0 if of == "ratio" else 0.0)
    return rows


def quotient(one: Callable[[str], pl.Expr], other: Callable[[str], pl.Expr]) -> dict[str, pl.Expr]:
    """Estimate and intervals of one ratio divided by another, if the rounds of the two are not paired.

    The squared half-widths of both intervals add up, in logarithms (Zou and Donner, 2008). Each argument is a
    function that returns a column of its ratio, given the name of the column.
    """

    def end(name: str, opposite: str, way: int) -> pl.Expr:
        reach = [(one(name) / one("estimate")).log(), (other(opposite) / other("estimate")).log()]
        return one("estimate") / other("estimate") * (way * (reach[0] ** 2 + reach[1] ** 2).sqrt()).exp()

    low = {name: end(name, name.replace("low", "high"), -1) for name in ("low", "sure_low")}
    high = {name: end(name, name.replace("high", "low"), 1) for name in ("high", "sure_high")}
    return {"estimate": one("estimate") / other("estimate"), **low, **high}


def change(first: pl.DataFrame, second: pl.DataFrame) -> pl.DataFrame:
    """Compares the tidy frames of two studies, such as last month's and today's, in the rows that both have.

    `estimate, low, high` describe the second study's ratio divided by the first's, with a verdict. The columns
    `first` and `second` hold the compared rows of the two frames, as structs.
    """
    keys = ["step", "dbms", "metric"]
    sides = {"first": first, "second": second}
    ours, theirs = (frame.select(*keys, pl.struct(pl.all()).alias(side)) for side, frame in sides.items())
    one, other = (pl.col(side).struct.field for side in sides)
    return (
        ours.join(theirs, on=keys, maintain_order="left")
        .with_columns(
            *(one(name) for name in ("host", "base")),
            *(pl.min_horizontal(one(name), other(name)).alias(name) for name in ("n", "coverage")),
            **quotient(other, one),
            smallest_effect=pl.max_horizontal(one("smallest_effect"), other("smallest_effect")),
        )
        .with_columns(
            verdict=verdict.decided(
                near=pl.col("smallest_effect"), more_is_better=pl.col("metric").is_in(THROUGHPUTS)
            )
        )
    )


def absolute(values: pl.DataFrame, statistic: Statistic = MEDIAN, keys: Sequence[str] | None = None) -> pl.DataFrame:
    """Estimates of measured values, not of ratios to a base: the columns are those of the tidy frame without base and
    verdict."""
    return statistic.estimate(values, [name for name in keys or KEYS if name in values.columns], "value")


@lru_cache(maxsize=2)  # most sections of a page use the result
def relate(study: Study) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Two frames: the ratios of a study's rounds to its base, with counted instructions; and the comparisons that
    follow from these ratios, one row per step, dbms and metric, with warnings, in the order of the tables. All
    verdicts are corrected together."""
    paired = rounds(with_counts(measured(study, COMPARED), study), study.runs, study.card.base)
    compared = with_warnings(in_tables(compare(paired)), all_warnings(study))
    return paired, with_layouts(compared, study)


def what_ifs(study: Study) -> pl.DataFrame:
    """The comparisons of all what-ifs (`rqps.what_if`) of this study, each with the `change` that it tried."""
    data = Path(study.place).parents[1]
    frames = [relate(study)[1].clear().with_columns(change=pl.lit(""))]
    for name in studies(data):
        what_if = read_study_card(study_folder(name, data)).what_if
        if what_if is None or what_if.study != study.card.study:
            continue
        tried = load(name, data)
        if tried.runs["dbms"].n_unique() > 1:
            frames.append(relate(tried)[1].with_columns(change=pl.lit(what_if.change)))
    return pl.concat(frames)


def relate_configs(study: Study, compared: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Two frames: the ratios of each build's configs to one config of the same build, round by round; and the
    comparisons that follow from these ratios."""
    paired = rounds_within_build(measured(study, COMPARED), study.runs, study.card.base)
    return paired, relate_pairs(paired, compared)


def config_gains(rounds: pl.DataFrame, within: pl.DataFrame) -> pl.DataFrame:
    """The gain in rQPS by another config of a build: the ratio of that config to the study's base minus the ratio of
    the config `instead_of` to the same base, round by round. `rounds` has the ratios to the base, `within` the pairs
    of configs of one build."""
    keys = ["host", "step", "metric", *_occasion(rounds), "round"]
    mine = rounds.select(*keys, "base", "dbms", "ratio")
    of_first = mine.rename({"dbms": "instead_of", "ratio": "instead"})
    differences = (
        within.select(*keys, "position", "dbms", "looks", instead_of="base")
        .join(mine, on=[*keys, "dbms"], maintain_order="left")
        .join(of_first, on=[*keys, "base", "instead_of"], maintain_order="left")
        .with_columns((pl.col("ratio") - pl.col("instead")).alias("difference"))
    )
    whose = ["host", "step", "position", "metric", "base", "instead_of", "dbms"]
    gains = estimated(differences, whose, "difference")
    return gains.with_columns(verdict.decided(null=0.0, near=0.0).alias("verdict"))


def relate_pairs(paired: pl.DataFrame, compared: pl.DataFrame) -> pl.DataFrame:
    """The tidy frame of paired rounds. A pair that `compared`, the tidy frame of the study, contains is taken from
    there, so the pair has one number and one verdict on all pages. The verdicts of all other pairs are corrected
    together with those of `compared`."""
    keys = ["host", "step", "base", "dbms"]
    own = compared.join(paired, on=keys, how="semi", maintain_order="left")
    further = paired.join(compared, on=keys, how="anti", maintain_order="left")
    others = in_tables(compare(further, beside=compared))
    return pl.concat([own.select(others.columns), others])


def over_steps(paired: pl.DataFrame, left_out: Mapping[str, Sequence[str]]) -> pl.DataFrame:
    """The geometric mean of each dbms's ratios over the steps of a study, with an interval and no verdict. In each
    round all steps have the same weight, and the estimate is the geometric mean of the steps' estimates.

    `over` lists the steps in the mean: all except the steps in `left_out` and in `missing`. The steps in `missing`
    are those in which other dbms were compared, but this dbms was not. `incomplete` is the number of rounds that lack
    a step and are not used.

    >>> rows = [("scan", 1, 0.8), ("insert", 1, 0.5), ("scan", 2, 0.8), ("insert", 2, 0.5), ("scan", 3, 0.9)]
    >>> paired = pl.DataFrame([*rows, ("q100", 1, 1.0)], schema=["step", "round", "ratio"], orient="row")
    >>> paired = paired.with_columns(host=pl.lit("vm"), metric=pl.lit("x"), base=pl.lit("a"), dbms=pl.lit("b"))
    >>> means = over_steps(paired, {"hold a rate": ["q100"]})
    >>> means.select("over", "missing", "n", "incomplete", pl.col("estimate").round(3)).row(0)
    (['scan', 'insert'], [], 2, 1, 0.645)
    """
    keys = ["host", "metric", "base", "dbms"]
    free = paired.filter(~pl.col("step").is_in([step for steps in left_out.values() for step in steps]))
    named = free.group_by(keys, maintain_order=True).agg(over=pl.col("step").unique(maintain_order=True))
    of_any = named.group_by("host", "metric").agg(any=pl.col("over").list.explode().unique())
    named = named.join(of_any, on=["host", "metric"]).with_columns(
        steps=pl.col("over").list.len(), missing=pl.col("any").list.set_difference("over").list.sort()
    )
    within = (pl.col("error").fill_null(0.0) ** 2).sum().sqrt() / pl.len() if "error" in paired.columns else 0.0
    of_rounds = (
        free.group_by(*keys, *_occasion(free), "round", maintain_order=True)
        .agg(pl.len(), ratio=pl.col("ratio").log().mean().exp(), error=within)
        .join(named, on=keys, maintain_order="left")
        .with_columns(incomplete=(pl.col("len") < pl.col("steps")).sum().over(keys))
        .filter(pl.col("len") == pl.col("steps"), pl.col("steps") > 1)
    )
    about = of_rounds.select(*keys, "over", "missing", "incomplete").unique(keys, maintain_order=True)
    means = STUDENT.estimate(of_rounds, [*keys, "steps"], "ratio").join(about, on=keys, maintain_order="left")
    return centred_on_steps(means, free, keys)


def centred_on_steps(means: pl.DataFrame, paired: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """Moves each mean, with its interval, to the geometric mean of its steps' estimates, so that a reader can compute
    the mean from the ratios in a table. Without this, the two would differ slightly: `means` are averages of the
    rounds' means, but the estimate of each step gives the rounds other weights.
    """
    of_steps = STUDENT.estimate(paired, [*keys, "step"], "ratio")
    centres = of_steps.group_by(keys).agg(centre=pl.col("estimate").log().mean().exp())
    moved = means.join(centres, on=list(keys), how="left", maintain_order="left", nulls_equal=True)
    ends = [name for name in ("low", "high", "sure_low", "sure_high", "estimate") if name in means.columns]
    return moved.with_columns(pl.col(ends) * pl.col("centre") / pl.col("estimate")).drop("centre")


def _occasion(paired: pl.DataFrame) -> list[str]:
    """A list of the column `occasion` if the frame has it, else empty. Rounds are numbered within an occasion, so the
    number of the occasion and that of the round together identify a round."""
    return ["occasion"] if "occasion" in paired.columns else []


def between_hosts(compared: pl.DataFrame) -> pl.DataFrame:
    """Each ratio on a further host divided by the same ratio on the first host: 1 if the hosts agree. The column
    `than` names the first host. Rounds of two hosts are independent, not paired.

    >>> keys = {"step": "scan", "metric": "operations_per_s", "base": "my56.z", "dbms": "my80.z"}
    >>> ratios = [("big", 0.80, 0.78, 0.82), ("small", 0.76, 0.75, 0.77)]
    >>> rows = [{"host": h, **keys, "estimate": m, "low": l, "high": g} for h, m, l, g in ratios]
    >>> between_hosts(pl.DataFrame(rows)).select("than", pl.col("estimate", "low", "high").round(2)).row(0)
    ('big', 0.95, 0.92, 0.98)
    """
    first, keys = compared["host"].first(), ["step", "metric", "base", "dbms"]
    is_first = pl.col("host").eq_missing(pl.lit(first, pl.String))
    pairs = compared.filter(~is_first).join(
        compared.filter(is_first), on=keys, suffix="_of_first", maintain_order="left"
    )
    ratio = quotient(pl.col, lambda name: pl.col(f"{name}_of_first"))
    ends = {name: ratio[name] for name in ("estimate", "low", "high")}
    return pairs.select("host", *keys, than=pl.lit(first), **ends)


def metric_of(compared: pl.DataFrame) -> str:
    """The metric of a frame whose rows all have the same metric. If the rows have several metrics, or there are
    none, the result is throughput."""
    metrics = compared["metric"].unique()
    return str(metrics[0]) if len(metrics) == 1 else THROUGHPUT


def strongest(compared: pl.DataFrame, metric: str = "") -> tuple[str, str, str]:
    """The host, step and dbms whose ratio is farthest from 1: the number to check first."""
    of_metric = compared.filter(metric=metric or metric_of(compared))
    rows = of_metric.sort(pl.col("estimate").log().abs(), descending=True, maintain_order=True)
    host, step, dbms = rows.select("host", "step", "dbms").row(0)
    return host, step, dbms


def in_tables(frame: pl.DataFrame) -> pl.DataFrame:
    """Sorts rows, which come in the order of measurement, into the order that tables show: by host, then by the group
    and kind of the step."""
    return frame.sort("host", "table_position", maintain_order=True)


def most_changed(compared: pl.DataFrame, at_most: int) -> list[str]:
    """The `at_most` steps whose ratios are farthest from 1, in the order of the frame."""
    size = compared.group_by("step", maintain_order=True).agg(pl.col("estimate").log().abs().max())
    chosen = set(size.top_k(max(at_most, 1), by="estimate")["step"])
    return [step for step in compared["step"].unique(maintain_order=True) if step in chosen]
