"""Cost per operation: CPU time of server and load generator, context switches and disk, as measured and as published.

ours = costs(study)                the tidy frame, and the same beside absolute costs
theirs = published(study)          the same in the columns of published tables
"""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from rqps import stats
from rqps.errors import RqpsError
from rqps.pages.cost_per_operation.tables import cost_tables, cost_text
from rqps.stats import MEDIAN, PUBLISHED, Statistic
from rqps.store import Study
from rqps.view import Sentences

__all__ = [
    "Costs",
    "cost_tables",
    "cost_text",
    "costs",
    "findings",
    "of_steps",
    "published",
    "published_text",
    "two_measures",
]

MOST = 5
SERVER, CLIENT, HOST = (f"{who}_cpu_us_per_operation" for who in ("server", "client", "host"))
_WORDS = {"slower": "more expensive", "faster": "cheaper", "same": "the same within 2 %", "unsure": "unsure"}

LINES_BETWEEN_HEADERS = 21
"""vmstat repeats its header after so many lines, and the published average takes it for a second without any load."""
HALF_A_SECOND = 0.5

_USER, _SYSTEM = pl.col("host_cpu_user_s"), pl.col("host_cpu_system_s")
_ALL = _USER + _SYSTEM + pl.col("host_cpu_idle_s") + pl.col("host_cpu_iowait_s") + pl.col("host_cpu_steal_s")


@dataclass(frozen=True)
class Costs:
    """Costs of operations, in the frames that tables and charts read."""

    values: pl.DataFrame
    rounds: pl.DataFrame
    compared: pl.DataFrame
    """The tidy frame, with warnings, in the order of tables."""
    table: pl.DataFrame
    """One row per step, dbms and metric: the absolute value and, except for the base, the ratio to it."""


def costs(study: Study, statistic: Statistic = MEDIAN) -> Costs:
    """All metrics that we measure, of each step and dbms."""
    return _costs(study, stats.measured(study.steps, study.runs), statistic)


def published(study: Study, statistic: Statistic = MEDIAN) -> Costs:
    """The columns of a published per-operation table, calculated as those are."""
    return _costs(study, as_published(study.steps, study.counters, study.runs), statistic)


def _costs(study: Study, values: pl.DataFrame, statistic: Statistic) -> Costs:
    rounds = stats.rounds(values, study.runs, study.card.base)
    compared = stats.compare(rounds, statistic)
    table = stats.in_tables(cost_table(values, compared, statistic))
    shown = stats.with_warnings(stats.in_tables(compared), stats.all_warnings(study))
    return Costs(values, rounds, shown, table)


def as_published(steps: pl.DataFrame, counters: pl.LazyFrame, runs: pl.DataFrame) -> pl.DataFrame:
    """One row per step, run and published column: `metric, value`.

    The published numbers come from one line per second of vmstat and iostat, averaged over a step and divided by
    operations a second. They are calculated in the same way here, from the same counters of the kernel. A scan's o/s
    is thousand rows a second of one table, whatever the number of clients. The published average of vmstat also has
    its first line, of the time since the host was started; that line is left out.
    """
    wide = stats.usable(steps).join(_averages(counters), on=["run", "step"], how="inner", maintain_order="left")
    rows_per_table = pl.col("operations") / pl.col("transactions")
    of_scan = rows_per_table / 1000 / (pl.col("latency_mean_us") / 1e6)
    wide = wide.with_columns(pl.when(unit="row").then(of_scan).otherwise("operations_per_s").alias("o/s"))
    per_operation = [pl.col(name) / pl.col("o/s") for name in PUBLISHED if name != "o/s"]
    return stats.tidy(wide.with_columns(per_operation), PUBLISHED, runs)


def cost_table(values: pl.DataFrame, compared: pl.DataFrame, statistic: Statistic = MEDIAN) -> pl.DataFrame:
    """Absolute values with, except for the base, the ratio to it: `ratio, ratio_low, ratio_high, ratio_n`.

    The base is the first of its step. There is no ratio to a base whose median is zero, and in a round in which its
    value is; so a ratio has a count of its own. `base_median` is null where the base gave no number at all.
    """
    absolute, key = stats.absolute(values, statistic), ["host", "step", "metric"]
    base = str(compared["base"][0])
    named = {f"ratio_{name}": pl.col(name) for name in ("low", "high", "n", "coverage")}
    of_base = absolute.filter(dbms=base).select(*key, base_median="median")
    of_me = compared.select(*key, "dbms", "verdict", "needs", ratio="median", **named)
    of_me = of_me.join(of_base.filter(pl.col("base_median") != 0), on=key, how="semi", maintain_order="left")
    joined = absolute.join(of_me, on=[*key, "dbms"], how="left", maintain_order="left")
    joined = joined.join(of_base, on=key, how="left", maintain_order="left")
    is_base = pl.col("dbms") == base
    return joined.with_columns(pl.lit(base).alias("base"), is_base.alias("is_base")).sort(
        "host", "position", ~is_base, maintain_order=True
    )


