"""Cost per operation: CPU of server and load generator, context switches and disk, as measured and as published."""

from collections.abc import Sequence
from typing import NamedTuple

import polars as pl

from rqps import stats
from rqps.pages.cost_per_operation.tables import cost_tables, cost_text, of_steps
from rqps.show import Sentences, smallest_effect
from rqps.show.words import NOT_COMPARED, three_digits
from rqps.stats import PUBLISHED
from rqps.stats.metrics import SHOWN_BY_VMSTAT, vmstat_averages
from rqps.stats.pairing import SHARES_SECONDS
from rqps.store import Study

__all__ = ["Costs", "cost_tables", "cost_text", "costs", "findings", "published_text", "two_measures"]

MOST = 5
NOT_OF_THE_HOST = (
    "Not measured: in a duet the servers take turns within milliseconds, and the host's counters are of all of them "
    "together. So the published columns can't be calculated for one server; its own CPU time, µs/o, is known."
)
SERVER, CLIENT, HOST = (f"{who}_cpu_us_per_operation" for who in ("server", "client", "host"))
_WORDS = {"slower": "more expensive", "faster": "cheaper", "same": "the same within {}", "unsure": "unsure"}

_OF_THE_DISK = {"r/o": "host_reads", "rKB/o": "host_read_kb", "wKB/o": "host_write_kb"}


class Costs(NamedTuple):
    """Costs of operations, in the frames that tables and charts read."""

    values: pl.DataFrame
    rounds: pl.DataFrame
    compared: pl.DataFrame
    """The tidy frame, with warnings, in the order of tables."""
    table: pl.DataFrame
    """One row per step, dbms and metric: the absolute value and, except for the base, the ratio to it."""


def costs(study: Study, *, published: bool = False) -> Costs:
    """All metrics that we measure, of each step and dbms; or those of a published table, calculated as those are.
    The study's verdicts are the only ones: other costs have intervals."""
    values = as_published(study.steps, study.counters, study.runs) if published else stats.measured(study)
    rounds = stats.rounds(values, study.runs, study.card.base)
    is_related = pl.col("metric").is_in(stats.COMPARED)
    others = stats.compare(rounds.filter(~is_related)).with_columns(verdict=pl.lit(None, pl.String), needs=pl.lit(""))
    shown = stats.with_warnings(stats.in_tables(others), stats.all_warnings(study))
    if not published:
        shown = pl.concat([stats.relate(study)[1], shown])
    table = stats.in_tables(cost_table(values, shown))
    return Costs(values, rounds, shown, table)


def as_published(steps: pl.DataFrame, counters: pl.LazyFrame, runs: pl.DataFrame) -> pl.DataFrame:
    """One row per step, run and published column, calculated as published: from vmstat's and iostat's line of each
    second, which servers under one load have together only. A scan's o/s is thousand rows a second of one table;
    vmstat's first line is left out."""
    of_disk = ((pl.col(total) / pl.col("interval_s")).mean().alias(name) for name, total in _OF_THE_DISK.items())
    steps = steps.filter(~SHARES_SECONDS)
    lines = counters.filter(SHOWN_BY_VMSTAT, pl.col("run").is_in(steps["run"].unique().implode()))
    seconds = lines.group_by("run", "step").agg(*vmstat_averages("cpu/o", "cs/o"), *of_disk)
    wide = stats.usable(steps).join(seconds.collect(), on=["run", "step"], how="inner", maintain_order="left")
    rows_per_table = pl.col("operations") / pl.col("transactions")
    of_scan = rows_per_table / 1000 / (pl.col("latency_mean_us") / 1e6)
    wide = wide.with_columns(pl.when(unit="row").then(of_scan).otherwise("operations_per_s").alias("o/s"))
    per_operation = [pl.col(name) / pl.col("o/s") for name in PUBLISHED if name != "o/s"]
    return stats.tidy(wide.with_columns(per_operation), PUBLISHED, runs)


