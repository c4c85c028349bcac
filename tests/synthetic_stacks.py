"""Made-up profiles for tests: stacks with the names of real servers, and counts drawn from a seeded generator."""

import random
from collections.abc import Mapping
from typing import Any

import polars as pl
from rqps.store.schemas import IDENTITY, INSTRUCTIONS, STACKS, STEPS
from step_columns import step_columns

OPERATIONS = 1000
NS_A_SAMPLE = 1_001_001

Path = tuple[str, ...]

ROW = "row_search_mvcc"
_COMMAND = ("start_thread", "pfs_spawn_thread", "handle_connection", "do_command", "dispatch_command(THD*)")
_STATEMENT = (*_COMMAND, "mysql_parse(THD*)", "mysql_execute_command(THD*)")
POINT: dict[Path, float] = {
    _COMMAND: 0.3,
    (*_COMMAND, "mysql_parse(THD*)", "MYSQLparse(THD*)"): 2.0,
    (*_COMMAND, "mysql_parse(THD*)", "MYSQLparse(THD*)", "malloc"): 0.7,
    (*_STATEMENT, "JOIN::optimize()"): 3.0,
    (*_STATEMENT, "handler::ha_index_read_map(unsigned char*)", "row_search_mvcc"): 2.0,
    (*_STATEMENT, "row_search_mvcc", "btr_cur_search_to_nth_level(dict_index_t*)"): 2.5,
    (*_STATEMENT, "row_search_mvcc", "row_sel_store_mysql_rec", "memcpy"): 1.0,
    (*_COMMAND, "net_send_ok", "vio_write", "[k]do_syscall_64", "[k]tcp_sendmsg"): 4.0,
    (*_COMMAND, "start_statement_v1"): 0.5,
    ("start_thread", "nobody_knows_this"): 0.2,
}


def whose(dbms: str, round_: int, mode: str = "s") -> dict[str, Any]:
    build, _, config = dbms.partition(".")
    run = f"{mode}{round_:02}@{dbms}@here"
    values = ("synthetic", run, "here", dbms, build, config, round_)
    return dict(zip(IDENTITY, values, strict=True))


def steps_of(dbms: str, round_: int, cost_us: float, step: str = "point-query", **changes: Any) -> pl.DataFrame:
    """One measured step of a run."""
    values = {
        "step": step,
        "position": 0,
        **step_columns("sysbench", [step])[step],
        "clients": 1,
        "operations": OPERATIONS,
        "operations_per_s": 100.0,
        "errors": 0,
        "server_cpu_s": cost_us * OPERATIONS / 1e6,
    }
    row = {**whose(dbms, round_), **values, **changes}
    return pl.DataFrame([row], schema={**IDENTITY, **STEPS}).with_columns(engine=pl.lit("mysql"))


def stacks_of(
    dbms: str, round_: int, samples: Mapping[Any, int], step: str = "point-query", role: str = "connection"
) -> pl.DataFrame:
    """The stacks of a step. A name with `[k]` in front is of the kernel."""
    rows = [
        {
            **whose(dbms, round_),
            "step": step,
            "role": role,
            "event": "cpu-clock",
            "frames": [name.removeprefix("[k]") for name in path],
            "modules": ["[kernel]" if name.startswith("[k]") else "mysqld" for name in path],
            "samples": count,
            "weight": count * NS_A_SAMPLE,
        }
        for path, count in samples.items()
        if count
    ]
    return pl.DataFrame(rows, schema={**IDENTITY, **STACKS}).with_columns(engine=pl.lit("mysql"))


def drawn(costs: Mapping[Path, float], samples: int, chance: random.Random) -> dict[Path, int]:
    """So many samples of a server that spends its time as `costs` say."""
    result = dict.fromkeys(costs, 0)
    for path in chance.choices(list(costs), list(costs.values()), k=samples):
        result[path] += 1
    return result


def study(
    sides: Mapping[str, Mapping[Path, float]],
    rounds: int = 6,
    samples: int = 20_000,
    spread: float = 0.01,
    seed: int = 1,
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Stacks and steps of a study: what each side spends, µs an operation by stack, and how much rounds differ."""
    chance = random.Random(seed)
    stacks, steps = [], []
    for dbms, costs in sides.items():
        for round_ in range(1, rounds + 1):
            moved = {path: cost * max(0.0, chance.gauss(1, spread)) for path, cost in costs.items()}
            stacks.append(stacks_of(dbms, round_, drawn(moved, samples, chance)))
            steps.append(steps_of(dbms, round_, sum(moved.values())))
    return pl.concat(stacks), pl.concat(steps)


def instructions_of(dbms: str, round_: int, counts: Mapping[Any, int], step: str = "point-query") -> pl.DataFrame:
    """Counted instructions of a step."""
    rows = [
        {
            **whose(dbms, round_, "i"),
            "step": step,
            "role": "connection",
            "frames": list(path),
            "modules": ["mysqld"] * len(path),
            "calls": None,
            "instructions": count,
        }
        for path, count in counts.items()
    ]
    return pl.DataFrame(rows, schema={**IDENTITY, **INSTRUCTIONS}).with_columns(engine=pl.lit("mysql"))


def costs_of(sides: Mapping[str, Mapping[Path, float]], samples: int = 20_000) -> pl.DataFrame:
    """A costs frame as it is, for what follows from it: one round, no kernel."""
    rows = [
        {
            "host": "here",
            "dbms": dbms,
            "engine": "mysql",
            "round": 1,
            "step": "point-query",
            "stack": list(path),
            "component": "other",
            "samples": float(round(samples * cost / sum(costs.values()))),
            "cost": cost,
        }
        for dbms, costs in sides.items()
        for path, cost in costs.items()
    ]
    kinds: dict[str, Any] = {
        "round": pl.Int32,
        "stack": pl.List(pl.String),
        "samples": pl.Float64,
        "cost": pl.Float64,
    }
    return pl.DataFrame(rows, schema_overrides=kinds)
