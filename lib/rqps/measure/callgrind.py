"""Runs a server under callgrind, counts the instructions of its operations, and makes rows of `instructions`.

Valgrind's manual describes callgrind's files. A name is spelled out once and then referred to by its number. A
function appears once for every chain of callers, as `fn=(9) (3)'(2)'(1)`: number 9 is function 3 called by
function 2, which was called by function 1. Line numbers in the source are not used here.
"""

import re
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path, PurePath
from typing import NamedTuple, TypeAlias

import polars as pl

from rqps.engines import Counted
from rqps.engines.sources.programs import Tool
from rqps.errors import RqpsError
from rqps.measure.machine import describe_machine
from rqps.store.schemas import CACHE_MISSES, INSTRUCTIONS

EVENT, UNKNOWN = "Ir", "???"
"""Callgrind's names for instructions and for a function without a symbol."""
UNREADABLE = "debuginfo reader"
"""Words in Valgrind's message about debug information that it can't read."""
STUB_INSTRUCTIONS = 3
"""Maximum number of instructions that a linker's stub (PLT entry) executes per call."""
_ADDRESS = re.compile(r"0x[0-9a-f]+")
_COST = re.compile(r"(?:\*|[+-]?\d+)((?: \d+)*)")
_CHAIN = re.compile(r"\(\d+\)(?:'\d+)?(?:'\(\d+\))*")
ORDER_PATIENCE_S = 120
"""Maximum number of seconds for callgrind to carry out an order from vgdb. Callgrind does so at the server's next
instruction, or within a second if all threads sleep."""
FIFO_PATIENCE_S = 10
"""Maximum number of seconds that vgdb waits for a server to open its pipes."""
DEEPEST = 250
"""Maximum number of callers in a stack. Stacks of servers have about fifty frames; stacks with more callers than this
lose their root, and a step with many such stacks gets a warning."""
OPTIONS = (
    "--tool=callgrind",
    f"--separate-callers={DEEPEST}",
    "--compress-mangled=yes",  # otherwise each stack would be spelled out, in hundreds of megabytes
)
SIMULATED = ("--cache-sim=yes",)
"""Options to simulate caches. The first-level caches get the sizes that valgrind detects on this CPU."""
OF_A_FUNCTION = ("--collect-atstart=no", "--instr-atstart=no", "--trace-children=no")
"""Options for counting one function of the server (see `engines.Counted`). Counting is off at first, so that the
server starts faster."""
OF_PROCESSES = ("--collect-atstart=yes", "--instr-atstart=yes", "--trace-children=yes")
_POSITIONS = "line"
"""The value of the header `positions` with our options: each cost line begins with a line number."""
_MISSES = {"i1_misses": ("I1mr",), "d1_misses": ("D1mr", "D1mw"), "ll_misses": ("ILmr", "DLmr", "DLmw")}
"""Maps each column of cache misses to the events that callgrind counts for that level, of reads and writes."""
CROWDED_KB = 4096
"""Size, in KB, of the last-level cache that is simulated in odd rounds: a server can use about this much if other
programs use the rest."""


