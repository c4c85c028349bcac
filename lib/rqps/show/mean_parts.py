"""Clauses that explain a change of a geometric mean: kinds of work whose means differ, the one step that makes most
of the change, and the releases and steps that changed the mean."""

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import polars as pl

from rqps.numbers import change, counted, formatted
from rqps.show.claims import Claim, Clause, joined, phrase
from rqps.show.sentences import CELL, CHANGED, IN_WORDS, claim_of, counted_rows, listed, with_changes
from rqps.show.words import Row, change_interval
from rqps.stats.summary import MEANS, OVER_ALL
from rqps.study import ROUNDS_FOR_A_VERDICT

MOST_LEFT, MOST_LEFT_IF_SAME = 1 / 3, 1 / 2
"""A sentence says that one step makes most of a mean's change if, without that step, at most this share of the change
is left. The second limit applies if the mean without the step has the verdict `same`."""


def by_work(of_dbms: pl.DataFrame) -> Clause:
    """The mean of each kind of work, from the rows of `stats.means` of one dbms and metric, each with the step that
    differs from the others of its kind: `writes −8.2 % (insert alone +31.0 %), the same for point queries`. Kinds
    agree if their intervals overlap and their verdicts do not differ; if all kinds agree, only kinds with a differing
    step are named. A kind with a single step is called by the name of that step."""
    rows = of_dbms.drop_nulls("work").to_dicts()
    overlap = all(_overlap(one, other) for one, other in combinations(rows, 2))
    if overlap and len({row["verdict"] for row in rows} - {"unsure"}) < 2:
        rows = [row for row in rows if row["apart"]]
    parts = [phrase("{} {}{}", _work(row), signed(row), _beside(row)) for row in rows if _shown(row)]
    for verdict, words in (("same", "the same"), ("unsure", "inconclusive")):
        alike = [row for row in rows if row["verdict"] == verdict and not _shown(row)]
        named = listed([phrase("{}{}", _work(row), _beside(row)) for row in alike])
        claims = [counted_rows("means", 1, **key_of(row), verdict=verdict) for row in alike]
        parts += [Clause(f"{words} for {named}", [*named.claims, *claims])] * bool(alike)
    return joined(", ", parts)


def _work(row: Row) -> str:
    return str(row["only"] or row["work"])


def _beside(row: Row) -> Clause:
    """The interval of an inconclusive mean, and the step that differs from the others of its kind of work, in
    brackets; empty if there is neither."""
    is_open = row["verdict"] == "unsure" and (not _shown(row) or (row["low"] or 0) < 1 < (row["high"] or 0))
    texts = [*filter(None, [change_interval(row) * is_open, _apart(row)])]
    return phrase(" ({})", joined("; ", texts)) if texts else Clause("")


def _apart(row: Row) -> Clause:
    """The step that differs from the others of its kind of work; empty if there is none."""
    if row["apart"] is None:
        return Clause("")
    written = change(row["apart_estimate"])
    of_step = {name: row["apart" if name == "step" else name] for name in CELL}
    claim = Claim("compared", of_step, row["apart_estimate"], written=written)
    is_apart = counted_rows("means", 1, **key_of(row), apart=row["apart"])
    return Clause(f"{row['apart']} alone {written}", [claim, is_apart])


def one_step(of_dbms: pl.DataFrame, who: str) -> Clause:
    """The mean of a dbms without the step that makes most of the mean's change, from the rows of `stats.means` of
    this dbms and one metric: `without scan, 8.0 is at −1.1 %`. Empty if there is no such step."""
    means = [of_dbms.filter(part).to_dicts() for part in (OVER_ALL, pl.col("without").is_not_null())]
    if not all(means):
        return Clause("")
    mean, rest = (rows[0] for rows in means)
    left, total = math.log(rest["estimate"]), math.log(mean["estimate"])
    most = MOST_LEFT_IF_SAME if rest["verdict"] == "same" else MOST_LEFT
    # The sentence is also written if `left / total` is negative: then the other steps changed in the opposite
    # direction.
    if not _shown(mean) or total == 0 or left / total > most:
        return Clause("")
    return phrase("without {}, {} is at {}", rest["without"], who, signed(rest))


