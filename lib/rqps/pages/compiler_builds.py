"""The page on builds by compiler, option and layout: published statements and the pairs of builds that test them, the
effect of each option, and how much two layouts differ."""

from collections.abc import Iterator
from dataclasses import replace

import polars as pl

from rqps import stats
from rqps.pages import FirstPage
from rqps.show import (
    Claim,
    Clause,
    Nothing,
    Sentences,
    change_of,
    comparison,
    finding,
    in_order,
    joined,
    listed,
    phrase,
)
from rqps.show.sentences import within_layouts
from rqps.stats.metrics import THROUGHPUT
from rqps.store import Study

FRAME, EFFECTS, LUCK = "pairs of flavours", "effects of options", "luck of layouts"
"""The names of the frames from which the numbers in this page's sentences are recomputed."""
OPTIONS = {"family": "compiler", "optimization": "optimization", "native": "native", "pgo": "PGO", "lto": "LTO"}
"""Maps facts on the compilation of a build (columns of `stats.flavours`) to the words for them."""
NO_FLAVOURS = "The programs of this study show no two builds of one version with different compilers or options."
NO_LUCK = "No study of layouts of this engine has one of these steps, or this study has layouts of its own."
NO_PAIRS = "No two builds of this study differ in compiler, LTO or profile alone."
TRAINED_BY = "sysbench"
OTHER_WORKLOADS = f"PGO builds created using {TRAINED_BY} also help other workloads"
STATEMENTS = {
    "gcc does slightly better than clang without LTO or PGO": "slower",
    "clang does slightly better than gcc with PGO": "faster",
    "clang does more than slightly better than gcc with PGO + LTO": "faster",
    "gcc with PGO has similar performance as with PGO + LTO": "same",
    OTHER_WORKLOADS: "faster",
}
"""Maps published statements to the verdict on throughput that they predict."""
_NOT_DECIDED = "unsure"
_SAME_RUN = ["host", "version", "config"]


def has_flavours_or_layouts(study: Study) -> bool:
    return not stats.flavours(study).is_empty() or study.runs["layout"].is_not_null().any()


def pairs(flavours: pl.DataFrame) -> pl.DataFrame:
    """The pairs of builds that test the published statements: one row per statement, host, base and dbms."""
    by_options = [*_SAME_RUN, *stats.OPTIONS]
    gcc, clang = (flavours.filter(family=name) for name in ("gcc", "clang"))
    compilers = gcc.join(clang, on=by_options, suffix="_me", maintain_order="left")
    lto = [name for name in by_options if name != "lto"]
    with_lto = gcc.filter(lto="no", pgo="yes").join(
        gcc.filter(lto="yes"), on=lto, suffix="_me", maintain_order="left"
    )
    pgo = ["family", *(name for name in by_options if name != "pgo")]
    profiled = flavours.filter(pgo="no").join(flavours.filter(pgo="yes"), on=pgo, suffix="_me", maintain_order="left")
    of_statements = (
        compilers.filter(lto="no", pgo="no"),
        compilers.filter(lto="no", pgo="yes"),
        compilers.filter(lto="yes", pgo="yes"),
        with_lto,
        profiled,
    )
    frames = []
    for (statement, expected), frame in zip(STATEMENTS.items(), of_statements, strict=True):
        frames.append(
            frame.select(
                pl.lit(statement).alias("statement"),
                pl.lit(expected).alias("expected"),
                *("host", "version", "config"),
                base="dbms",
                dbms="dbms_me",
                base_name="flavour",
                name="flavour_me",
            )
        )
    return pl.concat(frames)


def frame(study: Study) -> pl.DataFrame:
    """One row per pair and metric: the geometric mean over the steps, and `outcome`, which says if the mean's verdict
    is the one that the statement predicts."""
    asked = pairs(stats.flavours(study))
    means = stats.with_layouts(stats.means_of_pairs(study, asked), study)
    is_training = (pl.col("statement") == OTHER_WORKLOADS) & pl.lit(TRAINED_BY in set(study.runs["workload"]))
    outcome = (
        pl.when(is_training)
        .then(pl.lit(f"not tested, since this study runs {TRAINED_BY} itself"))
        .when(verdict=_NOT_DECIDED)
        .then(pl.lit("inconclusive"))
        .when(pl.col("verdict") == pl.col("expected"))
        .then(pl.lit("confirmed"))
        .otherwise(pl.lit("contradicted"))
    )
    return asked.join(means, on=["host", "base", "dbms"], maintain_order="left").with_columns(outcome=outcome)


def findings(study: Study) -> Sentences:
    """A sentence for each published statement, with the pairs that test it."""
    if stats.flavours(study).is_empty():
        return Sentences([NO_FLAVOURS])
    return Sentences([*_findings(frame(study).filter(metric=THROUGHPUT))])


def _findings(tested: pl.DataFrame) -> Iterator[Clause]:
    several = tested["host"].n_unique() > 1
    for statement in STATEMENTS:
        rows = tested.filter(statement=statement).to_dicts()
        if not rows:
            yield finding(f"“{statement}”: not tested, since no two builds of this study differ in that alone")
            continue
        outcomes = listed([*dict.fromkeys(row["outcome"] for row in rows)])
        numbers = [
            phrase(
                "{}{}", f"on {row['host']} " * several, comparison(row, row["name"], row["base_name"], frame=FRAME)
            )
            for row in rows
        ]
        yield finding(phrase("“{}”: {}: {}", statement, outcomes, listed(numbers)))