@dataclass(frozen=True)
class Callgrind:
    """The command line that starts a server under callgrind, and the orders to callgrind while the server runs."""

    valgrind: Tool
    folder: Path
    """A folder of this server alone, with callgrind's files and the pipes through which callgrind takes orders."""
    log: Path
    counted: Counted
    last_level_kb: int | None = None
    """The size of the simulated last-level cache; None if caches are not simulated."""
    start_patience_s: int = 900
    """Maximum number of seconds for the server to start. Under callgrind, code runs fifty times slower while it is
    counted, and ten times slower while it is not."""

    @property
    def command(self) -> tuple[str, ...]:
        self.folder.mkdir(parents=True, exist_ok=True)
        out, counted = self.folder / "callgrind.out", self.counted
        collected = (*OF_A_FUNCTION, f"--toggle-collect={counted.function}", f"--callgrind-out-file={out}")
        if counted.marker:
            collected = (*OF_PROCESSES, f"--dump-before={counted.marker}", f"--callgrind-out-file={out}.%p")
        caches = (*SIMULATED, f"--LL={self.last_level_kb << 10},16,64") if self.last_level_kb else ()
        return (*self.valgrind.argv, *OPTIONS, *caches, *collected, self._pipes, f"--log-file={self.log}")

    @property
    def _pipes(self) -> str:
        return f"--vgdb-prefix={self.folder / 'vgdb'}"

    def explained(self, error: RqpsError) -> RqpsError:
        """Adds Valgrind's messages to the error of a server that did not start."""
        messages = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        fix = (
            "see if the server starts without callgrind (a round of throughput): if so, valgrind can't run it, and "
            "its dbms belongs in not_counted of the study"
        )
        if any(UNREADABLE in message for message in messages):
            fix = "compile the server with -gdwarf-4, as rqps builds make does: valgrind can't read its debug data"
        tail = "\n".join(messages[-15:])
        return RqpsError(f"{error.message}\nthe server was started under callgrind, which said:\n{tail}", fix=fix)

    def begin(self, pid: int) -> None:
        """Starts counting. Does nothing for an engine with a marker: a function of the server that the
        load generator calls right before and after the counted part. No client may have a command under way, since
        only the rest of that command would be counted."""
        if not self.counted.marker:
            self._order(pid, "instrumentation", "on")

    def end(self, pid: int) -> "Costs":
        """Stops counting and returns the counts since `begin`. For an engine with a marker, these are the counts
        between the marker's two calls."""
        if self.counted.marker:
            return self._between_markers()
        self._order(pid, "dump")
        dumps = list(self.folder.glob("callgrind.out.*"))
        if len(dumps) != 1:
            problem = f"callgrind wrote {len(dumps)} files when asked for what it counted, not one"
            raise RqpsError(problem, fix=f"see {self.log.name}")
        self._order(pid, "instrumentation", "off")
        (dump,) = dumps
        return _taken(dump)

    def _between_markers(self) -> "Costs":
        """The counts of all processes between the two calls of the marker. At each call, callgrind writes a file; the
        second file of a process has the counts between the two calls."""
        costs: dict[Chain, Cost] = defaultdict(Cost)
        for dump in self.folder.glob("callgrind.out.*.2"):
            for chain, cost in _taken(dump).items():
                costs[chain].add(cost.instructions, cost.calls, cost.misses)
        return costs

    def _order(self, pid: int, *words: str) -> None:
        vgdb = Path(self.valgrind.argv[0]).with_name("vgdb")
        command = [str(vgdb), f"--pid={pid}", f"--wait={FIFO_PATIENCE_S}", self._pipes, *words]
        try:
            subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, check=True, timeout=ORDER_PATIENCE_S
            )
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            message = ((error.stderr or b"") + (error.stdout or b"")).decode(errors="replace").strip()
            raise RqpsError(
                f"callgrind did not take the order {' '.join(words)!r}: {message[-400:] or error}",
                fix=f"see {self.log.name}, and that the server still runs",
            ) from error


def last_level_kb(round_number: int) -> int:
    """The size of the last-level cache that a counted round simulates: CROWDED_KB in odd rounds; in even rounds the
    size of this CPU's cache, rounded down to a power of two, as valgrind requires."""
    own_kb = int(str(describe_machine(Path("/")).get("cache_kb") or CROWDED_KB))
    return CROWDED_KB if round_number % 2 else 1 << own_kb.bit_length() - 1


def _taken(dump: Path) -> "Costs":
    """Reads the costs in one of callgrind's files, then removes the file."""
    with dump.open(encoding="utf-8", errors="replace") as lines:
        costs = read_costs(lines, dump.name)
    dump.unlink()
    return costs


class Function(NamedTuple):
    name: str
    module: str
    """The file from which the function was loaded."""

    @property
    def nameless(self) -> bool:
        """True for a function without a symbol: callgrind writes its address, which differs between builds."""
        return self.name == UNKNOWN or bool(_ADDRESS.fullmatch(self.name))


