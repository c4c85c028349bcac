"""Made-up trees of frames: small ones from a few stacks, and one as large as a real server's."""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field

import polars as pl

Stack = tuple[str, ...]
LAYERS = ("conn", "sql", "opt", "exec", "handler", "row", "btr", "buf", "lock", "log", "os", "mem")
WORDS = ("open", "read", "row", "index", "page", "next", "find", "copy", "check", "init", "end", "cursor", "field")


@dataclass
class _Frame:
    name: str
    own: list[float] = field(default_factory=lambda: [0.0, 0.0])
    below: dict[str, "_Frame"] = field(default_factory=dict)


def tree_of(stacks: Mapping[Stack, tuple[float, float]], error: float = 0.0) -> pl.DataFrame:
    """The tree of stacks, each with its cost in base and in me. The error of a difference is a share of the cost."""
    top = _Frame("all")
    for stack, costs in stacks.items():
        frame = top
        for name in stack:
            frame = frame.below.setdefault(name, _Frame(name))
        frame.own = [had + more for had, more in zip(frame.own, costs, strict=True)]
    rows: list[list[object]] = []
    _add(rows, top, None, error)
    names = ["node", "parent", "name", "component", "base_self", "me_self", "base_total", "me_total", "error"]
    return pl.DataFrame(rows, schema=names, orient="row").with_columns(pl.col("node", "parent").cast(pl.Int32))


def _add(rows: list[list[object]], frame: _Frame, parent: int | None, error: float) -> tuple[float, float]:
    number, total = len(rows), list(frame.own)
    rows.append([])
    for below in frame.below.values():
        of_below = _add(rows, below, number, error)
        total = [had + more for had, more in zip(total, of_below, strict=True)]
    reach = error * sum(total) / 2
    component = frame.name.split("_", 1)[0]
    rows[number] = [number, parent, frame.name, component, *frame.own, *total, reach]
    return total[0], total[1]


def large_stacks(many: int = 13_000, functions: int = 2_500, seed: int = 1) -> dict[Stack, tuple[float, float]]:
    """Stacks as a server has them: they part late, a function calls a few others, few stacks are most of the cost.

    13,000 of them have 50,000 frames and are 30 deep, as folded profiles of a busy server are.
    """
    chance = random.Random(seed)
    names = [_name(chance, number, functions) for number in range(functions)]
    calls = [_callees(chance, number, functions) for number in range(functions)]
    trunk = ("connection", "handle_connection", "do_command", "dispatch_command", "dispatch_sql_command")
    known: list[tuple[Stack, int]] = [(trunk, number) for number in range(4)]
    costs: dict[Stack, tuple[float, float]] = {}
    while len(costs) < many:
        above, at = chance.choice(known)
        stack = list(above)
        while at < functions and (len(stack) == len(above) or chance.random() < 0.75):
            stack.append(names[at])
            known.append((tuple(stack), chance.choice(calls[at])))
            at = chance.choices(calls[at], (8, 4, 2, 1))[0]
        costs[tuple(stack)] = _costs(chance)
    return costs


def _costs(chance: random.Random) -> tuple[float, float]:
    base = min(20_000, int(chance.paretovariate(0.8)))
    me = max(0, round(base * chance.choice((1, 1, 1, 1.3, 0.8)) + chance.gauss(0, base**0.5)))
    return 0.001 * (0 if me and chance.random() < 0.1 else base), 0.0011 * me


def _name(chance: random.Random, number: int, functions: int) -> str:
    layer = LAYERS[number * len(LAYERS) // functions]
    words = [chance.choice(WORDS) for _ in range(chance.randint(1, 4))]
    return f"{layer}_{'_'.join(words)}" if chance.random() < 0.6 else f"{layer}::{words[0].title()}::{number}"


def _callees(chance: random.Random, number: int, functions: int) -> list[int]:
    """Functions further down, which have a higher number; sometimes one beside it."""
    return [number + 1 + int(chance.expovariate(1 / (functions / 45))) for _ in range(4)]
