"""Runs the load of a step: sysbench for some seconds or a number of transactions, and reads its reports."""

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any, Unpack

from rqps.errors import RqpsError
from rqps.workloads import Answer, How, answers
from rqps.workloads.answers import (
    Second,
    by_second,
    interval_rows,
    latency_rows,
    retries_warning,
    step_columns,
    total,
)
from rqps.workloads.load_generator import (
    DATABASE,
    READY_S,
    LoadGenerator,
    Options,
    complaints,
    run_to_its_end,
    switch,
    sysbench_call,
)
from rqps.workloads.sysbench.parameters import SysbenchParameters
from rqps.workloads.sysbench.steps import Step

SLICE_MS = 20
SLICED_PATIENCE_S = 300.0
"""Maximum wait, in seconds, for the last slice. Statements that take minutes are not suitable for duets."""
LUA = Path(str(files(__package__) / "lua"))


class Generator(LoadGenerator):
    """A running sysbench that executes transactions of a step for some seconds, or a given number of transactions."""

    patience_s = 3600.0
    """Maximum wait, in seconds, for the last transaction: it may scan tables, and callgrind slows the server down."""
    slice_patience_s = SLICED_PATIENCE_S
    script = LUA / "statements.lua"

    def __init__(
        self, servers: Sequence[Any], step: Step, parameters: SysbenchParameters, **how: Unpack[How]
    ) -> None:
        self.begins_by_itself = not (how.get("counted", False) or parameters.operations)
        self.sliced = len(servers) > 1
        if self.sliced and parameters.operations:
            fix = "leave operations out, or compare with method: rounds"
            raise RqpsError("a duet is measured for a number of seconds, not of operations", fix=fix)
        self.per_transaction = parameters.table_rows if step.unit == "row" else step.queries
        self.seconds = parameters.seconds_of(step) * len(servers)
        self.whole = step.whole_transactions or self.sliced or not self.begins_by_itself
        self.whole_within_s = self.seconds if self.whole and self.begins_by_itself else None
        """The number of measured seconds after which no thread begins a transaction, and running transactions are
        measured to their end. None if the measured part ends at a fixed time, or after a number of transactions."""
        if self.sliced:
            self.patience_s = self.slice_patience_s
            self.warmup_s = float(parameters.warmup_seconds)
            duration: Options = {
                "warmup-seconds": parameters.warmup_seconds * len(servers),
                "measured-seconds": self.seconds,
                "slice-us": 1000 * (parameters.slice_ms or SLICE_MS),
            }
        elif self.begins_by_itself:
            self.warmup_s = 0.0 if step.whole_transactions else float(parameters.warmup_seconds)
            duration = {
                "warmup-seconds": READY_S if step.whole_transactions else parameters.warmup_seconds,
                "measured-seconds": self.seconds,
                "whole": switch(step.whole_transactions),
            }
        else:
            self.start_patience_s = self.patience_s
            duration = {
                "counted-transactions": parameters.transactions_of(step),
                "counted-warmup": parameters.warmup_transactions_of(step),
            }
        options: Options = {
            **_on(parameters, how["seed"]),
            "threads": parameters.clients,
            "servers": ",".join(f"{server.socket}={server.pid}" for server in servers),
            "cpus": ",".join(map(str, how["cpus"])) if how.get("by_connection") else "",
            "prepared": switch(parameters.prepared and step.prepared),
            "statements": ";".join(step.statements),
            "time": 0,  # the loop in rqps.lua ends after a time or a number of transactions
            **duration,
            **{name.replace("_", "-"): value for name, value in step.options.items()},
        }
        self._started_ns = time.monotonic_ns()
        call = sysbench_call(self.script, servers, options)
        super().__init__(call, servers, step.name, parameters.clients, how)

    def wait_for_begin(self) -> int:
        origin_ns = super().wait_for_begin()
        if self.sliced:
            self.wait_for("ready", 1, self.patience_s)
        if not self.begins_by_itself:
            self.warmup_s = (origin_ns - self._started_ns) / 1e9
        return origin_ns

    def wait_for_end(self) -> None:
        """Wait until the measured part has ended: at a fixed time, or with the last transaction of every thread."""
        if self.sliced:
            self.let_begin(1)
        if self.begins_by_itself:
            self.wait_until(self.origin_ns + self.seconds * 1_000_000_000)
        if self.whole:
            super().wait_for_end()

    @property
    def elapsed_s(self) -> float:
        return super().elapsed_s if self.whole else float(self.seconds)

    def answers(self, step: str, columns: Mapping[str, Any]) -> list[Answer]:
        """The results of a step, one per server; `columns` describe the step."""
        return [self._answer(step, columns, side) for side in range(len(self.servers))]

    def _answer(self, step: str, columns: Mapping[str, Any], side: int) -> Answer:
        seconds = read_seconds(self.lines, self.threads, step, self.per_transaction, self.whole_within_s, side)
        measured = total(seconds, step)
        elapsed_s = measured.sum_us / 1e6 / self.threads if self.sliced else self.elapsed_s
        slices = slice_rows(self.lines, step, side, len(self.servers), self.per_transaction)
        measured_columns = {
            **columns,
            "clients": self.threads,
            "warmup_s": self.warmup_s,
            **step_columns(measured, elapsed_s, measured.operations, measured.retries),
        }
        if self.sliced:
            measured_columns["client_cpu_s"] = sum(row["client_cpu_us"] for row in slices) / 1e6
        return Answer(
            columns=measured_columns,
            intervals=interval_rows(step, seconds),
            latencies=latency_rows(step, seconds),
            warnings=tuple(retries_warning(step, "transactions", measured.retries, measured.transactions)),
            more={"slices": slices, "cycles": cycle_rows(self.lines, step)} if self.sliced else {},
        )


