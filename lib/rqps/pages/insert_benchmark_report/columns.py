"""The 21 columns of the published report (the last is the dbms), and better numbers for those that it has wrong.

The published numbers come from a line of vmstat and iostat every five seconds, from `ps` every 30, and from what the
first client prints each second. They are calculated in the same way here, from the same counters of the kernel.
"""

import polars as pl

from rqps.pages.insert_benchmark_report.positions import rates_at
from rqps.pages.insert_benchmark_report.steps import reads, with_insert_rate
from rqps.stats.metrics import tidy
from rqps.stats.relative import comparable, paired
from rqps.stats.summary import estimates
from rqps.store.read import Study

PUBLISHED = (
    *("ips", "qps", "rps", "rmbps", "wps", "wmbps", "rpq", "rkbpq", "wpi", "wkbpi", "csps", "cpups", "cspq", "cpupq"),
    *("dbgb1", "dbgb2", "rss", "maxop", "p50", "p99"),
)
"""In the published order, all but the last, which names the dbms."""
CORRECTED = (
    *("elapsed_s", "exact_cpups", "exact_csps", "exact_cspq", "exact_cpupq", "server_us", "client_us", "others_us"),
    *("p50_all", "p99_all", "max_insert_s", "max_delete_s", "max_query_s", "done_again"),
)
VMSTAT_S = 5
LINES_BETWEEN_HEADERS = 21
"""vmstat repeats its header after so many lines, and the published average takes it for a line without any load."""
GB = 1024**2
"""In KB."""

_USER, _SYSTEM = pl.col("host_cpu_user_s"), pl.col("host_cpu_system_s")
_ALL = _USER + _SYSTEM + pl.col("host_cpu_idle_s") + pl.col("host_cpu_iowait_s") + pl.col("host_cpu_steal_s")


def columns(study: Study) -> pl.DataFrame:
    """One row a step, run and column: `metric`, as it is published or corrected, and its `value`."""
    comparable(study.runs)
    wide = with_insert_rate(study.steps, study.intervals)
    for more in (_sampled(study.counters), _sizes(study.engine), _longest(study), rates_at(study)):
        wide = wide.join(more, on=["run", "step"], how="left", maintain_order="left")
    elapsed, rate = pl.col("elapsed_s"), pl.when(reads()).then("operations_per_s").otherwise("ips")
    host_s = (_USER + _SYSTEM) / elapsed
    wide = wide.with_columns(
        pl.when(reads()).then("operations_per_s").otherwise(0.0).alias("qps"),
        (pl.col("host_reads") / elapsed).alias("rps"),
        (pl.col("host_read_kb") / elapsed / 1024).alias("rmbps"),
        (pl.col("host_writes") / elapsed).alias("wps"),
        (pl.col("host_write_kb") / elapsed / 1024).alias("wmbps"),
        rate.alias("rate"),
        (host_s * 1e6 / rate).alias("exact_cpupq"),
        (100 * host_s / (_ALL / elapsed)).alias("exact_cpups"),
        (pl.col("host_context_switches") / elapsed).alias("exact_csps"),
        (pl.col("server_cpu_s") / elapsed * 1e6 / rate).alias("server_us"),
        (pl.col("client_cpu_s") / elapsed * 1e6 / rate).alias("client_us"),
        (_ALL / elapsed).round().alias("cpus"),
        pl.col("retries").fill_null(0).cast(pl.Float64).alias("done_again"),
        pl.when(reads()).then("max_query_s").otherwise("max_insert_s").alias("maxop"),
    ).with_columns(
        (pl.col("rps") / rate).alias("rpq"),
        (1024 * pl.col("rmbps") / rate).alias("rkbpq"),
        (pl.col("wps") / pl.col("ips")).alias("wpi"),
        (1024 * pl.col("wmbps") / pl.col("ips")).alias("wkbpi"),
        (pl.col("csps") / rate).alias("cspq"),
        (pl.col("cpups") / 100 * pl.col("cpus") * 1e6 / rate).alias("cpupq"),
        (pl.col("exact_csps") / rate).alias("exact_cspq"),
        (pl.col("exact_cpupq") - pl.col("server_us") - pl.col("client_us")).alias("others_us"),
    )
    return tidy(wide, [*PUBLISHED, *CORRECTED], study.runs)


def columns_over_rounds(values: pl.DataFrame, base: str) -> pl.DataFrame:
    """The median of each column with its interval, and of all but the base the median of the rounds' ratios to it."""
    keys = ["host", "step", "position", "metric", "dbms"]
    named = {name: f"ratio_{name}" for name in ("n", "median", "low", "high", "coverage")}
    others = [(base, me) for me in values["dbms"].unique().sort() if me != base]
    ratios = estimates(paired(values, others), keys, "ratio").rename(named)
    found = estimates(values, keys, "value").join(ratios, on=keys, how="left", maintain_order="left")
    is_base = (pl.col("dbms") == base).alias("is_base")
    return found.with_columns(pl.lit(base).alias("base"), is_base).sort(
        "host", "position", ~pl.col("is_base"), maintain_order=True
    )


def _sampled(counters: pl.LazyFrame) -> pl.DataFrame:
    """What vmstat would have shown, averaged as published, and the most that `ps` would have seen in memory."""
    since = pl.col("second") - pl.col("interval_s")
    line = (since // VMSTAT_S).alias("line")
    totals = [each.sum().alias(name) for name, each in {"user": _USER, "system": _SYSTEM, "all": _ALL}.items()]
    lines = (
        counters.filter(since > -0.5, _ALL > 0)
        .group_by("run", "step", line)
        .agg(
            *totals, pl.col("host_context_switches").sum(), pl.col("interval_s").sum(), pl.col("server_rss_kb").max()
        )
    )
    shown = pl.len() + pl.len() // LINES_BETWEEN_HEADERS
    percent = [(100 * pl.col(name) / pl.col("all")).round().sum() for name in ("user", "system")]
    return (
        lines.group_by("run", "step")
        .agg(
            ((percent[0] + percent[1]) / shown).alias("cpups"),
            ((pl.col("host_context_switches") / pl.col("interval_s")).round().sum() / shown).alias("csps"),
            (pl.col("server_rss_kb").max() / GB).alias("rss"),
        )
        .collect()
    )


def _sizes(engine: pl.LazyFrame) -> pl.DataFrame:
    """What the tables and the whole data directory take, in GB, at the end of a step."""
    after = engine.filter(moment="after").select(
        "run", "step", dbgb1=pl.col("tables_kb") / GB, dbgb2=pl.col("datadir_kb") / GB
    )
    return after.unique(["run", "step"], keep="last").collect()


def _longest(study: Study) -> pl.DataFrame:
    """The longest that an operation of each kind took, in seconds, of all clients."""
    kinds = ["insert", "delete", "query"]
    longest = [(pl.col("latency_max_us").filter(kind=kind).max() / 1e6).alias(f"max_{kind}_s") for kind in kinds]
    measured = study.intervals.filter(pl.col("second") >= 0, pl.col("kind").is_in(kinds))
    return measured.group_by("run", "step").agg(longest).collect()
