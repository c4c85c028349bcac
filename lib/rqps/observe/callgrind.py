"""A server under callgrind: only its statements are counted, and the counts become rows of the table `instructions`.

Valgrind's manual describes callgrind's files. A name is spelt out once and then called by its number. A function
stands in the file once for every chain of callers, as `fn=(9) (3)'(2)'(1)`: number 9 is function 3 when called by 2,
which was called by 1. Positions in the source are not needed here.
"""

import re
import subprocess
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Literal, NamedTuple

import polars as pl

from rqps.engines.sources.programs import Tool
from rqps.errors import RqpsError
from rqps.store.schemas import INSTRUCTIONS

EVENT, UNKNOWN = "Ir", "???"
"""Callgrind's words for instructions, and for something without a name."""
COUNTED = "dispatch_command"
"""The server's function that serves a client's command, in every release: we count it and all that it calls."""
ROLE = "connection"
"""Only threads that serve a client call it."""
STUB_INSTRUCTIONS = 3  # of one call, at most
_ADDRESS = re.compile(r"0x[0-9a-f]+")
_NUMBERED = re.compile(r"\((\d+)\)(?: (.*))?")
_CHAIN = re.compile(r"\(\d+\)(?:'\d+)?(?:'\(\d+\))*")
_SUBPOSITION = re.compile(r"\*|[+-]?\d+|0x[0-9a-f]+")
ORDER_PATIENCE_S = 120
"""An order waits for the server's next instruction, which is at most a second away even where all threads sleep."""
DEEPEST = 250
"""Callers that make a function a stack of its own. Stacks of servers have fifty frames; a longer one is a warning."""
OPTIONS = (
    "--tool=callgrind",
    f"--toggle-collect={COUNTED}(*)",  # not the parts that a compiler split off: they would switch it off again
    "--collect-atstart=no",
    "--instr-atstart=no",  # nothing is counted while it starts and reads its tables
    f"--separate-callers={DEEPEST}",
    "--compress-mangled=yes",  # else each stack is spelt out, in hundreds of megabytes
    "--trace-children=no",
)

_TABLE = {"ob": "objects", "cob": "objects", "fn": "functions", "cfn": "functions", "jfn": "functions"}
_FILES = ("fl", "fi", "fe", "cfl", "cfi", "jfi")
"""Files of the source are not needed."""


@dataclass(frozen=True)
class Callgrind:
    """The command that a server runs under, and orders for it while it runs."""

    valgrind: Tool
    folder: Path
    """Private to this server: callgrind's files, and the pipes through which it takes orders."""
    log: Path
    start_patience_s: int = 900
    """Code runs fifty times slower when it is counted, and ten times when it is not."""

    @property
    def command(self) -> tuple[str, ...]:
        self.folder.mkdir(parents=True, exist_ok=True)
        files = (f"--callgrind-out-file={self.folder / 'callgrind.out'}", self._pipes, f"--log-file={self.log}")
        return (*self.valgrind.argv, *OPTIONS, *files)

    @property
    def _pipes(self) -> str:
        return f"--vgdb-prefix={self.folder / 'vgdb'}"

    def explained(self, error: RqpsError) -> RqpsError:
        """The error of a server that did not start, with Valgrind's own messages."""
        said = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return RqpsError(
            f"{error.message}\nit was started under callgrind, which said:\n" + "\n".join(said[-15:]),
            fix="see if it starts without (a round of throughput); if it does, this valgrind can't run this server",
        )

    def begin(self, pid: int) -> None:
        """Counts from now on. No client may have a command under way, since only its last part would be counted."""
        self._order(pid, "instrumentation", "on")

    def end(self, pid: int) -> "Profile":
        """The counts since `begin`; nothing is counted after it until the next `begin`."""
        before = set(self.folder.glob("callgrind.out.*"))
        self._order(pid, "dump")
        new = set(self.folder.glob("callgrind.out.*")) - before
        if len(new) != 1:
            problem = f"callgrind wrote {len(new)} files when asked for what it counted, not one"
            raise RqpsError(problem, fix=f"see {self.log.name}")
        self._order(pid, "instrumentation", "off")
        dump = new.pop()
        with dump.open(encoding="utf-8", errors="replace") as lines:
            profile = read_profile(lines, dump.name)
        dump.unlink()
        return profile

    def _order(self, pid: int, *words: str) -> None:
        vgdb = Path(self.valgrind.argv[0]).with_name("vgdb")
        command = [str(vgdb), f"--pid={pid}", self._pipes, *words]
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=ORDER_PATIENCE_S
            )
            problem = (done.stderr + done.stdout).strip()[-400:] if done.returncode != 0 else None
        except subprocess.TimeoutExpired:
            problem = f"no answer within {ORDER_PATIENCE_S} s"
        if problem is not None:
            raise RqpsError(
                f"callgrind did not take the order {' '.join(words)!r}: {problem}",
                fix=f"see {self.log.name}, and that the server still runs",
            )


