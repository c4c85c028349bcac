"""Tables of numbers with their intervals: a row per dbms in groups of steps, a column per metric."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl
from great_tables import GT

from rqps.pages.insert_benchmark_report.columns import columns_over_rounds
from rqps.pages.insert_benchmark_report.response_times import LONGEST, PERCENTILES, STATEMENTS, percentiles
from rqps.pages.insert_benchmark_report.steps import debt, reads, seconds_on_target
from rqps.store.read import Study
from rqps.view import Column, Row, Sentences, by_host, coverage_of, rounds_of, spread, table, two_lines

Form = Callable[[float], str]


def numbers_table(
    found: pl.DataFrame,
    columns: Sequence[Column],
    base: str,
    *,
    name: str,
    title: str = "",
    note: str = "",
    by: str = "step",
) -> GT:
    """The columns are metrics of the tidy frame. The base stands first in each step; or, by dbms, before the rest."""
    rows = found.filter(pl.col("metric").is_in([each.name for each in columns]))
    order: list[str | pl.Expr] = ["position"] if by == "step" else ["dbms", "position"]
    order.insert(1 if by == "step" else 0, pl.col("dbms") != base)
    wide = spread(by_host(rows.sort("host", *order, maintain_order=True)), "metric", ["step", "dbms"])
    shown = [each for each in columns if each.name in wide[0]]
    note = f"{note} {medians_of(rows)}".strip()
    of_row = "dbms" if by == "step" else "step"
    return table(wide, shown, name=name, group=by, rows=of_row, title=title, note=note)


def with_interval(form: Form) -> Callable[[Row], str]:
    """A cell of the median, written by `form`, above its interval."""

    def cell(row: Row) -> str:
        reach = "no interval" if row["low"] is None else reach_of(form(row["low"]), form(row["high"]))
        return two_lines(form(row["median"]), reach, muted=True)

    return cell


def medians_of(rows: pl.DataFrame) -> str:
    """The rounds behind the numbers of a table, and the intervals below them, in words."""
    if rows["n"].max() == 1:
        return "One round, so there is no interval."
    return f"Medians of {rounds_of(rows['n'])}, below them the {coverage_of(rows['coverage'])}."


def reach_of(low: str, high: str) -> str:
    """An interval, with its unit once.

    >>> reach_of("1.2 ms", "1.4 ms"), reach_of("900 µs", "1.4 ms"), reach_of("3", "3")
    ('1.2–1.4 ms', '900 µs–1.4 ms', '±0')
    """
    if low == high:
        return "±0"
    number, _, unit = low.partition(" ")
    return f"{number}–{high}" if unit and high.endswith(f" {unit}") else f"{low}–{high}"


def whole(value: float) -> str:
    """
    >>> whole(12345.6), whole(-0.2)
    ('12,346', '0')
    """
    return f"{round(value):,}"


def sized(value: float) -> str:
    """Three digits or so, whatever the size.

    >>> sized(1234.5), sized(12.345), sized(0.012345), sized(0)
    ('1,234', '12.3', '0.0123', '0')
    """
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{float(f'{value:.3g}'):g}"


def percent(value: float) -> str:
    """
    >>> percent(1.0), percent(0.9837)
    ('100 %', '98.4 %')
    """
    return f"{100 * value:.4g} %" if round(value, 4) in (0, 1) else f"{100 * value:.1f} %"


def duration_us(value: float) -> str:
    """
    >>> duration_us(87.4), duration_us(1234.0), duration_us(1234567.0)
    ('87.4 µs', '1.23 ms', '1.23 s')
    """
    for unit, size in (("s", 1e6), ("ms", 1e3)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.3g} µs"


def _columns(*described: tuple[str, str, Form] | tuple[str, str, Form, str]) -> tuple[Column, ...]:
    """Metric, label, how a number is written, and a heading that it shares with its neighbours."""
    return tuple(
        Column(name, label, with_interval(form), align="right", under="".join(under))
        for name, label, form, *under in described
    )


@dataclass(frozen=True)
class _Table:
    numbers: Callable[[Study], pl.DataFrame]
    name: str
    title: str
    note: str
    columns: tuple[Column, ...]
    empty: str = "No step of this study gave a number."


_CPU, _SWITCHES, _RATES, _LONGEST = "cpupq, µs", "cspq", "p50 and p99 of the rate", "maxop, s"
_TABLES = {
    "corrected CPU": _Table(
        columns_over_rounds,
        "insert-corrected-cpu",
        "CPU and context switches, as published and counted",
        "For an operation: as published, of the whole host; counted at the step's ends; of the server, of all "
        "clients, and of whatever else ran.",
        _columns(
            ("elapsed_s", "elapsed, s", sized),
            ("cpupq", "published", sized, _CPU),
            ("exact_cpupq", "host", sized, _CPU),
            ("server_us", "server", sized, _CPU),
            ("client_us", "clients", sized, _CPU),
            ("others_us", "others", sized, _CPU),
            ("cspq", "published", sized, _SWITCHES),
            ("exact_cspq", "counted", sized, _SWITCHES),
        ),
    ),
    "corrected rates": _Table(
        columns_over_rounds,
        "insert-corrected-rates",
        "Rates and longest responses, as published and of all",
        "The rate that is reached in 50 and in 99 percent of the seconds. Done again: transactions that met a "
        "deadlock or waited for a lock too long.",
        _columns(
            ("p50", "client 1, p50", whole, _RATES),
            ("p50_all", "all, p50", whole, _RATES),
            ("p99", "client 1, p99", whole, _RATES),
            ("p99_all", "all, p99", whole, _RATES),
            ("maxop", "published", sized, _LONGEST),
            ("max_insert_s", "insert", sized, _LONGEST),
            ("max_delete_s", "delete", sized, _LONGEST),
            ("max_query_s", "query", sized, _LONGEST),
            ("done_again", "done again", whole),
        ),
    ),
    "seconds on target": _Table(
        seconds_on_target,
        "insert-on-target",
        "Seconds on target",
        "A second is on target if 95 % of its rows were inserted in it; what slipped into its neighbour counts. "
        "A stall is the longest row of seconds below that. The latest insert is from when the limiter "
        "wanted it to its end.",
        _columns(
            ("share", "seconds on target, all clients", percent),
            ("share_of_worst_client", "the worst client", percent),
            ("stall_s", "longest stall, s", whole),
            ("latest_insert_s", "latest insert", lambda seconds: duration_us(1e6 * seconds)),
        ),
        "No step of this study had a rate of inserts to reach.",
    ),
    "debt": _Table(
        debt,
        "insert-debt",
        "Debt that each step with queries inherited",
        "Just before the step: transactions that wait to be purged, pages to flush, redo log since the checkpoint.",
        _columns(
            ("waited_s", "waited, s", sized),
            ("history_length", "to purge", whole),
            ("dirty_mb", "MB", sized, "dirty pages"),
            ("dirty_share", "of the pool", percent, "dirty pages"),
            ("checkpoint_age_mb", "MB", sized, "checkpoint age"),
            ("age_share", "of the redo log", percent, "checkpoint age"),
        ),
        "The runs of this study do not say what debt their steps inherited.",
    ),
    "reads": _Table(
        reads,
        "insert-reads",
        "Reads of an operation",
        "An operation is a row in l.*, a query in q*; what the background writes read there is in its number.",
        _columns(
            ("misses", "pages not in the buffer pool/o", sized),
            ("device_reads", "reads of the device/o", sized),
            ("read_kb", "KB read/o", sized),
            ("tables_mb", "tables, MB", whole),
            ("pool_mb", "buffer pool, MB", whole),
        ),
    ),
}
_OF_DBMS = _columns(
    ("ips", "ips", whole),
    ("qps", "qps", whole),
    ("server_us", "server", sized, "CPU, µs/o"),
    ("client_us", "clients", sized, "CPU, µs/o"),
    ("rpq", "reads/o", sized),
    ("wkbpi", "KB written/row", sized),
    ("insert p99", "insert p99", duration_us),
    ("query p99", "query p99", duration_us),
    ("share", "seconds on target", percent),
    ("dbgb1", "tables, GB", sized),
)


def number_table(study: Study, what: str) -> Any:
    """One of the tables `corrected CPU`, `corrected rates`, `seconds on target`, `debt` and `reads`."""
    chosen = _TABLES[what]
    found = chosen.numbers(study)
    if found.is_empty():
        return Sentences([chosen.empty])
    return numbers_table(
        found, chosen.columns, study.card.base, name=chosen.name, note=chosen.note, title=chosen.title
    )


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
        return Sentences([f"No step of this study has a {statement} that was timed."])
    columns = _columns(
        *((f"{statement} {name}", name, duration_us, f"the {statement} itself") for name in (*PERCENTILES, LONGEST)),
        *((f"{due} {name}", name, duration_us, "since it was due") for name in (*PERCENTILES, LONGEST)),
    )
    named = found.with_columns(pl.format("{} {}", "statement", "percentile").alias("metric"))
    name, title = f"insert-percentiles-{statement}", f"Time of {STATEMENTS[statement]}"
    return numbers_table(named, columns, study.card.base, name=name, title=title)
