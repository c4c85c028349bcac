"""The text of `perf script` folded into stacks: each distinct one once, with its samples and their weight.

A sample is a header line, a line for the function it was in (the leaf) and one for each caller, up to a blank line.
The leaf's address is new nearly every time, its callers' addresses are few. So callers are not parsed but looked up
by the hash of their bytes, the leaf by its name, and only new text is parsed. To search for the blank line would
take most of the time: the lengths that callers had before, behind the same nearest caller, are tried first.
"""

import itertools
import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from rqps.store.schemas import CALLERS

UNKNOWN = "[unknown]"
KERNEL = "[kernel]"
DATA = "[data]"
"""Memory without a program, where a broken stack comes from."""
ADDRESS_COLUMNS = 18
"""A tab, the address right-aligned in 16 columns, and a space: perf has written it so in every version."""
READ_BYTES = 1 << 18
"""Few enough to be in the processor's cache still when they are parsed."""
MOST_LENGTHS = 8
"""To try; more would take longer than to search for the end."""

_OFFSET = re.compile(rb"\+0x[0-9a-f]+$")
_DELETED = b" (deleted)"
_LOST = b"PERF_RECORD_LOST"
_NO_FILE = re.compile(r"//anon|\[(heap|stack|anon.*)\]|anon_inode:.*|/(dev/zero|memfd:.*|SYSV.*)")
_USERS_OWN = ("[vdso]", "[vsyscall]")
_Key = tuple[bytes, bytes, bytes, int]
"""Command and thread, event, leaf, hash of its callers' lines: as they stand in the text."""


class Frame(NamedTuple):
    """A function as the tool names it, without its address, and the file or part of memory that holds it."""

    name: str
    module: str


def read_frame(text: bytes) -> Frame:
    """The frame of a line behind its address.

    >>> read_frame(b"operator new(unsigned long)+0x1c (/usr/lib/libstdc++.so.6.0.30)")
    Frame(name='operator new(unsigned long)', module='libstdc++.so.6.0.30')
    >>> read_frame(b"do_syscall_64 ([kernel.kallsyms])"), read_frame(b"[unknown] (//anon)")
    (Frame(name='do_syscall_64', module='[kernel]'), Frame(name='[unknown]', module='[data]'))
    >>> read_frame(b"main (/opt/my (old)/mysqld (deleted))")
    Frame(name='main', module='mysqld')
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


def leaf_key(line: bytes) -> bytes:
    """The part of a leaf's line that does not change with the address in its function."""
    start = line.rfind(b"+0x")
    if start < 0:
        return line[ADDRESS_COLUMNS:]
    return line[ADDRESS_COLUMNS:start] + line[line.find(b" ", start) :]


def _name_and_module(text: bytes) -> tuple[bytes, bytes]:
    """The name of a function may hold brackets and spaces, and so may a path."""
    if not text.endswith(b")"):
        return text, b""
    inner = text[:-1].removesuffix(_DELETED)
    for opening in (b" (/", b" (["):
        start = inner.rfind(opening)
        if start >= 0:
            return inner[:start], inner[start + 2 :]
    name, _, module = inner.rpartition(b" (")
    return name, module


class Thread(NamedTuple):
    name: str
    pid: int
    tid: int


class Stack(NamedTuple):
    """A distinct stack of one thread; the frames are root first."""

    thread: Thread
    event: str
    frames: tuple[Frame, ...]
    samples: int
    weight: int


@dataclass
class Folded:
    """The stacks of a text of `perf script`."""

    counts: dict[_Key, list[int]] = field(default_factory=dict)
    """Samples and weight."""
    lost: int = 0
    """Records that perf had no room for."""
    unreadable: int = 0
    """Blocks of lines that are no sample."""
    cut_off: bool = False
    """True where the text stops in the middle of a sample."""
    _lengths: dict[bytes, list[int]] = field(default_factory=dict)
    """Lengths of callers' lines, by the line of the nearest."""
    _paths: dict[int, "array[int]"] = field(default_factory=dict)
    """Paths from the root, as numbers of frames, by the hash of the callers' lines."""
    _numbers: dict[Frame, int] = field(default_factory=dict)
    _frames: list[Frame] = field(default_factory=list)
    _lines: dict[bytes, int] = field(default_factory=dict)

    def stacks(self) -> Iterator[Stack]:
        """Each stack once; a difference in addresses, or in the CPU that a thread was on, makes no other stack."""
        merged: dict[tuple[Thread, str, bytes], list[int]] = {}
        threads = {who: _thread(who) for who in {key[0] for key in self.counts}}
        events = {key[1]: key[1].decode(errors="replace").partition(":")[0] for key in self.counts}
        for (who, event, leaf, callers), (samples, weight) in self.counts.items():
            path = self._paths[callers]
            if leaf:
                path = path + array("I", (self._number(leaf),))
            count = merged.setdefault((threads[who], events[event], path.tobytes()), [0, 0])
            count[0] += samples
            count[1] += weight
        for (thread, name, numbers), (samples, weight) in merged.items():
            frames = tuple(self._frames[number] for number in array("I", numbers))
            yield Stack(thread, name, frames, samples, weight)

    def count_of(self, who: bytes, event: bytes, leaf: bytes, callers: bytes) -> list[int]:
        """The count of a stack; its callers are parsed when they are seen for the first time."""
        path = hash(callers)
        if path not in self._paths:
            lines = reversed(callers.split(b"\n")) if callers else ()
            self._paths[path] = array("I", (self._number(leaf_key(line)) for line in lines))
        return self.counts.setdefault((who, event, leaf, path), [0, 0])

    def _number(self, text: bytes) -> int:
        number = self._lines.get(text)
        if number is None:
            frame = read_frame(text)
            number = self._numbers.setdefault(frame, len(self._frames))
            if number == len(self._frames):
                self._frames.append(frame)
            self._lines[text] = number
        return number


