"""The effect of a layout: the change that another order of functions alone makes, as measured for each engine."""

from collections.abc import Iterator

import polars as pl

from rqps.engines import facts_of
from rqps.numbers import in_percent
from rqps.store.read import Study

LAYOUT = "layout"
"""The kind of warning for a change that is not larger than another order of functions alone can make."""
MEAN = "mean of the steps"
KNOWN = {"engine": pl.String, "study": pl.String, "step": pl.String, "metric": pl.String, "by_layout": pl.Float64}


def known_layouts(study: Study) -> pl.DataFrame:
    """One row per step and metric of this study for which the effect of a layout is known, and a row `MEAN` if the
    effect on the mean of these steps is known. `by_layout` is 1 plus the largest change that another order of
    functions alone made; `study` is the study that measured this change. Empty for a study that itself measures
    several layouts, since its intervals include their effect, and for a study of a single program, since base and me
    then have the same layout."""
    runs = study.runs.select("engine", "build_digest", "layout")
    if runs["layout"].is_not_null().any() or runs["build_digest"].n_unique() < 2:
        return pl.DataFrame(schema=KNOWN)
    steps = set(study.steps["step"])
    rows = [row for engine in runs["engine"].unique().sort() for row in _rows(engine, steps)]
    return pl.DataFrame(rows, schema=KNOWN, orient="row")


def _rows(engine: str, steps: set[str]) -> Iterator[tuple[str, str, str, str, float]]:
    if not (known := facts_of(engine).table("layouts")):
        return
    of_mean = {MEAN: known["percent_of_mean"]} if steps == {*known["steps"]} else {}
    of_steps = {step: by_metric for step, by_metric in known["percent"].items() if step in steps}
    for step, by_metric in {**of_steps, **of_mean}.items():
        for metric, percent in by_metric.items():
            yield engine, known["study"], step, metric, 1 + percent / 100


def with_layouts(compared: pl.DataFrame, study: Study) -> pl.DataFrame:
    """The compared frame with two more columns: `by_layout`, the change that another order of functions alone makes
    (from `known_layouts`; null if base and me are the same program), and `within_layout`, true if the verdict is
    `slower` or `faster`, but the change is at most `by_layout`. Rows without a step are means over all steps. If
    the frame has warnings, a change within the effect of a layout gets a warning of the kind `LAYOUT`."""
    programs = study.runs.select("host", "dbms", "engine", "build_digest").unique(["host", "dbms"])
    of_base = programs.select("host", base="dbms", of_base="build_digest")
    step = pl.col("step") if "step" in compared.columns else pl.lit(MEAN).alias("step")
    rows = (
        compared.select("host", "base", "dbms", "metric", step)
        .join(programs, on=["host", "dbms"], how="left", maintain_order="left")
        .join(of_base, on=["host", "base"], how="left", maintain_order="left")
        .join(known_layouts(study), on=["engine", "step", "metric"], how="left", maintain_order="left")
        .select(pl.when(pl.col("build_digest") != pl.col("of_base")).then("by_layout"))
    )
    is_change, size = pl.col("verdict").is_in(["slower", "faster"]), pl.col("estimate").log().abs()
    within = (is_change & (size <= pl.col("by_layout").log())).fill_null(False)
    marked = compared.with_columns(rows["by_layout"]).with_columns(within_layout=within)
    reach = (pl.col("by_layout") - 1).map_elements(in_percent, pl.String)
    text = pl.format(f"{LAYOUT}: another order of functions alone changes it by up to ± {{}}", reach)
    more = {"warnings": pl.lit(LAYOUT), "explained": text} if "warnings" in compared.columns else {}
    is_within = pl.when("within_layout")
    return marked.with_columns(is_within.then(pl.concat_list(name, of)).otherwise(name) for name, of in more.items())


def luck_of_layouts(ratios: pl.DataFrame, twins: pl.DataFrame) -> pl.DataFrame:
    """The effect of layouts, one row per step, metric and dbms of a study that measures other layouts in each round.

    `layouts` is the number of layouts. `spread` is the standard deviation of the ratios in percent, `noise` the
    standard deviation of the base's ratios to its twin. `two_layouts` is the part of the spread that is not noise:
    the root of `spread` squared minus `noise` squared."""
    keys, spread = ["host", "step", "metric"], pl.col("ratio").log().std() * 100
    noise = twins.group_by(keys).agg(noise=spread)
    luck = ratios.group_by(*keys, "dbms", maintain_order=True).agg(
        layouts=pl.col("layout").n_unique(), rounds=pl.len(), spread=spread
    )
    luck = luck.filter(pl.col("rounds") > 1).join(noise, on=keys, how="left", maintain_order="left")
    return luck.with_columns(two_layouts=(pl.col("spread") ** 2 - pl.col("noise") ** 2).clip(0).sqrt())
