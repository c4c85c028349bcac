"""Calculates the columns of the insert benchmark's published report, corrects columns that the report calculates
wrongly, and checks each second by the report's rule for a step: did the inserts reach their target rate?"""

from collections.abc import Iterator

import polars as pl

from rqps.numbers import formatted, sized
from rqps.show import Row, by_host, coverage_of, in_order, rounds_of
from rqps.show.words import Folded
from rqps.stats import absolute, compare, rounds, tidy, usable
from rqps.stats.metrics import HOST_CPU_S, SHOWN_BY_VMSTAT, vmstat_averages
from rqps.stats.over_time import seconds_of
from rqps.store.read import Study
from rqps.terminal import in_columns

ON_TARGET = 0.95
"""The share of the target rate that a step or a second must reach to be on target, as in the published studies."""
VMSTAT_S = 5
GB = 1024**2  # in KB
_DIGITS = {
    **dict.fromkeys(("ips", "qps", "rps", "wps", "csps", "cpupq", "p50", "p99"), 0),
    **dict.fromkeys(("rmbps", "wmbps", "cpups", "dbgb1", "dbgb2", "rss"), 1),
}
_STEPS, _COUNTERS, _ENGINE, _CLIENTS, _INTERVALS = (
    f"{name}.parquet" for name in ("steps", "counters", "engine", "clients", "intervals")
)
_PUBLISHED = {
    "ips": (_INTERVALS, "operations of kind insert / elapsed_s; in l.* operations_per_s of steps"),
    "qps": (_STEPS, "operations_per_s; 0 in l.*"),
    "rps": (_STEPS, "= host_reads / elapsed_s"),
    "rmbps": (_STEPS, "= host_read_kb / elapsed_s / 1024"),
    "wps": (_STEPS, "= host_writes / elapsed_s"),
    "wmbps": (_STEPS, "= host_write_kb / elapsed_s / 1024"),
    "rpq": (_STEPS, "= rps / rate"),
    "rkbpq": (_STEPS, "= 1024 * rmbps / rate"),
    "wpi": (_STEPS, "= wps / ips"),
    "wkbpi": (_STEPS, "= 1024 * wmbps / ips"),
    "csps": (_COUNTERS, "host_context_switches by lines of 5 s, with vmstat's headers as lines of 0"),
    "cpups": (_COUNTERS, "host_cpu_user_s and host_cpu_system_s by lines of 5 s in whole percent, with the headers"),
    "cspq": (_COUNTERS, "= csps / rate"),
    "cpupq": (_COUNTERS, "= cpups / 100 * cpus * 1e6 / rate"),
    "dbgb1": (_ENGINE, "tables_kb after the step, in GB"),
    "dbgb2": (_ENGINE, "datadir_kb after the step, in GB"),
    "rss": (_COUNTERS, "the most of server_rss_kb, in GB"),
    "maxop": (_INTERVALS, "the most of latency_max_us, in s: of kind insert in l.*, of kind query alone in q*"),
    "p50": (_CLIENTS, "of client 1: the rate that half of the seconds reach"),
    "p99": (_CLIENTS, "of client 1: the rate that 99 % of the seconds reach"),
}
_CORRECTED = {
    "exact_cpupq": (_STEPS, "= (host_cpu_user_s + host_cpu_system_s) / elapsed_s * 1e6 / rate"),
    "exact_cspq": (_STEPS, "= host_context_switches / elapsed_s / rate"),
    "server_us": (_STEPS, "= server_cpu_s / elapsed_s * 1e6 / rate"),
    "client_us": (_STEPS, "= client_cpu_s / elapsed_s * 1e6 / rate"),
    "others_us": (_STEPS, "= exact_cpupq - server_us - client_us"),
    "p50_all": (_CLIENTS, "as p50, of all clients together"),
    "p99_all": (_CLIENTS, "as p99, of all clients together"),
}
SOURCES = _PUBLISHED | _CORRECTED
"""Maps each column to the file from which it is calculated and to the calculation: a formula in SQL that begins with
`=`, or a description in words."""
PUBLISHED = tuple(_PUBLISHED)
"""The published columns in the report's order, without the last column, which names the dbms."""
_OF_STEP = ["run", "step"]


def asks_queries() -> pl.Expr:
    """True for steps that query while rows are inserted or deleted (q100, qr100, qp100), false for l.* steps."""
    return pl.col("unit") == "query"


def with_insert_rate(study: Study) -> pl.DataFrame:
    """The steps that have operations and no errors, with `ips`: the rows that all clients together insert per second
    or, in l.x, the rows indexed per second."""
    inserted = study.intervals.filter(pl.col("kind") == "insert", pl.col("second") >= 0)
    rows = inserted.group_by(_OF_STEP).agg(pl.col("operations").sum().alias("inserted")).collect()
    joined = usable(study.steps).join(rows, on=_OF_STEP, how="left", maintain_order="left")
    achieved = pl.col("inserted").fill_null(0) / pl.col("elapsed_s")
    return joined.with_columns(pl.when(asks_queries()).then(achieved).otherwise("operations_per_s").alias("ips"))