@dataclass
class Cost:
    """A function's own instructions, how often it was called, and, if caches are simulated, its misses by level."""

    instructions: int = 0
    calls: int = 0
    misses: list[int] = field(default_factory=lambda: [0] * len(_MISSES))

    def add(self, instructions: int, calls: int, misses: Iterable[int] = ()) -> None:
        self.instructions += instructions
        self.calls += calls
        for level, count in enumerate(misses):
            self.misses[level] += count


Chain: TypeAlias = tuple[Function, ...]
"""A function and its callers: the function first, the outermost caller last."""
Costs: TypeAlias = Mapping[Chain, Cost]


def read_costs(lines: Iterable[str], name: str) -> Costs:
    """Reads one of callgrind's files. Fails if the file is truncated, or if its lines do not sum to its total."""
    reader = _Reader()
    try:
        for line in lines:
            reader.read(line.rstrip("\n"))
        if reader.whole:
            return reader.costs()
        problem = "the file stops before its totals: it was cut off"
    except (KeyError, ValueError) as error:
        problem = f"{reader.line[:80]!r} is not what callgrind writes with our options ({error})"
    raise RqpsError(
        f"{name}, line {reader.number}: {problem}",
        fix="repeat the run; if it fails again, see Valgrind's messages in valgrind.log",
    )


class _Reader:
    """Reads one of callgrind's files: maps the numbers of functions to their names and costs. An unexpected line
    raises KeyError or ValueError."""

    def __init__(self) -> None:
        self.number, self.line = 0, ""
        self.whole = False
        self._objects: dict[str, str] = {}
        self._functions: dict[str, str] = {}
        self._modules: dict[str, str] = {}
        self._costs: dict[str, Cost] = defaultdict(Cost)
        self._object = self._function = self._called = ""
        self._in_call = False
        self._levels: list[list[int]] = []
        """The positions of each cache level's events in a cost line."""

    def read(self, line: str) -> None:
        self.number, self.line = self.number + 1, line
        if self._in_call:  # the cost of a call is skipped: the called function's own lines contain it
            self._in_call = False
        elif cost := _COST.fullmatch(line):
            self._modules.setdefault(self._function, self._objects[self._object])
            counts = list(map(int, cost[1].split()))  # callgrind omits zeros at the end
            misses = [sum(counts[at] for at in places if at < len(counts)) for places in self._levels]
            self._costs[self._function].add(counts[0] if counts else 0, 0, misses)
        elif line and not line.startswith("#"):
            word, text = re.split("[=:] *", line, maxsplit=1)
            self._specification(word, text)

    def _specification(self, word: str, text: str) -> None:
        match word:
            case "ob":
                self._object = _key(self._objects, text)
            case "cob":
                _key(self._objects, text)
            case "fn":
                self._function = _key(self._functions, text)
            case "cfn":
                self._called = _key(self._functions, text)
            case "calls":
                self._costs[self._called].add(0, int(text.partition(" ")[0]))
                self._in_call = True
            case "totals":
                total = sum(cost.instructions for cost in self._costs.values())
                if int(text.partition(" ")[0]) != total:
                    raise ValueError(f"its lines have {total:,} instructions")
                self.whole = True
            case "positions" if text != _POSITIONS:
                raise ValueError(f"not {_POSITIONS}")
            case "events" if text != EVENT:
                events = text.split()
                if events[:1] != [EVENT]:
                    raise ValueError(f"not {EVENT}")
                self._levels = [[events.index(name) for name in names] for names in _MISSES.values()]

    def costs(self) -> Costs:
        """Maps each call chain to its costs. The module of a function is the file that contains the function's own
        instructions."""
        chains = {key: self._chain(key) for key in self._costs}
        modules = {chains[key][0]: module for key, module in self._modules.items()}
        costs: dict[Chain, Cost] = defaultdict(Cost)
        for key, cost in self._costs.items():
            chain = tuple(Function(self._functions[number], modules.get(number, UNKNOWN)) for number in chains[key])
            costs[chain].add(cost.instructions, cost.calls, cost.misses)
        return costs

    def _chain(self, key: str) -> list[str]:
        """The keys of a function and its callers; only the function's own key if its name is not a chain."""
        name = self._functions[key]
        return re.findall(r"\(\d+\)", name) if _CHAIN.fullmatch(name) else [key]


