"""sysbench on a real server with its general log on, for tests: what reaches the server, and in what shape."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from live_server import runs_of, server_of
from rqps.engines.mysql.instance import Server, query
from rqps.study import Run
from rqps.workloads import Answer
from rqps.workloads.sysbench.parameters import SysbenchParameters
from rqps.workloads.sysbench.steps import expand, is_measured
from rqps.workloads.sysbench.workload import Sysbench

RUNS = runs_of("releases")
ROWS = 20_000
LABELS = [name for name in expand(("all",)) if is_measured(name)]


def shape(statement: str) -> str:
    """A statement with its values as N and C, with their number and distance."""

    def distance(found: re.Match[str]) -> str:
        return f"BETWEEN N AND N+{int(found[2]) - int(found[1])}"

    def count(found: re.Match[str]) -> str:
        return f"IN ({found[1].count(',') + 1} N)"

    text = re.sub(r"sbtest\d+", "t", statement)
    text = re.sub(r"'((?:\d{11}-)+\d{11})'", lambda found: f"'C{len(found[1])}'", text)
    text = re.sub(r"BETWEEN (\d+) AND (\d+)", distance, text)
    text = re.sub(r"IN \(([\d, ]+)\)", count, text)
    text = re.sub(r"id = \d+", "id = N", text)
    return re.sub(r"VALUES \((\d+), \d+,", lambda found: f"VALUES ({'0' if found[1] == '0' else 'N'}, N,", text)


@dataclass(frozen=True)
class Logged:
    """What the general log has of a connection of the load."""

    command: str
    statement: str


@dataclass(frozen=True)
class House:
    """A server with its general log on."""

    server: Server
    folder: Path

    def do(
        self, name: str, seed: int = 1, *, counted: bool = False, **parameters: Any
    ) -> tuple[Answer, dict[str, list[Logged]]]:
        """A step done for a moment, or as often as is counted: its answer, and what was logged by connection."""
        usual = {"table_rows": ROWS, "seconds": 1, "warmup_seconds": 0}
        asked = SysbenchParameters(steps=(name,), tables=2, **(usual | parameters))
        connection = self.server.connect()
        log = self.folder / "general.log"
        log.unlink(missing_ok=True)
        for order in (f"general_log_file = '{log}'", "log_output = 'FILE'", "general_log = ON"):
            query(connection, f"SET GLOBAL {order}")
        workload = Sysbench()
        log_file = self.folder / "sysbench.log"
        with workload.generating(self.server, name, asked, seed=seed, cpus=(), log=log_file, counted=counted) as load:
            load.wait_for_begin()
            load.wait_for_end()
            load.wait_until_gone()
        query(connection, "SET GLOBAL general_log = OFF")
        connection.close()
        return workload.answer(name, asked, load), _logged(log)


def _logged(log: Path) -> dict[str, list[Logged]]:
    found: dict[str, list[Logged]] = {}
    entry = re.compile(r"^(?:\S*[ \t].*?)?\s(\d+) (Execute|Query|Prepare)\t(.*)$")
    for line in log.read_text(errors="replace").splitlines():
        if (reported := entry.match(line)) and not reported[3].startswith(("SET ", "SHOW ")):
            found.setdefault(reported[1], []).append(Logged(reported[2], reported[3]))
    return found


def done(logged: dict[str, list[Logged]]) -> list[str]:
    """The statements of a load with one thread."""
    (entries,) = logged.values()
    return [entry.statement for entry in entries if entry.command != "Prepare"]


@contextmanager
def logging_server(folder: Path, dbms: str = "my8033.base") -> Iterator[House]:
    """A server with loaded tables, its general log in the folder."""
    asked = SysbenchParameters(steps=("insert",), tables=2, table_rows=ROWS)
    with server_of(Run(**{**vars(RUNS[dbms]), "parameters": asked}), folder) as server:
        yield House(server, folder)