def main_seconds(study: Study, steps: pl.DataFrame) -> pl.DataFrame:
    """One row per client and second, with the number of queries; for a step whose throughput counts inserts, with the
    number of inserts."""
    main = pl.when(asks_queries()).then(pl.lit("query")).otherwise(pl.lit("insert"))
    return seconds_of(study.clients, steps, ["insert", "query"]).filter(pl.col("kind") == main)


def columns(study: Study) -> pl.DataFrame:
    """One row per step, run and column: `metric` is the published or corrected column, `value` its number."""
    steps, kinds = with_insert_rate(study), ["insert", "delete", "query"]
    after = study.engine.filter(moment="after").unique(_OF_STEP, keep="last")
    sizes = after.select(*_OF_STEP, dbgb1=pl.col("tables_kb") / GB, dbgb2=pl.col("datadir_kb") / GB).collect()
    longest = [(pl.col("latency_max_us").filter(kind=kind).max() / 1e6).alias(f"max_{kind}_s") for kind in kinds]
    timed = study.intervals.filter(pl.col("second") >= 0, pl.col("kind").is_in(kinds))
    responses = timed.group_by(_OF_STEP).agg(longest).collect()
    for values in (_sampled(study.counters), sizes, responses, _rates_reached(study)):
        steps = steps.join(values, on=_OF_STEP, how="left", maintain_order="left")
    steps = steps.with_columns(
        pl.when(asks_queries()).then("operations_per_s").otherwise(0.0).alias("qps"),
        pl.when(asks_queries()).then("operations_per_s").otherwise("ips").alias("rate"),
        pl.when(asks_queries()).then("max_query_s").otherwise("max_insert_s").alias("maxop"),
        (HOST_CPU_S / pl.col("elapsed_s")).round().alias("cpus"),
        pl.col("retries").fill_null(0).cast(pl.Float64).alias("done_again"),
    )
    for name, (_, calculated) in SOURCES.items():
        if calculated.startswith("="):
            steps = steps.with_columns(pl.sql_expr(calculated.removeprefix("=")).alias(name))
    more = ("elapsed_s", "max_insert_s", "max_delete_s", "max_query_s", "done_again")
    return tidy(steps, [*SOURCES, *more], study.runs)


def columns_over_rounds(study: Study) -> pl.DataFrame:
    """One row per step, dbms and column. `estimate` is the median of the column's values over the rounds, not a
    ratio to the base; the base comes first."""
    return absolute(columns(study)).sort("host", "position", pl.col("dbms") != study.card.base, maintain_order=True)


def rounds_of_column(study: Study, step: str, dbms: str, column: str) -> pl.DataFrame:
    """The value of a column in each round, for one step and dbms, with the run and the file from which it is
    calculated."""
    file, how = SOURCES[column]
    values = columns(study).filter(step=step, dbms=dbms, metric=column)
    return values.select("host", "round", "value", "run", pl.lit(file).alias("file"), pl.lit(how).alias("calculated"))


def rates_reached(rates: str, end: str = "") -> list[pl.Expr]:
    """p50 and p99 as published: the operations per second that are reached in at least 50 % or 99 % of the
    seconds."""
    ordered = pl.col(rates).sort(descending=True).cast(pl.Float64)
    places = {name: (share * pl.len()).ceil().cast(pl.Int64) - 1 for name, share in (("p50", 0.50), ("p99", 0.99))}
    return [ordered.get(place.clip(0)).alias(f"{name}{end}") for name, place in places.items()]


def _rates_reached(study: Study) -> pl.DataFrame:
    """p50 and p99 of the operations per second: of the first client alone, which is what the reports publish, and of
    all clients together."""
    seconds = main_seconds(study, study.steps.filter(pl.col("kind") != "l.x"))
    first = seconds.filter(client=1).group_by(_OF_STEP).agg(rates_reached("operations"))
    of_all = seconds.group_by(*_OF_STEP, "second").agg(pl.col("operations").sum())
    together = of_all.group_by(_OF_STEP).agg(rates_reached("operations", "_all"))
    return together.join(first, on=_OF_STEP, how="left")


