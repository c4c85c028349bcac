"""Callgrind's files, read as profiles and turned into rows of the table `instructions`.

A profile has instructions and calls by function, or by function and all its callers. Valgrind's manual describes the
format. A name is spelt out once and then called by its number; positions in the source are relative to the line
before, and are not needed here. With `--separate-callers` and `--compress-mangled` a function stands in the file once
for every chain of callers, as `fn=(9) (3)'(2)'(1)`: number 9 is function 3 when called by 2, which was called by 1.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Literal

import polars as pl

from rqps.errors import RqpsError
from rqps.store.schemas import INSTRUCTIONS

EVENT = "Ir"
"""Callgrind's word for instructions."""

UNKNOWN = "???"
"""Callgrind's word for something without a name."""

COUNTED = "dispatch_command"
"""The server's function that serves a client's command, in every release: we count it and all that it calls."""
ROLE = "connection"
"""Only threads that serve a client call it."""
STUB_INSTRUCTIONS = 3
"""Instructions of one call through a stub, at most."""

_ADDRESS = re.compile(r"0x[0-9a-f]+")
_NUMBERED = re.compile(r"\((\d+)\)(?: (.*))?")
_CHAIN = re.compile(r"\(\d+\)(?:'\d+)?(?:'\(\d+\))*")
_SUBPOSITION = re.compile(r"\*|[+-]?\d+|0x[0-9a-f]+")
_TABLE = {
    **dict.fromkeys(("ob", "cob"), "objects"),
    **dict.fromkeys(("fl", "fi", "fe", "cfl", "cfi", "jfi"), "files"),
    **dict.fromkeys(("fn", "cfn", "jfn"), "functions"),
}


@dataclass(frozen=True)
class Function:
    """A function by its name, and the file that it was loaded from."""

    name: str
    module: str


@dataclass
class Cost:
    """A function's own instructions and its calls."""

    instructions: int = 0
    calls: int = 0

    def add(self, other: "Cost") -> None:
        self.instructions += other.instructions
        self.calls += other.calls


@dataclass
class Profile:
    """Costs by chain: the function first, the outermost caller last."""

    costs: dict[tuple[Function, ...], Cost] = field(default_factory=dict)
    total: int = 0


def read_profile(lines: Iterable[str], name: str) -> Profile:
    """Everything in one of callgrind's files; a file that is cut off, or does not add up, is an error."""
    return _Reader(name).read(lines)


class _Reader:
    """A file's names and costs so far, by their keys: a number in brackets, or the name itself."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._number = 0
        self._tables: dict[str, dict[str, str]] = {"objects": {}, "files": {}, "functions": {}}
        self._costs: dict[str, Cost] = {}
        self._objects: dict[str, str] = {}
        self._current = {"ob": UNKNOWN, "fn": "", "cfn": ""}
        self._next_is: Literal["inclusive cost", "jump", ""] = ""
        self._positions = 1
        self._event: int | None = None
        self._part = 0
        self._total = 0
        self._whole = False

    def read(self, lines: Iterable[str]) -> Profile:
        for self._number, text in enumerate(lines, start=1):
            line = text.rstrip("\n")
            if self._next_is:  # a jump's place has no cost, and the called function's own lines have a call's cost
                if self._next_is == "inclusive cost":
                    self._instructions(line)
                self._next_is = ""
            elif line and line[0] in "0123456789+-*":
                self._add_cost(line)
            elif line and line[0] != "#":
                self._specification(line)
        if self._next_is == "inclusive cost":
            raise self._wrong("ends in the middle of a call: it was cut off")
        if not self._whole:
            raise self._wrong("ends without its totals: it was cut off")
        return self._profile()

    def _specification(self, line: str) -> None:
        word, found, text = line.partition("=")
        if found and word in _TABLE:
            self._current[word] = self._key(self._tables[_TABLE[word]], text)
        elif found and word == "calls":
            count = text.partition(" ")[0]
            if not self._current["cfn"] or not count.isdigit():
                raise self._wrong(f"calls={text} is no call of a function")
            self._costs.setdefault(self._current["cfn"], Cost()).calls += int(count)
            self._next_is = "inclusive cost"
        elif found and word in ("jump", "jcnd"):
            self._next_is = "jump"
        else:
            self._header(line)

    def _key(self, names: dict[str, str], text: str) -> str:
        """The key of a name: its number, if it has one, which stands for the name from now on."""
        found = _NUMBERED.fullmatch(text)
        if found is None:
            names[text] = text
            return text
        key, spelt = f"({found[1]})", found[2]
        if spelt is not None:
            names[key] = spelt
        elif key not in names:
            raise self._wrong(f"{key} stands for no name so far")
        return key

    def _add_cost(self, line: str) -> None:
        function = self._current["fn"]
        if not function or self._event is None:
            raise self._wrong("a cost comes before its function, or before the events are named")
        instructions = self._instructions(line)
        self._costs.setdefault(function, Cost()).instructions += instructions
        self._objects.setdefault(function, self._current["ob"])
        self._part += instructions

    def _instructions(self, line: str) -> int:
        words = line.split()
        places, costs = words[: self._positions], words[self._positions :]
        if len(places) < self._positions or not all(map(_SUBPOSITION.fullmatch, places)):
            raise self._wrong(f"{line!r} is no line with {self._positions} positions and costs")
        if self._event is None or self._event >= len(costs):
            return 0  # costs of zero at the end may be left out
        if not costs[self._event].isdigit():
            raise self._wrong(f"{costs[self._event]!r} is no number of instructions")
        return int(costs[self._event])

    def _header(self, line: str) -> None:
        word, found, text = line.partition(":")
        if not found or not word.isalpha():
            raise self._wrong(f"{line[:80]!r} is not in callgrind's format")
        words = text.split()
        if word == "positions":
            self._positions = len(words)
        elif word == "events":
            if EVENT not in words:
                raise self._wrong(f"it counts {', '.join(words) or 'nothing'}, not {EVENT}")
            self._event = words.index(EVENT)
            self._whole = False
        elif word == "totals":
            self._end_part(words)

    def _end_part(self, totals: list[str]) -> None:
        """Compares the sum of a part's lines with the total that callgrind counted."""
        assert self._event is not None
        total = int(totals[self._event]) if self._event < len(totals) else 0
        if total != self._part:
            raise self._wrong(f"its lines have {self._part:,} instructions, its totals {total:,}")
        self._total += total
        self._part = 0
        self._whole = True

    def _profile(self) -> Profile:
        chains = {key: self._chain(key) for key in self._costs}
        objects, names = self._tables["objects"], self._tables["functions"]
        modules = {chains[key][0]: objects.get(each, each) for key, each in self._objects.items()}
        profile = Profile(total=self._total)
        for key, cost in self._costs.items():
            chain = tuple(Function(names[each], modules.get(each, UNKNOWN)) for each in chains[key])
            profile.costs.setdefault(chain, Cost()).add(cost)
        return profile

    def _chain(self, key: str) -> list[str]:
        """The keys of a function and its callers; its own key alone where the file has no chains."""
        names = self._tables["functions"]
        if not _CHAIN.fullmatch(names[key]):
            return [key]
        chain = re.findall(r"\(\d+\)", names[key])
        for each in chain:
            if each not in names:
                raise self._wrong(f"{each} stands for no name, though {key} is called by it")
        return chain

    def _wrong(self, problem: str) -> RqpsError:
        return RqpsError(
            f"{self._name}, line {self._number}: {problem}",
            fix="count again; if it happens again, see what Valgrind itself said in valgrind.log",
        )


