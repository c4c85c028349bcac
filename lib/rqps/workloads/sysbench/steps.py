"""The steps of sysbench, as steps.yaml describes them."""

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from typing import Any, Literal

from rqps.engines import table

FLUSH = "flush"
BEFORE_WRITES, WARM = ".pre", ".warm"
USUAL_RANGE = 100
NAME = re.compile(r"(?P<kind>[a-z]+(?:-[a-z]+)*)(?P<moment>\.pre|\.warm)?(?:_range=(?P<range>[1-9]\d*))?")
MOST_IDS = 5000
"""Maximum number of ids in a list, so that it fits into a statement's text and LuaJIT's stack."""
REPEATS = re.compile(r"(?:(\d+) x )?")
"""Matches the beginning of a statement that is repeated, such as `10 x `."""

_DESCRIBED = table(__package__, "steps")


@dataclass(frozen=True)
class Step:
    """A step: the statements of a transaction, the index that they should use, and the way to measure them."""

    name: str
    kind: str
    """The name without its range: `update-index`, `read-only.pre`."""
    group: str
    label: str
    """The published name, which includes the range even if `name` does not."""
    range_size: int
    statements: tuple[str, ...]
    index: str = "PRIMARY"
    covered: bool | None = None
    prepared: bool = True
    options: dict[str, str | int | float] = field(default_factory=dict)
    seconds: Literal["read", "write"] = "read"
    whole_transactions: bool = False
    unit: str = "query"
    work: str = ""
    """The kind without `.pre` or `.warm`: the key in steps.yaml."""
    moment: str = ""
    """`.pre` for a step before the first write of its run, `.warm` for a warm-up."""

    @property
    def kind_after_writes(self) -> str | None:
        """For a step before the first write, the kind of the same step after the writes."""
        return self.work if self.moment == BEFORE_WRITES else None

    @property
    def queries(self) -> int:
        """The number of statements of a transaction, including BEGIN and COMMIT.

        >>> find("read-only").queries, find("read-write").queries, find("write-only").queries
        (16, 20, 6)
        """
        return sum(int(REPEATS.findall(statement)[0] or 1) for statement in self.statements)

    @property
    def writes(self) -> bool:
        return any(not statement.startswith(("SELECT", "BEGIN", "COMMIT")) for statement in self.each_statement)

    @property
    def each_statement(self) -> tuple[str, ...]:
        return tuple(REPEATS.sub("", statement, count=1) for statement in self.statements)

    @property
    def rows_needed(self) -> int:
        """Minimum number of rows of a table in which a transaction finds as many rows as it asks for."""
        text = " ".join(self.statements)
        ids = [int(count) * (2 if hot else 1) for count, hot in re.findall(r"\{(\d+) (hot )?ids\}", text)]
        return max([1, *ids, *(int(distance) + 1 for distance in re.findall(r"\{x\+(\d+)\}", text))])

    def rows_read(self, table_rows: int) -> int:
        """Approximate number of rows that a transaction reads: the size of its ranges and lists, or the whole table.

        >>> find("point-query").rows_read(500), find("read-only").rows_read(500), find("scan").rows_read(500)
        (0, 396, 500)
        """
        if self.unit == "row":
            return table_rows
        return sum(map(int, re.findall(r"\{(?:x\+)?(\d+)(?: (?:hot )?ids)?\}", " ".join(self.statements))))


