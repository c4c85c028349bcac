"""The load of a step: sysbench doing its transactions for some seconds or a number of times, and what it reports."""

import json
import time
from collections.abc import Iterable
from contextlib import closing
from importlib.resources import files
from pathlib import Path
from typing import Unpack

from rqps.engines.mysql.instance import Server, query
from rqps.errors import RqpsError
from rqps.workloads import How
from rqps.workloads.answers import Second, together
from rqps.workloads.load_generator import (
    DATABASE,
    DONE_AGAIN,
    READY_S,
    Options,
    Sysbench,
    run_to_its_end,
    switch,
    sysbench_call,
)
from rqps.workloads.sysbench.parameters import SysbenchParameters
from rqps.workloads.sysbench.steps import Step

PATIENCE_S = 3600
"""The longest wait for the last transaction of a step, such as a scan, and for a server under callgrind, which takes
its time."""
LOOK_S = 0.02
LUA = Path(str(files(__package__) / "lua"))


class Generator(Sysbench):
    """A running sysbench with the statements of a step."""

    whole_within_s: int | None = None
    """Seconds within which the last transactions begin, where they are whole."""

    def __init__(self, more: Options, server: Server, step: Step, parameters: SysbenchParameters, how: How) -> None:
        """Start it; `more` says for how long."""
        self.step = step
        options: dict[str, str | int | float] = {
            **_on(parameters, how["seed"]),
            "threads": parameters.clients,
            "prepared": switch(parameters.prepared and step.prepared),
            "statements": ";".join(step.statements),
            "mysql-ignore-errors": DONE_AGAIN,
            "time": 0,  # our own loop stops by the clock, or by its count
            **more,
            **{name.replace("_", "-"): value for name, value in step.options.items()},
        }
        super().__init__(LUA / "statements.lua", options, server, step.name, parameters.clients, how)


class Generating(Generator):
    """sysbench that does a step's transactions for some seconds."""

    def __init__(self, server: Server, step: Step, parameters: SysbenchParameters, **how: Unpack[How]) -> None:
        self.seconds = parameters.seconds_of(step)
        self.warmup_s = 0.0 if step.whole else float(parameters.warmup_seconds)
        self.whole_within_s = self.seconds if step.whole else None
        by_the_clock: Options = {
            "warmup-seconds": READY_S if step.whole else parameters.warmup_seconds,
            "measured-seconds": self.seconds,
            "whole": switch(step.whole),
        }
        super().__init__(by_the_clock, server, step, parameters, how)

    def wait_for_end(self) -> None:
        """Wait until the measured part has ended: by the clock, or with every thread's last transaction."""
        assert self._origin_ns is not None
        ends_ns = self._origin_ns + self.seconds * 1_000_000_000
        self.wait_until(ends_ns)
        while self.step.whole and len(self._ends_ns) < self.threads:
            if time.monotonic_ns() > ends_ns + PATIENCE_S * 1_000_000_000:
                raise self.hangs(PATIENCE_S)
            self.wait_until(time.monotonic_ns() + 10_000_000)

    @property
    def elapsed_s(self) -> float:
        return super().elapsed_s if self.step.whole else float(self.seconds)


class Counting(Generator):
    """sysbench that does a number of transactions: the same work on every server, however slow it is.

    Its threads wait before they begin, and again before they end, so that counters can be read between.
    """

    def __init__(self, server: Server, step: Step, parameters: SysbenchParameters, **how: Unpack[How]) -> None:
        by_number: Options = {
            "counted-transactions": parameters.transactions_of(step),
            "counted-warmup": parameters.warmup_transactions_of(step),
        }
        self._started_ns = time.monotonic_ns()
        super().__init__(by_number, server, step, parameters, how)

    def wait_for_begin(self) -> int:
        """Wait until all threads have connected and warmed up; they wait there."""
        self._wait_for_threads('{"ready_ns"')
        now_ns = time.monotonic_ns()
        self.warmup_s = (now_ns - self._started_ns) / 1e9
        return now_ns

    def wait_for_end(self) -> None:
        """Let all threads begin, and wait until each has done its share; they wait there, too."""
        assert self.process.stdin is not None
        self._origin_ns = time.monotonic_ns()
        self.process.stdin.write("\n" * self.threads)
        self.process.stdin.flush()
        self._wait_for_threads('{"ended_ns"')

    def _wait_for_threads(self, word: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while sum(line.startswith(word) for line in list(self.lines)) < self.threads:
            if self.gone:
                raise self.failure()
            if time.monotonic() > deadline:
                raise RqpsError(
                    f"{self.name}: sysbench did not do its transactions within {PATIENCE_S} s",
                    fix="ask for fewer counted_operations in the study's parameters",
                )
            time.sleep(LOOK_S)


def load(server: Server, parameters: SysbenchParameters, seed: int) -> None:
    """Make the tables and fill them, by sysbench."""
    with closing(server.connect()) as connection:
        query(connection, f"CREATE DATABASE {DATABASE}")
    options = {**_on(parameters, seed), "index-first": switch(parameters.index_first), "threads": 1}
    done = run_to_its_end(*sysbench_call(LUA / "load.lua", server, options))
    if done.returncode != 0:
        raise RqpsError(
            f"{server.build.name}: the tables could not be loaded:\n{done.stdout[-2000:]}",
            fix=f"the last lines of the server's error log:\n{server.last_words()}",
        )


def read_seconds(
    lines: Iterable[str], threads: int, kind: str = "", per_transaction: int = 1, whole_within_s: int | None = None
) -> list[Second]:
    """Every second with what all threads did in it. A second that a thread did not report is an error.

    Where transactions are whole, threads end one after the other when `whole_within_s` seconds have passed.
    """
    reported: dict[int, list[Second]] = {}
    for line in lines:
        if line.startswith('{"thread"'):
            report = json.loads(line)
            del report["thread"]
            report |= {"operations": report["transactions"] * per_transaction, "buckets": dict(report["buckets"])}
            reported.setdefault(report["second"], []).append(Second(kind=kind, **report))
    must = [second for second in reported if whole_within_s is None or second < whole_within_s]
    short = [second for second in must if len(reported[second]) != threads]
    if short or not reported:
        raise RqpsError(
            f"sysbench reported {len(reported)} seconds, of which {len(short)} lack a thread of {threads}",
            fix="see what sysbench said, in the step's log",
        )
    return [together(kind, second, of_threads) for second, of_threads in sorted(reported.items())]


def measured_part(kind: str, seconds: Iterable[Second]) -> Second:
    """All seconds after the warm-up as one."""
    return together(kind, 0, [second for second in seconds if second.second >= 0])


def _on(parameters: SysbenchParameters, seed: int) -> dict[str, str | int | float]:
    """Options for the tables and the random values."""
    return {
        "rand-type": "uniform",
        "rand-seed": seed,
        "tables": parameters.tables,
        "table-size": parameters.table_rows,
    }
