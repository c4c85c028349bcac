"""A study as a whole: the kind of its question, and geometric means over its steps, with verdicts."""

from collections.abc import Iterator
from functools import lru_cache

import polars as pl

from rqps.engines import facts_of
from rqps.stats import verdict
from rqps.stats.comparison import centred_on_steps, estimated
from rqps.stats.estimate import STUDENT
from rqps.stats.metrics import CPU, INSTRUCTIONS, THROUGHPUT, THROUGHPUTS, measured, with_counts
from rqps.stats.pairing import rounds_of_pairs, rounds_within_build
from rqps.stats.verdict import COVERAGE
from rqps.store.read import Study
from rqps.study import Asks
from rqps.workloads import work_of

PARTS = {"clients": pl.Int32, "work": pl.String, "without": pl.String}
"""Columns that say over which steps a mean is taken: those with this number of clients, those of this kind of work,
or all except this step. All three are null for a mean over all steps."""
ALL_PARTS = dict.fromkeys(PARTS)
OVER_ALL = pl.all_horizontal(pl.col(*PARTS).is_null())
MEANS = ("host", "metric", "relation", "base", "dbms", *PARTS, "steps")
"""Columns that identify a mean. `relation` is `base` for a comparison with the study's base, and `config` for a
comparison within a build with the base's config."""
MOST_OF_TWO = 2 / 3
"""One of two steps stands apart from the other if it contributes more than this share of the sum of both changes."""
FEWEST_WITHOUT_ONE = 3
"""Minimum number of steps of a study for which a mean without one of the steps is also computed."""


def asks(study: Study) -> Asks:
    """The kind of a study's question: the study's `asks` or, if it sets none, a kind that follows from the
    differences between its dbms."""
    if study.card.asks:
        return study.card.asks
    switches = {facts_of(engine).scenarios.KEY for engine in study.runs["engine"].unique()}
    options = study.conditions.filter(pl.col("kind") == "option", pl.col("name").is_in(switches))
    if not options.is_empty():
        return "parts"
    if study.runs["version"].n_unique() > 1:
        return "releases"
    return "builds" if study.runs["build"].n_unique() > 1 else "config"


RATED, NO_INDEX = "hold a rate", "use none of the indexes that they could"


def left_out(study: Study) -> dict[str, list[str]]:
    """Maps each reason to the steps that are left out of means for this reason, and are never called worst or best.
    A step that writes rows at a fixed rate is left out; a step whose queries run as fast as possible beside such
    writes is not."""
    held = study.steps.filter(unit="row").drop_nulls("target_per_s")["step"]
    no_index = pl.col("key").is_null() & (pl.col("possible_keys").fill_null("") != "")
    scans = study.plans.filter(no_index).select("step").unique().collect()["step"]
    reasons = {RATED: set(held), NO_INDEX: set(scans) - set(held)}
    order = study.steps["step"].unique(maintain_order=True)
    return {reason: [step for step in order if step in steps] for reason, steps in reasons.items() if steps}


@lru_cache(maxsize=2)  # several sentences of a page use the result
def means(study: Study) -> pl.DataFrame:
    """Geometric means of throughput, CPU and instructions over the steps of a study. In each round all steps have the
    same weight, and the estimate is the geometric mean of the steps' estimates.

    Each dbms is compared with the base, and with the dbms that has the same build and the base's config. There are
    further means against the base, over some of the steps (`PARTS`): for each number of clients and each kind of work
    if there are several, and without the step that moves the mean of all steps the most. Verdicts are corrected for
    multiple comparisons within each of these sets. `half` is 1 plus half the width of the interval. For a kind of
    work, `apart` is the name and `apart_estimate` the ratio of the step that stands apart from the others, if there
    is one. If the kind has a single step, `only` is its name.
    """
    values = measured(study, (THROUGHPUT, CPU, INSTRUCTIONS))
    is_count = pl.col("metric") == INSTRUCTIONS
    timed = values.filter(~is_count).drop("usual_spread", strict=False)
    frames = [*_means(study, timed), *_means(study, with_counts(values.filter(is_count), study))]
    return pl.concat(frames, how="diagonal")


def _means(study: Study, values: pl.DataFrame) -> Iterator[pl.DataFrame]:
    without = [step for steps in left_out(study).values() for step in steps]
    values = values.filter(~pl.col("step").is_in(without))
    base = study.card.base
    rows = study.steps.unique("step", keep="first").to_dicts()
    works = {row["step"]: work_of(study.card.workload, row) for row in rows}
    others = [(base, dbms) for dbms in study.runs["dbms"].unique(maintain_order=True) if dbms != base]
    to_base = rounds_of_pairs(values, others)
    relations = {"base": to_base, "config": rounds_within_build(values, study.runs, base)}
    over_all = [means_of(paired, relation) for relation, paired in relations.items()]
    yield from over_all
    if to_base["clients"].n_unique() > 1:
        yield means_of(to_base, "base", by="clients")
    of_works = to_base.with_columns(work=pl.col("step").replace_strict(works, default=None, return_dtype=pl.String))
    of_works = of_works.drop_nulls("work").sort("table_position", maintain_order=True)
    if of_works["work"].n_unique() > 1:
        keys = ["host", "metric", "base", "dbms", "work"]
        one_step = of_works.group_by(keys).agg(only=pl.col("step").unique()).filter(pl.col("only").list.len() == 1)
        of_work = means_of(of_works, "base", by="work")
        for more in (apart(of_works, keys), one_step.with_columns(pl.col("only").list.first())):
            of_work = of_work.join(more, on=keys, how="left", maintain_order="left")
        yield of_work
    else:
        names = {"apart": pl.String, "apart_estimate": pl.Float64, "only": pl.String}
        yield over_all[0].clear().with_columns(pl.lit(None, dtype).alias(name) for name, dtype in names.items())
    yield means_of(_without_one(to_base, over_all[0]), "base", by="without")


