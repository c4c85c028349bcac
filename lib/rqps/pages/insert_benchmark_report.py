"""The page on the insert benchmark: the use of the redo log, other engines, and findings as sentences."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import polars as pl

from rqps import stats
from rqps.errors import RqpsError
from rqps.numbers import change, formatted, in_percent
from rqps.pages import FirstPage
from rqps.show import Claim, Clause, Row, brackets, changes, finding, in_order, listed, phrase, rounds_of
from rqps.show.words import reach_of
from rqps.stats import relate_configs
from rqps.stats.metrics import THROUGHPUT
from rqps.store.manifest import read_study_card, studies, study_folder
from rqps.store.read import Study, load

FRAME, WITHOUT = "redo log", "means without full logs"
MOST_NAMED = 4
"""The warning on full redo logs gives the means of at most this many dbms."""
FULL_LOG = 75
"""If at least this percentage of the redo log is in use, InnoDB flushes dirty pages in order to free it."""
RED, GREY, GREEN, YELLOW, BLUE = "#FF9A9A", "#D7D7D7", "#81FFA6", "#FFDD81", "#81FFF9"
"""The colours of the published tables."""


def redo_use(study: Study) -> pl.DataFrame:
    """One row per host, step and dbms: the `percent` of the redo log in use at the beginning or end of the step,
    whichever is larger; the mean over the rounds."""
    cell = ["host", "step", "dbms"]
    percent = 100 * pl.col("checkpoint_age_kb") / pl.col("redo_capacity_kb")
    ends = study.engine.lazy().filter(pl.col("moment").is_in(["before", "after"])).with_columns(percent=percent)
    of_rounds = ends.group_by(*cell, "run", maintain_order=True).agg(pl.col("percent").max())
    return of_rounds.group_by(cell, maintain_order=True).agg(pl.col("percent").mean()).drop_nulls().collect()


def on_first_page(page: FirstPage) -> FirstPage:
    """Adds a warning on the steps in which the redo log of some dbms, but not of all, is so full that they flush
    dirty pages to free it."""
    used = redo_use(page.study)
    full = used.filter(pl.col("percent") >= FULL_LOG)
    steps, dbms = in_order(full["step"]), in_order(full["dbms"])
    others = used.filter(pl.col("step").is_in(steps), ~pl.col("dbms").is_in(dbms))
    if others.is_empty():
        return page
    most = []
    for rows in (full, others):
        highest = float(rows["percent"].max())  # type: ignore[arg-type]
        cells = {name: in_order(rows[name]) for name in ("step", "dbms")}
        claim = Claim(FRAME, cells, highest, "percent", "highest", formatted(highest, ".0f"))
        most.append(Clause(f"{claim.written} %", [claim]))
    names = stats.short_names(page.study)
    text = "In {} up to {} of the redo log of {} is in use (of others, at most {}): from {} % on, InnoDB writes "
    text += "pages back to free it, so the size of the log may cause a part of the difference{}"
    without = means_without_full_logs(page.study).filter(~pl.col("dbms").is_in(dbms), metric=THROUGHPUT)
    means = [phrase("{} is at {}", names[row["dbms"]], _mean_of(row)) for row in without.head(MOST_NAMED).to_dicts()]
    rest = phrase(". Without {}, {} over the other steps", listed(steps), listed(means)) if means else ""
    parts = (listed(steps), most[0], listed([names[one] for one in dbms]), most[1], FULL_LOG, rest)
    return replace(page, notes=(*page.notes, finding(phrase(text, *parts))))


def _mean_of(row: Row) -> Clause:
    cell, written = {name: row[name] for name in ("host", "metric", "base", "dbms")}, change(row["estimate"])
    return Clause(written, [Claim(WITHOUT, cell, row["estimate"], written=written)])


def means_without_full_logs(study: Study) -> pl.DataFrame:
    """Geometric means over the steps in which no dbms has a full redo log."""
    full = redo_use(study).filter(pl.col("percent") >= FULL_LOG)
    return stats.over_steps(stats.relate(study)[0], {**stats.left_out(study), "": in_order(full["step"])})


def of_other_engines(study: Study) -> Iterator[Study]:
    """Studies of other engines in the same data folder with the same load: all parameters of the workload are
    equal."""
    root = Path(study.place).parent.parent
    engines, loads = set(study.runs["engine"]), set(study.runs["parameters"])
    for name in studies(root):
        if read_study_card(study_folder(name, root)).workload == study.card.workload:
            other = load(name, root)
            if engines.isdisjoint(other.runs["engine"]) and loads == set(other.runs["parameters"]):
                try:
                    stats.relate(other)
                except RqpsError:  # it has no comparison yet
                    continue
                yield other


def findings(study: Study, related: pl.DataFrame) -> list[Clause]:
    """A sentence for each dbms: a dbms with the base's config is compared with the study's base, a dbms with
    another config with the same build under the base's config. In a sentence, steps are ordered by the frequency
    of their verdict, then by the size of the change."""
    within = relate_configs(study, related)[1]
    others = related.select(within.columns).join(within, on="dbms", how="anti", maintain_order="left")
    names = dict(stats.names(study).select("dbms", "name").iter_rows())
    several = related["host"].n_unique() > 1
    compared = pl.concat([within, others]).filter(metric=THROUGHPUT).sort("host", maintain_order=True)
    sentences = []
    for (host, me, base), rows in compared.group_by("host", "dbms", "base", maintain_order=True):
        often = pl.col("verdict").count().over("verdict")
        size = pl.col("estimate").log().abs()
        ordered = rows.sort(often, size, descending=True, maintain_order=True).with_columns(place="step")
        names_both = f"{names[str(me)]} against {names[str(base)]}"
        changed = changes(ordered, "for", "compared")
        text = phrase("{}, throughput: {}; {}", names_both, changed, rounds_of(rows["n"]))
        sentences.append(finding(text, place=str(host) if several else ""))
    return sentences


def rate_findings(rates: pl.DataFrame, seconds: pl.DataFrame) -> list[str]:
    """Sentences that say if dbms reached the target rate of inserts: in a whole step, by the rule of the published
    studies, and in each second."""
    if rates.is_empty():
        return ["No step of this study had a rate of inserts to reach."]
    sentences = []
    for _, missed in rates.filter(~pl.col("on_target")).group_by("host", "dbms", maintain_order=True):
        steps = [
            f"{row['step']} {formatted(row['estimate'], ',.0f')} of {formatted(row['target'], ',.0f')} rows/s"
            + ("" if row["low"] is None else brackets(row, ",.0f", rounds=False))
            for row in missed.to_dicts()
        ]
        sentences.append(
            f"{missed['dbms'][0]} missed the rate of inserts: {', '.join(steps)}, {rounds_of(missed['n'])}."
        )
    if not sentences:
        some = [
            f"{row['dbms']} missed it in {row['step']} in {row['missed']} of {rounds_of([row['n']])}"
            for row in rates.filter(pl.col("missed") > 0).to_dicts()
        ]
        but = f", though not in every round: {', '.join(some)}" if some else ""
        sentences.append(f"Every dbms reached the rate of inserts in every step, by the published rule{but}.")
    share = seconds.filter(metric="share").sort("estimate", "position", maintain_order=True).to_dicts()
    stall = seconds.filter(metric="stall_s").sort("estimate", descending=True, maintain_order=True).to_dicts()
    if stall and not any(row["estimate"] or row["high"] for row in stall):
        sentences.append(f"Every second of every step was on target, {rounds_of(row['n'] for row in stall)}.")
    elif stall:
        least, longest = share[0], stall[0]
        of_stall = brackets(longest, ".0f", after=f"{longest['dbms']} in {longest['step']}", rounds=False)
        reach = "" if least["low"] is None else f" ({reach_of(least, in_percent)})"
        sentences.append(
            f"At least {in_percent(least['estimate'])}{reach} of a step's seconds were on target (least: "
            f"{least['dbms']} in {least['step']}); the longest stall is "
            f"{formatted(longest['estimate'], '.0f')} s{of_stall}, {rounds_of(row['n'] for row in share)}."
        )
    return sentences