def load(server: Any, parameters: SysbenchParameters, seed: int) -> None:
    """Creates and fills the tables by sysbench."""
    with closing(server.connect()) as connection:
        connection.dialect.query(connection, f"CREATE SCHEMA {DATABASE}")
    options = {**_on(parameters, seed), "index-first": switch(parameters.index_first), "threads": 1}
    done = run_to_its_end(*sysbench_call(LUA / "load.lua", (server,), options))
    if done.returncode != 0:
        message = "\n".join(complaints(done.stdout.splitlines()))
        fix = f"read the server's error log, {server.error_log}"
        raise RqpsError(f"{server.build.name}: the tables could not be loaded:\n{message}", fix=fix)


def read_seconds(
    lines: Iterable[str],
    threads: int,
    kind: str = "",
    per_transaction: int = 1,
    whole_within_s: int | None = None,
    side: int = 0,
) -> list[Second]:
    """Adds up the reports of all threads for each second of one server. Raises an error if a thread lacks the
    report of a second. After `whole_within_s` seconds, if given, reports may be missing, since each thread ends
    with its last transaction."""
    reported = [
        replace(second, kind=kind, operations=second.transactions * per_transaction)
        for second in answers.read_seconds(lines)
        if second.kind == str(side)
    ]
    threads_in = Counter(second.second for second in reported)
    must = [second for second in threads_in if whole_within_s is None or second < whole_within_s]
    short = [second for second in must if threads_in[second] != threads]
    if short or not reported:
        raise RqpsError(
            f"sysbench reported {len(threads_in)} seconds; {len(short)} of them were not reported exactly once by "
            f"each of the {threads} threads",
            fix="read sysbench's output in the step's log",
        )
    return list(by_second(reported))


def slice_rows(lines: Iterable[str], step: str, side: int, sides: int, per_transaction: int) -> list[dict[str, Any]]:
    """Rows of the table `slices` for one server, added up over all clients."""
    begin_end: dict[int, list[float]] = {}
    for line in lines:
        if line.startswith("slice "):
            number, whose, *figures = line.split()[1:]
            if int(whose) == side:
                before = begin_end.get(int(number), [0.0] * len(figures))
                begin_end[int(number)] = [one + float(other) for one, other in zip(before, figures, strict=True)]
    names = ("operations", "busy_us", "client_cpu_us", "server_cpu_us")
    return [
        {
            "step": step,
            "slice": number,
            "cycle": number // (2 * sides),
            **dict(zip(names, (round(done) * per_transaction, *rest), strict=True)),
        }
        for number, (done, *rest) in sorted(begin_end.items())
    ]


def cycle_rows(lines: Iterable[str], step: str) -> list[dict[str, Any]]:
    """Rows of the table `cycles`, which are the same for all servers of a duet."""
    reported = (line.split()[1:] for line in lines if line.startswith("cycle "))
    return [
        {"step": step, "cycle": int(cycle), "cpu_us": float(cpu_us), "outside_us": float(outside_us)}
        for cycle, cpu_us, outside_us in reported
    ]


def _on(parameters: SysbenchParameters, seed: int) -> dict[str, str | int | float]:
    """Options for the tables and the random values."""
    return {
        "rand-type": "uniform",
        "rand-seed": seed,
        "tables": parameters.tables,
        "table-size": parameters.table_rows,
    }