@cache
def find(name: str) -> Step:
    match = NAME.fullmatch(name)
    if not match or match["kind"] not in _DESCRIBED["steps"]:
        near = difflib.get_close_matches(name, listed(), n=1)
        kinds = ", ".join([*lists(), *_DESCRIBED["steps"]])
        raise ValueError(
            f"unknown step {name!r}; " + (f"did you mean {near[0]!r}?" if near else f"the steps are {kinds}")
        )
    work, moment = match["kind"], match["moment"] or ""
    kind = work + moment
    described = {key: value for key, value in _DESCRIBED["steps"][work].items() if key != "does"}
    usual = described.pop("range", USUAL_RANGE)
    size, texts = int(match["range"] or usual), tuple(described.pop("statements"))
    in_numbers = {"{x+R-1}": f"{{x+{size - 1}}}", "{x+R}": f"{{x+{size}}}", "{R ": f"{{{size} "}
    statements = tuple(re.sub(r"\{x\+R(-1)?\}|\{R ", lambda mark: in_numbers[mark[0]], text) for text in texts)
    published = [NAME.fullmatch(label) for label in _DESCRIBED["order"]]
    labels = {usual, *(int(match["range"] or usual) for match in published if match and match["kind"] == work)}
    if size not in labels and statements == texts:
        raise ValueError(f"step {name!r}: its range is only a label, which is {usual}; write {work!r}")
    if any(int(count) > MOST_IDS for count in re.findall(r"\{(\d+) (?:hot )?ids\}", " ".join(statements))):
        raise ValueError(f"step {name!r}: a list of ids can have {MOST_IDS} of them")
    group = next((group for group, kinds in _DESCRIBED["groups"].items() if work in kinds), "")
    if not group:
        raise ValueError(f"step {name!r} is in none of the groups of steps.yaml; add {work!r} to one of them")
    label = f"{kind}_range={size}"
    described |= {"range_size": size, "statements": statements}
    return Step(name=name, kind=kind, work=work, moment=moment, group=group, label=label, **described)


def work_of(row: Mapping[str, Any]) -> str:
    """The kind of work of a step, such as `point queries`: its group in small letters."""
    group = find(row["kind"]).group
    return group[:1].lower() + group[1:]


def does(row: Mapping[str, Any], _: object = None) -> str:
    """A sentence on what a transaction of a step does.

    >>> does({"kind": "range-covered-si.pre", "range": 10})
    '11 neighbouring values of the secondary index, which holds all that is asked for. Before anything was written.'
    """
    step = find(row["kind"])
    size = row["range"] or step.range_size
    text = str(_DESCRIBED["steps"][step.work]["does"]).replace("R + 1", f"{size + 1:,}")
    text = re.sub(r"\bR\b", f"{size:,}", text)
    return f"{text}{' Before anything was written.' * (step.moment == BEFORE_WRITES)}"


def expand(names: tuple[str, ...]) -> tuple[str, ...]:
    """Replaces the name of each list by its steps."""

    def steps_of(name: str) -> Iterable[str]:
        if name not in lists():
            return [name]
        without = _DESCRIBED["lists"][name]
        return [step for step in _DESCRIBED["order"] if not any(fnmatchcase(step, form) for form in without)]

    return tuple(step for name in names for step in steps_of(name))


def lists() -> tuple[str, ...]:
    return tuple(_DESCRIBED["lists"])


def listed() -> list[str]:
    """All names that an error message can suggest: names of lists of steps, names of steps without their range, and
    published labels."""
    return [*lists(), *_DESCRIBED["steps"], *dict.fromkeys(_DESCRIBED["order"])]


def pattern() -> str:
    """A regular expression, in the syntax of JSON Schema (ECMA 262), that matches the names of steps: a kind, an
    optional `.pre` or `.warm`, and an optional `_range=R` with any whole number R from 1 on."""
    return rf"^({'|'.join(_DESCRIBED['steps'])})(\.pre|\.warm)?(_range=[1-9]\d*)?$"


def is_measured(name: str) -> bool:
    """True if the step is measured; False for a flush or a warm-up.

    >>> is_measured("scan"), is_measured("scan.warm"), is_measured("flush")
    (True, False, False)
    """
    return name != FLUSH and find(name).moment != WARM


def before(names: tuple[str, ...], name: str) -> tuple[str, ...]:
    """The flushes and warm-ups between a step and the measured step before it."""
    preceding: list[str] = []
    for earlier in names[: names.index(name)]:
        preceding = [] if is_measured(earlier) else [*preceding, earlier]
    return tuple(preceding)


def in_tables(names: Iterable[str]) -> list[str]:
    """Sorts steps as tables show them: by group, kind and range; a `.pre` step comes before the step of the same
    kind."""
    kinds = [kind for group in _DESCRIBED["groups"].values() for kind in group]

    def place(step: Step) -> tuple[int, int, bool]:
        return kinds.index(step.work), step.range_size, step.moment != BEFORE_WRITES

    return [step.name for step in sorted(map(find, names), key=place)]
