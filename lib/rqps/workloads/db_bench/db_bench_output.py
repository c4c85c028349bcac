"""Reads the output of RocksDB 6.0 to 11.8: the result, the percentiles and the per-second report of db_bench, and the
statistics of a database."""

import re
from collections.abc import Iterable
from typing import Any

from rqps.errors import RqpsError
from rqps.workloads import Answer
from rqps.workloads.db_bench.generator import DbBench

_RESULT = re.compile(
    r"^(?P<name>\w+)(?: \[[^]]*\])? +: +(?P<us>[\d.]+) micros/op (?P<rate>\d+) ops/sec"
    r"(?: +(?P<seconds>[\d.]+) seconds (?P<operations>\d+) operations)?;?"
)
_COUNT = re.compile(r"^Count: (\d+) +Average: ([\d.]+)")
_REACH = re.compile(r"^Min: ([\d.]+) +Median: ([\d.]+) +Max: ([\d.]+)")
_PERCENTILES = re.compile(r"^Percentiles: (.*)")
_STALL = re.compile(r"^Cumulative stall: (\d+):(\d+):([\d.]+) H:M:S, ([\d.]+) percent")
_COUNTS = re.compile(r"^(?:Stalls\(count\)|Write Stall \(count\)): (.*)")
_WRITTEN = re.compile(r"^Cumulative compaction: ([\d.]+) GB write, [\d.]+ MB/s write, ([\d.]+) GB read")
_FLUSHED = re.compile(r"^Flush\(GB\): cumulative ([\d.]+)")
_LOGGED = re.compile(r"^Cumulative WAL: \S+ writes, (\d+) syncs, .*\bwritten: ([\d.]+) GB")
OF_THE_TABLE = {"Comp(sec)": "compaction_s", "CompMergeCPU(sec)": "compaction_cpu_s", "Comp(cnt)": "compactions"}
OF_THE_TABLE |= {"W-Amp": "compaction_write_amplification"}


def read_output(lines: Iterable[str], name: str, batch: int = 1) -> dict[str, Any]:
    """The columns of `steps` for a benchmark. Releases up to 7.2 report neither duration nor operations; both are
    computed from the histogram, which counts a `batch` of operations once.

    >>> result = "readrandom   :  10.218 micros/op 97866 ops/sec; 1254.3 MB/s (9 of 9 found)"
    >>> found = read_output([result, "Count: 9 Average: 10.0  StdDev: 1"], "readrandom")
    >>> found["operations"], found["operations_per_s"]
    (9, 97866.0)
    """
    columns: dict[str, Any] = {}
    for line in lines:
        if (result := _RESULT.match(line)) and result["name"] == name:
            columns["operations_per_s"] = float(result["rate"])
            if result["seconds"]:
                columns |= {"elapsed_s": float(result["seconds"]), "operations": int(result["operations"])}
        elif count := _COUNT.match(line):
            columns.setdefault("transactions", int(count[1]))
            columns.setdefault("latency_mean_us", float(count[2]))
        elif reach := _REACH.match(line):
            columns.setdefault("latency_max_us", float(reach[3]))
        elif listed := _PERCENTILES.match(line):
            by_name = dict(re.findall(r"P([\d.]+): ([\d.]+)", listed[1]))
            for percent, column in (("50", "p50"), ("95", "p95"), ("99", "p99"), ("99.9", "p99_9")):
                columns.setdefault(f"latency_{column}_us", float(by_name[percent]) if percent in by_name else None)
    if "operations_per_s" in columns and "operations" not in columns and "transactions" in columns:
        columns["operations"] = columns["transactions"] * batch
    if columns.get("operations_per_s") and "elapsed_s" not in columns and "operations" in columns:
        columns["elapsed_s"] = columns["operations"] / columns["operations_per_s"]
    columns.setdefault("transactions", columns.get("operations"))
    return columns


def answer(step: str, columns: dict[str, Any], load: DbBench) -> Answer:
    batch = int(load.step.flags.get("batch_size", 1))
    output = read_output(load.lines, load.step.benchmarks.partition(",")[0], batch)
    if "operations" not in output:
        raise RqpsError(
            f"{step}: db_bench has no line with its result: {''.join(load.lines[-3:]).strip()}",
            fix=f"read all of {load.log.name}",
        )
    status = [
        {"step": step, "moment": "after", "name": name, "value": value}
        for name, value in read_stats(load.lines).items()
    ]
    intervals = []
    for line in load.intervals.read_text().splitlines()[1:] if load.intervals.exists() else ():
        second, operations = line.split(",")[:2]
        rows = {"step": step, "kind": load.step.name, "second": int(second) - 1, "operations": int(operations)}
        intervals.append({**rows, "transactions": int(operations), "errors": 0, "retries": 0})
    return Answer({**columns, "errors": 0, "retries": 0, **output}, intervals, [], (), {"status": status})


def read_stats(lines: Iterable[str]) -> dict[str, str]:
    """Stalls, compactions and bytes since the database was opened, from its property `rocksdb.stats`, which db_bench
    prints.

    >>> read_stats(["Cumulative stall: 00:01:2.500 H:M:S, 12.5 percent", "Stalls(count): 3 level0_slowdown, 4 total"])
    {'stall_s': '62.5', 'stall_percent': '12.5', 'stalls': '3'}
    """
    stats: dict[str, str] = {}
    head: list[str] = []
    for line in lines:
        words = line.split()
        if words[:2] == ["Level", "Files"]:
            # Releases before 7.6 print the statistics every 20 s and at the end: the last ones count.
            head, stats = words, {}
        elif words[:1] == ["Sum"] and head and "compaction_s" not in stats:
            row = dict(zip(head, [*words[:2], " ".join(words[2:4]), *words[4:]], strict=False))
            stats |= {name: row[title] for title, name in OF_THE_TABLE.items() if title in row}
        elif stall := _STALL.match(line):
            hours, minutes, seconds, percent = map(float, stall.groups())
            stats |= {"stall_s": f"{3600 * hours + 60 * minutes + seconds:g}", "stall_percent": f"{percent:g}"}
        elif counts := _COUNTS.match(line):
            # Only the first such line counts: a later one has the totals of all databases.
            stats.setdefault("stalls", str(_stalls(counts[1])))
        elif written := _WRITTEN.match(line):
            stats |= {"compaction_written_gb": written[1], "compaction_read_gb": written[2]}
        elif flushed := _FLUSHED.match(line):
            stats["flushed_gb"] = flushed[1]
        elif logged := _LOGGED.match(line):
            stats |= {"wal_syncs": logged[1], "wal_written_gb": logged[2]}
    return stats


def _stalls(text: str) -> int:
    """The number of write stalls of all kinds in a list of counts; its totals and duplicates are not added.

    >>> _stalls("1 level0_slowdown, 1 level0_slowdown_with_compaction, 2 memtable_compaction, interval 0 total count")
    3
    >>> _stalls("l0-file-count-limit-stops-with-ongoing-compaction: 1, l0-file-count-limit-delays: 4, total-stops: 2")
    4
    """
    parts = (part.strip() for part in text.split(","))
    counted = (part for part in parts if not any(word in part for word in ("with", "total", "interval")))
    return sum(int(number) for part in counted for number in re.findall(r"(?:^|: )(\d+)\b", part))