def instruction_rows(profile: Profile, step: str) -> pl.DataFrame:
    """One row per stack with the instructions of its last frame; they add up to the profile's total."""
    stacks: dict[tuple[tuple[str, str], ...], Cost] = {}
    for chain, cost in without_stubs(profile).costs.items():
        stack = tuple((_name(function), _module(function)) for function in from_counted(chain))
        stacks.setdefault(stack, Cost()).add(cost)
    rows = [
        {
            "step": step,
            "role": ROLE,
            "frames": [name for name, _ in stack],
            "modules": [module for _, module in stack],
            "calls": cost.calls or None,  # callgrind began in the middle of it, and did not see the call
            "instructions": cost.instructions,
        }
        for stack, cost in stacks.items()
        if cost.instructions
    ]
    return pl.DataFrame(rows, schema=INSTRUCTIONS).sort("instructions", "frames", descending=[True, False])


def without_stubs(profile: Profile) -> Profile:
    """The profile without the linker's stubs, through which a function of another file is called.

    They have no symbol, and callgrind does not recognise them in newer binaries. A function called through a stub is
    called by the stub's caller, which also gets the few instructions of the jump.
    """
    known: dict[Function, Cost] = {}
    for chain, cost in profile.costs.items():
        if _is_nameless(chain[0]):
            known.setdefault(chain[0], Cost()).add(cost)
    stubs = {each for each, cost in known.items() if cost.instructions <= STUB_INSTRUCTIONS * cost.calls}
    costs: dict[tuple[Function, ...], Cost] = {}
    for chain, cost in profile.costs.items():
        rest = tuple(each for each in chain if each not in stubs)
        into = costs.setdefault(rest or chain, Cost())
        into.instructions += cost.instructions
        into.calls += 0 if chain[0] in stubs else cost.calls
    return Profile(costs, profile.total)


def from_counted(chain: tuple[Function, ...]) -> tuple[Function, ...]:
    """A stack from the counted function on, root first; the whole stack where that function is not in it.

    Callers above it depend on how the thread came to its connection, and nothing there is counted.
    """
    outermost = max((place for place, each in enumerate(chain) if is_counted(each.name)), default=len(chain) - 1)
    return tuple(reversed(chain[: outermost + 1]))


def is_counted(name: str) -> bool:
    """True for the function that switches counting on, in any release's signature.

    >>> is_counted("dispatch_command(THD*, COM_DATA const*, enum_server_command)"), is_counted("do_command(THD*)")
    (True, False)
    """
    return name.partition("(")[0] == COUNTED and name.endswith(")")


def incomplete(rows: pl.DataFrame) -> float:
    """Share of instructions whose stacks do not begin with the counted function."""
    begins = rows["frames"].list.first().map_elements(is_counted, return_dtype=pl.Boolean)
    total, others = (int(part["instructions"].sum()) for part in (rows, rows.filter(~begins)))
    return others / total if total else 0.0


def _is_nameless(function: Function) -> bool:
    """Without a symbol callgrind writes the address instead, which differs between builds and says nothing."""
    return function.name == UNKNOWN or bool(_ADDRESS.fullmatch(function.name))


def _name(function: Function) -> str:
    return "[unknown]" if _is_nameless(function) else function.name


def _module(function: Function) -> str:
    return "[unknown]" if function.module == UNKNOWN else PurePath(function.module).name