def means_to_base(study: Study) -> pl.DataFrame:
    """The means of each dbms against the base, over steps of any number of clients."""
    return means(study).filter(OVER_ALL, relation="base")


def means_by_work(study: Study) -> pl.DataFrame:
    """The means of `means_to_base`, followed by the means over each kind of work that has several steps."""
    several = OVER_ALL | (pl.col("work").is_not_null() & (pl.col("steps") > 1))
    return means(study).filter(several, relation="base")


def _without_one(paired: pl.DataFrame, over_all: pl.DataFrame) -> pl.DataFrame:
    """The rounds of each dbms without the step that moves its mean the most; the column `without` has its name."""
    keys = ["host", "metric", "base", "dbms"]
    enough = over_all.filter(pl.col("steps") >= FEWEST_WITHOUT_ONE)
    ways = enough.select(*keys, way=pl.col("estimate").log().sign())
    of_steps = STUDENT.estimate(paired, [*keys, "step"], "ratio").join(ways, on=keys, maintain_order="left")
    by_move = of_steps.sort(pl.col("estimate").log() * pl.col("way"), descending=True, maintain_order=True)
    most = by_move.unique(keys, keep="first", maintain_order=True).select(*keys, without="step")
    return paired.join(most, on=keys, maintain_order="left").filter(pl.col("step") != pl.col("without"))


def apart(paired: pl.DataFrame, keys: list[str]) -> pl.DataFrame:
    """The step of each group that stands apart from the others, if there is one. The group's mean does not describe
    this step. Columns: the keys, `apart` (the step) and `apart_estimate` (its ratio).

    In a group of three or more steps, the whole interval of this step lies outside the prediction interval of the
    others: the range in which a further step like them would lie (Student, 95 %, corrected for the number of steps).
    The spread of the others counts as at least the smallest effect that matters: a small difference does not stand
    out only because the others agree closely. In a group of two, this step contributes more than two thirds
    (`MOST_OF_TWO`) of the sum of both changes, as logarithms of ratios, and its whole interval is farther from 1 than
    the smallest effect.
    """
    of_steps = STUDENT.estimate(paired, [*keys, "smallest_effect", "step"], "ratio")
    log, others = pl.col("estimate").log(), pl.len().over(keys) - 1
    middle = (log.sum().over(keys) - log) / others
    squares = (log**2).sum().over(keys) - log**2 - others * middle**2
    spread = pl.max_horizontal((squares.clip(0) / (others - 1)).sqrt(), "smallest_effect")
    every = of_steps.with_columns(others=others, middle=middle, spread=spread, sum=log.sum().over(keys))
    several, pairs = every.filter(pl.col("others") > 1), every.filter(pl.col("others") == 1)
    counts = several["others"].unique()
    quantiles = {count: STUDENT.quantile(count - 1, 1 - (1 - COVERAGE) / (count + 1)) for count in counts}
    quantile = pl.col("others").replace_strict(quantiles, return_dtype=pl.Float64)
    reach = quantile * pl.col("spread") * (1 + 1 / pl.col("others")).sqrt()
    nearest = pl.max_horizontal(pl.col("low").log() - pl.col("middle"), pl.col("middle") - pl.col("high").log())
    far = several.with_columns(beyond=nearest - reach).filter(pl.col("beyond") > 0)
    by_distance = far.sort("beyond", descending=True, maintain_order=True).unique(keys, keep="first")
    nearest_to_1 = pl.min_horizontal(pl.col("low", "high").log() * pl.col("sum").sign())
    makes_most = log * pl.col("sum").sign() > pl.col("sum").abs() * MOST_OF_TWO
    of_pairs = pairs.filter(nearest_to_1 > pl.col("smallest_effect"), makes_most)
    return pl.concat(rows.select(*keys, apart="step", apart_estimate="estimate") for rows in (by_distance, of_pairs))


def means_of(paired: pl.DataFrame, relation: str, *, by: str = "") -> pl.DataFrame:
    """Geometric means over the steps of paired rounds, with verdicts that are corrected for all of them together.
    `by` is one of the `PARTS`; a kind of work may have a single step."""
    parts = {name: pl.col(name) if name == by else pl.lit(None, dtype) for name, dtype in PARTS.items()}
    keys = ["host", "metric", "relation", "base", "dbms", *PARTS]
    free = paired.with_columns(relation=pl.lit(relation), **parts)
    occasion, known = ([name] * (name in paired.columns) for name in ("occasion", "usual_spread"))
    within = {name: (pl.col(name) ** 2).sum().sqrt() / pl.len() for name in ("error", *known)}
    of_rounds = (
        free.with_columns(pl.col("error").fill_null(0.0), steps=pl.col("step").n_unique().over(keys))
        .group_by(*keys, "steps", *occasion, "round", "looks", "smallest_effect", maintain_order=True)
        .agg(pl.len(), ratio=pl.col("ratio").log().mean().exp(), **within)
        .filter(pl.col("len") == pl.col("steps"), (pl.col("steps") > 1) | (by == "work"))
        .with_columns(pl.when(pl.col(name) > 0).then(pl.col(name)).alias(name) for name in known)
    )
    rows = centred_on_steps(estimated(of_rounds, [*MEANS, "smallest_effect"], "ratio"), free, keys)
    better = pl.col("metric").is_in(THROUGHPUTS)
    return rows.with_columns(
        verdict=verdict.decided(near=pl.col("smallest_effect"), more_is_better=better),
        half=1 + (pl.col("high") - pl.col("low")) / 2,
    )
