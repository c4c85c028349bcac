"""Reads the output of a db_bench: result, percentiles and report by second, in the formats of 6.0 to 11.8."""

import re
from collections.abc import Iterable
from typing import Any

from rqps.errors import RqpsError
from rqps.workloads import Answer
from rqps.workloads.db_bench.database_stats import read_stats
from rqps.workloads.db_bench.generator import DbBench

_RESULT = re.compile(
    r"^(?P<name>\w+)(?: \[[^]]*\])? +: +(?P<us>[\d.]+) micros/op (?P<rate>\d+) ops/sec"
    r"(?: +(?P<seconds>[\d.]+) seconds (?P<operations>\d+) operations)?;?"
)
_FOUND = re.compile(r"\((\d+) of (\d+) found\)")
_COUNT = re.compile(r"^Count: (\d+) +Average: ([\d.]+)")
_REACH = re.compile(r"^Min: ([\d.]+) +Median: ([\d.]+) +Max: ([\d.]+)")
_PERCENTILES = re.compile(r"^Percentiles: (.*)")


def read_output(lines: Iterable[str], name: str) -> dict[str, Any]:
    """The columns of `steps` for a benchmark. Releases up to 7.2 report neither duration nor operations; these follow
    from the histogram.

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
        columns["operations"] = columns["transactions"]
    if columns.get("operations_per_s") and "elapsed_s" not in columns and "operations" in columns:
        columns["elapsed_s"] = columns["operations"] / columns["operations_per_s"]
    columns.setdefault("transactions", columns.get("operations"))
    return columns


def answer(step: str, columns: dict[str, Any], load: DbBench) -> Answer:
    """The result of a finished step."""
    output = read_output(load.lines, load.step.benchmarks.partition(",")[0])
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