def _sampled(counters: pl.LazyFrame) -> pl.DataFrame:
    """Averages over the lines of vmstat, as published, and the maximum resident memory of the server."""
    lines = (
        counters.filter(SHOWN_BY_VMSTAT)
        .group_by(*_OF_STEP, ((pl.col("second") - pl.col("interval_s")) // VMSTAT_S).alias("line"))
        .agg(pl.col("^host_cpu_.*_s$", "host_context_switches", "interval_s").sum(), pl.col("server_rss_kb").max())
    )
    averages = vmstat_averages("cpups", "csps")
    return lines.group_by(_OF_STEP).agg(*averages, rss=pl.col("server_rss_kb").max() / GB).collect()


def columns_text(study: Study) -> Folded:
    """The published columns as text, per step: one line per dbms, then one line per dbms relative to the base. A
    second line below each shows how far the confidence intervals of its numbers reach."""
    published, base = pl.col("metric").is_in(PUBLISHED), study.card.base
    rows = by_host(columns_over_rounds(study).filter(published))
    ratios = by_host(compare(rounds(columns(study), study.runs, base)).filter(published))
    note = f"Medians of {rounds_of(rows['n'])}; ± how far the {coverage_of(rows['coverage'])} reach."
    note = note if rows["n"].max() != 1 else "One round, which has no interval."
    note += f" Lines in the order {', '.join(in_order(rows['dbms']))}."
    texts = {}
    for (host, step), of_step in rows.group_by("host", "step", maintain_order=True):
        lines = [[*PUBLISHED, "tag"], *_lines(of_step, None)]
        if relative := list(_lines(ratios.filter(host=host, step=step), 2)):
            lines += [[f"relative to {base}"], *relative]
        place = f"{step} on {host}" if rows["host"].n_unique() > 1 else str(step)
        texts[place] = "\n".join(in_columns(lines, align="<"))
    return Folded(note, texts)


def _lines(rows: pl.DataFrame, digits: int | None) -> Iterator[list[str]]:
    for (dbms,), of_dbms in rows.group_by("dbms", maintain_order=True):
        of_metric = {row["metric"]: row for row in of_dbms.iter_rows(named=True)}
        cells = {name: of_metric.get(name) for name in PUBLISHED}
        forms = {name: f".{_DIGITS.get(name, 3) if digits is None else digits}f" for name in PUBLISHED}
        yield [*(formatted(row["estimate"], forms[name]) if row else "-" for name, row in cells.items()), str(dbms)]
        if any(reaches := [_reach(row) for row in cells.values()]):
            yield [*reaches, ""]


def _reach(row: Row | None) -> str:
    """
    >>> _reach({"estimate": 200.0, "low": 198.0, "high": 201.0}), _reach({"estimate": 0.0, "low": 0.0, "high": 0.0})
    ('±1.0%', '±0')
    """
    if row is None or row["low"] is None:
        return ""
    median, low, high = row["estimate"], row["low"], row["high"]
    if low == high:
        return "±0"
    half = max(high - median, median - low)
    return f"±{formatted(100 * half / median, '.1f')}%" if median else f"..{sized(high)}"


def seconds_on_target(study: Study) -> pl.DataFrame:
    """Per step and dbms: the longest stall, the longest time from an insert's due time to its end, and the shares of
    seconds on target, of all clients together and of the worst client. A step's mean can hide a stall."""
    steps = usable(study.steps).filter(pl.col("target_per_s").is_not_null(), asks_queries())
    rate = steps.select(*_OF_STEP, "target_per_s", "clients")
    of_all = seconds_of(study.intervals, steps, ["insert"]).with_columns(pl.lit(0).alias("client"))
    of_client = seconds_of(study.clients, steps, ["insert"])
    target = pl.col("target_per_s")
    together = stalls(marked(of_all.join(rate, on=_OF_STEP), target))
    alone = stalls(marked(of_client.join(rate, on=_OF_STEP), target / pl.col("clients")))
    worst = alone.group_by(_OF_STEP).agg(pl.col("share").min().alias("share_of_worst_client"))
    due = study.latencies.filter(pl.col("kind") == "insert due", pl.col("transactions") > 0)
    latest = due.group_by(_OF_STEP).agg((pl.col("below_us").max() / 1e6).alias("latest_insert_s")).collect()
    for more in (together.drop("client"), worst, latest):
        steps = steps.join(more, on=_OF_STEP, how="left", maintain_order="left")
    metrics = ("share", "share_of_worst_client", "stall_s", "latest_insert_s")
    return absolute(tidy(steps, metrics, study.runs))


def marked(seconds: pl.DataFrame, rate: pl.Expr) -> pl.DataFrame:
    """Adds the column `on_target` to the seconds. Rows that are inserted near the end of a second may be counted in
    the wrong one of two seconds. So if a neighbouring second has more rows than the rate demands, its excess is
    added to a second's own rows; if both neighbours have more, only the larger excess is added."""
    rows, of_line = pl.col("operations"), [*_OF_STEP, "client"]
    around = [rows.shift(by).over(of_line, order_by="second").fill_null(0) - rate for by in (-1, 1)]
    reached = rows + pl.max_horizontal(0, *around) >= ON_TARGET * rate
    return seconds.with_columns(reached.alias("on_target")).sort(*of_line, "second")


def stalls(seconds: pl.DataFrame) -> pl.DataFrame:
    """One row per step and client: the `share` of seconds on target, and `stall_s`, the longest sequence of seconds
    that were not on target."""
    lengths = pl.col("on_target").rle()
    below = lengths.struct.field("len").filter(~lengths.struct.field("value"))
    return seconds.group_by(*_OF_STEP, "client", maintain_order=True).agg(
        pl.col("on_target").mean().alias("share"), below.max().fill_null(0).cast(pl.Float64).alias("stall_s")
    )
