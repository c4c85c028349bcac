"""The report in sentences. Each number has its interval and its rounds, and a verdict says what these support."""

import re
from typing import Any

import polars as pl

from rqps.pages.insert_benchmark_report.bound import where_pages_come_from

Row = dict[str, Any]

THROUGHPUT = "operations_per_s"
_FROM = {
    "memory": "from memory",
    "mostly memory": "mostly from memory",
    "the disk": "from the disk",
    "the system's page cache": "from the system's page cache",
}
_SWITCHED_OFF = re.compile(r"performance_schema=(0|OFF)", re.IGNORECASE)
_SWITCHED_ON = re.compile(r"performance_schema=(1|ON)", re.IGNORECASE)


def insert_findings(summary: pl.DataFrame, effects: pl.DataFrame, changes: pl.DataFrame) -> tuple[str, ...]:
    """A finding for each dbms, from the summed up ratios to the study's base, and those of the configs of one build.

    One with another config is told against the base of its own build: that is the question it was measured for.
    """
    hosts = summary["host"].unique(maintain_order=True).to_list()
    inside = set(effects["dbms"])
    said = []
    for host in hosts:
        where = f"On {host}: " if len(hosts) > 1 else ""
        of_builds = summary.filter(~pl.col("dbms").is_in(list(inside)), metric=THROUGHPUT, host=host)
        of_configs = effects.filter(metric=THROUGHPUT, host=host)
        for rows in (of_configs, of_builds):
            for (dbms, base), found in rows.group_by("dbms", "base", maintain_order=True):
                change = changes.filter(dbms=dbms, instead_of=base)["change"].to_list()
                said.append(where + _finding(found.to_dicts(), str(change[0]) if change else ""))
    return tuple(said)


def _finding(rows: list[Row], change: str) -> str:
    me, base = rows[0]["dbms"], rows[0]["base"]
    with_it, whom = _words(change, me, base)
    by = {kind: [row for row in rows if row["verdict"] == kind] for kind in ("faster", "slower", "same", "unsure")}
    sure = sorted(by["faster"] + by["slower"], key=lambda row: abs(row["median"] - 1), reverse=True)
    if not sure:
        begin = f"{with_it[0].upper()}{with_it[1:]} ({whom}), no step is shown to be faster or slower"
        return f"{begin}: {_told(rows)}; {_rounds(rows)}. It would take {rows[0]['needs']}."
    first = sure[0]
    text = f"{_changed(first, with_it)} ({whom}: {_interval(first)}, {_rounds(rows)})."
    for kind in ("faster", "slower"):
        if more := [row for row in by[kind] if row is not first]:
            text += f" {kind.capitalize()}{' too' if first['verdict'] == kind else ''}: {_told(more)}."
    if by["same"]:
        text += f" The same within 2 %: {_told(by['same'])}."
    if by["unsure"]:
        text += f" The rounds can't tell: {_told(by['unsure'])}."
    return text


def _words(change: str, me: str, base: str) -> tuple[str, str]:
    """What is different, and which dbms are compared.

    >>> _words("performance_schema=OFF", "my8033.ps0", "my8033.base")
    ('without the performance schema', 'my8033.ps0 against my8033.base')
    """
    if _SWITCHED_OFF.fullmatch(change):
        words = "without the performance schema"
    elif _SWITCHED_ON.fullmatch(change):
        words = "with the performance schema"
    else:
        words = f"with {change}" if change else f"with {me}"
    return words, f"{me} against {base}" if change else f"against {base}"


def _changed(row: Row, with_it: str) -> str:
    """
    >>> _changed({"step": "l.x", "median": 1.49, "verdict": "faster"}, "without it")
    'l.x is 1.49 times faster without it'
    >>> _changed({"step": "l.i0", "median": 0.63, "verdict": "slower"}, "with my80.base")
    'l.i0 is slower with my80.base, at 0.63 of the throughput'
    """
    if row["verdict"] == "faster":
        return f"{row['step']} is {row['median']:.2f} times faster {with_it}"
    return f"{row['step']} is slower {with_it}, at {row['median']:.2f} of the throughput"


def _told(rows: list[Row]) -> str:
    return ", ".join(f"{row['step']} {row['median']:.2f}{_in_brackets(row)}" for row in rows)


