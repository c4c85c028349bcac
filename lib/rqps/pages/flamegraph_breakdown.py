"""The breakdown of an operation's cost: findings, work and cache misses, and a table for a report's first page."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from html import escape

import polars as pl
from great_tables import GT

from rqps import show, stats
from rqps.numbers import sized
from rqps.pages import FirstPage
from rqps.profile.breakdown import METRIC_OF, MICROSECONDS, Profile, profile_of
from rqps.profile.footprint import by_function, density_of, split_of
from rqps.profile.pair import ASSUMED
from rqps.show import Claim, Clause, Row, finding, joined, listed, phrase
from rqps.show.cost_parts import NO_NAME, on_parts
from rqps.show.flame import difference_of
from rqps.store.read import Study, load
from rqps.study import Mode

MOST_STEPS, MOST_CHANGED, LONGEST_NAME = 12, 4, 40
MOST_FUNCTIONS = 2
_CELL = ("host", "step", "dbms")
_NAMES: dict[Mode, str] = {"stacks": "sampled stacks", "instructions": "counted instructions"}


def findings(study: Study, mode: Mode, operations: pl.DataFrame) -> show.Sentences:
    """For each step of `operations`, sentences on the dbms whose cost differs most from the base's, and on the parts
    of the difference; then sentences on failed runs. Without profiles, advice on how to record profiles."""
    profile, words = profile_of(study, mode), _NAMES[mode]
    failed = load(study.place, mode=mode).failed.filter(mode=mode).group_by("error", maintain_order=True).agg("run")
    missing = [f"Without {words}, since they failed: {listed(runs)}. {error}" for error, runs in failed.rows()]
    if profile.operations.is_empty():
        advice = f"Give it {mode}_rounds: 4 in runs.yaml and run it again: only what is missing is measured."
        none = f"This study has no {words} of a dbms and of its base."
        return show.Nothing([none, *missing] if missing else [f"{none} {advice}"])
    change = (pl.col("me_estimate") / pl.col("base_estimate")).log().abs()
    names, several = _names(study), operations["host"].n_unique() > 1
    texts = [
        finding(phrase("{step}: {}", joined(" ", on_parts(profile, row, names)), **row), place=row["host"] * several)
        for row in operations.filter(change == change.max().over("host", "step")).to_dicts()
    ]
    return show.Sentences([*texts, *[ASSUMED] * (operations["n"].min() == 1), *missing])


def work_and_misses(study: Study) -> show.Sentences:
    """Sentences that split the CPU ratio of each comparison into instructions per operation and CPU per instruction,
    with the cache misses that changed."""
    texts = [text for row in split_of(study).to_dicts() for text in _work(study, row)]
    none = "No cache misses were simulated. A study with `caches: true` has them."
    return show.Sentences(texts) if texts else show.Nothing([none])


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
        sides = {side: sized(miss[side]) for side in ("base_value", "me_value")}
        ends = [Clause(text, [Claim("misses", of, miss[side], side, written=text)]) for side, text in sides.items()]
        verb = "rise" if miss["ratio"] > 1 else "fall"
        parts.append(phrase("{} {} from {} to {}{}", miss["event"], verb, *ends, _where(study, of)))
    if parts:
        yield finding(phrase("{}: per 1000 instructions, {}", row["step"], joined("; ", parts)))


def _where(study: Study, of: Mapping[str, str]) -> Clause:
    """The functions that added most misses per operation, in brackets; empty if the sum over all functions did not
    increase."""
    rows = by_function(study).filter(~pl.col("function").str.contains(NO_NAME), **of)
    if rows["added"].sum() <= 0:
        return Clause("")
    most = rows.filter(pl.col("added") > 0).head(MOST_FUNCTIONS).to_dicts()
    texts = [(row["function"], row["added"], f"+{sized(row['added'])}") for row in most]
    claims = [
        Claim("misses_by_function", {**of, "function": name}, added, "added", written=text)
        for name, added, text in texts
    ]
    named = [Clause(f"{text} in {name}", [claim]) for (name, _, text), claim in zip(texts, claims, strict=True)]
    return phrase(" (per operation {})", listed(named)) if named else Clause("")


def explanations(study: Study, profile: Profile) -> pl.Series:
    """The sentences on each comparison of a profile: one text per row of `profile.operations`."""
    names = _names(study) if profile.operations.height else {}
    texts = [" ".join(on_parts(profile, row, names)) for row in profile.operations.to_dicts()]
    return pl.Series("finding", texts, pl.String)


def _names(study: Study) -> Mapping[str, str]:
    return dict(stats.names(study).select("dbms", "name").iter_rows())


def on_first_page(page: FirstPage) -> FirstPage:
    """Adds a table of the parts that changed. If the page has no explanation yet, also adds sentences on the parts of
    the difference in the headline."""
    profiles = [profile for mode in _NAMES if (profile := profile_of(page.study, mode)).operations.height]
    if not profiles:
        return page
    profile, row, explanation = profiles[0], page.row, page.explanation
    if row and not explanation:
        cell = profile.operations.filter(**{name: row[name] for name in (*_CELL, "base")}).to_dicts()
        texts = [text for operation in cell for text in on_parts(profile, operation, _names(page.study))]
        explanation = joined(" ", texts[row["metric"] == METRIC_OF[profile.operations["unit"][0]] :])
        split = split_of(page.study).filter(**{name: row[name] for name in (*_CELL, "base")}).to_dicts()
        explanation = joined(" ", [explanation, *(text for of in split for text in _work(page.study, of))])
    return replace(page, explanation=explanation, tables=(*page.tables, *_changed(profile, page)))


def _changed(profile: Profile, page: FirstPage) -> Iterator[tuple[str, GT]]:
    """Yields heading and table of the parts of an operation that became slower or faster. Each step has one row,
    for the dbms with the largest decided change or, if no change is decided, with the largest change."""
    size, changed = pl.col("estimate").log().abs(), pl.col("verdict").is_in(["slower", "faster"])
    most = page.decided.sort(changed, size, descending=True, maintain_order=True)
    most = most.join(profile.operations, on=_CELL, how="semi", maintain_order="left")
    cells = most.unique(["host", "step"], keep="first", maintain_order=True).head(MOST_STEPS)
    numbers = [*_CELL, "by", "part", "estimate", "low", "high"]
    parts = profile.parts.filter(changed, ~pl.col("part").str.contains(NO_NAME), pl.col("by") != "thread")
    parts = parts.group_by(*_CELL, "by", maintain_order=True).head(MOST_CHANGED).select(numbers)
    operations = profile.operations.with_columns(by=pl.lit("operation"), part=pl.lit("")).select(numbers)
    shown = show.by_host(pl.concat([operations, parts]).join(cells, on=_CELL, how="semi", maintain_order="left"))
    texts = [f"<div>{difference_of(row)} {show.cut(row['part'], LONGEST_NAME)}</div>" for row in shown.to_dicts()]
    lines = shown.with_columns(pl.Series("line", texts)).group_by("step", "dbms", "by", maintain_order=True)
    rows = show.spread(lines.agg(pl.col("line").str.join()), "by", ["step", "dbms"])
    named = stats.short_names(page.study)
    base = page.study.card.base
    note = f"{profile.operations['unit'][0]} more than {_names(page.study)[base]}, with half the 95 % interval; "
    note += "in each step of the dbms with the largest decided change or, without one, the largest change."
    for row in rows:
        cell, name = {"step": row["step"], "dbms": row["dbms"], "base": base}, named.get(row["dbms"], row["dbms"])
        row |= {by: line and show.whose(cell, line["line"]) for by, line in row.items() if by not in cell}
        row["dbms"] = show.whose(cell, escape(name))
    if rows:
        columns = [show.Column(column, form=str if column != "step" else "") for column in rows[0]]
        heading = f"Where the {'time' if profile.operations['unit'][0] == MICROSECONDS else 'work'} goes"
        yield heading, show.table(rows, columns, name="changed-parts", note=note)
