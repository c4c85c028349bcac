"""Reads the output of `sysbench … run`: a file for each step, in a folder for each dbms.

The file's name without its ending is the step, and the folder's name is the dbms.
"""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rqps.published.readers import Result, Unread, name_of, number, one_line, text_of
from rqps.workloads.sysbench.steps import BEFORE_WRITES, find

TITLE = "output of sysbench"
LOOK_BYTES = 4096
ENGINE_OF_DRIVER = {"mysql": "mysql", "pgsql": "postgres"}
OTHER_STEPS = "Other steps"
_HEAD = re.compile(rb"^sysbench \d", re.MULTILINE)
_NUMBER = r"([\d.,]+)"
_FIGURES = {
    "threads": rf"Number of threads:\s*{_NUMBER}",
    "warmup_s": rf"Warmup time:\s*{_NUMBER}s",
    "queries": rf"\n\s*(?:queries|read/write requests):\s*{_NUMBER}",
    "transactions": rf"\n\s*transactions:\s*{_NUMBER}",
    "ignored": rf"\n\s*ignored errors:\s*{_NUMBER}",
    "events": rf"\n\s*total number of events:\s*{_NUMBER}",
    "elapsed_s": rf"\n\s*(?:time elapsed|total time):\s*{_NUMBER}s",
    "mean_ms": rf"\n\s*avg:\s*{_NUMBER}",
    "p95_ms": rf"\n\s*(?:95th percentile|approx\.\s+95 percentile):\s*{_NUMBER}",
    "p99_ms": rf"\n\s*99th percentile:\s*{_NUMBER}",
    "max_ms": rf"\n\s*max:\s*{_NUMBER}",
    "sum_ms": rf"\n\s*sum:\s*{_NUMBER}",
}
_SECOND = re.compile(rf"^\[ *(\d+)s *\] thds: \d+ tps: {_NUMBER} qps: {_NUMBER} ", re.MULTILINE)
_FATAL = re.compile(r"^(?:FATAL|\(last message repeated).*", re.MULTILINE)
_VERSION = re.compile(r"^sysbench (\S+)", re.MULTILINE)


@dataclass(frozen=True)
class Report:
    """The figures that sysbench prints at the end, and its command line if the output contains it."""

    figures: Mapping[str, float]
    call: Mapping[str, str]
    """Maps each option of the command line to its value."""
    version: str
    cpus: int | None
    seconds: tuple[tuple[float, float], ...]
    """Transactions and queries of each second; empty unless every second was reported."""

    def columns(self) -> dict[str, Any]:
        """Columns of `steps`. An operation is a query, or an event if the script sends no queries."""
        figures = self.figures
        operations = int(figures.get("queries") or figures["events"])
        events = int(figures.get("transactions", figures.get("events", 0)))
        latencies = {
            f"latency_{name}_us": figures[f"{name}_ms"] * 1000 if f"{name}_ms" in figures else None
            for name in ("mean", "p95", "p99", "max")
        }
        return {
            "clients": int(figures.get("threads", 1)),
            "unit": "query",
            "warmup_s": figures.get("warmup_s"),
            "elapsed_s": figures["elapsed_s"],
            "operations": operations,
            "transactions": events,
            "operations_per_s": operations / figures["elapsed_s"],
            "errors": 0,
            "retries": int(figures.get("ignored", 0)),
            **latencies,
        }

    def parameters(self) -> dict[str, Any]:
        sizes = {"tables": self.call.get("tables"), "table_rows": self.call.get("table-size")}
        return {name: int(size) for name, size in sizes.items() if size and size.isdecimal()}

    def machine(self) -> dict[str, Any]:
        return {"cpus": self.cpus} if self.cpus else {}

    def intervals(self, step: str) -> list[dict[str, Any]]:
        """A row for each second."""
        return [
            {
                "step": step,
                "kind": step,
                "second": second,
                "operations": round(queries),
                "transactions": round(transactions),
            }
            for second, (transactions, queries) in enumerate(self.seconds)
        ]


def report_in(text: str) -> Report:
    """Parses the output of sysbench; raises ValueError with the reason if sysbench did not finish."""
    matches = {name: re.search(form, text) for name, form in _FIGURES.items()}
    figures = {name: number(match[1].rstrip(".,")) for name, match in matches.items() if match}
    if "elapsed_s" not in figures or not figures.keys() & {"queries", "events"}:
        fatal = _FATAL.search(text)
        raise ValueError(one_line(fatal[0]) if fatal else "sysbench did not print its statistics: the step failed")
    if figures["elapsed_s"] <= 0 or not (figures.get("queries") or figures.get("events")):
        raise ValueError("no query was done")
    head, version = text[:LOOK_BYTES].splitlines(), _VERSION.search(text)
    call = next((_call(line) for line in head if ".lua" in line and " run" in line), {})
    cpus = next((int(match[1]) for line in head if (match := re.fullmatch(r"(\d{1,5}) CPUs", line.strip()))), None)
    rows = [(int(second), number(tps), number(qps)) for second, tps, qps in _SECOND.findall(text)]
    every = [second for second, _, _ in rows] == list(range(1, len(rows) + 1))
    seconds = rows if every and abs(len(rows) - figures["elapsed_s"]) < 2 else []
    return Report(figures, call, version[1] if version else "", cpus, tuple((tps, qps) for _, tps, qps in seconds))


def step_columns(kind: str, moment: str = "", size: int | None = None) -> dict[str, Any]:
    """Columns of `steps` that follow from a step's kind. If rqps has a step of this kind, the columns have the
    values of that step."""
    after_writes = kind if moment == BEFORE_WRITES else None
    columns = {"kind": kind + moment, "kind_after_writes": after_writes, "range": size}
    columns |= {"group": OTHER_STEPS, "writes": None}
    try:
        known = find(kind)
    except ValueError:
        return columns
    return columns | {
        "kind_after_writes": after_writes or known.kind_after_writes,
        "range": size or known.range_size,
        "group": known.group,
        "writes": known.writes,
        "unit": known.unit,
    }


def claims(path: Path) -> bool:
    """True for a file that begins like sysbench's output."""
    if path.suffix == ".gz":
        try:
            return bool(_HEAD.search(text_of(path)[:LOOK_BYTES].encode()))
        except ValueError:
            return False
    with path.open("rb") as file:
        return bool(_HEAD.search(file.read(LOOK_BYTES)))


def read(files: Sequence[Path]) -> Iterator[Result | Unread]:
    """A result for each file."""
    for path in files:
        try:
            report = report_in(text_of(path))
        except ValueError as error:
            yield Unread(str(path), str(error))
            continue
        step = one_line(Path(name_of(path)).stem)
        yield Result(
            file=path,
            origin=path.parent,
            dbms=path.parent.name,
            step=step,
            columns={**report.columns(), **step_columns(step)},
            engine=ENGINE_OF_DRIVER.get(report.call.get("db-driver", ""), ""),
            parameters=report.parameters(),
            machine=report.machine(),
            tools={"sysbench": report.version} if report.version else {},
            intervals=report.intervals(step),
        )


def _call(line: str) -> dict[str, str]:
    """The options of a command line by name, without passwords."""
    try:
        words = shlex.split(line)
    except ValueError:
        words = line.split()
    options = dict(word[2:].split("=", 1) for word in words if word.startswith("--") and "=" in word)
    return {name: value for name, value in options.items() if "password" not in name}