def of_steps(table: pl.DataFrame, names: Sequence[str] | None) -> pl.DataFrame:
    """The rows of some steps, each given by its name or by that of its group; all if none is named."""
    if names is None:
        return table
    there = list(dict.fromkeys([*table["step"], *filter(None, table["group"])]))
    for name in names:
        if name not in there:
            near = difflib.get_close_matches(name, there, n=1)
            fix = f"did you mean {near[0]!r}?" if near else f"give one of: {', '.join(there)}"
            raise RqpsError(f"the study has no step {name!r} with a number", fix=fix)
    return table.filter(pl.any_horizontal(pl.col(column).is_in(list(names)) for column in ("step", "group")))


def published_text(ours: Costs, theirs: Costs, steps: Sequence[str] | None) -> str:
    """The published tables of some steps, or of the two in which the server's CPU changed most."""
    in_both = ours.compared.filter(metric=SERVER).join(theirs.table, on="step", how="semi")
    return cost_text(of_steps(theirs.table, steps or stats.most_changed(in_both, 2)))


def findings(table: pl.DataFrame) -> Sentences:
    """Sentences on the server's CPU per operation: the steps that it is most expensive in, and the cheapest."""
    server = table.filter(pl.col("ratio").is_not_null(), metric=SERVER)
    counts = {word: server.filter(verdict=kind) for kind, word in _WORDS.items()}
    shown = [f"{word} in {rows.height}" for word, rows in counts.items() if rows.height]
    found = [f"Of {server.height} comparisons with {server['base'][0]}, an operation is {', '.join(shown)}."]
    several = server["host"].n_unique() > 1
    for word, most_first in (("more expensive", True), ("cheaper", False)):
        by_size = counts[word].sort("ratio", descending=most_first, maintain_order=True)
        for row in by_size.unique("step", keep="first", maintain_order=True).head(MOST).to_dicts():
            found.append((f"On {row['host']}: " if several else "") + _finding(row))
    return Sentences(found)


def _finding(row: dict[str, Any]) -> str:
    ratio, cost = (
        [_digits(row[name]) for name in names]
        for names in (("ratio", "ratio_low", "ratio_high"), ("median", "low", "high"))
    )
    return (
        f"{row['step']}: {row['dbms']} uses {ratio[0]} ({ratio[1]}–{ratio[2]}, {row['ratio_n']} rounds) times the "
        f"server CPU of {row['base']}: {cost[0]} ({cost[1]}–{cost[2]}) µs for an operation."
    )


def two_measures(values: pl.DataFrame) -> Sentences:
    """The shares of server, generator and everything else in the CPU time that the published cpu/o counts."""
    wide = values.filter(pl.col("metric").is_in([SERVER, CLIENT, HOST])).pivot(
        "metric", index=["run", "step"], values="value", maintain_order=True
    )
    shares = wide.filter(pl.col(HOST) > 0).select(
        (pl.col(SERVER) / pl.col(HOST)).alias("server"),
        (pl.col(CLIENT) / pl.col(HOST)).alias("generator"),
        (1 - (pl.col(SERVER) + pl.col(CLIENT)) / pl.col(HOST)).alias("rest"),
    )
    if shares.drop_nulls().is_empty():
        return Sentences(["The CPU time of the host is not known."])
    server, generator, rest = (_share(shares[name].drop_nulls()) for name in shares.columns)
    return Sentences(
        [
            f"Here the server used {server} of the CPU time that cpu/o counts, the load generator {generator}, and "
            f"all else on the host {rest}: medians, and the middle 90 % of {shares.height} steps of runs in brackets."
        ]
    )


def _share(shares: pl.Series) -> str:
    low, middle, high = (round(100 * float(shares.quantile(each, "linear") or 0)) for each in (0.05, 0.5, 0.95))
    return f"{middle} % ({low}–{high})"


def _digits(value: float) -> str:
    """Three digits, and all that stand before the point.

    >>> _digits(1.4567), _digits(23.456), _digits(12345.6)
    ('1.46', '23.5', '12,346')
    """
    decimals = 2 if value < 10 else 1 if value < 100 else 0
    return f"{value:,.{decimals}f}"


def _averages(counters: pl.LazyFrame) -> pl.DataFrame:
    """Averages of vmstat and iostat over the seconds of each step: one row per run and step."""
    of_step = pl.col("second") - pl.col("interval_s") > -HALF_A_SECOND  # and not of its warm-up
    lines = pl.len() + pl.len() // LINES_BETWEEN_HEADERS
    per_s = {
        "cs/o": pl.col("host_context_switches"),
        "r/o": pl.col("host_reads"),
        "rKB/o": pl.col("host_read_kb"),
        "wKB/o": pl.col("host_write_kb"),
    }
    rates = {name: total / pl.col("interval_s") for name, total in per_s.items()}
    averages = [
        ((_whole_percent(_USER) + _whole_percent(_SYSTEM)).sum() / lines).alias("cpu/o"),
        (rates.pop("cs/o").round().sum() / lines).alias("cs/o"),
        *(rate.mean().alias(name) for name, rate in rates.items()),
    ]
    return counters.filter(of_step, _ALL > 0).group_by("run", "step").agg(averages).collect()


def _whole_percent(of: pl.Expr) -> pl.Expr:
    """As vmstat shows it: of the time of all CPUs, without decimals."""
    return (100 * of / _ALL + 0.5).floor()
