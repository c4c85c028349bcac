"""Is the load generator the limit? Its CPU per operation, our Lua steps against sysbench's own scripts of that kind.

Every kind of which sysbench brings a script is measured, on the same statements: where that script has others than
the step of ours, our generator is given those. CPU and operations are of the whole process, start and end included,
on both sides. The goal is at most 5 % more.

With --own, statements of one's own against steps of ours that do the same, with values drawn: a point
query, a range and an update. The goal is at most 20 % more.
"""

import os
import re
import resource
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from bench import choosing, compare, save, serving
from rqps import keeper
from rqps.engines.sources.programs import sysbench
from rqps.workloads.load_generator import DATABASE
from rqps.workloads.own.generator import Generator as Own
from rqps.workloads.own.parameters import OwnParameters
from rqps.workloads.sysbench.generator import Generator, read_seconds
from rqps.workloads.sysbench.parameters import SysbenchParameters
from rqps.workloads.sysbench.steps import Step, find

GOAL, GOAL_OF_OWN = 0.05, 0.2
OWN: dict[str, dict[str, Any]] = {
    "point-query": {"sql": "SELECT c FROM sbtest1 WHERE id = ?", "values": {"id": "1..{rows}"}},
    "range-notcovered-pk": {
        "sql": "SELECT id, c FROM sbtest1 WHERE id BETWEEN {from} AND {from} + 100",
        "values": {"from": "1..{rows}"},
    },
    "update-index": {"sql": "UPDATE sbtest1 SET k = k + 1 WHERE id = ?", "values": {"id": "1..{rows}"}},
}


@dataclass(frozen=True)
class Stock:
    """One of sysbench's own scripts, and what to ask of it so that it does what a step does."""

    script: str
    options: dict[str, int] = field(default_factory=dict)
    statement: str | None = None
    """What it does where no step of ours does the same."""


def only(kind: str) -> dict[str, int]:
    """Options of oltp_read_only with one kind of range, of 1000 rows."""
    kinds = ("simple", "sum", "order", "distinct")
    return {"range-size": 1000, **{f"{other}-ranges": int(other == kind) for other in kinds}}


RANGES = " OR ".join(["k BETWEEN {x} AND {x+5}"] * 10)
STOCK = {
    "point-query": Stock("oltp_point_select"),
    "random-points_range=10": Stock(
        "select_random_points", {"random-points": 10}, "SELECT id, k, c, pad FROM {table} WHERE k IN ({10 ids})"
    ),
    "random-ranges": Stock(
        "select_random_ranges", {"number-of-ranges": 10, "delta": 5}, f"SELECT COUNT(k) FROM {{table}} WHERE {RANGES}"
    ),
    "read-only_range=10": Stock("oltp_read_only", {"range-size": 10}),
    "read-only_range=100": Stock("oltp_read_only", {"range-size": 100}),
    "read-only-simple_range=1000": Stock("oltp_read_only", only("simple")),
    "read-only-sum_range=1000": Stock("oltp_read_only", only("sum")),
    "read-only-order_range=1000": Stock("oltp_read_only", only("order")),
    "read-only-distinct_range=1000": Stock("oltp_read_only", only("distinct")),
    "update-index": Stock("oltp_update_index"),
    "update-nonindex": Stock("oltp_update_non_index"),
    "write-only": Stock("oltp_write_only"),
    "read-write_range=10": Stock("oltp_read_write", {"range-size": 10}),
    "read-write_range=100": Stock("oltp_read_write", {"range-size": 100}),
    "insert": Stock("oltp_insert"),
    "delete": Stock("oltp_delete"),  # the last one, since it puts nothing back
}

options = choosing(__doc__)
options.add_argument(
    "--step", action="append", choices=sorted({*STOCK, *OWN}), help="one or more of these; all if not given"
)
options.add_argument("--own", action="store_true", help="statements of one's own against steps of ours")
options.add_argument("--pairs", type=int, default=12)
options.add_argument("--seconds", type=int, default=2, help="of each half of a pair")
options.add_argument("--json", type=Path, help="where to write all numbers")


def our_step(name: str, stock: Stock) -> Step:
    """The step of ours, or one with the statement of the script."""
    if stock.statement is None:
        return find(name)
    return replace(find("random-points"), name=name, statements=(stock.statement,))


