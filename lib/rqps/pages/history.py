"""The page on histories: sentences on how steps changed over the releases, and the headline for the first page."""

from collections.abc import Iterator
from dataclasses import replace
from operator import itemgetter

import polars as pl

from rqps import stats
from rqps.numbers import in_percent
from rqps.pages import FirstPage
from rqps.profile.pair import ASSUMED
from rqps.show import Claim, Clause, Sentences, came_from, few_rounds, finding, listed, phrase
from rqps.show.mean_parts import by_work, came_from_steps, one_step
from rqps.show.sentences import counted_rows
from rqps.stats.metrics import CPU, INSTRUCTIONS, THROUGHPUT
from rqps.store import Study

MEASURES = (INSTRUCTIONS, THROUGHPUT, CPU)
"""The metrics in which a course can be shown, the least noisy first."""
MOST_FLAT = 6
_COURSE = ("host", "step", "metric")
HEADS = {
    "metric": "measure",
    "dbms": "release",
    "before": "release before",
    "until": "level up to",
    "earliest": "at the earliest",
    "latest": "at the latest",
    "estimate": "change, %",
    "low": "from, %",
    "high": "to, %",
    "points": "points of the base",
    "certainty": "certainty, %",
    "resolves": "smallest to be named, %",
}
"""Maps columns of the frames to their headings in tables."""
OF_NOISE = ("low", "high", "earliest", "latest", "certainty", "resolves")
"""Columns that are computed from the noise between rounds."""


def by_measure(summary: pl.DataFrame) -> pl.DataFrame:
    """The course of each step, in the first of `MEASURES` that was measured; the largest change comes first."""
    order = pl.col("metric").replace_strict({name: at for at, name in enumerate(MEASURES)}, default=len(MEASURES))
    first = summary.sort(order, maintain_order=True).unique(["host", "step"], keep="first", maintain_order=True)
    return first.sort(pl.col("estimate").log().abs(), descending=True, maintain_order=True)


def findings(study: Study, summary: pl.DataFrame, changes: pl.DataFrame) -> Sentences:
    """Sentences on the mean over the steps and on the releases that changed it; then a sentence on each step that
    changed, the largest change first, and a sentence on all steps whose course is flat. `summary` and `changes` are
    the frames of these names in `stats.courses_of(study)`, or some of their rows."""
    none = "There are fewer than three releases with a measure."
    in_mean, changed = _in_mean(study, summary, changes), _changed(study, summary, changes)
    of_courses: list[str] = [*in_mean, *changed, *_flat(summary)] or [none]
    return Sentences([*of_courses, *[ASSUMED] * once(study)])


def with_heads(frame: pl.DataFrame, study: Study) -> pl.DataFrame:
    """A table of courses or changes with readable heads. It omits the columns on noise if noise was not measured, and
    the host if there is only one."""
    left_out = [*(OF_NOISE if once(study) else ()), *["host"] * (frame["host"].n_unique() < 2)]
    return frame.drop(left_out, strict=False).rename(HEADS, strict=False)


def once(study: Study) -> bool:
    """True if any release has only one round: the noise between rounds is then unknown."""
    return bool((stats.courses_of(study).points["n"] == 1).any())


def _in_mean(study: Study, summary: pl.DataFrame, changes: pl.DataFrame) -> Iterator[Clause]:
    """Sentences on the geometric mean over the steps, if it changed, and on the releases that changed it."""
    names = stats.short_names(study)
    full = dict(stats.names(study).select("dbms", "name").iter_rows())
    without = {step for steps in stats.left_out(study).values() for step in steps}
    several = summary["host"].n_unique() > 1
    for row in _not_flat(summary).filter(step=stats.ALL_STEPS).to_dicts():
        of_metric = {"host": row["host"], "metric": row["metric"]}
        by_step = changes.filter(~pl.col("step").is_in([stats.ALL_STEPS, *without]), **of_metric)
        means = stats.means(study).filter(relation="base", **of_metric)
        mean = means.filter(stats.OVER_ALL, pl.col("dbms").is_in([row["first"], row["last"]])).row(-1, named=True)
        of_mean = changes.filter(step=stats.ALL_STEPS, **of_metric).to_dicts()
        total, by_release = came_from_steps(row, of_mean, by_step, mean, names, full[row["last"]])
        from_first = means.filter(base=row["first"], dbms=row["last"])
        works = by_work(from_first)
        parts = (one_step(from_first, names[row["last"]]), phrase("by kind of work, {}", works) if works else "")
        yield finding(total, *parts, place=row["host"] * several)
        yield finding(by_release, place=row["host"] * several)


def _changed(study: Study, summary: pl.DataFrame, changes: pl.DataFrame) -> Iterator[Clause]:
    """A sentence for each step that changed, the largest change first."""
    names, several = stats.short_names(study), summary["host"].n_unique() > 1
    rows = _not_flat(summary).filter(pl.col("step") != stats.ALL_STEPS)
    for place, row in enumerate(rows.to_dicts()):
        most = " changed most" * (place == 0 < rows.height - 1 and rows["metric"].n_unique() == 1)
        cell = {name: row[name] for name in _COURSE}
        clause = came_from(row, changes.filter(**cell).to_dicts(), names)
        yield finding(phrase("{}{}: {}", row["step"], most, clause), place=row["host"] * several)


def _not_flat(summary: pl.DataFrame) -> pl.DataFrame:
    return by_measure(summary).filter(pl.col("course") != "flat")


def _flat(summary: pl.DataFrame) -> Iterator[Clause]:
    flat = by_measure(summary).filter(course="flat")
    if flat.is_empty():
        return
    steps = [step for step in flat["step"] if step != stats.ALL_STEPS]
    mean = ["the mean of all steps"] * (len(steps) < flat.height)
    named = [*mean, *(steps if len(steps) <= MOST_FLAT else [f"{len(steps)} steps"])]
    rows = [({name: row[name] for name in _COURSE}, row["resolves"]) for row in flat.to_dicts()]
    coarsest, least = max(rows, key=itemgetter(1))
    claims = [counted_rows("courses", 1, **course, course="flat") for course, _ in rows]
    claims.append(Claim("courses", coarsest, least, "resolves"))
    verb = "is" if flat.height == 1 else "are"
    text = f"{listed(named)} {verb} flat: a change of {in_percent(least)} at the last release would have been named"
    yield finding(Clause(text, claims))


def on_first_page(page: FirstPage) -> FirstPage:
    """Sets the headline of a study that only counts the instructions of releases: a sentence on the mean over the
    steps or, if the mean did not change, on the step that changed most."""
    if page.study.card.rounds != 0 or stats.asks(page.study) not in ("releases", "breakdown"):
        return page
    points, changes, summary = stats.courses_of(page.study)
    of_all = [*_in_mean(page.study, summary, changes)]
    first, *others = [*of_all, *_changed(page.study, summary, changes), *_flat(summary), "", ""]
    if not first:
        return page
    few = few_rounds(points["n"])
    headline = phrase("{} {}", first, ASSUMED) if once(page.study) else phrase("{}{}", first, few)
    explanation = phrase("{} {}", *others[:2]) if of_all else ""
    return replace(page, headline=headline, explanation=explanation, row=None)
