"""Folds the text of `perf script` into stacks: each distinct stack once, with its samples and their weight.

A sample is a header line, a line for the function in which it was taken (the leaf) and a line for each caller, up to
a blank line. The leaf's address is new in nearly every sample, whereas callers' addresses repeat. So callers are
looked up by the hash of their lines and the leaf by its name, and only new text is parsed.
"""

import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from rqps.measure.inlined import Inlined
from rqps.store.schemas import CALLERS, INLINED

UNKNOWN = "[unknown]"
KERNEL = "[kernel]"
DATA = "[data]"
"""The module of a frame whose address is in memory without a program file, such as the heap. Broken stacks have such
frames."""
ADDRESS_COLUMNS = 18
"""The width of an address in a line: a tab, the address right-aligned in 16 columns, and a space. This is perf's
format in every version."""
READ_BYTES = 1 << 18
"""Number of bytes read at a time: few enough to stay in the CPU's cache until they are parsed."""

_OFFSET = re.compile(rb"\+0x[0-9a-f]+$")
_DELETED = b" (deleted)"
_WHO = re.compile(rb"(.*?)(-?\d+)/(-?\d+)(?:\s+\[\d+\])?\s*")
_HEADER = re.compile(rb".*/\d+\s.*\S\s+\d+\s+\S+\s*")
_LOST = re.compile(rb".*PERF_RECORD_LOST\S* lost (\d+)\s*")
_NO_FILE = re.compile(r"//anon|\[(heap|stack|anon.*)\]|anon_inode:.*|/(dev/zero|memfd:.*|SYSV.*)")
_USERS_OWN = ("[vdso]", "[vsyscall]")
_Key = tuple[bytes, bytes, bytes, int]
"""The key of a stack: command and thread, event and leaf as in the text, and the hash of the callers' lines."""


class Frame(NamedTuple):
    """A function as perf names it, without its address, and the file or memory region that contains it."""

    name: str
    module: str


def read_frame(text: bytes) -> Frame:
    """Parses a frame from the part of its line after the address.

    >>> read_frame(b"operator new(unsigned long)+0x1c (/usr/lib/libstdc++.so.6.0.30)")
    Frame(name='operator new(unsigned long)', module='libstdc++.so.6.0.30')
    >>> read_frame(b"do_syscall_64 ([kernel.kallsyms])"), read_frame(b"[unknown] (//anon)")
    (Frame(name='do_syscall_64', module='[kernel]'), Frame(name='[unknown]', module='[data]'))
    >>> read_frame(b"main (/opt/db (old)/server (deleted))")
    Frame(name='main', module='server')
    """
    name, module = _name_and_module(text.rstrip())
    file = module.decode(errors="replace")
    if not file or file == UNKNOWN:
        short = UNKNOWN
    elif _NO_FILE.fullmatch(file):
        short = DATA
    elif file.startswith("[") and file not in _USERS_OWN:  # the kernel itself, or one of its modules
        short = KERNEL
    else:
        short = file.rpartition("/")[2] or file
    return Frame(_OFFSET.sub(b"", name).decode(errors="replace") or UNKNOWN, short)


def _name_and_module(text: bytes) -> tuple[bytes, bytes]:
    """Splits the text of a frame into function and module, which may both contain brackets and spaces."""
    inner = text.removesuffix(b")").removesuffix(_DELETED)
    for opening in (b" (/", b" ([", b" ("):
        name, bracket, module = inner.rpartition(opening)
        if bracket:
            return name, opening[2:] + module
    return text, b""


class Thread(NamedTuple):
    name: str
    pid: int
    tid: int


class Stack(NamedTuple):
    """A distinct stack of one thread, root first."""

    thread: Thread
    event: str
    frames: tuple[Frame, ...]
    samples: int
    weight: int


