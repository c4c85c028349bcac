"""The names of functions in a program, as they are in its file."""

import ctypes
import ctypes.util
import struct
from collections.abc import Iterator
from functools import cache
from pathlib import Path

_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_SYMTAB, _DYNSYM, _FUNCTION, _INDIRECT = 2, 11, 2, 10


def functions(program: Path) -> Iterator[str]:
    """Demangled: those that a debugger sees, and where the file is stripped, those that its plugins see."""
    content = program.read_bytes()
    assert content[:6] == b"\x7fELF\x02\x01", f"{program} is no program for a 64-bit machine"
    (start,) = struct.unpack_from("<Q", content, 40)
    size, count = struct.unpack_from("<HH", content, 58)
    sections = [_SECTION.unpack_from(content, start + number * size) for number in range(count)]
    for _, kind, _, _, offset, length, link, *_ in sections:
        if kind in (_SYMTAB, _DYNSYM):
            names = sections[link][4]
            for name, info, _, section, _, _ in _SYMBOL.iter_unpack(content[offset : offset + length]):
                if info & 15 in (_FUNCTION, _INDIRECT) and section:
                    yield demangled(content[names + name : content.index(b"\0", names + name)])


@cache
def demangled(name: bytes) -> str:
    """As C++ writes it."""
    if not name.startswith(b"_Z"):
        return name.decode()
    # a compiler's own copy, _Z3foov.isra.0, has the name of the function with something behind it
    mangled, dot, suffix = name.partition(b".")
    library = _cxx()
    status = ctypes.c_int()
    result = library.__cxa_demangle(mangled, None, None, ctypes.byref(status))
    if not result:
        return name.decode()
    text = ctypes.cast(result, ctypes.c_char_p).value
    library.free(ctypes.c_void_p(result))
    assert text is not None
    return (text + dot + suffix).decode()


@cache
def _cxx() -> ctypes.CDLL:
    library = ctypes.CDLL(ctypes.util.find_library("stdc++") or "libstdc++.so.6")
    library.__cxa_demangle.restype = ctypes.c_void_p
    return library
