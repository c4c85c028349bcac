"""The steps of sysbench, as steps.yaml describes them."""

import difflib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from typing import Any, Literal

import yaml

FLUSH = "flush"
WARM = ".warm"
USUAL_RANGE = 100
NAME = re.compile(r"(?P<kind>[a-z]+(?:-[a-z]+)*)(?P<moment>\.pre|\.warm)?(?:_range=(?P<range>[1-9]\d*))?")
MOST_IDS = 5000
"""The longest list: a statement's text and LuaJIT's stack hold it with room to spare."""


@dataclass(frozen=True)
class Step:
    """One measured thing: the statements of a transaction, and how its result is to be read."""

    name: str
    kind: str
    """The name without its range: `update-index`, `read-only.pre`."""
    group: str
    """The heading in tables."""
    label: str
    """The name as published: with its range, also where `name` leaves it out."""
    does: str
    range_size: int
    statements: tuple[str, ...]
    index: str = "PRIMARY"
    covered: bool | None = None
    prepared: bool = True
    options: dict[str, str | int | float] = field(default_factory=dict)
    seconds: Literal["read", "write"] = "read"
    whole: bool = False
    unit: str = "query"

    @property
    def queries(self) -> int:
        """Statements of a transaction, BEGIN and COMMIT among them.

        >>> find("read-only").queries, find("read-write").queries, find("write-only").queries
        (16, 20, 6)
        """
        return sum(int(repeats or 1) for repeats, _ in map(_repeated, self.statements))

    @property
    def writes(self) -> bool:
        """
        >>> find("read-only").writes, find("write-only").writes
        (False, True)
        """
        return any(not statement.startswith(("SELECT", "BEGIN", "COMMIT")) for statement in self.each_statement)

    @property
    def each_statement(self) -> tuple[str, ...]:
        """The statements without how often they are done."""
        return tuple(statement for _, statement in map(_repeated, self.statements))

    @property
    def rows_needed(self) -> int:
        """Rows that a table has to have for a transaction to find all that it is named for.

        >>> find("range-covered-pk").rows_needed, find("hot-points").rows_needed, find("write-only").rows_needed
        (101, 200, 1)
        """
        text = " ".join(self.statements)
        ids = [int(count) * (2 if hot else 1) for count, hot in re.findall(r"\{(\d+) (hot )?ids\}", text)]
        return max([1, *ids, *(int(distance) + 1 for distance in re.findall(r"\{x\+(\d+)\}", text))])

    def rows_read(self, table_rows: int) -> int:
        """Rows that a transaction asks for, roughly: what its ranges and lists name, or the whole table.

        >>> find("point-query").rows_read(500), find("read-only").rows_read(500), find("scan").rows_read(500)
        (0, 396, 500)
        """
        if self.unit == "row":
            return table_rows
        text = " ".join(self.statements)
        return sum(map(int, re.findall(r"\{(?:x\+)?(\d+)(?: (?:hot )?ids)?\}", text)))


@cache
def find(name: str) -> Step:
    """A step by its name; ValueError if there is none of that name."""
    found = NAME.fullmatch(name)
    described = _described()["steps"].get(found["kind"]) if found else None
    if not found or described is None:
        raise ValueError(f"unknown step {name!r}; {_instead(name)}")
    usual = described.get("range", USUAL_RANGE)
    size = int(found["range"] or usual)
    statements = tuple(_with_range(statement, size) for statement in described["statements"])
    if size not in _published_ranges(found["kind"]) and statements == tuple(described["statements"]):
        raise ValueError(f"step {name!r}: its range is only a label, which is {usual}; write {found['kind']!r}")
    if any(int(count) > MOST_IDS for count in re.findall(r"\{(\d+) (?:hot )?ids\}", " ".join(statements))):
        raise ValueError(f"step {name!r}: a list of ids can have {MOST_IDS} of them")
    label = f"{found['kind']}{found['moment'] or ''}_range={size}"
    rest = {key: value for key, value in described.items() if key not in ("range", "statements")}
    kind = f"{found['kind']}{found['moment'] or ''}"
    group = next(name for name, kinds in _described()["groups"].items() if found["kind"] in kinds)
    return Step(name=name, kind=kind, group=group, label=label, range_size=size, statements=statements, **rest)


