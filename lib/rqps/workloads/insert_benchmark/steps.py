"""The steps of the insert benchmark, as `steps.yaml` describes them: their writes, deletes and queries."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any

from rqps.engines import table
from rqps.errors import instead

NAME = re.compile(r"(?P<kind>l\.(?:i0|x|i1|i2)|q[rp]?(?=\d))(?P<rate>[1-9]\d*)?(?P<repeat>\.[1-9])?")
GROUPS = {"query": "Queries beside writes", "row": "Writes"}
"""Maps what a step counts as an operation (a query or a row) to the heading of such steps in tables."""
LOAD, INDEX = "l.i0", "l.x"
"""The steps that all others depend on."""

_DESCRIBED = table(__package__, "steps")
KEY: str = _DESCRIBED["key"]
INDEXES: dict[str, list[str]] = _DESCRIBED["indexes"]
COLUMNS = {KEY: "bigint", **{name: kind.split()[0].lower() for name, kind in _DESCRIBED["columns"].items()}}
"""Maps the columns of a table to their types, as the engines describe them."""
BY_INDEX = re.compile(r" \{by (\w+)\}")


@dataclass(frozen=True)
class Step:
    """A measured step: what a client writes and queries."""

    name: str
    kind: str
    rate: int | None
    """Rows that each client inserts per second; None without a limit."""
    deletes: bool
    queries: tuple[str, ...]
    """The queries; each execution takes one of them at random. Empty in a step that only writes."""

    @property
    def unit(self) -> str:
        return "query" if self.queries else "row"

    @property
    def group(self) -> str:
        """The heading in tables."""
        return GROUPS[self.unit]

    @property
    def connections(self) -> int:
        """Number of connections per client: one to insert, one to delete if the step deletes, and one to query if
        the step queries."""
        return 1 + self.deletes + bool(self.queries)


def names(form: str, rates: Iterable[int]) -> tuple[str, ...]:
    """The names of all steps of a published version of the benchmark (`form`), in their order.

    >>> names("current", [100, 500])
    ('l.i0', 'l.x', 'l.i1', 'l.i2', 'qr100', 'qp100', 'qr500', 'qp500')
    >>> names("2021", [100])
    ('l.i0', 'l.x', 'l.i1', 'q100.1', 'q100.2')
    """
    described = _DESCRIBED["forms"][form]
    kinds, repeats = described["steps"], described.get("repeats", [""])
    with_queries = [kind for kind in kinds if "queries" in _DESCRIBED["steps"][kind]]
    limited = [f"{kind}{rate}{repeat}" for rate in rates for kind in with_queries for repeat in repeats]
    return (*(kind for kind in kinds if kind not in with_queries), *limited)


def does(row: Mapping[str, Any], _: object = None) -> str:
    """A sentence on what a step does, in any version of the benchmark.

    >>> does({"kind": "qp", "target_per_s": 800.0, "clients": 8})
    'Rows by ten of their ids, while rows are inserted and deleted at 100 rows/s per client.'
    """
    text = str(_DESCRIBED["steps"][row["kind"]]["does"])
    if row["target_per_s"]:
        text = text.replace("at a rate", f"at {round(row['target_per_s'] / row['clients'])} rows/s per client")
    return f"{text[:1].upper()}{text[1:]}."


def part(asked: Sequence[str], known: Sequence[str]) -> None:
    """Raises a ValueError unless the requested steps are known, in order, and begin with l.i0 (the load) and l.x (the
    secondary indexes)."""
    for name in asked:
        if name not in known:
            raise ValueError(f"unknown step {name!r}; {instead(name, known, 'steps')}")
    due = [name for name in known if name in asked]
    if list(asked) != due:
        raise ValueError(f"each step starts where the last one ended; name them in this order: {', '.join(due)}")
    if (lacking := [name for name in (LOAD, INDEX)[: len(asked)] if name not in asked]) or not asked:
        raise ValueError(f"needs {' and '.join(lacking or [LOAD])} in front, which the others start from")


@cache
def find(name: str, form: str) -> Step:
    match = NAME.fullmatch(name)
    if not match or match["kind"] not in _DESCRIBED["forms"][form]["steps"]:
        raise ValueError(f"no step {name!r} in the form {form!r}")
    kind = match["kind"]
    described = _DESCRIBED["steps"][kind]
    return Step(
        name=name,
        kind=kind,
        rate=int(match["rate"]) if match["rate"] else None,
        deletes=_DESCRIBED["forms"][form]["deletes"] and kind not in (LOAD, INDEX),
        queries=tuple(_DESCRIBED["queries"][described["queries"]]) if "queries" in described else (),
    )


def work_of(row: Mapping[str, Any]) -> str:
    """The kind of work of a step, in any version of the benchmark, such as `range queries`."""
    return str(_DESCRIBED["steps"][row["kind"]]["work"])


def statement(purpose: str, sql: ModuleType) -> str:
    """The statement for a purpose (`table`, `indexes`, `insert`, `delete`) in a server's SQL."""
    match purpose:
        case "table":
            return str(sql.create_table(KEY, _DESCRIBED["columns"]))
        case "indexes":
            return str(sql.add_indexes(INDEXES))
        case "delete":
            return str(sql.delete_first(KEY))
    return str(_DESCRIBED[purpose])


def in_sql(query: str, sql: ModuleType) -> str:
    """Translates a query of a step into a server's SQL."""
    return BY_INDEX.sub(lambda index: str(sql.by_index(index[1])), query)
