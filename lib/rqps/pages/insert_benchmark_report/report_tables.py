"""What stands beside the published columns: corrected numbers, seconds in which the rate was held, debt, reads."""

from collections.abc import Iterator

import polars as pl
from great_tables import GT

from rqps.pages.insert_benchmark_report.tables import (
    Column,
    duration_us,
    nothing,
    numbers_table,
    percent,
    sized,
    whole,
)
from rqps.view.text import Sentences

PLURAL = {"insert": "inserts", "delete": "deletes", "query": "queries"}
CPU, SWITCHES, RATES, LONGEST = "cpupq, µs", "cspq", "p50 and p99 of the rate", "maxop, s"
CORRECTED_CPU = {
    "elapsed_s": Column("elapsed, s", sized),
    "cpupq": Column("published", sized, CPU),
    "exact_cpupq": Column("host", sized, CPU),
    "server_us": Column("server", sized, CPU),
    "client_us": Column("clients", sized, CPU),
    "others_us": Column("others", sized, CPU),
    "cspq": Column("published", sized, SWITCHES),
    "exact_cspq": Column("counted", sized, SWITCHES),
}
CORRECTED_RATES = {
    "p50": Column("client 1, p50", whole, RATES),
    "p50_all": Column("all, p50", whole, RATES),
    "p99": Column("client 1, p99", whole, RATES),
    "p99_all": Column("all, p99", whole, RATES),
    "maxop": Column("published", sized, LONGEST),
    "max_insert_s": Column("insert", sized, LONGEST),
    "max_delete_s": Column("delete", sized, LONGEST),
    "max_query_s": Column("query", sized, LONGEST),
    "done_again": Column("done again", whole),
}
OF_DBMS = {
    "ips": Column("ips", whole),
    "qps": Column("qps", whole),
    "server_us": Column("server", sized, "CPU, µs/o"),
    "client_us": Column("clients", sized, "CPU, µs/o"),
    "rpq": Column("reads/o", sized),
    "wkbpi": Column("KB written/row", sized),
    "insert p99": Column("insert p99", duration_us),
    "query p99": Column("query p99", duration_us),
    "share": Column("seconds held", percent),
    "dbgb1": Column("tables, GB", sized),
}
HELD = {
    "share": Column("seconds held, all clients", percent),
    "share_of_worst_client": Column("the worst client", percent),
    "stall_s": Column("longest stall, s", whole),
    "latest_insert_s": Column("latest insert", lambda seconds: duration_us(1e6 * seconds)),
}
DEBT = {
    "waited_s": Column("waited, s", sized),
    "history_length": Column("to purge", whole),
    "dirty_mb": Column("MB", sized, "dirty pages"),
    "dirty_share": Column("of the pool", percent, "dirty pages"),
    "checkpoint_age_mb": Column("MB", sized, "checkpoint age"),
    "age_share": Column("of the redo log", percent, "checkpoint age"),
}
BOUND = {
    "misses": Column("pages not in the buffer pool/o", sized),
    "device_reads": Column("reads of the device/o", sized),
    "read_kb": Column("KB read/o", sized),
    "tables_mb": Column("tables, MB", whole),
    "pool_mb": Column("buffer pool, MB", whole),
}


def corrected_cpu_table(table: pl.DataFrame, base: str) -> GT:
    """Time, CPU and context switches as published, each beside what was counted."""
    return numbers_table(
        table,
        CORRECTED_CPU,
        "insert-corrected-cpu",
        "For an operation: as published, of the whole host; counted at the step's ends; of the server, of all "
        "clients, and of whatever else ran.",
        base,
        title="CPU and context switches, as published and counted",
    )


def corrected_rates_table(table: pl.DataFrame, base: str) -> GT:
    """The rates of seconds and the longest responses as published, each beside those of all clients and kinds."""
    return numbers_table(
        table,
        CORRECTED_RATES,
        "insert-corrected-rates",
        "The rate that is reached in 50 and in 99 percent of the seconds. Done again: transactions that met a "
        "deadlock or waited for a lock too long.",
        base,
        title="Rates and longest responses, as published and of all",
    )


def dbms_tables(table: pl.DataFrame, held: pl.DataFrame, percentiles: pl.DataFrame, base: str) -> Iterator[GT]:
    """A table a dbms: all its steps, one below the other."""
    longest = percentiles.filter(pl.col("kind").is_in(["insert", "query"]), percentile="p99")
    named = longest.with_columns(pl.format("{} p99", "kind").alias("metric"))
    found = pl.concat([table, held, named], how="diagonal_relaxed")
    for (host, dbms), rows in found.group_by("host", "dbms", maintain_order=True):
        name = f"insert-dbms-{host}-{dbms}".replace(".", "-")
        yield numbers_table(rows, OF_DBMS, name, "", base, by="dbms")


def held_table(held: pl.DataFrame, base: str) -> GT | Sentences:
    """Second by second, whether the rate of inserts was held."""
    if held.is_empty():
        return nothing("No step of this study had a rate of inserts to hold.")
    return numbers_table(
        held,
        HELD,
        "insert-held",
        "A second held its rate if 95 % of its rows were inserted in it; what slipped into its neighbour counts. "
        "A stall is the longest row of seconds that did not. The latest insert is from when the limiter "
        "wanted it to its end.",
        base,
        title="Seconds in which the rate was held",
    )


def debt_table(debt: pl.DataFrame, base: str) -> GT | Sentences:
    """What each step with queries began with."""
    if debt.is_empty():
        return nothing("The runs of this study do not tell what their steps began with.")
    note = "Just before the step: transactions that wait to be purged, pages to flush, redo log since the checkpoint."
    return numbers_table(debt, DEBT, "insert-debt", note, base, title="What each step with queries began with")


def bound_table(bound: pl.DataFrame, base: str) -> GT:
    """What an operation had to read, and whether the tables fit into memory."""
    note = "An operation is a row in l.*, a query in q*; what the background writes read there is in its number."
    return numbers_table(bound, BOUND, "insert-bound", note, base, title="What an operation read")


def percentile_table(percentiles: pl.DataFrame, kind: str, base: str) -> GT | Sentences:
    """Of one kind of statement its own time and, where a limiter sets its moment, the time since that."""
    of_kind = percentiles.filter(pl.col("kind").is_in([kind, f"{kind} due"]))
    if of_kind.is_empty():
        return nothing(f"No step of this study has a {kind} that was timed.")
    names = of_kind["percentile"].unique(maintain_order=True).to_list()
    columns = {f"{kind} {name}": Column(name, duration_us, f"the {kind} itself") for name in names}
    columns |= {f"{kind} due {name}": Column(name, duration_us, "since it was due") for name in names}
    found = of_kind.with_columns(pl.format("{} {}", "kind", "percentile").alias("metric"))
    return numbers_table(found, columns, f"insert-percentiles-{kind}", "", base, title=f"Time of {PLURAL[kind]}")