def _in_brackets(row: Row, form: str = ".2f") -> str:
    return "" if row["low"] is None else f" ({row['low']:{form}}–{row['high']:{form}})"


def _interval(row: Row, form: str = ".2f") -> str:
    return "no interval" if row["low"] is None else f"{row['low']:{form}}–{row['high']:{form}}"


def _rounds(rows: list[Row]) -> str:
    counts = sorted({row["n"] for row in rows})
    few, many = counts[0], counts[-1]
    return f"{few} to {many} rounds" if few < many else f"{few} round{'' if few == 1 else 's'}"


def rate_findings(rates: pl.DataFrame, seconds: pl.DataFrame) -> tuple[str, ...]:
    """Whether the rate of inserts was held, by the published rule and second by second."""
    if rates.is_empty():
        return ("No step of this study had a rate of inserts to hold.",)
    missed = rates.filter(~pl.col("met"))
    said = [_missed(rows.to_dicts()) for _, rows in missed.group_by("host", "dbms", maintain_order=True)]
    if not said:
        some = rates.filter(pl.col("missed") > 0).to_dicts()
        but = f", though not in every round: {', '.join(map(_sometimes, some))}" if some else ""
        said.append(f"Every dbms held the rate of inserts in every step, by the published rule{but}.")
    share = seconds.filter(metric="share").sort("median", "position", maintain_order=True).to_dicts()
    stall = seconds.filter(metric="stall_s").sort("median", descending=True, maintain_order=True).to_dicts()
    if stall and not any(row["median"] or row["high"] for row in stall):
        said.append(f"Second by second it was held in every step from beginning to end, {_rounds(stall)}.")
    elif stall:
        least, longest = share[0], stall[0]
        said.append(
            f"Second by second it was held in {_percent(least)} of them or more (least: {least['dbms']} in "
            f"{least['step']}); the longest stall is {longest['median']:.0f} s ({_interval(longest, '.0f')}, "
            f"{longest['dbms']} in {longest['step']}), {_rounds(share)}."
        )
    return tuple(said)


def _missed(rows: list[Row]) -> str:
    told = [
        f"{row['step']} {row['median']:,.0f} of {row['target']:,.0f} rows/s{_in_brackets(row, ',.0f')}"
        for row in rows
    ]
    return f"{rows[0]['dbms']} missed the rate of inserts: {', '.join(told)}, {_rounds(rows)}."


def _sometimes(row: Row) -> str:
    return f"{row['dbms']} missed it in {row['step']} in {row['missed']} of {_rounds([row])}"


def _percent(row: Row) -> str:
    reach = "" if row["low"] is None else f" ({100 * row['low']:.1f}–{100 * row['high']:.1f})"
    return f"{100 * row['median']:.1f} %{reach}"


def bound_findings(found: pl.DataFrame) -> tuple[str, ...]:
    """What the steps had to read, in words, and by which counts."""
    if found.is_empty():
        return ("No step of this study gave a number.",)
    named = where_pages_come_from(found)
    said = []
    for (where,), steps in named.group_by("reads_from", maintain_order=True):
        mine = found.join(steps.select("host", "step", "dbms"), on=["host", "step", "dbms"], how="semi")
        said.append(f"{_of_steps(steps, named)} read {_FROM[str(where)]}: {_reach(mine, 'misses', 'device_reads')}.")
    return tuple(said)


def _of_steps(some: pl.DataFrame, every: pl.DataFrame) -> str:
    """Steps by name, each with the dbms that it is told of, unless that are all."""
    names = []
    for (step,), rows in some.group_by("step", maintain_order=True):
        whom = "" if rows.height == every.filter(step=step).height else f" ({', '.join(rows['dbms'])})"
        names.append(f"{step}{whom}")
    return _list(names)


def _reach(found: pl.DataFrame, misses: str, reads: str) -> str:
    told = []
    for metric, what in ((misses, "pages not in the buffer pool"), (reads, "reads of the device by the whole host")):
        if values := sorted(found.filter(metric=metric)["median"]):
            reach = " to ".join(dict.fromkeys(f"{each:.3f}" for each in (values[0], values[-1])))
            told.append(f"{reach} {what} an operation")
    return f"{' and '.join(told) or 'not counted'} (medians of {_rounds(found.to_dicts())})"


def _list(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
