"""One line of a stack, as `perf script` writes it, to a name and the file that it is in."""

import re
from collections.abc import Sequence
from typing import NamedTuple

UNKNOWN = "[unknown]"
KERNEL = "[kernel]"
DATA = "[data]"
"""Memory that holds no program: where a broken stack leads."""
ADDRESS_COLUMNS = 18
"""A tab, the address right-aligned in 16 columns, and a space: perf has written it so in every version."""

_OFFSET = re.compile(rb"\+0x[0-9a-f]+$")
_DELETED = b" (deleted)"
_NO_FILE = re.compile(r"//anon|\[(heap|stack|anon.*)\]|anon_inode:.*|/(dev/zero|memfd:.*|SYSV.*)")
_USERS_OWN = ("[vdso]", "[vsyscall]")


NO_PROGRAM = (DATA, UNKNOWN)


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
    name, module = _parted(text.rstrip())
    name = _OFFSET.sub(b"", name)
    return Frame(name.decode(errors="replace") or UNKNOWN, _short(module.decode(errors="replace")))


def begin(frames: Sequence[Frame]) -> int:
    """The index of the first frame in a program: before it may be what was taken for an address, but is none."""
    return next((at for at, frame in enumerate(frames) if frame.module not in NO_PROGRAM), len(frames))


def leaf_key(line: bytes) -> bytes:
    """What of a leaf's line does not change with the address in its function."""
    start = line.rfind(b"+0x")
    if start < 0:
        return line[ADDRESS_COLUMNS:]
    return line[ADDRESS_COLUMNS:start] + line[line.find(b" ", start) :]


def _parted(text: bytes) -> tuple[bytes, bytes]:
    """Name and module: the name of a function may hold brackets and spaces, and so may a path."""
    if not text.endswith(b")"):
        return text, b""
    inner = text[:-1].removesuffix(_DELETED)
    for opening in (b" (/", b" (["):
        start = inner.rfind(opening)
        if start >= 0:
            return inner[:start], inner[start + 2 :]
    name, _, module = inner.rpartition(b" (")
    return name, module


def _short(module: str) -> str:
    if not module or module == UNKNOWN:
        return UNKNOWN
    if _NO_FILE.fullmatch(module):
        return DATA
    if module.startswith("[") and module not in _USERS_OWN:  # the kernel itself, or one of its modules
        return KERNEL
    return module.rpartition("/")[2] or module
