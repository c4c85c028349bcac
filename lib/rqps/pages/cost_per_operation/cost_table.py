"""What an operation costs, as published and in one frame: absolute, and relative to the base.

The published numbers come from a line a second of vmstat and iostat, averaged over a step and divided by operations a
second. They are calculated in the same way here, from the same counters of the kernel, with what is peculiar to them.
"""

import difflib
from collections.abc import Sequence

import polars as pl

from rqps.errors import RqpsError
from rqps.stats.metrics import PUBLISHED, tidy, usable
from rqps.stats.summary import estimates, summarise

LINES_BETWEEN_HEADERS = 21
"""vmstat repeats its header after so many lines, and the published average takes it for a second without any load."""
HALF_A_SECOND = 0.5

_USER, _SYSTEM = pl.col("host_cpu_user_s"), pl.col("host_cpu_system_s")
_ALL = _USER + _SYSTEM + pl.col("host_cpu_idle_s") + pl.col("host_cpu_iowait_s") + pl.col("host_cpu_steal_s")


def as_published(steps: pl.DataFrame, counters: pl.LazyFrame, runs: pl.DataFrame) -> pl.DataFrame:
    """The columns of a published per-operation table: one row a step, run and column, `metric, value`.

    A scan's o/s is thousand rows a second of one table, as published, whatever the number of threads. The published
    average of vmstat also has its first line, of the time since the host was started; that line is left out.
    """
    wide = usable(steps).join(_averages(counters), on=["run", "step"], how="inner", maintain_order="left")
    rows_per_table = pl.col("operations") / pl.col("transactions")
    of_scan = rows_per_table / 1000 / (pl.col("latency_mean_us") / 1e6)
    wide = wide.with_columns(pl.when(unit="row").then(of_scan).otherwise("operations_per_s").alias("o/s"))
    per_operation = [pl.col(name) / pl.col("o/s") for name in PUBLISHED if name != "o/s"]
    return tidy(wide.with_columns(per_operation), PUBLISHED, runs)


def cost_table(values: pl.DataFrame, ratios: pl.DataFrame) -> pl.DataFrame:
    """One row a step, dbms and metric: the median with its interval and, except for the base, the ratio to it.

    The base is the first of its step. There is no ratio to a base whose median is zero, and in a round in which its
    value is; so a ratio has a count of its own. `base_median` is null where the base gave no number at all.
    """
    absolute = estimates(values, ["host", "step", "position", "threads", "metric", "dbms"], "value")
    relative, key = summarise(ratios), ["host", "step", "metric"]
    base = str(relative["base"][0])
    named = {f"ratio_{name}": pl.col(name) for name in ("low", "high", "n", "coverage")}
    of_base = absolute.filter(dbms=base).select(*key, base_median="median")
    of_me = relative.select(*key, "dbms", "verdict", "needs", ratio="median", **named)
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
    groups = table["group"].to_list() if "group" in table.columns else []
    there = list(dict.fromkeys([*table["step"], *filter(None, groups)]))
    for name in names:
        if name not in there:
            near = difflib.get_close_matches(name, there, n=1)
            fix = f"did you mean {near[0]!r}?" if near else f"give one of: {', '.join(there)}"
            raise RqpsError(f"the study has no step {name!r} with a number", fix=fix)
    wanted = [pl.col(column).is_in(list(names)) for column in ("step", "group") if column in table.columns]
    return table.filter(pl.any_horizontal(wanted))


def _averages(counters: pl.LazyFrame) -> pl.DataFrame:
    """What vmstat and iostat would have shown, averaged over the seconds of each step: one row a run and step."""
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