@dataclass
class Folded:
    """The stacks in an output of `perf script`."""

    counts: dict[_Key, list[int]] = field(default_factory=dict)
    """Maps each stack's key to its number of samples and their total weight."""
    lost: int = 0
    """Number of records that perf dropped for lack of buffer space."""
    unreadable: int = 0
    """Number of blocks of lines that are not samples."""
    cut_off: bool = False
    """True if the text ends in the middle of a sample."""
    inlined: Inlined | None = None
    """The program whose inlined functions are added to the stacks. A leaf in this program is identified by its
    address, since the inlined functions differ between the addresses of one function."""
    _paths: dict[int, tuple[Frame, ...]] = field(default_factory=dict)
    """Maps the hash of the callers' lines to the callers' frames, root first."""
    _frames: dict[bytes, Frame] = field(default_factory=dict)
    """Maps the part of a line that doesn't depend on the address to its frame."""

    def add(self, block: bytes) -> None:
        """Counts the sample that a block of lines describes; the block may begin with perf's own messages."""
        try:
            header, leaf, callers = block.split(b"\n", 2)
            who, _, period, event = header.rsplit(None, 3)
            weight = int(period)
        except ValueError:
            self._add_odd(block)
            return
        path = hash(callers)
        key = who, event, leaf if self._has_inlined(leaf) else _without_address(leaf), path
        count = self.counts.get(key)
        if count is None:
            count = self.counts[key] = [0, 0]
            self._read_path(path, callers)
        count[0] += 1
        count[1] += weight

    def _read_path(self, path: int, callers: bytes) -> None:
        """Parses the lines of a path, nearest caller first, unless the path with this hash is known."""
        if path not in self._paths:
            root_first = reversed(list(filter(None, callers.split(b"\n"))))
            self._paths[path] = tuple(frame for line in root_first for frame in self._frames_of(line, 1))

    def _has_inlined(self, line: bytes) -> bool:
        return self.inlined is not None and line.endswith(self.inlined.ending)

    def _frames_of(self, line: bytes, back: int = 0) -> tuple[Frame, ...]:
        """The frame of a line, and the frames of the functions that are inlined there. The line of a caller has the
        address after the call, so it needs `back` = 1: the byte before that address belongs to the call."""
        frame = self._frame(_without_address(line))
        if self.inlined is None or not self._has_inlined(line):
            return (frame,)
        names = self.inlined.at(int(line[:ADDRESS_COLUMNS], 16) - back)
        return frame, *(Frame(f"{name}{INLINED}", frame.module) for name in names)

    def _add_odd(self, block: bytes) -> None:
        """Handles an unusual block: one without callers, without a stack, or that begins with perf's messages."""
        lines = self._without_messages(block)
        if lines and _HEADER.fullmatch(lines[0]):
            self.add(b"\n".join([*lines, b"", b""]))
        elif lines:
            self.unreadable += 1

    def end(self, rest: bytes) -> None:
        """Reads the text after the last blank line: perf's own messages, or a sample that was cut off."""
        self.cut_off = bool(self._without_messages(rest))

    def _without_messages(self, block: bytes) -> list[bytes]:
        """The lines of a block after perf's own messages; adds up the lost records that these messages report."""
        lines = block.split(b"\n")
        while lines:
            lost = _LOST.fullmatch(lines[0])
            if not lost and lines[0].strip() and not lines[0].startswith(b"#"):
                break
            self.lost += int(lost[1]) if lost else 0
            del lines[0]
        return lines

    def stacks(self) -> Iterator[Stack]:
        """Yields each stack once: stacks that differ only in addresses or in the thread's CPU are added up."""
        merged: dict[tuple[Thread, str, tuple[Frame, ...]], list[int]] = {}
        threads = {who: thread_of(who) for who in {key[0] for key in self.counts}}
        events = {key[1]: key[1].decode(errors="replace").partition(":")[0] for key in self.counts}
        for (who, event, leaf, callers), (samples, weight) in self.counts.items():
            frames = self._paths[callers]
            if leaf:
                frames = (*frames, *(self._frames_of(leaf) if self._has_inlined(leaf) else (self._frame(leaf),)))
            count = merged.setdefault((threads[who], events[event], frames), [0, 0])
            count[0] += samples
            count[1] += weight
        for (thread, name, frames), (samples, weight) in merged.items():
            yield Stack(thread, name, frames, samples, weight)

    def _frame(self, text: bytes) -> Frame:
        if text not in self._frames:
            self._frames[text] = read_frame(text)
        return self._frames[text]


def _without_address(line: bytes) -> bytes:
    """The part of a function's line that does not depend on its address."""
    offset = line.rfind(b"+0x")
    if offset < 0:
        return line[ADDRESS_COLUMNS:]
    return line[ADDRESS_COLUMNS:offset] + line[line.find(b" ", offset) :]


def fold(read: Callable[[int], bytes], into: Folded | None = None) -> Folded:
    """Folds a text that arrives in pieces: `read(n)` returns at most n bytes, and b"" at the end."""
    folded = Folded() if into is None else into
    rest = b""
    while piece := read(READ_BYTES):
        *blocks, rest = (rest + piece).split(b"\n\n")
        for block in blocks:
            folded.add(block)
    folded.end(rest)
    return folded


def thread_of(who: bytes) -> Thread:
    """Parses the thread from the first words of a sample's header.

    >>> thread_of(b"ib_io_rd 7/12 [001]"), thread_of(b"kworker/0:1 H 5/5")
    (Thread(name='ib_io_rd', pid=7, tid=12), Thread(name='kworker/0:1 H', pid=5, tid=5))
    """
    match = _WHO.fullmatch(who)
    assert match, who
    return Thread(match[1].strip().decode(errors="replace"), int(match[2]), int(match[3]))


def callers_of(stacks: Iterable[Stack], roles: Mapping[int, str]) -> Iterator[Stack]:
    """Yields call paths for sampled stacks without outer frames, from the few stacks that perf copied and unwound.

    In most distributions the C library has no frame pointers, so two of five stacks of a server lack their callers.
    Each path leads from the root to a function with which a sampled stack begins, in a thread of the same role
    (connection, purge and the like). `samples` counts the samples of all copied stacks that begin with the path.
    The path's weight is 0, since sampled stacks already have all the weight.
    """
    every = list(stacks)
    roots: dict[str, set[Frame]] = {}
    for stack in every:
        if stack.event != CALLERS:
            # Frames before the first frame that is in a program are values on the stack, which perf mistook for
            # return addresses.
            programs = (frame for frame in stack.frames if frame.module not in (DATA, UNKNOWN))
            roots.setdefault(roles[stack.thread.tid], set()).update(itertools.islice(programs, 1))
    seen: Counter[tuple[str, tuple[Frame, ...]]] = Counter()
    any_of_role: dict[str, Stack] = {}
    for stack in every:
        if stack.event == CALLERS:
            role = roles[stack.thread.tid]
            any_of_role.setdefault(role, stack)
            for at, frame in enumerate(stack.frames):
                if at and frame.name != UNKNOWN and frame in roots.get(role, ()):
                    seen[role, stack.frames[: at + 1]] += stack.samples
    for (role, path), samples in sorted(seen.items()):
        yield any_of_role[role]._replace(frames=path, samples=samples, weight=0)