def came_from_steps(
    course: Row, changes: Sequence[Row], by_step: pl.DataFrame, mean: Row, names: Mapping[str, str], last: str
) -> tuple[Clause, Clause]:
    """Two clauses on the course of a geometric mean: the total change; and the releases that changed the mean, each
    with the step that it changed most in the same direction. `by_step` has the changes of the mean's steps, `mean` is
    the row of `stats.means` that gives the number of steps, and `last` is the full name of the last release.

    >>> cell = {"host": "vm", "metric": "operations_per_s", "base": "a"}
    >>> course = {**cell, "step": "all steps", "first": "a", "last": "b", "estimate": 0.9, "course": "steps"}
    >>> course |= {"points": -10.0}
    >>> change = {"dbms": "b", "points": -10.0, "way": "down"}
    >>> rows = {"step": ["scan", "load"], "dbms": ["b", "b"], "way": ["down", "up"], "points": [-30.2, 9.0]}
    >>> by_step = pl.DataFrame(rows).with_columns(host=pl.lit("vm"), metric=pl.lit("operations_per_s"))
    >>> mean = dict.fromkeys(MEANS) | {"steps": 3}
    >>> came_from_steps(course, [change], by_step, mean, {"a": "5.6", "b": "8.0"}, "Toy 8")
    ... # doctest: +NORMALIZE_WHITESPACE
    ('Over 3 steps Toy 8 delivers 10.0 % less throughput than 5.6 (geometric mean)',
     'By release, each since the one measured before: 8.0 −10.0 points (most: scan −30.2)')
    """

    def at(row: Row, points: Clause, first: bool) -> Clause:
        of_base = f" of {names[course['base']]}" * (course["first"] != course["base"])
        most = _most(by_step.filter(dbms=row["dbms"], way=row["way"]))
        return phrase("{} {}{}{}", names[row["dbms"]], points, f" points{of_base}" * first, most)

    verb, less, more = IN_WORDS[course["metric"]]
    written, over = change(course["estimate"]).lstrip("+−"), counted(mean["steps"], "step")
    share = Clause(written, [claim_of(course, written, frame="courses")])
    what = less if course["estimate"] < 1 else more
    text = "Over {} {} {}s {} {} than {} (geometric mean)"
    head = phrase(text, over, last, verb, share, what, names[course["first"]])
    number_of_steps = Claim("means", key_of(mean), mean["steps"], "steps", written=over)
    by_release = Clause("The mean drifts from release to release")
    if course["course"] != "drift":
        by_release = with_changes("By release, each since the one measured before", course, changes, at)
    return Clause(head, [*head.claims, number_of_steps]), by_release


def _most(alike: pl.DataFrame) -> Clause:
    """In brackets, the step with the largest change among the steps that a release changed in one direction."""
    if alike.is_empty():
        return Clause("")
    up = alike["way"][0] == "up"
    row = alike.sort("points", descending=up, maintain_order=True).row(0, named=True)
    written = formatted(row["points"], "+.1f")
    of_release = {name: row[name] for name in ("host", "metric", "dbms", "way")} | {"step": alike["step"].to_list()}
    claim = Claim("changes", of_release, row["points"], "points", "highest" if up else "lowest", written)
    return Clause(f" (most: {row['step']} {written})", [claim])


def _shown(row: Row) -> bool:
    """True for a row of means whose number appears in the text: the mean changed, or has too few rounds for a
    verdict. Of other means, the text has only the verdict."""
    return row["verdict"] in CHANGED or row["n"] < ROUNDS_FOR_A_VERDICT


def _overlap(one: Row, other: Row) -> bool:
    ends = [row[name] for row in (one, other) for name in ("sure_low", "sure_high")]
    return None in ends or (one["sure_low"] <= other["sure_high"] and other["sure_low"] <= one["sure_high"])


def signed(row: Row, frame: str = "means") -> Clause:
    """The change from the base with its sign, such as `−17.8 %`, of a row of `means` or `compared`."""
    written = change(row["estimate"])
    return Clause(written, [Claim(frame, key_of(row, frame), row["estimate"], written=written)])


def key_of(row: Row, frame: str = "means") -> dict[str, Any]:
    """The values of the columns that identify a row of a frame."""
    return {name: row[name] for name in (CELL if frame == "compared" else MEANS) if name != "steps"}