def _key(names: dict[str, str], text: str) -> str:
    """The number by which `text` refers to a name. `text` may also spell the name out, as in "(3) name"."""
    key, spelt_out, name = text.partition(" ")
    if spelt_out:
        names[key] = name
    names[key]
    return key


def instruction_rows(costs: Costs, step: str, counted: Counted) -> pl.DataFrame:
    """One row per stack with the instructions of its last frame. The rows add up to the total."""
    rows = [
        # 0 calls become None: callgrind started in the middle of a call and did not see the call's beginning.
        {**stack, "calls": cost.calls or None, "instructions": cost.instructions}
        for stack, cost in _by_stack(costs, step, counted)
        if cost.instructions
    ]
    return pl.DataFrame(rows, schema=INSTRUCTIONS).sort("instructions", "frames", descending=[True, False])


def cache_miss_rows(costs: Costs, step: str, counted: Counted, last_level_kb: int) -> pl.DataFrame:
    """One row per stack whose last frame missed a cache, with the size of the simulated last-level cache."""
    rows = [
        {**stack, "last_level_kb": last_level_kb, **dict(zip(_MISSES, cost.misses, strict=True))}
        for stack, cost in _by_stack(costs, step, counted)
        if any(cost.misses)
    ]
    return pl.DataFrame(rows, schema=CACHE_MISSES).sort("d1_misses", "frames", descending=[True, False])


def _by_stack(costs: Costs, step: str, counted: Counted) -> list[tuple[dict[str, object], Cost]]:
    """Adds up the costs of equal stacks; returns, for each stack, the columns that describe it, and its costs."""
    stubs = linker_stubs(costs)
    stacks: dict[tuple[tuple[str, str], ...], Cost] = defaultdict(Cost)
    for chain, cost in costs.items():
        others = tuple(function for function in chain if function not in stubs)
        stack = tuple(_in_words(function) for function in from_counted(others or chain, counted))
        stacks[stack].add(cost.instructions, 0 if chain[0] in stubs else cost.calls, cost.misses)
    whose: dict[str, object] = {"step": step, "role": counted.role}
    return [
        (whose | {"frames": [name for name, _ in stack], "modules": [module for _, module in stack]}, cost)
        for stack, cost in stacks.items()
    ]


def _in_words(function: Function) -> tuple[str, str]:
    module = "[unknown]" if function.module == UNKNOWN else PurePath(function.module).name
    return "[unknown]" if function.nameless else function.name, module


def linker_stubs(costs: Costs) -> set[Function]:
    """The linker's stubs (PLT entries), through which a function of another file, such as a library, is called.

    They have no symbol, and callgrind does not recognise them in newer binaries. A function called through a stub is
    shown as called by the stub's caller, which also gets the few instructions of the jump.
    """
    nameless: dict[Function, Cost] = defaultdict(Cost)
    for chain, cost in costs.items():
        if chain[0].nameless:
            nameless[chain[0]].add(cost.instructions, cost.calls)
    return {function for function, cost in nameless.items() if cost.instructions <= STUB_INSTRUCTIONS * cost.calls}


def from_counted(chain: Chain, counted: Counted) -> Chain:
    """The frames of a stack from the counted function on, root first; all frames if the stack does not contain
    that function. The counted function is the one in which the engine serves an operation. Its callers are left out:
    they depend on how the thread got its connection, and nothing is counted in them.
    """
    ours = (place for place, function in enumerate(chain) if fnmatchcase(function.name, counted.function))
    outermost = max(ours, default=len(chain) - 1)
    return tuple(reversed(chain[: outermost + 1]))


def incomplete(rows: pl.DataFrame, counted: Counted) -> float:
    """The share of instructions whose stacks do not begin with the counted function: their outer frames are lost."""
    begins = pl.Series((fnmatchcase(stack[0], counted.function) for stack in rows["frames"]), dtype=pl.Boolean)
    total, others = (int(part["instructions"].sum()) for part in (rows, rows.filter(~begins)))
    return others / total if total else 0.0