def cost_table(values: pl.DataFrame, compared: pl.DataFrame) -> pl.DataFrame:
    """Absolute values, the base first, and the ratio of each other dbms to it, which has a count of its own: there is
    none in a round in which the base's value is 0. `base_estimate` is null where the base gave no number at all."""
    absolute, key = stats.absolute(values), ["host", "step", "metric"]
    base = str(next(iter(compared["base"]), ""))
    named = {f"ratio_{name}": pl.col(name) for name in ("low", "high", "n", "coverage")}
    of_base = absolute.filter(dbms=base).select(*key, base_estimate="estimate")
    of_me = compared.select(*key, "dbms", "verdict", "needs", "smallest_effect", ratio="estimate", **named)
    of_me = of_me.join(of_base.filter(pl.col("base_estimate") != 0), on=key, how="semi", maintain_order="left")
    joined = absolute.join(of_me, on=[*key, "dbms"], how="left", maintain_order="left")
    joined = joined.join(of_base, on=key, how="left", maintain_order="left")
    is_base = pl.col("dbms") == base
    return joined.with_columns(pl.lit(base).alias("base"), is_base.alias("is_base")).sort(
        "host", "position", ~is_base, maintain_order=True
    )


def published_text(ours: Costs, theirs: Costs, steps: Sequence[str] | None) -> str:
    """The published tables of some steps, or of the two in which the server's CPU changed most."""
    if theirs.table.is_empty():
        return NOT_OF_THE_HOST
    in_both = ours.compared.filter(metric=SERVER).join(theirs.table, on="step", how="semi")
    return cost_text(of_steps(theirs.table, steps or stats.most_changed(in_both, 2)))


def findings(table: pl.DataFrame) -> Sentences:
    """Sentences on the server's CPU per operation: the steps that it is most expensive in, and the cheapest."""
    server = table.filter(pl.col("ratio").is_not_null(), metric=SERVER)
    if server.is_empty():
        return Sentences([NOT_COMPARED])
    counts = {word: server.filter(verdict=kind) for kind, word in _WORDS.items()}
    within = smallest_effect(server)
    shown = [f"{word.format(within)} in {rows.height}" for word, rows in counts.items() if rows.height]
    found = [f"Of {server.height} comparisons with {server['base'][0]}, an operation is {', '.join(shown)}."]
    several, digits = server["host"].n_unique() > 1, three_digits
    for word, most_first in (("more expensive", True), ("cheaper", False)):
        by_size = counts[word].sort("ratio", descending=most_first, maintain_order=True)
        for row in by_size.unique("step", keep="first", maintain_order=True).head(MOST).to_dicts():
            where = f"On {row['host']}: " if several else ""
            found.append(
                f"{where}{row['step']}: {row['dbms']} uses {digits(row['ratio'])} ({digits(row['ratio_low'])}–"
                f"{digits(row['ratio_high'])}, {row['ratio_n']} rounds) times the server CPU of {row['base']}: "
                f"{digits(row['estimate'])} ({digits(row['low'])}–{digits(row['high'])}) µs for an operation."
            )
    return Sentences(found)


def two_measures(values: pl.DataFrame) -> Sentences:
    """The shares of server, generator and everything else in the CPU time that the published cpu/o counts."""
    wide = values.filter(pl.col("metric").is_in([SERVER, CLIENT, HOST])).pivot(
        "metric", [SERVER, CLIENT, HOST], index=["host", "run", "step"], values="value", maintain_order=True
    )
    shares = wide.filter(pl.col(HOST) > 0).select(
        "host",
        (pl.col(SERVER) / pl.col(HOST)).alias("server"),
        (pl.col(CLIENT) / pl.col(HOST)).alias("generator"),
        (1 - (pl.col(SERVER) + pl.col(CLIENT)) / pl.col(HOST)).alias("rest"),
    )
    if shares.drop_nulls().is_empty():
        return Sentences([NOT_OF_THE_HOST])
    several = shares["host"].n_unique() > 1
    of_hosts = shares.partition_by("host", maintain_order=True)
    return Sentences(_shares(of_host, f"On {of_host['host'][0]}" if several else "Here") for of_host in of_hosts)


def _shares(shares: pl.DataFrame, where: str) -> str:
    shares = shares.drop("host")
    low, middle, high = (shares.select(pl.all().quantile(each, "linear")).row(0) for each in (0.05, 0.5, 0.95))
    server, generator, rest = (
        f"{round(100 * share)} % ({round(100 * least)}–{round(100 * most)})"
        for least, share, most in zip(low, middle, high, strict=True)
    )
    return (
        f"{where} the server used {server} of the CPU time that cpu/o counts, the load generator {generator}, and "
        f"all else on the host {rest}: medians, and the middle 90 % of {shares.height} steps of runs in brackets."
    )
