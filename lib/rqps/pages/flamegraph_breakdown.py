"""Sentences on the parts of an operation's cost, for the breakdown page and for the first page of a report."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from html import escape

import polars as pl
from great_tables import GT

from rqps import show, stats
from rqps.pages import FirstPage
from rqps.profile.breakdown import INSTRUCTIONS, METRIC_OF, MICROSECONDS, Profile, profile_of
from rqps.profile.components import OTHER
from rqps.profile.footprint import by_function, density_of, split_of
from rqps.profile.pair import ASSUMED
from rqps.show import Claim, Clause, Row, added, comparison, finding, joined, listed, phrase
from rqps.show.claims import Reading
from rqps.show.flame import difference_of, figure
from rqps.show.words import digits_of
from rqps.store.read import Study, load
from rqps.study import ROUNDS_FOR_A_VERDICT, Mode
from rqps.terminal import formatted

UNSAID = 0.2
"""Maximum share of the difference that may be left unnamed: parts are named, largest first, until this is reached."""
SMALL_THREAD = 0.05
"""A background thread is named only if it has more than this share of the difference."""
KINDS = {"component": ("Components", 12), "function": ("Functions", 3)}
"""Maps kinds of parts to their title in sentences and to the maximum number of parts that are named."""
MOST_STEPS, MOST_CHANGED, LONGEST_NAME = 12, 4, 40
MOST_FUNCTIONS = 2
_SIDES = ("base_estimate", "me_estimate")
_CELL = ("host", "step", "dbms")
_SHORT = {MICROSECONDS: "µs", INSTRUCTIONS: "instructions"}
_FRAMES = {MICROSECONDS: "sampled_parts", INSTRUCTIONS: "counted_parts"}
_NAMES: dict[Mode, str] = {"stacks": "sampled stacks", "instructions": "counted instructions"}
_NO_NAME = r"^[\[(]"
"""Matches names that are not functions: `[unknown]`, of a stripped server, and `(9 smaller functions)`."""


def findings(study: Study, mode: Mode) -> show.Sentences:
    """Sentences on each step's largest difference and its parts, and on failed runs; without profiles, advice on how
    to get them."""
    profile, words = profile_of(study, mode), _NAMES[mode]
    failed = load(study.place, mode=mode).failed.filter(mode=mode).group_by("error", maintain_order=True).agg("run")
    missing = [f"Without {words}, since they failed: {listed(runs)}. {error}" for error, runs in failed.rows()]
    if profile.operations.is_empty():
        advice = f"Give it {mode}_rounds: 4 in runs.yaml and run it again: only what is missing is measured."
        none = f"This study has no {words} of a dbms and of its base."
        return show.Nothing([none, *missing] if missing else [f"{none} {advice}"])
    change = (pl.col("me_estimate") / pl.col("base_estimate")).log().abs()
    names, several = _names(study), profile.operations["host"].n_unique() > 1
    texts = [
        finding(phrase("{step}: {}", joined(" ", sentences(profile, row, names)), **row), place=row["host"] * several)
        for row in profile.operations.filter(change == change.max().over("host", "step")).to_dicts()
    ]
    return show.Sentences([*texts, *[ASSUMED] * (profile.operations["n"].min() == 1), *missing])


def work_and_misses(study: Study) -> show.Sentences:
    """Sentences that split the CPU ratio of each comparison into instructions per operation and CPU per instruction,
    with the cache misses that changed."""
    texts = [text for row in split_of(study).to_dicts() for text in _work(study, row)]
    return (
        show.Sentences(texts)
        if texts
        else show.Nothing(["No cache misses were simulated. A study with `caches: true` has them."])
    )


def _work(study: Study, row: Row) -> Iterator[Clause]:
    """Sentences on one row of `split_of`: its ratios, the misses that changed, and the functions that added
    misses."""
    names, cell = _names(study), {name: row[name] for name in (*_CELL, "base")}
    me, base = names.get(row["dbms"], row["dbms"]), names.get(row["base"], row["base"])
    times = {name: f"{show.ratio(row[name])}x" for name in ("cpu", "work", "cost") if row[name] is not None}
    ratios = {
        name: Clause(text, [Claim("work", cell, row[name], name, written=text)]) for name, text in times.items()
    }
    text = "{step}: {me} executes {work} the instructions of {base} per operation"
    if "cpu" in ratios:
        text = "{step}: {me} uses {cpu} the CPU of {base} per operation: {work} the instructions (work), {cost} the "
        text += "CPU per instruction (cost; its CPU includes the kernel and background threads)"
    yield finding(phrase(text, step=row["step"], me=me, base=base, **ratios))
    density = density_of(study).filter((pl.col("ratio") - 1).abs() > study.card.smallest_effect, **cell)
    parts = []
    for miss in density.to_dicts():
        of = cell | {"event": miss["event"]}
        sides = {side: f"{miss[side]:.3g}" for side in ("base_value", "me_value")}
        ends = [Clause(text, [Claim("misses", of, miss[side], side, written=text)]) for side, text in sides.items()]
        verb = "rise" if miss["ratio"] > 1 else "fall"
        parts.append(phrase("{} {} from {} to {}{}", miss["event"], verb, *ends, _where(study, of)))
    if parts:
        yield finding(phrase("{}: per 1000 instructions, {}", row["step"], joined("; ", parts)))


def _where(study: Study, of: Mapping[str, str]) -> Clause:
    """The functions that added most misses per operation, in brackets; empty if the total did not increase."""
    rows = by_function(study).filter(~pl.col("function").str.contains(_NO_NAME), **of)
    if rows["added"].sum() <= 0:
        return Clause("")
    most = rows.filter(pl.col("added") > 0).head(MOST_FUNCTIONS).to_dicts()
    texts = [(row["function"], row["added"], f"+{row['added']:.3g}") for row in most]
    claims = [
        Claim("misses_by_function", {**of, "function": name}, added, "added", written=text)
        for name, added, text in texts
    ]
    named = [Clause(f"{text} in {name}", [claim]) for (name, _, text), claim in zip(texts, claims, strict=True)]
    return phrase(" (per operation {})", listed(named)) if named else Clause("")


def explanations(study: Study, profile: Profile) -> pl.Series:
    """The sentences on each comparison of a profile, one text per row of its operations."""
    names = _names(study) if profile.operations.height else {}
    texts = [" ".join(sentences(profile, row, names)) for row in profile.operations.to_dicts()]
    return pl.Series("finding", texts, pl.String)


def _names(study: Study) -> Mapping[str, str]:
    return dict(stats.names(study).select("dbms", "name").iter_rows())


def sentences(profile: Profile, row: Row, names: Mapping[str, str]) -> Iterator[str]:
    """Sentences on one comparison: its cost on both sides, the parts that make most of the difference, and the
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
        yield f"This is from {show.rounds_of([row['n']])}, and a verdict takes {ROUNDS_FOR_A_VERDICT}."


