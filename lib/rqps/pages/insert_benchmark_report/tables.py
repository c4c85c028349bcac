"""Tables of what each step did and cost, beside the published numbers where those mislead."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import polars as pl
from great_tables import GT

from rqps.pages.insert_benchmark_report.columns import columns_over_rounds
from rqps.pages.insert_benchmark_report.response_times import PERCENTILES, STATEMENTS, percentiles
from rqps.pages.insert_benchmark_report.steps import debt, reads, seconds_on_target
from rqps.show import Column, Nothing, Sentences
from rqps.show.table import numbers_table, with_interval
from rqps.show.words import duration_us, in_percent, sized, whole
from rqps.store.read import Study


def _number(name: str, label: str, form: Callable[[float], str], under: str = "") -> Column:
    return Column(name, label, with_interval(form), align="right", under=under)


@dataclass(frozen=True)
class _Table:
    numbers: Callable[[Study], pl.DataFrame]
    title: str
    note: str
    columns: tuple[Column, ...]
    empty: str = "No step of this study gave a number."


_CPU, _SWITCHES, _RATES, _LONGEST = "cpupq, µs", "cspq", "p50 and p99 of the rate", "maxop, s"
_TABLES = {
    "corrected CPU": _Table(
        columns_over_rounds,
        "CPU and context switches, as published and counted",
        "Per operation. Published is of the whole host; the rest is counted before and after the step.",
        (
            _number("elapsed_s", "elapsed, s", sized),
            _number("cpupq", "published", sized, _CPU),
            _number("exact_cpupq", "host", sized, _CPU),
            _number("server_us", "server", sized, _CPU),
            _number("client_us", "clients", sized, _CPU),
            _number("others_us", "others", sized, _CPU),
            _number("cspq", "published", sized, _SWITCHES),
            _number("exact_cspq", "counted", sized, _SWITCHES),
        ),
    ),
    "corrected rates": _Table(
        columns_over_rounds,
        "Rates and longest responses, as published and of all",
        "The rate reached in 50 and in 99 % of the seconds. Done again: after a deadlock or a lock timeout.",
        (
            _number("p50", "client 1, p50", whole, _RATES),
            _number("p50_all", "all, p50", whole, _RATES),
            _number("p99", "client 1, p99", whole, _RATES),
            _number("p99_all", "all, p99", whole, _RATES),
            _number("maxop", "published", sized, _LONGEST),
            _number("max_insert_s", "insert", sized, _LONGEST),
            _number("max_delete_s", "delete", sized, _LONGEST),
            _number("max_query_s", "query", sized, _LONGEST),
            _number("done_again", "done again", whole),
        ),
    ),
    "seconds on target": _Table(
        seconds_on_target,
        "Seconds on target",
        "A second is on target if 95 % of its rows were inserted in it or slipped into its neighbour. A stall is the "
        "longest row of seconds below that. The latest insert counts from when the limiter wanted it.",
        (
            _number("share", "seconds on target, all clients", in_percent),
            _number("share_of_worst_client", "the worst client", in_percent),
            _number("stall_s", "longest stall, s", whole),
            _number("latest_insert_s", "latest insert", lambda seconds: duration_us(1e6 * seconds)),
        ),
        "No step of this study had a rate of inserts to reach.",
    ),
    "debt": _Table(
        debt,
        "Debt that each step with queries inherited",
        "Just before the step: transactions that wait to be purged, pages to flush, redo log since the checkpoint.",
        (
            _number("waited_s", "waited, s", sized),
            _number("history_length", "to purge", whole),
            _number("dirty_mb", "MB", sized, "dirty pages"),
            _number("dirty_share", "of the pool", in_percent, "dirty pages"),
            _number("checkpoint_age_mb", "MB", sized, "checkpoint age"),
            _number("age_share", "of the redo log", in_percent, "checkpoint age"),
        ),
        "The runs of this study do not say what debt their steps inherited.",
    ),
    "reads": _Table(
        reads,
        "Reads of an operation",
        "An operation is a row in l.*, a query in q*; what the background writes read there is in its number.",
        (
            _number("misses", "pages not in the buffer pool/o", sized),
            _number("device_reads", "reads of the device/o", sized),
            _number("read_kb", "KB read/o", sized),
            _number("tables_mb", "tables, MB", whole),
            _number("pool_mb", "buffer pool, MB", whole),
        ),
    ),
}
_OF_DBMS = (
    _number("ips", "ips", whole),
    _number("qps", "qps", whole),
    _number("server_us", "server", sized, "CPU, µs/o"),
    _number("client_us", "clients", sized, "CPU, µs/o"),
    _number("rpq", "reads/o", sized),
    _number("wkbpi", "KB written/row", sized),
    _number("insert p99", "insert p99", duration_us),
    _number("query p99", "query p99", duration_us),
    _number("share", "seconds on target", in_percent),
    _number("dbgb1", "tables, GB", sized),
)


def number_table(study: Study, what: str) -> Any:
    """One of the tables `corrected CPU`, `corrected rates`, `seconds on target`, `debt` and `reads`."""
    chosen = _TABLES[what]
    found = chosen.numbers(study)
    if found.is_empty():
        return Nothing([chosen.empty])
    name = f"insert-{what.replace(' ', '-').lower()}"
    return numbers_table(found, chosen.columns, study.card.base, name=name, note=chosen.note, title=chosen.title)


def dbms_tables(study: Study) -> Iterator[GT]:
    """A table per dbms: all its steps, one below the other."""
    p99 = percentiles(study).filter(pl.col("statement").is_in(["insert", "query"]), percentile="p99")
    named = p99.with_columns(pl.format("{} p99", "statement").alias("metric"))
    found = pl.concat([columns_over_rounds(study), seconds_on_target(study), named], how="diagonal_relaxed")
    for (host, dbms), rows in found.group_by("host", "dbms", maintain_order=True):
        name = f"insert-dbms-{host}-{dbms}".replace(".", "-")
        yield numbers_table(rows, _OF_DBMS, study.card.base, name=name, by="dbms")


def percentile_table(study: Study, statement: str) -> GT | Sentences:
    """The time of one kind of statement by itself and, where a limiter sets its moment, the time since that."""
    due = f"{statement} due"
    found = percentiles(study).filter(pl.col("statement").is_in([statement, due]))
    if found.is_empty():
        return Nothing([f"No step of this study has a {statement} that was timed."])
    columns = [
        _number(f"{kind} {name}", name, duration_us, under)
        for kind, under in ((statement, f"the {statement} itself"), (due, "since it was due"))
        for name in PERCENTILES
    ]
    named = found.with_columns(pl.format("{} {}", "statement", "percentile").alias("metric"))
    name, title = f"insert-percentiles-{statement}", f"Time of {STATEMENTS[statement]}"
    return numbers_table(named, columns, study.card.base, name=name, title=title)