def cpu_us_of_children(work: Callable[[], int]) -> float:
    """CPU microseconds of the processes that the work started and waited for, for each operation that it tells."""

    def used_s() -> float:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    before_s = used_s()
    operations = work()
    return (used_s() - before_s) * 1e6 / operations


def by_ours(server: Any, step: Step, parameters: SysbenchParameters, cpus: tuple[int, ...], log: Path) -> int:
    with Generator((server,), step, parameters, seed=1, cpus=cpus, log=log) as load:
        load.wait_until_gone()
    return sum(second.transactions for second in read_seconds(load.lines, 1)) * step.queries


def own_parameters(name: str, parameters: SysbenchParameters, folder: Path) -> OwnParameters:
    """The step as a user would write it, on the tables that are loaded."""
    tables, step = folder / "unused.sql", OWN[name]
    tables.write_text("-- loaded by sysbench\n")
    values = {name: of.replace("{rows}", str(parameters.table_rows)) for name, of in step["values"].items()}
    steps = {"own": {**step, "values": values}}
    usual = {"tables": str(tables), "seconds": parameters.seconds, "warmup_seconds": 0}
    return OwnParameters.model_validate({"steps": steps, **usual})


def by_own(server: Any, parameters: OwnParameters, cpus: tuple[int, ...], log: Path) -> int:
    with Own((server,), "own", parameters, seed=1, cpus=cpus, log=log) as load:
        load.wait_until_gone()
    return sum(second.transactions for second in read_seconds(load.lines, 1))


def by_stock(server: Any, stock: Stock, parameters: SysbenchParameters, cpus: tuple[int, ...]) -> int:
    asked = {
        **server.sysbench_options((server,), DATABASE),
        "rand-type": "uniform",
        "table-size": parameters.table_rows,
        "events": 0,
        "time": parameters.seconds,
        **stock.options,
    }
    command = [*sysbench().argv, stock.script, *(f"--{name}={value}" for name, value in asked.items()), "run"]
    output = subprocess.run(
        keeper.command("exec", command, cpus=cpus),
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **sysbench().environment},
    ).stdout
    operations = re.search(r"total: +(\d+)", output)
    assert operations, output
    return int(operations[1])


def table(results: dict[str, dict[str, Any]], goal: float) -> str:
    """One row a step, with the interval of its ratio."""
    lines = [f"{'step':30} {'against':21} {'pairs':>5} {'ratio':>7} {'interval':>15}  at most {goal:.0%} more"]
    for name, result in results.items():
        ratio = result["ratio"]
        within = "yes" if ratio["estimate"] <= 1 + goal else "no"
        reach = f"{ratio['low']:.3f}–{ratio['high']:.3f}"
        lines.append(f"{name:30} {result['script']:21} {ratio['n']:5} {ratio['estimate']:7.3f} {reach:>15}  {within}")
    return "\n".join(lines)


def main() -> None:
    asked = options.parse_args()
    parameters = SysbenchParameters(index_first=True, seconds=asked.seconds, warmup_seconds=0)
    results = {}
    with serving(asked.dbms, parameters, asked.study) as (server, where, folder):
        cpus = where.client_cpus
        for name in [name for name in (OWN if asked.own else STOCK) if not asked.step or name in asked.step]:
            step = find(name) if asked.own else our_step(name, STOCK[name])
            ours = partial(cpu_us_of_children, partial(by_ours, server, step, parameters, cpus, folder / "log"))
            if asked.own:
                written = own_parameters(name, parameters, folder)
                me = partial(cpu_us_of_children, partial(by_own, server, written, cpus, folder / "own.log"))
                base, against = ours, "the step of ours"
            else:
                me, against = ours, STOCK[name].script
                base = partial(cpu_us_of_children, partial(by_stock, server, STOCK[name], parameters, cpus))
            what = (
                f"{name}: generator CPU, µs/operation, {'own' if asked.own else 'ours'} (me) against {against} (base)"
            )
            results[name] = compare(f"{what}, {where.kind}", asked.pairs, me=me, base=base) | {"script": against}
    print(table(results, GOAL_OF_OWN if asked.own else GOAL))
    save(asked.json, {"benchmark": "generator", "dbms": asked.dbms, "seconds": asked.seconds, "found": results})


main()
