"""Numbers of each step over the rounds: throughput, the rate of inserts, inherited debt, reads; and its seconds."""

import polars as pl

from rqps.stats import absolute, throughput_over_time, tidy, usable
from rqps.stats.over_time import seconds_of
from rqps.store.read import Study

ON_TARGET = 0.95  # of its rate has to be reached, as published
FEW, MANY = 0.01, 0.1  # pages per operation that were not in memory
FEW_CLIENTS = 4  # are drawn as lines; of more, each is a strip
MB = 1024  # KB
MOST_POINTS = 60
_PIECES, _PIECES_OF_MANY = 60, 30
_DEBT = {
    "history_length": pl.col("history_length").cast(pl.Float64),
    "dirty_mb": pl.col("dirty_kb") / MB,
    "dirty_share": pl.col("dirty_kb") / pl.col("buffer_pool_kb"),
    "checkpoint_age_mb": pl.col("checkpoint_age_kb") / MB,
    "age_share": pl.col("checkpoint_age_kb") / pl.col("redo_capacity_kb"),
    "waited_s": pl.col("waited_s"),
}
_READS = ("misses", "device_reads", "read_kb", "tables_mb", "pool_mb")
_OF_STEP = ["run", "step"]


def asks_queries() -> pl.Expr:
    """True for steps that ask queries while rows come and go (q100, qr100, qp100), false for loads (l.i0 to l.i2)."""
    return pl.col("unit") == "query"


def with_insert_rate(study: Study) -> pl.DataFrame:
    """The usable steps with `ips`, rows inserted (in l.x: indexed) per second of the step by all clients."""
    inserted = study.intervals.filter(pl.col("kind") == "insert", pl.col("second") >= 0)
    rows = inserted.group_by(_OF_STEP).agg(pl.col("operations").sum().alias("inserted")).collect()
    found = usable(study.steps).join(rows, on=_OF_STEP, how="left", maintain_order="left")
    achieved = pl.col("inserted").fill_null(0) / pl.col("elapsed_s")
    return found.with_columns(pl.when(asks_queries()).then(achieved).otherwise("operations_per_s").alias("ips"))


def throughput(study: Study) -> pl.DataFrame:
    """Rows inserted (or indexed) or queries per second; `on_target` is null for a step without a rate of inserts."""
    found = absolute(tidy(usable(study.steps), ["operations_per_s"], study.runs))
    rates = insert_rates(study).select("host", "step", "dbms", "on_target")
    return found.join(rates, on=["host", "step", "dbms"], how="left", maintain_order="left")


def insert_rates(study: Study) -> pl.DataFrame:
    """Rows inserted per second, and by the published rule the `target`, rounds that `missed` it, and `on_target`."""
    steps = with_insert_rate(study).filter(pl.col("target_per_s").is_not_null(), asks_queries())
    missed = pl.col("ips") < ON_TARGET * pl.col("target_per_s")
    targets = steps.group_by("host", "step", "dbms").agg(
        pl.col("target_per_s").first().alias("target"), missed.sum().alias("missed")
    )
    return (
        absolute(tidy(steps, ["ips"], study.runs))
        .join(targets, on=["host", "step", "dbms"], how="left", maintain_order="left")
        .with_columns((pl.col("estimate") >= ON_TARGET * pl.col("target")).alias("on_target"))
    )


def main_seconds(study: Study, steps: pl.DataFrame) -> pl.DataFrame:
    """Operations of each client in every second, of the kind that gives the step its throughput."""
    main = pl.when(asks_queries()).then(pl.lit("query")).otherwise(pl.lit("insert"))
    return seconds_of(study.clients, steps, ["insert", "query"]).filter(pl.col("kind") == main)


def seconds_on_target(study: Study) -> pl.DataFrame:
    """Longest stall, longest time from when an insert was due until it was done, and shares of seconds on target: of
    all clients together and of the worst of them. The mean of a step need not show a stall."""
    steps = usable(study.steps).filter(pl.col("target_per_s").is_not_null(), asks_queries())
    rate = steps.select(*_OF_STEP, "target_per_s", "clients")
    of_all = seconds_of(study.intervals, steps, ["insert"]).with_columns(pl.lit(0).alias("client"))
    of_each = seconds_of(study.clients, steps, ["insert"])
    target = pl.col("target_per_s")
    together = stalls(marked(of_all.join(rate, on=_OF_STEP), target))
    alone = stalls(marked(of_each.join(rate, on=_OF_STEP), target / pl.col("clients")))
    worst = alone.group_by(_OF_STEP).agg(pl.col("share").min().alias("share_of_worst_client"))
    due = study.latencies.filter(pl.col("kind") == "insert due", pl.col("transactions") > 0)
    latest = due.group_by(_OF_STEP).agg((pl.col("below_us").max() / 1e6).alias("latest_insert_s")).collect()
    for more in (together.drop("client"), worst, latest):
        steps = steps.join(more, on=_OF_STEP, how="left", maintain_order="left")
    metrics = ("share", "share_of_worst_client", "stall_s", "latest_insert_s")
    return absolute(tidy(steps, metrics, study.runs))


def marked(seconds: pl.DataFrame, rate: pl.Expr) -> pl.DataFrame:
    """Seconds with `on_target`; rows that slipped over the edge of a second count, where its neighbour has more."""
    rows, of_line = pl.col("operations"), [*_OF_STEP, "client"]
    around = [rows.shift(by).over(of_line, order_by="second").fill_null(0) - rate for by in (-1, 1)]
    reached = rows + pl.max_horizontal(0, *around) >= ON_TARGET * rate
    return seconds.with_columns(reached.alias("on_target")).sort(*of_line, "second")


