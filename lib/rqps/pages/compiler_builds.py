"""The page on builds by compiler, option and layout: published statements and the pairs of builds that test them, the
effect of each option, and the difference in throughput between two layouts."""

from collections.abc import Iterator
from dataclasses import replace

import polars as pl

from rqps import stats
from rqps.numbers import in_percent
from rqps.pages import FirstPage
from rqps.show import Claim, Clause, Nothing, Sentences, change_of, comparison, finding, joined, listed, phrase
from rqps.stats.metrics import THROUGHPUT
from rqps.store import Study

FRAME, EFFECTS, LUCK = "pairs of flavours", "effects of options", "luck of layouts"
"""The names of the frames from which the numbers in this page's sentences are recomputed."""
NO_FLAVOURS = "The programs of this study show no two builds of one version with different compilers or options."
NO_LUCK = "No study of layouts of this engine has one of these steps, or this study has layouts of its own."
NO_PAIRS = "No two builds of this study differ in compiler, LTO or profile alone."
TRAINED_BY = "sysbench"
OTHER_WORKLOADS = f"PGO builds created using {TRAINED_BY} also help other workloads"
STATEMENTS: dict[str, tuple[str, dict[str, str]]] = {
    "gcc does slightly better than clang without LTO or PGO": (
        "slower",
        {"option": "family", "lto": "no", "pgo": "no"},
    ),
    "clang does slightly better than gcc with PGO": ("faster", {"option": "family", "lto": "no", "pgo": "yes"}),
    "clang does more than slightly better than gcc with PGO + LTO": (
        "faster",
        {"option": "family", "lto": "yes", "pgo": "yes"},
    ),
    "gcc with PGO has similar performance as with PGO + LTO": (
        "same",
        {"option": "lto", "family": "gcc", "pgo": "yes"},
    ),
    OTHER_WORKLOADS: ("faster", {"option": "pgo"}),
}
"""Maps each published statement to the verdict on throughput that it predicts, and to the values by which the pairs
of builds that test it are chosen from `stats.pairs_by_option`."""


def has_flavours_or_layouts(study: Study) -> bool:
    return not stats.flavours(study).is_empty() or study.runs["layout"].is_not_null().any()


def frame(study: Study) -> pl.DataFrame:
    """One row per statement, pair of builds that tests it, and metric: the geometric mean of the ratios over the
    steps, and `outcome`, which says if the mean has the `expected` verdict."""
    pairs = stats.pairs_by_option(stats.flavours(study))
    asked = pl.concat(
        pairs.filter(**rows).with_columns(statement=pl.lit(statement), expected=pl.lit(expected))
        for statement, (expected, rows) in STATEMENTS.items()
    )
    means = stats.with_layouts(stats.means_of_pairs(study, asked), study)
    is_training = (pl.col("statement") == OTHER_WORKLOADS) & pl.lit(TRAINED_BY in set(study.runs["workload"]))
    outcome = (
        pl.when(is_training)
        .then(pl.lit(f"not tested, since this study runs {TRAINED_BY} itself"))
        .when(verdict="unsure")
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
    tested, several = frame(study).filter(metric=THROUGHPUT), study.runs["host"].n_unique() > 1
    return Sentences(_finding(statement, tested.filter(statement=statement), several) for statement in STATEMENTS)


def _finding(statement: str, rows: pl.DataFrame, several: bool) -> Clause:
    if rows.is_empty():
        return finding(f"“{statement}”: not tested, since no two builds of this study differ in that alone")
    outcomes = listed(rows["outcome"].unique(maintain_order=True).to_list())
    numbers = [
        phrase("{}{}", f"on {row['host']} " * several, comparison(row, row["name"], row["base_name"], frame=FRAME))
        for row in rows.to_dicts()
    ]
    return finding(phrase("“{}”: {}: {}", statement, outcomes, listed(numbers)))


def luck(study: Study) -> pl.DataFrame:
    """The frame of `stats.luck_of_layouts` with the column `reach`: 1 plus twice `two_layouts`, the standard
    deviation of the ratios between layouts. A `reach` of 1.03 means that 19 of 20 pairs of layouts differ by less
    than 3 % in the row's metric."""
    judged = stats.health(study)
    layouts = study.runs.drop_nulls("layout").select("layout", base_run="run")
    frames = (frame.join(layouts, on="base_run", maintain_order="left") for frame in (judged.rounds, judged.itself))
    return stats.luck_of_layouts(*frames).with_columns(reach=1 + pl.col("two_layouts") / 50)


def in_short(study: Study) -> Sentences:
    """A sentence on the difference in throughput between two layouts, if the study has several layouts; otherwise on
    the effect of each option."""
    if _has_layouts(study):
        text = _of_layouts(luck(study))
        return Sentences([text]) if text else Nothing([NO_LUCK])
    rows = stats.effects_of_options(study)
    return Nothing([NO_PAIRS]) if rows.is_empty() else Sentences([*_of_options(study, rows)])


def on_first_page(page: FirstPage) -> FirstPage:
    """Makes the sentence on layouts the headline of a study with layouts. For other studies of builds, adds the
    effects of options to the notes."""
    if not (with_layouts := _has_layouts(page.study)) and stats.asks(page.study) != "builds":
        return page
    answer = in_short(page.study)
    if isinstance(answer, Nothing):
        return page
    if with_layouts:
        return replace(page, headline=answer.sentences[0])
    return replace(page, notes=(*page.notes, *answer.sentences))


def _has_layouts(study: Study) -> bool:
    return study.runs["layout"].n_unique() > 1


def _of_options(study: Study, rows: pl.DataFrame) -> Iterator[Clause]:
    parts = []
    for (change,), pairs in rows.group_by("change", maintain_order=True):
        sizes = [phrase("{} with {}", change_of(row, EFFECTS), row["beside"]) for row in pairs.to_dicts()]
        parts.append(phrase("{} {}", change, listed(sizes)))
    yield finding(phrase("Each option by itself (geometric means): {}", joined("; ", parts)))
    if "pgo" in set(rows["option"]) and TRAINED_BY in set(study.runs["workload"]):
        yield finding(f"The profile of PGO was collected under {TRAINED_BY}, which is measured here: a best case")


def _of_layouts(rows: pl.DataFrame) -> Clause:
    parts, hidden = [], []
    known = rows.filter(pl.col("layouts") > 1, metric=THROUGHPUT).drop_nulls("reach")
    for row in known.sort("reach", descending=True, maintain_order=True).to_dicts():
        written = in_percent(row["reach"] - 1)
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
