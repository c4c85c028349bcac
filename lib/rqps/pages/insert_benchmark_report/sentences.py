"""The report in sentences. Each number has its interval and its rounds, and a verdict says what these support."""

import re
from collections.abc import Sequence

import polars as pl

from rqps.pages.insert_benchmark_report.steps import insert_rates, reads, seconds_on_target, where_pages_come_from
from rqps.show import Row, Sentences, brackets, in_order, interval_of, ratio, rounds_of
from rqps.stats import config_changes, relate, relate_configs
from rqps.stats.metrics import THROUGHPUT
from rqps.store.read import Study
from rqps.terminal import percent

_SWITCHED = {"0": "without", "OFF": "without", "1": "with", "ON": "with"}
_SWITCH = re.compile(rf"performance_schema=({'|'.join(_SWITCHED)})", re.IGNORECASE)
_COUNTED = {"misses": "pages not in the buffer pool", "device_reads": "reads of the device by the whole host"}


def findings(study: Study) -> Sentences:
    """Sentences on the speed of each dbms, on the rate of inserts, and on where pages were read from."""
    rates = rate_findings(insert_rates(study), seconds_on_target(study))
    return Sentences([*insert_findings(study), *rates, *read_findings(reads(study))])


def insert_findings(study: Study) -> list[str]:
    """A finding for each dbms against the study's base; one with another config against the base of its own build."""
    related = relate(study)[1]
    within = relate_configs(study, related)[1]
    others = related.select(within.columns).join(within, on="dbms", how="anti", maintain_order="left")
    changes = {(row["dbms"], row["instead_of"]): row["change"] for row in config_changes(study.conditions).to_dicts()}
    several = related["host"].n_unique() > 1
    compared = pl.concat([within, others]).filter(metric=THROUGHPUT).sort("host", maintain_order=True)
    return [
        (f"On {host}: " if several else "") + _finding(found.to_dicts(), changes.get((me, base), ""))
        for (host, me, base), found in compared.group_by("host", "dbms", "base", maintain_order=True)
    ]


def _finding(rows: Sequence[Row], change: str) -> str:
    me, base = rows[0]["dbms"], rows[0]["base"]
    switch = _SWITCH.fullmatch(change)
    with_it = f"{_SWITCHED[switch[1].upper()]} the performance schema" if switch else f"with {change or me}"
    whom = f"{me} against {base}" if change else f"against {base}"
    by = {kind: [row for row in rows if row["verdict"] == kind] for kind in ("faster", "slower", "same", "unsure")}
    sure = sorted(by["faster"] + by["slower"], key=lambda row: abs(row["estimate"] - 1), reverse=True)
    counts = rounds_of(row["n"] for row in rows)
    if not sure:
        begin = f"{with_it[0].upper()}{with_it[1:]} ({whom}), no step is shown to be faster or slower"
        return f"{begin}: {_ratios(rows)}; {counts}. It would take {rows[0]['needs']}."
    first = sure[0]
    speed = f"slower {with_it}, at {ratio(first['estimate'])} of the throughput"
    if first["verdict"] == "faster":
        speed = f"{ratio(first['estimate'])} times faster {with_it}"
    text = f"{first['step']} is {speed} ({whom}: {interval_of(first)}, {counts})."
    for kind in ("faster", "slower"):
        if more := [row for row in by[kind] if row is not first]:
            text += f" {kind.capitalize()}{' too' if first['verdict'] == kind else ''}: {_ratios(more)}."
    for kind, words in (("same", f"The same within {percent(first['smallest_effect'])}"), ("unsure", "Unsure")):
        if by[kind]:
            text += f" {words}: {_ratios(by[kind])}."
    return text


def _ratios(rows: Sequence[Row]) -> str:
    return ", ".join(f"{row['step']} {ratio(row['estimate'])}{_in_brackets(row)}" for row in rows)


def _in_brackets(row: Row, form: str = "") -> str:
    return "" if row["low"] is None else brackets(row, form, rounds=False)


def rate_findings(rates: pl.DataFrame, seconds: pl.DataFrame) -> list[str]:
    """Sentences on the rate of inserts: by the published rule, and second by second."""
    if rates.is_empty():
        return ["No step of this study had a rate of inserts to reach."]
    said = []
    for _, missed in rates.filter(~pl.col("on_target")).group_by("host", "dbms", maintain_order=True):
        each = [
            f"{row['step']} {row['estimate']:,.0f} of {row['target']:,.0f} rows/s{_in_brackets(row, ',.0f')}"
            for row in missed.to_dicts()
        ]
        said.append(f"{missed['dbms'][0]} missed the rate of inserts: {', '.join(each)}, {rounds_of(missed['n'])}.")
    if not said:
        some = [
            f"{row['dbms']} missed it in {row['step']} in {row['missed']} of {rounds_of([row['n']])}"
            for row in rates.filter(pl.col("missed") > 0).to_dicts()
        ]
        but = f", though not in every round: {', '.join(some)}" if some else ""
        said.append(f"Every dbms reached the rate of inserts in every step, by the published rule{but}.")
    share = seconds.filter(metric="share").sort("estimate", "position", maintain_order=True).to_dicts()
    stall = seconds.filter(metric="stall_s").sort("estimate", descending=True, maintain_order=True).to_dicts()
    if stall and not any(row["estimate"] or row["high"] for row in stall):
        said.append(f"Every second of every step was on target, {rounds_of(row['n'] for row in stall)}.")
    elif stall:
        least, longest = share[0], stall[0]
        of_stall = brackets(longest, ".0f", after=f"{longest['dbms']} in {longest['step']}", rounds=False)
        reach = "" if least["low"] is None else f" ({100 * least['low']:.1f}–{100 * least['high']:.1f})"
        said.append(
            f"At least {100 * least['estimate']:.1f} %{reach} of a step's seconds were on target (least: "
            f"{least['dbms']} in {least['step']}); the longest stall is {longest['estimate']:.0f} s{of_stall}, "
            f"{rounds_of(row['n'] for row in share)}."
        )
    return said


def read_findings(found: pl.DataFrame) -> list[str]:
    """Sentences on the source of each step's pages, and the counts that show it."""
    if found.is_empty():
        return ["No step of this study gave a number."]
    named = where_pages_come_from(found)
    said = []
    for (where,), steps in named.group_by("reads_from", maintain_order=True):
        mine = found.join(steps, on=["host", "step", "dbms"], how="semi")
        source = str(where).replace("memory", "from memory") if "memory" in str(where) else f"from {where}"
        said.append(f"{_of_steps(steps, named)} read {source}: {_counted(mine)}.")
    return said


def _of_steps(some: pl.DataFrame, every: pl.DataFrame) -> str:
    """Steps by name, each with its dbms unless those are all."""
    names = []
    for (step,), rows in some.group_by("step", maintain_order=True):
        whom = "" if rows.height == every.filter(step=step).height else f" ({', '.join(rows['dbms'])})"
        names.append(f"{step}{whom}")
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _counted(found: pl.DataFrame) -> str:
    each = []
    for metric, what in _COUNTED.items():
        if values := sorted(found.filter(metric=metric)["estimate"]):
            reach = " to ".join(in_order(f"{value:.3f}" for value in (values[0], values[-1])))
            each.append(f"{reach} {what} per operation")
    return f"{' and '.join(each) or 'not counted'} (medians of {rounds_of(found['n'])})"