def stalls(seconds: pl.DataFrame) -> pl.DataFrame:
    """Per step and client: the `share` of seconds on target, and `stall_s`, the longest row of seconds below it."""
    lengths = pl.col("on_target").rle()
    below = lengths.struct.field("len").filter(~lengths.struct.field("value"))
    return seconds.group_by(*_OF_STEP, "client", maintain_order=True).agg(
        pl.col("on_target").mean().alias("share"), below.max().fill_null(0).cast(pl.Float64).alias("stall_s")
    )


def debt(study: Study) -> pl.DataFrame:
    """Debt that each step with queries inherited: rows to purge, dirty pages, the checkpoint's age; and the wait."""
    before = study.engine.filter(pl.col("moment") == "before").select(*_OF_STEP, **_DEBT).collect()
    steps = study.steps.filter(asks_queries()).join(before, on=_OF_STEP, how="left", maintain_order="left")
    return absolute(tidy(steps, _DEBT, study.runs))


def settling(study: Study) -> pl.DataFrame:
    """The debt during the wait before a step: `second` of the wait, `measure` and `value`, one line per run."""
    index = ["host", "dbms", "round", *_OF_STEP, "second"]
    rows = study.engine.filter(pl.col("moment") == "settling", pl.col("second").is_not_null())
    measures = {name: _DEBT[name] for name in ("history_length", "dirty_mb", "checkpoint_age_mb")}
    values = rows.select(*index, **measures).collect()
    long = values.unpivot(index=index, variable_name="measure", value_name="value").drop_nulls("value")
    of_line = [*_OF_STEP, "measure"]
    every = (pl.len().over(of_line) + MOST_POINTS - 1) // MOST_POINTS
    ordered = long.sort("measure", "dbms", "round", "second", maintain_order=True)
    return ordered.filter(pl.int_range(pl.len()).over(of_line) % every == 0)


def reads(study: Study) -> pl.DataFrame:
    """Read per operation (a row in l.*, a query in q*): pages not in the buffer pool, and reads of the device; beside
    them the size of the tables after the step, and of the buffer pool."""
    counted = study.status.filter(name="innodb_buffer_pool_reads")
    value = pl.col("value").cast(pl.Float64, strict=False)
    before, after = (value.filter(moment=moment).first() for moment in ("before", "after"))
    misses = counted.group_by(_OF_STEP).agg((after - before).alias("misses")).collect()
    sizes = study.engine.filter(moment="after").select(
        *_OF_STEP, tables_mb=pl.col("tables_kb") / MB, pool_mb=pl.col("buffer_pool_kb") / MB
    )
    steps = usable(study.steps)
    for more in (misses, sizes.unique(_OF_STEP, keep="last").collect()):
        steps = steps.join(more, on=_OF_STEP, how="left", maintain_order="left")
    steps = steps.with_columns(device_reads="host_reads", read_kb="host_read_kb")
    per_operation = pl.col("misses", "device_reads", "read_kb") / pl.col("operations")
    return absolute(tidy(steps.with_columns(per_operation), _READS, study.runs))


def where_pages_come_from(found: pl.DataFrame) -> pl.DataFrame:
    """One row per step and dbms with `reads_from` in words: memory, the disk, or the page cache of the system."""
    wide = found.pivot("metric", _READS, index=["host", "position", "step", "dbms"], values="estimate")
    misses, device = pl.coalesce("misses", "device_reads"), pl.col("device_reads").fill_null(0)
    at_all = pl.when(misses < FEW).then(pl.lit("memory")).when(misses < MANY).then(pl.lit("mostly memory"))
    by_device = at_all.when(device >= misses / 2).then(pl.lit("the disk"))
    return wide.with_columns(by_device.otherwise(pl.lit("the system's page cache")).alias("reads_from"))


def steps_over_time(study: Study, *, queries: bool) -> pl.DataFrame:
    """Throughput of every second, all clients together: of the steps with queries, or of those that only write."""
    steps = study.steps.filter(pl.col("kind") != "l.x", asks_queries() == queries)
    return throughput_over_time(study.intervals, steps)


def clients_over_time(study: Study) -> pl.DataFrame:
    """Rows or queries per second of each client and piece of time: the `estimate` of the rounds' means.

    `low` and `high` are single seconds of all rounds, so that a stall is not lost in a mean."""
    seconds = main_seconds(study, usable(study.steps).filter(pl.col("kind") != "l.x"))
    pieces = _PIECES if seconds["client"].n_unique() <= FEW_CLIENTS else _PIECES_OF_MANY
    length = pl.col("second").max().over("host", "step", "dbms") + 1
    keys = ["host", "position", "step", "dbms", "kind", "client", "piece_s", "second"]
    done = pl.col("operations")
    return (
        seconds.with_columns(((length + pieces - 1) // pieces).alias("piece_s"))
        .with_columns(pl.col("second") // pl.col("piece_s") * pl.col("piece_s"))
        .group_by(*keys, "round")
        .agg(done.mean().alias("mean"), done.min().alias("low"), done.max().alias("high"))
        .group_by(keys)
        .agg(
            pl.col("mean").median().alias("estimate"), pl.col("low").min(), pl.col("high").max(), pl.len().alias("n")
        )
        .sort("host", "dbms", "position", "client", "second")
    )