class Function(NamedTuple):
    name: str
    module: str
    """The file that it was loaded from."""

    @property
    def nameless(self) -> bool:
        """Without a symbol callgrind writes the address instead, which differs between builds and says nothing."""
        return self.name == UNKNOWN or bool(_ADDRESS.fullmatch(self.name))


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

    costs: dict[tuple[Function, ...], Cost] = field(default_factory=lambda: defaultdict(Cost))
    total: int = 0


def read_profile(lines: Iterable[str], name: str) -> Profile:
    """Everything in one of callgrind's files; a file that is cut off, or does not add up, is an error."""
    return _Reader(name).read(lines)


class _Reader:
    """A file's names and costs so far, by their keys: a number in brackets, or the name itself."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._number = 0
        self._tables: dict[str, dict[str, str]] = {"objects": {}, "functions": {}}
        self._costs: dict[str, Cost] = defaultdict(Cost)
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
            raise self._wrong("stops in the middle of a call: it was cut off")
        if not self._whole:
            raise self._wrong("stops before its totals: it was cut off")
        chains = {key: self._chain(key) for key in self._costs}
        objects, names = self._tables["objects"], self._tables["functions"]
        modules = {chains[key][0]: objects.get(each, each) for key, each in self._objects.items()}
        profile = Profile(total=self._total)
        for key, cost in self._costs.items():
            chain = tuple(Function(names[each], modules.get(each, UNKNOWN)) for each in chains[key])
            profile.costs[chain].add(cost)
        return profile

    def _specification(self, line: str) -> None:
        word, found, text = line.partition("=")
        if found and word in _TABLE:
            self._current[word] = self._key(self._tables[_TABLE[word]], text)
        elif found and word == "calls":
            count = text.partition(" ")[0]
            if not self._current["cfn"] or not count.isdigit():
                raise self._wrong(f"calls={text} is no call of a function")
            self._costs[self._current["cfn"]].calls += int(count)
            self._next_is = "inclusive cost"
        elif found and word in ("jump", "jcnd"):
            self._next_is = "jump"
        elif not found or word not in _FILES:
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
        self._costs[function].instructions += instructions
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
            assert self._event is not None
            total = int(words[self._event]) if self._event < len(words) else 0
            if total != self._part:
                raise self._wrong(f"its lines have {self._part:,} instructions, its totals {total:,}")
            self._total += total
            self._part = 0
            self._whole = True

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
    stacks: dict[tuple[tuple[str, str], ...], Cost] = defaultdict(Cost)
    for chain, cost in without_stubs(profile).costs.items():
        shown = (("[unknown]" if each.nameless else each.name, each.module) for each in from_counted(chain))
        stack = ((name, "[unknown]" if module == UNKNOWN else PurePath(module).name) for name, module in shown)
        stacks[tuple(stack)].add(cost)
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
    known: dict[Function, Cost] = defaultdict(Cost)
    for chain, cost in profile.costs.items():
        if chain[0].nameless:
            known[chain[0]].add(cost)
    stubs = {each for each, cost in known.items() if cost.instructions <= STUB_INSTRUCTIONS * cost.calls}
    without = Profile(total=profile.total)
    for chain, cost in profile.costs.items():
        rest = tuple(each for each in chain if each not in stubs)
        without.costs[rest or chain].add(Cost(cost.instructions, 0 if chain[0] in stubs else cost.calls))
    return without


def from_counted(chain: tuple[Function, ...]) -> tuple[Function, ...]:
    """A stack from the counted function on, root first; the whole stack where that function is not in it.

    Callers above it depend on how the thread came to its connection, and nothing there is counted.
    """
    outermost = max((place for place, each in enumerate(chain) if is_counted(each.name)), default=len(chain) - 1)
    return tuple(reversed(chain[: outermost + 1]))


def is_counted(name: str) -> bool:
    """True for the function that switches counting on, in any release's signature."""
    return name.partition("(")[0] == COUNTED and name.endswith(")")


def incomplete(rows: pl.DataFrame) -> float:
    """Share of instructions whose stacks do not begin with the counted function."""
    begins = rows["frames"].list.first().map_elements(is_counted, return_dtype=pl.Boolean)
    total, others = (int(part["instructions"].sum()) for part in (rows, rows.filter(~begins)))
    return others / total if total else 0.0