def effects(study: Study) -> pl.DataFrame:
    """One row per pair of builds that differ in one compiler option alone, with the geometric mean of throughput over
    the steps. `option` is that option, `to` its value in me and `instead` its value in the base; `beside` has the
    options that both builds share."""
    flavours = stats.flavours(study).select("host", "dbms", "version", "config", *OPTIONS)
    frames = []
    for option in OPTIONS if flavours.height else ():
        common = [name for name in flavours.columns if name not in ("dbms", option)]
        both = flavours.join(flavours, on=common, suffix="_me", maintain_order="left_right")
        order = "clang" if option == "family" else ""
        later = pl.col(f"{option}_me") == order if order else pl.col(f"{option}_me") > pl.col(option)
        others = [name for name in ("native", "lto", "pgo") if name != option]
        words = [pl.when(pl.col(name) == "yes").then(pl.lit(OPTIONS[name])) for name in others]
        named = [name for name in ("family", "optimization") if name != option]
        beside = pl.concat_str(pl.concat_str(named, separator=" "), *words, separator=", ", ignore_nulls=True)
        rows = both.filter(later, pl.col("dbms") != pl.col("dbms_me"))
        columns = {"base": "dbms", "dbms": "dbms_me", "instead": option, "to": f"{option}_me"}
        frames.append(rows.select("host", option=pl.lit(option), beside=beside, **columns))
    if not frames or (asked := pl.concat(frames)).is_empty():
        return pl.DataFrame()
    means = stats.means_of_pairs(study, asked).filter(metric=THROUGHPUT)
    return asked.join(means, on=["host", "base", "dbms"], maintain_order="left")


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


def luck(study: Study) -> pl.DataFrame:
    """The rows of `luck_of_layouts` for a study, with `reach`: 1 plus two standard deviations (`two_layouts`), as a
    ratio. It is 1.03 if 19 of 20 pairs of layouts differ by less than 3 %."""
    judged = stats.health(study)
    layouts = study.runs.drop_nulls("layout").select("layout", base_run="run")
    frames = (frame.join(layouts, on="base_run", maintain_order="left") for frame in (judged.rounds, judged.itself))
    return luck_of_layouts(*frames).with_columns(reach=1 + pl.col("two_layouts") / 50)


def on_first_page(page: FirstPage) -> FirstPage:
    """Makes the difference between two layouts the headline of a study with layouts. To other studies of builds, adds
    a sentence on the effect of each option."""
    if page.study.runs["layout"].n_unique() > 1:
        return replace(page, headline=_of_layouts(luck(page.study)) or page.headline)
    rows = effects(page.study)
    if rows.is_empty() or stats.asks(page.study) != "builds":
        return page
    return replace(page, notes=(*page.notes, *_of_options(page.study, rows)))


def in_short(study: Study) -> Sentences:
    """The sentences that this page adds to the first page."""
    if study.runs["layout"].n_unique() > 1:
        text = _of_layouts(luck(study))
        return Sentences([text]) if text else Nothing([NO_LUCK])
    rows = effects(study)
    return Nothing([NO_PAIRS]) if rows.is_empty() else Sentences([*_of_options(study, rows)])


def _of_options(study: Study, rows: pl.DataFrame) -> Iterator[Clause]:
    parts = []
    for option in in_order(rows["option"]):
        of_option = rows.filter(option=option).to_dicts()
        switch = of_option[0]["to"] == "yes"
        what = OPTIONS[option] if switch else f"{of_option[0]['to']} in place of {of_option[0]['instead']}"
        changes = [phrase("{} with {}", change_of(row, EFFECTS), row["beside"]) for row in of_option]
        parts.append(phrase("{} {}", what, listed(changes)))
    yield finding(phrase("Each option by itself (geometric means): {}", joined("; ", parts)))
    if "pgo" in set(rows["option"]) and TRAINED_BY in set(study.runs["workload"]):
        yield finding(f"The profile of PGO was collected under {TRAINED_BY}, which is measured here: a best case")


def _of_layouts(rows: pl.DataFrame) -> Clause:
    parts, hidden = [], []
    known = rows.filter(pl.col("layouts") > 1, metric=THROUGHPUT).drop_nulls("reach")
    for row in known.sort("reach", descending=True, maintain_order=True).to_dicts():
        written = f"{100 * (row['reach'] - 1):.1f} %"
        cell = {name: row[name] for name in ("host", "step", "metric", "dbms")}
        claims = [Claim(LUCK, cell, row["reach"], "reach", written=written)]
        parts += [Clause(f"{written} in {row['step']}", claims)] * (row["reach"] > 1)
        hidden += [row["step"]] * (row["reach"] == 1)
    if not parts:
        return Clause("")
    text = "Two builds of equal code differ in throughput, in 19 of 20 cases, by less than {}: twice the spread of "
    text += "the ratios of {} pairs of layouts beyond that of the base against itself"
    noise = f"in {listed(hidden)}, they differ no more than the base from itself" if hidden else ""
    return finding(phrase(text, listed(parts), known["layouts"][0]), noise)


def known_luck(study: Study) -> Sentences:
    """A sentence on the largest change that another order of functions alone made, and on this study's changes that
    are smaller than it."""
    decided = stats.deciding(stats.relate(study)[1])
    text = within_layouts(stats.known_layouts(study), decided, THROUGHPUT, stats.short_names(study))
    return Sentences([text]) if text else Nothing([NO_LUCK])