def fold(read: Callable[[int], bytes]) -> Folded:
    """Folds a text that comes in pieces: `read` gives up to so many bytes, and none at the end."""
    folded = Folded()
    rest = b""
    while piece := read(READ_BYTES):
        text = rest + piece
        rest = text[_fold_samples(folded, text) :]
    if rest.endswith(b"\n\n"):  # whole, but that shows only where another line follows
        rest = rest[_fold_samples(folded, rest + b"\n") :]
    folded.cut_off = bool(rest.strip())
    return folded


def _fold_samples(folded: Folded, text: bytes) -> int:
    """Folds all samples that are whole; gives back the place where the first one begins that is not."""
    counts, lengths, find = folded.counts, folded._lengths, text.find
    at = 0
    while (header_end := find(b"\n", at)) >= 0:
        callers = find(b"\n", header_end + 1) + 1
        nearest_end = find(b"\n", callers)
        if callers == 0 or nearest_end < 0:
            break
        try:
            who, _, period, event = text[at:header_end].rsplit(None, 3)
            weight = int(period)
            odd = callers == header_end + 2  # no stack at all
        except ValueError:
            odd = True
        if odd:
            end = find(b"\n\n", at)
            if end < 0:
                break
            _fold_odd(folded, text[at:end])
            at = end + 2
            continue
        leaf = text[header_end + 1 + ADDRESS_COLUMNS : callers - 1]
        offset = leaf.rfind(b"+0x")  # as in leaf_key, without the call
        if offset >= 0:
            leaf = leaf[:offset] + leaf[leaf.find(b" ", offset) :]
        nearest = text[callers:nearest_end]
        for length in lengths.get(nearest, ()):
            end = callers + length
            if text[end : end + 2] == b"\n\n":
                count = counts.get((who, event, leaf, hash(text[callers:end])))
                if count is not None:
                    break
        else:
            end = find(b"\n\n", callers - 1)
            if end < 0:
                break
            count = folded.count_of(who, event, leaf, text[callers:end])
            if end - callers not in (known := lengths.setdefault(nearest, [])):
                known[:] = [end - callers, *known[: MOST_LENGTHS - 1]]
        count[0] += 1
        count[1] += weight
        at = end + 2
    return at


def _fold_odd(folded: Folded, block: bytes) -> None:
    """A block that is not as most are: without callers, without any stack, or with perf's own lines before it."""
    lines = block.strip(b"\n").split(b"\n")
    while lines and (not lines[0] or lines[0].startswith(b"#") or _LOST in lines[0]):
        line = lines.pop(0)
        if _LOST in line and (count := line.split()[-1]).isdigit():
            folded.lost += int(count)
    if not lines:
        return
    words = lines[0].rsplit(None, 3)
    if len(words) != 4 or not words[2].isdigit() or b"/" not in words[0]:
        folded.unreadable += 1
        return
    who, _, period, event = words
    leaf = leaf_key(lines[1]) if len(lines) > 1 else b""
    counted = folded.count_of(who, event, leaf, b"\n".join(lines[2:]))
    counted[0] += 1
    counted[1] += int(period)


def _thread(who: bytes) -> Thread:
    """The thread of a header's first words.

    >>> _thread(b"ib_io_rd 7/12 [001]"), _thread(b"kworker/0:1 H 5/5")
    (Thread(name='ib_io_rd', pid=7, tid=12), Thread(name='kworker/0:1 H', pid=5, tid=5))
    """
    words = who.rsplit(None, 1)
    if words[-1].startswith(b"["):  # of the CPU
        words = words[0].rsplit(None, 1)
    name, ids = words if len(words) == 2 else (b"", words[0])
    pid, _, tid = ids.partition(b"/")
    return Thread(name.strip().decode(errors="replace"), int(pid), int(tid))


def callers_of(stacks: Iterable[Stack], roles: Mapping[int, str]) -> Iterator[Stack]:
    """Callers of functions without frame pointers, from the few stacks that were copied and unwound.

    The C library has none in most distributions: two of five stacks of MySQL 8.0 have no caller. Each path goes from
    the root to a function with which another stack begins; its samples are those that had it, its weight is 0.
    """
    every = list(stacks)
    roots: dict[str, set[Frame]] = {}
    for stack in every:
        if stack.event != CALLERS:
            # Frames before the first one in a program are values that perf took for addresses.
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
