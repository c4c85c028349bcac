"""Clauses on the parts of a geometric mean: kinds of work that disagree, and the one step that makes most of it."""

import math
from itertools import combinations
from typing import Any

import polars as pl

from rqps.show.claims import Claim, Clause, joined, phrase
from rqps.show.sentences import CELL, CHANGED, counted_rows, listed
from rqps.show.words import Row, change
from rqps.stats.summary import MEANS, OVER_ALL
from rqps.study import ROUNDS_FOR_A_VERDICT

MOST_LEFT, MOST_LEFT_IF_SAME = 1 / 3, 1 / 2
"""Maximum share of a mean's change that is left without the one step that makes most of it; more may be left if the
rest is shown to be the same."""


def by_work(of_dbms: pl.DataFrame) -> Clause:
    """The mean of each kind of work, from the rows of `stats.means` of one dbms and metric: `writes −8.2 %, the same
    for point queries`. Empty if the kinds agree: their intervals overlap, and none changed where another is the
    same."""
    rows = of_dbms.drop_nulls("work").to_dicts()
    overlap = all(_overlap(one, other) for one, other in combinations(rows, 2))
    if overlap and len({row["verdict"] for row in rows} - {"unsure"}) < 2:
        return Clause("")
    parts = [phrase("{} {}", row["work"], signed(row)) for row in rows if _shown(row)]
    for verdict, words in (("same", "the same"), ("unsure", "inconclusive")):
        alike = [row for row in rows if row["verdict"] == verdict and not _shown(row)]
        claims = [counted_rows("means", 1, **key_of(row), verdict=verdict) for row in alike]
        parts += [Clause(f"{words} for {listed([row['work'] for row in alike])}", claims)] * bool(alike)
    return joined(", ", parts)


def one_step(of_dbms: pl.DataFrame, whose: str = "") -> Clause:
    """The step that makes most of a mean's change, and the mean without it, from the rows of `stats.means` of one
    dbms and metric; empty if there is no such step."""
    means = [of_dbms.filter(part).to_dicts() for part in (OVER_ALL, pl.col("without").is_not_null())]
    if not all(means):
        return Clause("")
    mean, rest = (rows[0] for rows in means)
    left, total = math.log(rest["estimate"]), math.log(mean["estimate"])
    most = MOST_LEFT_IF_SAME if rest["verdict"] == "same" else MOST_LEFT
    if not _shown(mean) or total == 0 or left / total > most:  # the rest may have gone the other way
        return Clause("")
    return phrase("{} alone makes most of the mean{}: without it {}", rest["without"], whose, signed(rest))


def _shown(row: Row) -> bool:
    """True if the number of a row is said: it changed, or it has too few rounds for any verdict."""
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
