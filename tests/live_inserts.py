"""The insert benchmark on a real server, for tests: steps one after the other, and what reaches the server."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from live_server import House, run_of, server_of
from rqps.workloads import Answer
from rqps.workloads.insert_benchmark import generator
from rqps.workloads.insert_benchmark.parameters import InsertBenchmarkParameters
from rqps.workloads.insert_benchmark.workload import InsertBenchmark

SMALL: dict[str, Any] = {"load_rows": 3000, "write_rows": 1000, "rates": (100,), "seconds": 1, "wait_seconds": 20}


def asked(**parameters: Any) -> InsertBenchmarkParameters:
    return InsertBenchmarkParameters.model_validate(SMALL | parameters)


def shape(statement: str) -> str:
    """A statement with its values as N, and with how many rows it has."""
    rows = statement.count("),(") + 1
    text = re.sub(r"VALUES .*", f"VALUES {rows} rows", statement)
    text = re.sub(r"IN \(([\d, ]+)\)", lambda result: f"IN ({result[1].count(',') + 1} N)", text)
    return re.sub(r"(>=?) \d+", r"\1 N", text)


class Inserts(House):
    """A server with an empty database."""

    workload = InsertBenchmark()

    @contextmanager
    def at_work(self, step: str, parameters: Any, seed: int = 1, *, counted: bool = False) -> Iterator[Any]:
        """A step's load, from the look at the tables before it."""
        self.workload.check(self.server, step, parameters)
        nobody_observes = patch.object(generator, "READY_S", 0)
        with nobody_observes, super().at_work(step, parameters, seed, counted=counted) as load:
            yield load

    def do(self, step: str, parameters: InsertBenchmarkParameters, seed: int = 1) -> Answer:
        return self.done(step, parameters, seed)[0]

    def do_all(self, parameters: InsertBenchmarkParameters, upto: str | None = None) -> dict[str, Answer]:
        """All steps of the parameters, or those up to one."""
        steps = parameters.measured
        if upto:
            steps = steps[: steps.index(upto) + 1]
        return {step: self.do(step, parameters) for step in steps}

    def empty(self) -> None:
        """As it was before the first step."""
        self.ask("DROP DATABASE rqps", "CREATE DATABASE rqps")

    @contextmanager
    def logging_shapes(self) -> Iterator[list[str]]:
        """The shapes of sysbench's statements meanwhile, and of those that make tables, in their order."""
        result = list[str]()
        with self.logging() as entries:
            yield result
        lines = [entry for entry in entries if entry.command == "Query"]
        control = ("SHOW", "EXPLAIN", "SET GLOBAL", "USE")
        ours = {entry.connection for entry in lines if entry.statement.startswith(control)}
        theirs = (
            entry.statement
            for entry in lines
            if entry.connection not in ours or entry.statement.startswith("CREATE TABLE")
        )
        result += [shape(statement) for statement in theirs if not statement.startswith("SET ")]


@contextmanager
def empty_server(folder: Path, dbms: str = "my8033.common", *more: str) -> Iterator[Inserts]:
    """A server with an empty database. `more` are arguments beside those of its config."""
    with server_of(run_of(dbms, asked(), workload="insert-benchmark"), folder, *more) as server:
        yield Inserts(server, folder)
