"""How far a profile can be trusted: whether its stacks are whole, and how much of the time it explains."""

import polars as pl
from great_tables import GT

from rqps.pages.flamegraph_breakdown.instructions import instructions_table
from rqps.view.flame.look import figure
from rqps.view.tables import plain_table, styled
from rqps.view.text import Sentences
from rqps.view.theme import by_host, rounds_of

_WAYS = ("root", "repaired", "broken", "unnamed")
WHOLE_ENOUGH = 0.98
_TIMES = {
    "response_us": "response time",
    "server_cpu_us": "server CPU",
    "client_cpu_us": "client CPU",
    "neither_us": "neither",
}


def completeness_table(completeness: pl.DataFrame) -> GT | Sentences:
    """One row a step and dbms: how many samples there are, and how their stacks end."""
    if completeness.is_empty():
        return Sentences(["No stacks were sampled."])
    rows = by_host(completeness).select("step", "dbms", "samples", *_WAYS)
    whole = rows["root"] + rows["repaired"]
    least = rows.with_columns(whole.alias("whole")).sort("whole").row(0, named=True)
    told = f"At least {least['whole']:.1%} of the samples of every step are under the root of their thread."
    if least["whole"] < WHOLE_ENOUGH:
        told = f"Of {least['step']} in {least['dbms']} only {least['whole']:.1%} are under the root of their thread."
    return (
        styled(rows, "completeness", groupname_col="step", rowname_col="dbms")
        .fmt_percent(columns=list(_WAYS), decimals=1)
        .fmt_integer(columns="samples")
        .tab_source_note(told)
    )


def explained_table(explained: pl.DataFrame) -> GT | Sentences:
    """One row a step and dbms: what a client waits for an operation, and the part of it that CPU time explains."""
    if explained.is_empty():
        return Sentences(["No step gave a number."])
    rows = by_host(explained).select("step", "dbms", *_TIMES, "explained", pl.col("n").alias("rounds"))
    shares: list[float] = rows["explained"].drop_nulls().to_list()
    least, most = min(shares), max(shares)
    return (
        styled(rows, "explained", groupname_col="step", rowname_col="dbms")
        .cols_label({name: f"{words}, µs/o" for name, words in _TIMES.items()})
        .fmt(figure, columns=list(_TIMES))
        .fmt_percent(columns="explained", decimals=0)
        .cols_align("right", columns=[*_TIMES, "explained", "rounds"])
        .tab_source_note(
            f"Medians of {rounds_of(explained['n'].to_list())}. Explained: server CPU of the response time, from "
            f"{least:.0%} to {most:.0%}. Neither: waiting for a lock, a disk, the network, or for a CPU."
        )
    )


def part_table(rounds: pl.DataFrame, what: str) -> GT | Sentences:
    """The rounds behind the cost of a part, with what its table is about."""
    if rounds.is_empty():
        return Sentences(["There is no profile, so there is no number to check."])
    return plain_table(rounds, "part", what).fmt_number(columns=["its_cost", "all_cost", "server_cpu_s"], decimals=3)


def counts_beside(beside: pl.DataFrame) -> GT | Sentences:
    """Counted instructions beside throughput and CPU time, or that there are none."""
    if beside.is_empty():
        return Sentences(["No instructions of a dbms and of its base were counted, so nothing stands beside them."])
    return instructions_table(beside)
