"""From a column back to the raw rows that it comes from."""

from pathlib import PurePath

import polars as pl

from rqps.store.read import Study

_STEPS, _COUNTERS, _ENGINE, _CLIENTS, _INTERVALS = (
    f"{name}.parquet" for name in ("steps", "counters", "engine", "clients", "intervals")
)
RATE = "the step's own rate: ips in l.*, qps in q*"
SOURCES: dict[str, tuple[str, str]] = {
    "ips": (_INTERVALS, "operations of kind insert / elapsed_s; in l.* operations_per_s of steps"),
    "qps": (_STEPS, "operations_per_s; 0 in l.*"),
    "rps": (_STEPS, "host_reads / elapsed_s"),
    "rmbps": (_STEPS, "host_read_kb / elapsed_s / 1024"),
    "wps": (_STEPS, "host_writes / elapsed_s"),
    "wmbps": (_STEPS, "host_write_kb / elapsed_s / 1024"),
    "rpq": (_STEPS, f"rps / {RATE}"),
    "rkbpq": (_STEPS, "1024 * rmbps / the same rate"),
    "wpi": (_STEPS, "wps / ips in all steps"),
    "wkbpi": (_STEPS, "1024 * wmbps / ips in all steps"),
    "csps": (_COUNTERS, "host_context_switches by lines of 5 s, with vmstat's headers as lines of 0"),
    "cpups": (_COUNTERS, "host_cpu_user_s and host_cpu_system_s by lines of 5 s in whole percent, with the headers"),
    "cspq": (_COUNTERS, "csps / the same rate"),
    "cpupq": (_COUNTERS, "cpups / 100 * CPUs * 1e6 / the same rate: µs of the whole host"),
    "dbgb1": (_ENGINE, "tables_kb after the step, in GB"),
    "dbgb2": (_ENGINE, "datadir_kb after the step, in GB"),
    "rss": (_COUNTERS, "the most of server_rss_kb, in GB"),
    "maxop": (_INTERVALS, "the most of latency_max_us, in s: of kind insert in l.*, of kind query alone in q*"),
    "p50": (_CLIENTS, "of client 1: the rate that half of the seconds reach"),
    "p99": (_CLIENTS, "of client 1: the rate that 99 % of the seconds reach"),
    "exact_cpupq": (_STEPS, "host_cpu_user_s + host_cpu_system_s at the step's ends / elapsed_s / the same rate"),
    "exact_cspq": (_STEPS, "host_context_switches at the step's ends / elapsed_s / the same rate"),
    "server_us": (_STEPS, "server_cpu_s / elapsed_s / the same rate"),
    "client_us": (_STEPS, "client_cpu_s / elapsed_s / the same rate, of all clients"),
    "others_us": (_STEPS, "exact_cpupq - server_us - client_us"),
    "p50_all": (_CLIENTS, "as p50, of all clients together"),
    "p99_all": (_CLIENTS, "as p99, of all clients together"),
}


def column_sources() -> pl.DataFrame:
    """One row a column: `column, file, calculated`, by which anybody can calculate it again."""
    rows = [(column, file, how) for column, (file, how) in SOURCES.items()]
    return pl.DataFrame(rows, schema=["column", "file", "calculated"], orient="row")


def rounds_of_column(values: pl.DataFrame, study: Study, step: str, dbms: str, column: str) -> pl.DataFrame:
    """The rounds behind a column of one step and dbms, and the file that each value is calculated from."""
    folders = {row["run"]: PurePath(row["folder"]).name for row in study.runs.iter_rows(named=True)}
    file, how = SOURCES[column]
    rows = values.filter(step=step, dbms=dbms, metric=column)
    path = pl.format("{}/{}", pl.col("run").replace_strict(folders, return_dtype=pl.String), pl.lit(file))
    return rows.select("host", "round", "value", path.alias("file"), pl.lit(how).alias("calculated"))