def expand(names: tuple[str, ...]) -> tuple[str, ...]:
    """The names with those of its steps in place of each list.

    >>> len(expand(("published-2024",))), expand(("insert", FLUSH))
    (48, ('insert', 'flush'))
    """
    return tuple(name for given in names for name in (_list(given) if given in lists() else (given,)))


def lists() -> tuple[str, ...]:
    """The names that stand for many steps."""
    return tuple(_described()["lists"])


def listed() -> Iterator[str]:
    """Every name to offer: lists, kinds without their range, the published labels, and what comes between."""
    yield from lists()
    yield from _described()["steps"]
    yield from dict.fromkeys(_described()["order"])


def pattern() -> str:
    """The form of a step's name, whatever its range, as a regular expression of ECMA."""
    return rf"^({'|'.join(_described()['steps'])})(\.pre|\.warm)?(_range=[1-9]\d*)?$"


def is_measured(name: str) -> bool:
    """True if a number is kept of it: not of a flush nor of a warm-up.

    >>> is_measured("scan"), is_measured("scan.warm"), is_measured("flush")
    (True, False, False)
    """
    return name != FLUSH and WARM not in name


def before(names: tuple[str, ...], name: str) -> tuple[str, ...]:
    """Flushes and warm-ups between a step and the one that is measured before it.

    >>> before(("insert", "flush", "scan.warm", "scan", "flush"), "scan")
    ('flush', 'scan.warm')
    """
    found: list[str] = []
    for each in names[: names.index(name)]:
        found = [] if is_measured(each) else [*found, each]
    return tuple(found)


def in_tables(names: Iterable[str]) -> list[str]:
    """Steps in the order of tables: by group, kind and range, what came before all writes first.

    >>> in_tables(["scan", "random-points", "random-points_range=10", "random-points.pre"])
    ['random-points_range=10', 'random-points.pre', 'random-points', 'scan']
    """
    kinds = [kind for group in _described()["groups"].values() for kind in group]

    def place(step: Step) -> tuple[int, int, bool]:
        plain = step.kind.removesuffix(".pre")
        return kinds.index(plain), step.range_size, plain == step.kind

    return [step.name for step in sorted(map(find, names), key=place)]


def _list(name: str) -> tuple[str, ...]:
    without = _described()["lists"][name]
    return tuple(each for each in _described()["order"] if not any(fnmatchcase(each, form) for form in without))


def _published_ranges(kind: str) -> set[int]:
    """Ranges under which a kind stands in the order, and its usual one."""
    named = (NAME.fullmatch(name) for name in _described()["order"])
    usual = _described()["steps"][kind].get("range", USUAL_RANGE)
    return {
        usual,
        *(int(found["range"]) for found in named if found and found["kind"] == kind and found["range"]),
    }


def _with_range(statement: str, size: int) -> str:
    """A statement with R as a number.

    >>> _with_range("BETWEEN {x} AND {x+R-1}", 100), _with_range("IN ({R ids})", 10)
    ('BETWEEN {x} AND {x+99}', 'IN ({10 ids})')
    """
    in_words = {"{x+R-1}": f"{{x+{size - 1}}}", "{x+R}": f"{{x+{size}}}", "{R ": f"{{{size} "}
    for mark, number in in_words.items():
        statement = statement.replace(mark, number)
    return statement


def _repeated(statement: str) -> tuple[str | None, str]:
    found = re.fullmatch(r"(?:(\d+) x )?(.*)", statement)
    assert found
    return found[1], found[2]


def _instead(name: str) -> str:
    near = difflib.get_close_matches(name, list(listed()), n=1)
    kinds = ", ".join([*lists(), *_described()["steps"]])
    return f"did you mean {near[0]!r}?" if near else f"the steps are {kinds}"


@cache
def _described() -> dict[str, Any]:
    described: dict[str, Any] = yaml.safe_load((files(__package__) / "steps.yaml").read_text())
    return described
