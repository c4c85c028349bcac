"""Made-up studies of the insert benchmark, in which every rate, stall and latency is known."""

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import polars as pl
import synthetic
from rqps.store import Manifest, write_study_card
from rqps.store.schemas import TABLES

DBMS = {"my1.base": 1.0, "my1.ps0": 1.1, "my2.base": 0.7}
"""Speed of each, beside the first."""
LOADS = {"l.i0": 60_000, "l.x": 400_000, "l.i1": 9_000, "l.i2": 3_000}
QUERIES = {"qr": 8_000, "qp": 5_000}
"""Rows and queries in a second of one client of the first."""
STATEMENT_ROWS = {"l.i0": 100, "l.x": 100, "l.i2": 5}
ELSE_ROWS = 50
LATENCIES_US = {"insert": 700.0, "delete": 1500.0, "query": 120.0}
Where = tuple[str, str]
"""A dbms and a step."""


@dataclass(frozen=True)
class Shape:
    """Its size, and its faults."""

    dbms: Mapping[str, float] = field(default_factory=lambda: DBMS)
    steps: tuple[str, ...] = ("l.i0", "l.x", "l.i1", "l.i2", "qr100", "qp100")
    rounds: int = 6
    clients: int = 2
    seconds: int = 10
    noise: float = 0.004
    stalls: Mapping[Where, range] = field(default_factory=dict)
    """Seconds in which the first client does nothing at all."""
    slow: Mapping[Where, float] = field(default_factory=dict)
    """The share of its rate of inserts that is reached."""
    misses: float = 0.0
    """Pages read from the disk for an operation."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Versions by build, where they matter."""
    engine: str = "mysql"


def rate_of(step: str) -> int | None:
    return int(step.strip("qrp")) if step.startswith("q") else None


def write(data: Path, shape: Shape | None = None, study: str = "inserts") -> Path:
    """Writes a made-up study below `data/raw`."""
    shape = shape or Shape()
    folder = data / f"raw/study={study}"
    asked = {"clients": shape.clients, "load_rows": 100_000, "rates": [100], "seconds": shape.seconds}
    common: dict[str, Any] = {"study": study, "workload": "insert-benchmark", "parameters": asked}
    names = tuple(shape.dbms)
    card = synthetic.card(
        **common, question="What do rows that come and go cost?", base=names[0], dbms=names, rounds=shape.rounds
    )
    write_study_card(folder, card)
    for number in range(1, shape.rounds + 1):
        for position, dbms in enumerate(names):
            options = {"performance_schema": "OFF" if dbms.endswith("ps0") else "ON"}
            build = dbms.partition(".")[0]
            its_own: dict[str, Any] = {"engine": shape.engine, "schema_version": 4}
            its_own |= {"unit": f"r{number:02}@{dbms}@here", "side": None, "twin": False}
            its_own |= {"version": shape.versions[build]} if build in shape.versions else {}
            facts = synthetic.manifest(
                dbms, number, **common, **its_own, options=options, position=position, warnings=()
            )
            _write_run(folder, facts, shape)
    return data


def _write_run(folder: Path, facts: Manifest, shape: Shape) -> None:
    results: dict[str, list[dict[str, Any]]] = {name: [] for name in TABLES}
    chance = random.Random(f"{facts.run} {shape.noise}")
    for position, step in enumerate(shape.steps):
        _Step(results, facts, shape, step, position, chance).add()
    synthetic.add_step_columns("insert-benchmark", results["steps"])
    synthetic.write_rows(folder, facts, results)