def _of_kind(parts: pl.DataFrame, operation: Row, kind: str) -> Clause:
    """The parts of one kind that make up most of a difference, the largest first, and the sum of all other parts."""
    title, most = KINDS[kind]
    apart = ((pl.col("low") > 0) | (pl.col("high") < 0)) & (pl.col("part") != OTHER)
    is_sure = (pl.col("verdict") != "unsure") | (pl.col("n") < ROUNDS_FOR_A_VERDICT)
    is_candidate = (pl.col("estimate") * operation["estimate"] > 0) | ((pl.col("by") != "function") & is_sure)
    candidates = parts.filter(apart, is_candidate, ~pl.col("part").str.contains(_NO_NAME)).head(most)
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


def on_first_page(page: FirstPage) -> FirstPage:
    """Adds a sentence on the parts of the headline's difference to a page without an explanation, and a table of the
    parts that changed."""
    profiles = [profile for mode in _NAMES if (profile := profile_of(page.study, mode)).operations.height]
    if not profiles:
        return page
    profile, row, explanation = profiles[0], page.row, page.explanation
    if row and not explanation:
        cell = profile.operations.filter(**{name: row[name] for name in (*_CELL, "base")}).to_dicts()
        texts = [text for operation in cell for text in sentences(profile, operation, _names(page.study))]
        explanation = joined(" ", texts[row["metric"] == METRIC_OF[profile.operations["unit"][0]] :])
        split = split_of(page.study).filter(**{name: row[name] for name in (*_CELL, "base")}).to_dicts()
        explanation = joined(" ", [explanation, *(text for of in split for text in _work(page.study, of))])
    return replace(page, explanation=explanation, tables=(*page.tables, *_changed(profile, page)))


def _changed(profile: Profile, page: FirstPage) -> Iterator[tuple[str, GT]]:
    """A table with one row per step, for the dbms with the step's largest decided change: the parts whose verdict is
    slower or faster."""
    size = pl.col("estimate").log().abs()
    most = page.decided.sort(pl.col("verdict") == "unsure", size, descending=[False, True], maintain_order=True)
    most = most.join(profile.operations, on=_CELL, how="semi", maintain_order="left")
    cells = most.unique(["host", "step"], keep="first", maintain_order=True).head(MOST_STEPS)
    numbers = [*_CELL, "by", "part", "estimate", "low", "high"]
    differ = pl.col("verdict").is_in(["slower", "faster"]) & ~pl.col("part").str.contains(_NO_NAME)
    parts = profile.parts.filter(differ, pl.col("by") != "thread")
    parts = parts.group_by(*_CELL, "by", maintain_order=True).head(MOST_CHANGED).select(numbers)
    operations = profile.operations.with_columns(by=pl.lit("operation"), part=pl.lit("")).select(numbers)
    shown = show.by_host(pl.concat([operations, parts]).join(cells, on=_CELL, how="semi", maintain_order="left"))
    texts = [f"<div>{difference_of(row)} {show.cut(row['part'], LONGEST_NAME)}</div>" for row in shown.to_dicts()]
    lines = shown.with_columns(pl.Series("line", texts)).group_by("step", "dbms", "by", maintain_order=True)
    rows = show.spread(lines.agg(pl.col("line").str.join()), "by", ["step", "dbms"])
    named = stats.short_names(page.study)
    base = page.study.card.base
    note = f"{profile.operations['unit'][0]} more than {_names(page.study)[base]}, with half the 95 % interval; "
    note += "in each step of the dbms with the largest decided change."
    for row in rows:
        cell, name = {"step": row["step"], "dbms": row["dbms"], "base": base}, named.get(row["dbms"], row["dbms"])
        row |= {by: line and show.whose(cell, line["line"]) for by, line in row.items() if by not in cell}
        row["dbms"] = show.whose(cell, escape(name))
    if rows:
        columns = [show.Column(column, form=str if column != "step" else "") for column in rows[0]]
        heading = f"Where the {'time' if profile.operations['unit'][0].startswith('µs') else 'work'} goes"
        yield heading, show.table(rows, columns, name="changed-parts", note=note)
