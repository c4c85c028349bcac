"""sysbench on a real server with its general log on, for tests: what reaches the server, and in what shape."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from live_server import House, Logged, run_of, server_of
from rqps.workloads import Answer
from rqps.workloads.sysbench.parameters import SysbenchParameters
from rqps.workloads.sysbench.steps import expand, is_measured
from rqps.workloads.sysbench.workload import Sysbench

ROWS = 20_000
LABELS = [name for name in expand(("all",)) if is_measured(name)]


def asked(*steps: str, **parameters: Any) -> SysbenchParameters:
    usual = {"tables": 2, "table_rows": ROWS, "seconds": 1, "warmup_seconds": 0}
    return SysbenchParameters.model_validate({"steps": steps, **usual, **parameters})


def shape(statement: str) -> str:
    """A statement with its values as N and C, with their number and distance."""

    def distance(result: re.Match[str]) -> str:
        return f"BETWEEN N AND N+{int(result[2]) - int(result[1])}"

    def count(result: re.Match[str]) -> str:
        return f"IN ({result[1].count(',') + 1} N)"

    text = re.sub(r"sbtest\d+", "t", statement)
    text = re.sub(r"'((?:\d{11}-)+\d{11})'", lambda result: f"'C{len(result[1])}'", text)
    text = re.sub(r"BETWEEN (\d+) AND (\d+)", distance, text)
    text = re.sub(r"IN \(([\d, ]+)\)", count, text)
    text = re.sub(r"id = \d+", "id = N", text)
    return re.sub(r"VALUES \((\d+), \d+,", lambda result: f"VALUES ({'0' if result[1] == '0' else 'N'}, N,", text)


class Sysbenched(House):
    """A server with the tables of sysbench."""

    workload = Sysbench()

    def do(
        self, name: str, seed: int = 1, *, counted: bool = False, **parameters: Any
    ) -> tuple[Answer, dict[str, list[Logged]]]:
        """A step done for a moment, or as often as is counted: its answer, and what was logged by connection."""
        with self.logging() as entries:
            answer, _ = self.done(name, asked(name, **parameters), seed, counted=counted)
        logged: dict[str, list[Logged]] = {}
        for entry in entries:
            if entry.command in ("Execute", "Query", "Prepare") and not entry.statement.startswith(("SET ", "SHOW ")):
                logged.setdefault(entry.connection, []).append(entry)
        return answer, logged


def done(logged: dict[str, list[Logged]]) -> list[str]:
    """The statements of a load with one thread."""
    (entries,) = logged.values()
    return [entry.statement for entry in entries if entry.command != "Prepare"]


@contextmanager
def logging_server(folder: Path, dbms: str = "my8033.common") -> Iterator[Sysbenched]:
    """A server with loaded tables, its general log in the folder."""
    with server_of(run_of(dbms, asked("insert")), folder) as server:
        yield Sysbenched(server, folder)