@dataclass
class _Step:
    tables: dict[str, list[dict[str, Any]]]
    facts: Manifest
    shape: Shape
    step: str
    position: int
    chance: random.Random

    def add(self) -> None:
        kinds = ["insert"] if self.step == "l.i0" else ["index"] if self.step == "l.x" else ["insert", "delete"]
        main = "query" if rate_of(self.step) else kinds[0]
        seconds = 2 if self.step == "l.x" else self.shape.seconds
        done = {kind: self._seconds_of(kind, seconds) for kind in [*kinds, *(["query"] if main == "query" else [])]}
        for kind, of_clients in done.items():
            self._add_kind(kind, of_clients)
        self._add_step(sum(map(sum, done[main])), seconds)
        self._add_engine()

    def _seconds_of(self, kind: str, seconds: int) -> list[list[int]]:
        """Operations by client and second."""
        rate = rate_of(self.step)
        speed = self.shape.dbms[self.facts.dbms] * math.exp(self.chance.gauss(0, self.shape.noise))
        if rate is not None and kind != "query":
            one = rate * self.shape.slow.get((self.facts.dbms, self.step), 1.0)
        elif rate is not None:
            one = QUERIES[self.step.rstrip("0123456789")] * speed
        else:
            one = LOADS[self.step] * speed
        stalled = self.shape.stalls.get((self.facts.dbms, self.step), range(0))
        return [
            [0 if client == 0 and second in stalled else round(one) for second in range(seconds)]
            for client in range(self.shape.clients)
        ]

    def _add_kind(self, kind: str, of_clients: list[list[int]]) -> None:
        latency = LATENCIES_US.get(kind, 1000.0)
        longest = 20 * latency / self.shape.dbms[self.facts.dbms]
        rows = 1 if kind == "query" else STATEMENT_ROWS.get(self.step, ELSE_ROWS)
        usual = {"step": self.step, "kind": kind}
        nothing = {"errors": 0, "retries": 0}
        for number, counts in enumerate(of_clients, 1):
            for second, count in enumerate(counts):
                row = {"client": number, "second": second, "operations": count, "transactions": -(-count // rows)}
                self.tables["clients"].append(usual | nothing | row | {"latency_max_us": longest})
        for second, together in enumerate(zip(*of_clients, strict=True)):
            count, statements = sum(together), sum(-(-one // rows) for one in together)
            both = {"second": second, "transactions": statements}
            self.tables["intervals"].append(
                usual
                | nothing
                | both
                | {"operations": count, "latency_max_us": longest, "latency_p99_us": longest / 4}
            )
            self._add_buckets(kind, second, statements, latency)

    def _add_buckets(self, kind: str, second: int, statements: int, latency: float) -> None:
        """Nine of ten statements within 10 % of the latency, one at eight times that; due, all 3 ms later."""
        few = statements // 10
        for late, name in ((0.0, kind), (3000.0, f"{kind} due")):
            if late and (rate_of(self.step) is None or kind == "query"):
                continue
            for at, count in ((latency, statements - few), (8 * latency, few)):
                bucket = {"step": self.step, "kind": name, "second": second, "transactions": count}
                edges = {"from_us": 0.9 * at + late, "below_us": 1.1 * at + late}
                self.tables["latencies"].append(bucket | edges)

    def _add_step(self, operations: int, seconds: int) -> None:
        shape, rate = self.shape, rate_of(self.step)
        counters = synthetic._counters(operations, operations * 20e-6, operations * 2e-6)
        counters |= {"host_reads": round(shape.misses * operations), "host_read_kb": 16 * shape.misses * operations}
        counters |= {"host_cpu_idle_s": 2.0 * seconds - counters["host_cpu_user_s"] - 0.35, "host_write_kb": 2048.0}
        target = rate * shape.clients if rate else None
        on_target = shape.slow.get((self.facts.dbms, self.step), 1.0) >= 0.95
        self.tables["steps"].append(
            {
                "step": self.step,
                "position": self.position,
                "unit": "query" if rate else "row",
                "clients": shape.clients,
                "started_at": self.facts.started_at + timedelta(seconds=20 * self.position),
                "warmup_s": 0.0,
                "elapsed_s": seconds + 0.25,
                "operations": operations,
                "transactions": operations,
                "operations_per_s": operations / (seconds + 0.25),
                "latency_p99_us": 1000.0,
                "errors": 0,
                "retries": 0,
                "target_per_s": target,
                "target_held": on_target if rate else None,
                **counters,
            }
        )
        for second in range(seconds):
            share = {name: value / seconds for name, value in counters.items()}
            complete = {name: int(value) for name, value in share.items() if TABLES["counters"][name] == pl.Int64}
            row = {"step": self.step, "second": second + 1.0, "interval_s": 1.0, "server_rss_kb": 512 * 1024}
            self.tables["counters"].append(row | share | complete)
        for moment, value in (("before", 100), ("after", 100 + round(shape.misses * operations))):
            row = {"step": self.step, "moment": moment, "name": "innodb_buffer_pool_reads", "value": str(value)}
            self.tables["status"].append(row)

    def _add_engine(self) -> None:
        waits = self.step == next((step for step in self.shape.steps if rate_of(step)), None)
        size = {"buffer_pool_kb": 2.0**20, "redo_capacity_kb": 2.0**19, "tables_kb": 2.0**18, "datadir_kb": 2.0**21}
        usual = {"step": self.step, "rows_low": 1, "rows_high": 100_000, **size}
        for second in range(6 if waits else 0):
            left = 1 - second / 5
            self.tables["engine"].append(usual | {"moment": "settling", "second": float(second)} | _debt(left))
        before = _debt(0.0 if waits else 0.25) | {"waited_s": 5.0 if waits else None}
        self.tables["engine"].append(usual | {"moment": "before"} | before)
        self.tables["engine"].append(usual | {"moment": "after"} | _debt(0.5))


def _debt(left: float) -> dict[str, Any]:
    return {"history_length": round(4000 * left), "dirty_kb": left * 2**17, "checkpoint_age_kb": left * 2**16}
