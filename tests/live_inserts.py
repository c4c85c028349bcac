"""The insert benchmark on a real server, for tests: steps one after the other, and what reaches the server."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from live_server import runs_of, server_of
from rqps.engines.mysql.instance import Connection, Server, query
from rqps.study import Run
from rqps.workloads import Answer
from rqps.workloads.insert_benchmark import generator
from rqps.workloads.insert_benchmark.generator import Generator
from rqps.workloads.insert_benchmark.parameters import InsertBenchmarkParameters
from rqps.workloads.insert_benchmark.workload import InsertBenchmark

RUNS = runs_of("releases")
SMALL: dict[str, Any] = {"load_rows": 3000, "write_rows": 1000, "rates": (100,), "seconds": 1, "wait_seconds": 20}


def asked(**parameters: Any) -> InsertBenchmarkParameters:
    return InsertBenchmarkParameters.model_validate(SMALL | parameters)


def shape(statement: str) -> str:
    """A statement with its values as N, and with how many rows it has."""
    rows = statement.count("),(") + 1
    text = re.sub(r"VALUES .*", f"VALUES {rows} rows", statement)
    text = re.sub(r"IN \(([\d, ]+)\)", lambda found: f"IN ({found[1].count(',') + 1} N)", text)
    return re.sub(r"(>=?) \d+", r"\1 N", text)


@dataclass(frozen=True)
class House:
    """A server with an empty database."""

    server: Server
    folder: Path

    workload = InsertBenchmark()

    @contextmanager
    def at_work(self, step: str, parameters: InsertBenchmarkParameters, seed: int = 1) -> Iterator[Generator]:
        """A step's load, from the look at the tables before it."""
        self.workload.check(self.server, step, parameters)
        log = self.folder / f"{step}.log"
        with (
            patch.object(generator, "READY_S", 0),  # nobody observes
            self.workload.generating(self.server, step, parameters, seed=seed, cpus=(), log=log) as load,
        ):
            load.wait_for_begin()
            yield load

    def do(self, step: str, parameters: InsertBenchmarkParameters, seed: int = 1) -> Answer:
        with self.at_work(step, parameters, seed) as load:
            load.wait_for_end()
            load.wait_until_gone()
        return self.workload.answer(step, parameters, load)

    def do_all(self, parameters: InsertBenchmarkParameters, upto: str | None = None) -> dict[str, Answer]:
        """All steps of the parameters, or those up to one."""
        steps = parameters.measured
        if upto:
            steps = steps[: steps.index(upto) + 1]
        return {step: self.do(step, parameters) for step in steps}

    def empty(self) -> None:
        """As it was before the first step."""
        self.ask("DROP DATABASE rqps")
        self.ask("CREATE DATABASE rqps")

    def ask(self, sql: str, database: str | None = None) -> list[tuple[Any, ...]]:
        connection = self.server.connect(database)
        try:
            return query(connection, sql)
        finally:
            connection.close()

    @contextmanager
    def holding(self, *statements: str) -> Iterator[Connection]:
        """A connection that holds what these statements have locked, until the block ends."""
        connection = self.server.connect("rqps")
        try:
            for statement in statements:
                query(connection, statement)
            yield connection
        finally:
            connection.close()

    @contextmanager
    def logging(self) -> Iterator[list[str]]:
        """The shapes of all statements that come meanwhile from sysbench, in their order."""
        log, found = self.folder / "general.log", list[str]()
        log.unlink(missing_ok=True)
        for order in (f"general_log_file = '{log}'", "log_output = 'FILE'", "general_log = ON"):
            self.ask(f"SET GLOBAL {order}")
        yield found
        self.ask("SET GLOBAL general_log = OFF")
        found += _logged(log)


def _logged(log: Path) -> Sequence[str]:
    entry = re.compile(r"^(?:\S*[ \t].*?)?\s(\d+) Query\t(.*)$")
    lines = log.read_text(errors="replace").splitlines()
    said = [(found[1], found[2]) for found in map(entry.match, lines) if found]
    ours = {thread for thread, statement in said if statement.startswith(("SHOW", "EXPLAIN", "SET GLOBAL", "USE"))}
    return [shape(statement) for thread, statement in said if thread not in ours and not statement.startswith("SET ")]


@contextmanager
def empty_server(folder: Path, dbms: str = "my8033.base", *more: str) -> Iterator[House]:
    """A server with an empty database. `more` are arguments beside those of its config."""
    run = Run(**{**vars(RUNS[dbms]), "workload": "insert-benchmark", "parameters": asked()})
    with server_of(run, folder, *more) as server:
        yield House(server, folder)
