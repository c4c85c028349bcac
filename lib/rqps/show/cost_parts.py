"""Sentences on the parts of an operation's cost: the components, functions and threads that make up a difference."""

from collections.abc import Iterator, Mapping

import polars as pl

from rqps.numbers import digits_of, formatted
from rqps.profile.breakdown import INSTRUCTIONS, METRIC_OF, MICROSECONDS, Profile
from rqps.profile.components import OTHER
from rqps.show.claims import Claim, Clause, Reading, joined, phrase
from rqps.show.flame import difference_of, figure
from rqps.show.sentences import added, comparison, listed
from rqps.show.words import Row, rounds_of
from rqps.study import ROUNDS_FOR_A_VERDICT

UNSAID = 0.2
"""Maximum share of a difference that sentences leave unexplained: they name parts, the largest first, until at most
this share is left."""
SMALL_THREAD = 0.05
"""A background thread is named only if it has more than this share of the difference."""
KINDS = {"component": ("Components", 12), "function": ("Functions", 3)}
"""Maps each kind of part to its title in sentences, and to the maximum number of parts of this kind that are
named."""
NO_NAME = r"^[\[(]"
"""Matches names that are not functions: `[unknown]`, of a stripped server, and `(9 smaller functions)`."""
_SIDES = ("base_estimate", "me_estimate")
_CELL = ("host", "step", "dbms")
_SHORT = {MICROSECONDS: "µs", INSTRUCTIONS: "instructions"}
_FRAMES = {MICROSECONDS: "sampled_parts", INSTRUCTIONS: "counted_parts"}


def on_parts(profile: Profile, row: Row, names: Mapping[str, str]) -> Iterator[str]:
    """Sentences on one comparison: the cost of base and me, the parts that make most of the difference, and the
    rest."""
    unit, sides = _SHORT[row["unit"]], [names.get(row[side], row[side]) for side in ("dbms", "base")]
    ratios = {end: 1 + row[end] / row["base_estimate"] for end in ("estimate", "low", "high")}
    in_times = comparison({**row, **ratios, "metric": METRIC_OF[row["unit"]]}, *sides)
    cell = {name: row[name] for name in (*_CELL, "base")} | {"by": "component"}
    frame, sums = _FRAMES[row["unit"]], [(side, row[side], figure(row[side])) for side in _SIDES]
    before, after = (Clause(text, [Claim(frame, cell, cost, side, "sum", text)]) for side, cost, text in sums)
    yield phrase("{}: {} to {} {}, {}.", in_times, before, after, unit, added(row))
    differs, few = row["low"] > 0 or row["high"] < 0, row["n"] < ROUNDS_FOR_A_VERDICT
    if row["verdict"] in ("same", "unsure") and not (differs and few):
        yield "The difference is inconclusive." if row["verdict"] == "unsure" else "That is no change."
        return
    mine = profile.parts.filter(**{name: row[name] for name in _CELL})
    threads = mine.filter(by="thread").sort(pl.col("base_estimate") + pl.col("me_estimate"))
    way = pl.col("estimate") * row["estimate"] > SMALL_THREAD * row["estimate"] ** 2
    moved = threads.head(-1).filter((pl.col("low") > 0) | (pl.col("high") < 0), way)
    if moved.height:
        yield phrase("Other threads, in {}: {}.", unit, _amounts(moved.reverse()))
    yield from (_of_kind(mine.filter(by=kind), row, kind) for kind in KINDS)
    if few:
        yield f"This is from {rounds_of([row['n']])}, and a verdict takes {ROUNDS_FOR_A_VERDICT}."


def _of_kind(parts: pl.DataFrame, operation: Row, kind: str) -> Clause:
    """The parts of one kind that make up most of a difference, the largest first, and the sum of all other parts."""
    title, most = KINDS[kind]
    apart = ((pl.col("low") > 0) | (pl.col("high") < 0)) & (pl.col("part") != OTHER)
    is_sure = (pl.col("verdict") != "unsure") | (pl.col("n") < ROUNDS_FOR_A_VERDICT)
    is_candidate = (pl.col("estimate") * operation["estimate"] > 0) | ((pl.col("by") != "function") & is_sure)
    candidates = parts.filter(apart, is_candidate, ~pl.col("part").str.contains(NO_NAME)).head(most)
    before = operation["estimate"] - pl.col("estimate").cum_sum().shift(1, fill_value=0.0)
    named = candidates.filter((before.abs() > UNSAID * abs(operation["estimate"])).cum_min())
    texts = [_amounts(named.filter(is_sure)), _amounts(named.filter(~is_sure))]
    texts[1] = phrase("less sure: {}", texts[1]) if texts[1] else texts[1]
    others = parts.join(named, on="part", how="anti")
    rest, digits = float(others["estimate"].sum()), digits_of((operation["high"] - operation["low"]) / 2)
    if round(rest, digits):
        written = formatted(rest, f"+,.{digits}f")
        claim = _claim({**operation, "by": kind, "part": others["part"].to_list(), "estimate": rest}, written, "sum")
        whose = "all others" if named.height else "none is conclusive, all together"
        texts.append(Clause(f"{whose} {written}", [claim]))
    return phrase("{}, in {}: {}.", title, _SHORT[operation["unit"]], joined("; ", filter(None, texts)))


def _amounts(parts: pl.DataFrame) -> Clause:
    rows = [(row, difference_of(row)) for row in parts.to_dicts()]
    return listed([Clause(f"{text} {row['part']}", [_claim(row, text)]) for row, text in rows])


def _claim(row: Row, written: str, reading: Reading = "value") -> Claim:
    cell = {name: row[name] for name in (*_CELL, "base", "by", "part")}
    return Claim(_FRAMES[row["unit"]], cell, row["estimate"], reading=reading, written=written)
