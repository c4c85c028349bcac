"""A study in a few sentences, the most telling first. Each number has its interval and its rounds."""

from collections.abc import Iterator
from typing import Any

import polars as pl

from rqps.pages.relative_throughput.group_findings import group_sentences
from rqps.pages.relative_throughput.many_steps import MANY
from rqps.stats.interval import WANTED_COVERAGE
from rqps.view.names import short_steps

MOST_STEPS = 3
MOST_DBMS = 5
THROUGHPUT = "operations_per_s"
SERVER_CPU = "server_cpu_us_per_operation"

Row = dict[str, Any]


def findings(
    summary: pl.DataFrame, effects: pl.DataFrame, gains: pl.DataFrame, changes: pl.DataFrame
) -> tuple[str, ...]:
    """Sentences from the summed up ratios, the effects of configs, what those give back, and their options.

    Of many steps the groups are told, where the summary has them (`grouped`), and not each step.
    """
    summary, effects, gains = (_short(frame, summary) for frame in (summary, effects, gains))
    hosts = summary["host"].unique(maintain_order=True).to_list()
    said: list[str] = []
    for host in hosts:
        where = f"On {host}: " if len(hosts) > 1 else ""
        mine = (summary.filter(host=host), effects.filter(host=host), gains.filter(host=host))
        said += [where + sentence for sentence in _of_host(*mine, changes)]
    return tuple(said)


def _short(frame: pl.DataFrame, summary: pl.DataFrame) -> pl.DataFrame:
    names = short_steps(summary, between="_range=")
    return frame.with_columns(pl.col("step").replace(names))


def _of_host(
    summary: pl.DataFrame, effects: pl.DataFrame, gains: pl.DataFrame, changes: pl.DataFrame
) -> Iterator[str]:
    throughput = summary.filter(metric=THROUGHPUT)
    inside = set(effects["dbms"])
    others = throughput.filter(~pl.col("dbms").is_in(list(inside)))
    size = others.group_by("dbms").agg(pl.col("median").log().abs().max())
    told = set(size.top_k(MOST_DBMS, by="median")["dbms"])
    for (dbms,), rows in others.group_by("dbms", maintain_order=True):
        if dbms in told:
            yield _against(rows.to_dicts())
    if size.height > MOST_DBMS:
        yield f"Of {size.height} dbms compared, these are the {MOST_DBMS} that changed most; the table has them all."
    if others["step"].n_unique() > MANY:
        named = others if "group" in others.columns else others.with_columns(pl.lit("").alias("group"))
        yield from group_sentences(named)
    else:
        for row in _most_changed(others):
            yield _step(row, summary, gains)
    of_throughput = effects.filter(metric=THROUGHPUT)
    for (dbms, instead_of), rows in of_throughput.group_by("dbms", "base", maintain_order=True):
        change = changes.filter(dbms=dbms, instead_of=instead_of)["change"].to_list()
        yield _effect(rows.to_dicts(), change[0] if change else "")
    yield from _unsure(throughput)


def _against(rows: list[Row]) -> str:
    me, base = rows[0]["dbms"], rows[0]["base"]
    return f"{me} {_verdicts(rows)}. It does {_reach(rows)} of the throughput of {base}."


def _effect(rows: list[Row], change: str) -> str:
    me, base = rows[0]["dbms"], rows[0]["base"]
    asked = f" ({change})" if change else ""
    return f"Same build, other config: {me}{asked} {_verdicts(rows)}. It does {_reach(rows)} of {base}."


def _verdicts(rows: list[Row]) -> str:
    """`is slower than my5624.base in 3 of 4 steps`, and never more than the rounds support."""
    counts = {kind: sum(row["verdict"] == kind for row in rows) for kind in ("slower", "faster")}
    told = [f"{kind} in {count}" for kind, count in counts.items() if count]
    if told:
        told[0] = told[0].replace(" in ", f" than {rows[0]['base']} in ")
    of = f"of {len(rows)} step{'s' if len(rows) > 1 else ''}"
    if told:
        return f"is {' and '.join(told)} {of}"
    if all(row["verdict"] == "same" for row in rows):
        return f"does the same as {rows[0]['base']}, within 2 %, in all {of}".replace("all of", "all")
    return f"is not shown to be slower or faster than {rows[0]['base']} in any {of}"


def _reach(rows: list[Row]) -> str:
    low, high = min(rows, key=_median), max(rows, key=_median)
    rounds = sorted({row["n"] for row in rows})
    count = f"{rounds[0]}–{rounds[-1]}" if len(rounds) > 1 else f"{rounds[0]}"
    reach = _named(low) if len(rows) == 1 else f"{_named(low)} to {_named(high)}"
    return f"{reach}, medians of {count} round{'' if count == '1' else 's'},"


def _most_changed(throughput: pl.DataFrame) -> list[Row]:
    sure = throughput.filter(pl.col("verdict").is_in(["slower", "faster"]))
    by_size = sure.sort(pl.col("median").log().abs(), descending=True, maintain_order=True)
    return by_size.unique("step", keep="first", maintain_order=True).head(MOST_STEPS).to_dicts()


def _step(row: Row, summary: pl.DataFrame, gains: pl.DataFrame) -> str:
    text = f"{row['step']}: {row['dbms']} does {_number(row)} of {row['base']}"
    cpu = summary.filter(metric=SERVER_CPU, step=row["step"], dbms=row["dbms"], base=row["base"]).to_dicts()
    if cpu:
        text += f", and the server spends {_number(cpu[0])} times the CPU on an operation"
    same = {"metric": THROUGHPUT, "step": row["step"], "instead_of": row["dbms"]}
    for gain in gains.filter(**same).to_dicts():
        text += f"; {_moved(gain)}"
    return text + "."


def _unsure(throughput: pl.DataFrame) -> Iterator[str]:
    open_ = throughput.filter(verdict="unsure")
    if open_.is_empty():
        return
    needs = open_.group_by("needs").agg(pl.len().alias("times")).sort("times", "needs", descending=True)
    what = needs["needs"][0]
    most = "" if needs.height == 1 else f" for {needs['times'][0]} of them"
    count = f"{open_.height} of {throughput.height} comparisons"
    yield f"The rounds can't tell in {count}; it would take{most} {what}."


def _named(row: Row) -> str:
    return f"{row['median']:.2f} ({row['step']}, {_interval(row)})"


def _number(row: Row) -> str:
    return f"{row['median']:.2f} ({_interval(row)}, {row['n']} round{'s' if row['n'] > 1 else ''})"


def _moved(row: Row) -> str:
    """What another config gives back, where the rounds can tell that it gives back anything."""
    if row["low"] is None or row["coverage"] < WANTED_COVERAGE or row["low"] <= 0 <= row["high"]:
        reach = "no interval" if row["low"] is None else f"{row['low']:+.2f} to {row['high']:+.2f}"
        return f"whether {row['dbms']} changes that, the rounds can't tell ({row['median']:+.2f}, {reach})"
    way = "gives back" if row["median"] > 0 else "takes another"
    low, high = sorted((abs(row["low"]), abs(row["high"])))
    return f"{row['dbms']} {way} {abs(row['median']):.2f} of it ({low:.2f}–{high:.2f}, {row['n']} rounds)"


def _interval(row: Row) -> str:
    return "no interval" if row["low"] is None else f"{row['low']:.2f}–{row['high']:.2f}"


def _median(row: Row) -> float:
    return float(row["median"])
