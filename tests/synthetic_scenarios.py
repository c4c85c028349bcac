"""Made-up studies of performance schema scenarios, in which the cost of every single event is known."""

import json
import math
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import synthetic
from rqps.engines.mysql.perf_schema import EVENTS, KEY, MEMORY, Scenario, Switch, decides, named
from rqps.store import write_study_card
from rqps.store.manifest import ASKED
from rqps.study import MODES, Mode

OFF_US, ON_US = 10.0, 10.2
"""CPU of a statement with the performance schema off, and on with nothing enabled."""

MADE_UP: dict[str, tuple[float, float]] = {
    "wait/synch/mutex/innodb/trx_mutex": (4.0, 100.0),
    "wait/synch/mutex/innodb/dict_sys_mutex": (1.0, 100.0),
    **{f"wait/synch/mutex/sql/LOCK_{letter}": (0.5, 100.0) for letter in "abcdefghijklm"},
    "wait/synch/mutex/sql/LOCK_never_taken": (0.0, 100.0),
    "wait/io/table/sql/handler": (2.0, 200.0),
    "wait/lock/metadata/sql/mdl": (0.0, 0.0),
    "stage/sql/init": (1.0, 0.0),
    "stage/sql/end": (1.0, 0.0),
    "statement/sql/select": (1.0, 300.0),
    "memory/sql/THD::main_mem_root": (3.0, 20.0),
    "transaction": (1.0, 0.0),
}
"""Events of a statement and nanoseconds of each."""
ONLY = ("memory", "stages", "statements", "waits")
DIGEST_US = 0.1
"""Digests of a recorded statement, µs."""
CONSUMERS = (
    *(f"events_{kind}_current" for kind in ("waits", "stages", "statements", "transactions")),
    *("statements_digest", "global_instrumentation", "thread_instrumentation"),
)


@dataclass(frozen=True)
class Server:
    """One dbms: its scenario, and what its scenario costs."""

    scenario: Scenario

    def enabled(self) -> list[str]:
        if self.scenario.kind != "on":
            return []
        return [name for name in MADE_UP if _on(self.scenario.instruments, name)]

    def consumers(self) -> list[str]:
        return [name for name in CONSUMERS if self.scenario.kind == "on" and _on(self.scenario.consumers, name)]

    def cpu_us(self) -> float:
        if self.scenario.kind != "on":
            return OFF_US
        on = self.enabled()
        digests = "statements_digest" in self.consumers() and "statement/sql/select" in on
        return ON_US + sum(MADE_UP[name][0] * MADE_UP[name][1] / 1e3 for name in on) + DIGEST_US * digests


def _on(switches: Iterable[Switch], name: str) -> bool:
    """Enabled by its switches, else as a release has it: neither locks nor stages."""
    result = decides(switches, name)
    return result.on if result else not name.startswith(("wait/synch", "stage", "events_waits", "events_stages"))


def write(
    data: Path,
    servers: Mapping[str, Scenario] | None = None,
    *,
    study: str = "synthetic",
    base: str | None = None,
    rounds: int = 6,
    steps: tuple[str, ...] = ("point-query",),
    noise: float = 0.002,
    counted: bool = False,
) -> Path:
    """Writes a made-up study below `data/raw`, every step on every server in every round; `counted`, with a round of
    instructions, a thousand of them for each microsecond."""
    chosen = servers or {f"my8.{name}": named(name) for name in NAMES}
    shape = synthetic.Shape(dbms=tuple(chosen), steps=steps, rounds=rounds, noise=0.0)
    folder = data / f"raw/study={study}"
    write_study_card(folder, synthetic.card(shape, study=study, base=base or next(iter(chosen))))
    for number in range(1, rounds + 1):
        for dbms, scenario in chosen.items():
            _write_run(folder, study, dbms, number, Server(scenario), shape, noise)
    for dbms, scenario in chosen.items() if counted else ():
        _write_run(folder, study, dbms, 1, Server(scenario), shape, 0.0, mode="instructions")
    return data


NAMES = ("off", "all-disabled", "all-enabled", "default", *(f"{one}-only" for one in ONLY))


def _write_run(
    folder: Path,
    study: str,
    dbms: str,
    number: int,
    server: Server,
    shape: synthetic.Shape,
    noise: float,
    mode: Mode = "throughput",
) -> None:
    options = {
        "performance_schema": "ON" if server.scenario.kind == "on" else "OFF",
        "perf_schema": server.scenario.name,
    }
    facts = synthetic.manifest(dbms, number, shape, study=study, options=options, warnings=(), mode=mode)
    facts = facts.model_copy(update={"run": f"{MODES[mode]}{facts.run[1:]}"})
    rows = synthetic.tables(facts, shape)
    for step in rows["steps"]:
        name, _, clients = step["step"].partition("@")
        step["clients"] = int(clients or 1)
        chance = random.Random(f"{facts.run} {step['step']} {noise}")
        us = server.cpu_us() * (10 if name == "scan" else 1) * math.exp(chance.gauss(0, noise))
        step["operations"] = 10_000
        step["operations_per_s"] = step["clients"] * 1e6 / (us + 10)
        step["server_cpu_s"] = us * 10_000 / 1e6
    status = [row for row in rows["status"] if row["name"] != "questions"]
    counted: dict[tuple[str, str | None], int] = {("questions", None): 10_000}
    counted |= {(EVENTS, name): int(10_000 * MADE_UP[name][0]) for name in server.enabled()}
    taken = "230000000" if server.scenario.kind == "on" else "0"
    for step_name in shape.steps:
        values = [("before", key, "7") for key in counted]
        values += [("after", key, str(7 + count)) for key, count in counted.items()]
        for moment, (name, of), value in (*values, ("after", (MEMORY, None), taken)):
            status.append({"step": step_name, "moment": moment, "name": name, "object": of, "value": value})
    rows["status"] = status
    rows["settings"] += [
        {"kind": "instrument", "name": name, "value": "YES" if name in server.enabled() else "NO", "timed": "YES"}
        for name in MADE_UP
    ]
    rows["settings"] += [
        {"kind": "consumer", "name": name, "value": "YES" if name in server.consumers() else "NO", "timed": None}
        for name in CONSUMERS
    ]
    rows["settings"].append({"kind": "timer", "name": "CYCLE overhead", "value": str(20 + number), "timed": None})
    if mode == "instructions":
        rows["instructions"] = [_counted(step, server) for step in shape.steps]
    run = folder / f"run={facts.run}"
    run.mkdir(parents=True, exist_ok=True)
    (run / ASKED).write_text(json.dumps({KEY: server.scenario.asked()}))
    synthetic.write_rows(folder, facts, rows)


def _counted(step: str, server: Server) -> dict[str, object]:
    return {
        "step": step,
        "role": "connection",
        "frames": ["do_command"],
        "modules": ["mysqld"],
        "calls": 10_000,
        "instructions": round(server.cpu_us() * 1e3) * 10_000,
    }
