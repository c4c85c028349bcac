"""The kinds of query, and the steps ENGINE.KIND@CLIENTS made of them: `innodb.pk@1`, `memory.cover-force@32`."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

TABLE = "foo"
ROW = 100
"""The row that every query finds."""
FIRST_ROWS = 1000
"""Number of rows that are inserted first; the table is then inserted into itself until it is large enough."""
VOLATILE = ("memory",)
"""Storage engines that lose their rows when the server ends."""
ALONE = "heap"
"""The engine in the names of PostgreSQL's steps, which is its table access method. A study with it has no other
engine, no query with an index hint, and no mysqlslap."""
NAME = re.compile(r"(?P<engine>[a-z][a-z0-9_]*)\.(?P<kind>[a-z-]+)@(?P<clients>[1-9]\d*)")


@dataclass(frozen=True)
class Kind:
    """A query as published, and the plan that its name promises."""

    name: str
    query: str
    indexes: tuple[str, ...]
    """The indexes, one of which the plan has to use."""
    covers: bool
    """True if the kind is named for a covering index. The primary key does not count: InnoDB stores the rows in
    it."""

    @property
    def hinted(self) -> bool:
        """True if the query tells the server which index to use."""
        return "FORCE INDEX" in self.query


J, K = f"select j from {TABLE}", f"select k from {TABLE}"
KINDS = {
    kind.name: kind
    for kind in (  # in the order of the published study, which lacks the last kind
        Kind("pk", f"{J} where i = {ROW}", ("PRIMARY",), covers=False),
        Kind("pk-force", f"{J} FORCE INDEX(`PRIMARY`) where i = {ROW}", ("PRIMARY",), covers=False),
        Kind("cover-noforce", f"{K} where j = {ROW}", ("xjk",), covers=True),
        Kind("nocover-force", f"{K} FORCE INDEX(`xj`) where j = {ROW}", ("xj",), covers=False),
        Kind("cover-force", f"{K} FORCE INDEX(`xjk`) where j = {ROW}", ("xjk",), covers=True),
        Kind("nocover-noforce", f"select l from {TABLE} where j = {ROW}", ("xj", "xjk"), covers=False),
    )
}
PUBLISHED = tuple(KINDS)[:-1]
UNHINTED = tuple(name for name, kind in KINDS.items() if not kind.hinted)


@dataclass(frozen=True)
class Step:
    """A kind of query that a number of clients run on the table of one engine."""

    name: str
    engine: str
    kind: Kind
    clients: int

    @property
    def group(self) -> str:
        """The heading in tables."""
        return f"{self.engine}, {self.clients} client{'' if self.clients == 1 else 's'}"

    @property
    def database(self) -> str:
        return database(self.engine)


def does(row: Mapping[str, Any], _: object = None) -> str:
    """The query of a step and the storage engine of its table."""
    return f"{KINDS[row['kind']].query}, by {row['storage_engine']}."


def database(engine: str) -> str:
    """The database of an engine's table. Each engine has its own database, since all queries name the table foo."""
    return "rqps" if engine == ALONE else f"rqps_{engine}"


def find(name: str) -> Step:
    """A step by its name.

    >>> find("innodb.pk@4").kind.query
    'select j from foo where i = 100'
    """
    match = NAME.fullmatch(name)
    if not match or match["kind"] not in KINDS:
        raise ValueError(f"unknown step {name!r}; a step is ENGINE.KIND@CLIENTS, such as 'innodb.pk@1'")
    return Step(name, match["engine"], KINDS[match["kind"]], int(match["clients"]))


def work_of(row: Mapping[str, Any]) -> str:
    """The kind of work of a step, such as `innodb by primary key`."""
    key = "primary key" if KINDS[row["kind"]].indexes == ("PRIMARY",) else "secondary index"
    return f"{row['storage_engine']} by {key}"


def possible_rows(near: int) -> list[int]:
    """The two possible table sizes around `near`: 1000 rows, doubled any number of times. Only 1000 if `near` is
    smaller."""
    size = FIRST_ROWS
    while size * 2 <= near:
        size *= 2
    return [size, size * 2] if near >= FIRST_ROWS else [size]
