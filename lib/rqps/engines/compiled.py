"""Facts about the compilation of a program, read back from its ELF file: compiler, optimization, frame pointers,
instruction set, LTO, PGO and allocator.

The name of a build or its recipe may be wrong, and a build system may drop flags without a message. Compilers record
their flags in the debug information (gcc) or in a section of their own (-frecord-gcc-switches,
-frecord-command-line). If these records are missing, some facts are derived from the machine code; the others are
unknown.
"""

import re
import struct
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

UNKNOWN = "unknown"
FRAME_POINTER_SHARE = 0.4
"""Minimum share of functions whose unwind information uses the frame pointer, in a build with frame pointers. The
share is 0.64 or more in such builds, where only the smallest functions have no frame. It is 0.14 or less in builds
without frame pointers, where only functions that align the stack for AVX use the frame pointer."""
LATER_INSTRUCTIONS_PER_MB = 20
"""Maximum number of BMI2 shifts and AVX's vzeroupper per megabyte of code in a build for plain x86-64. Such builds
have about 1 per megabyte, from chance byte sequences or in libraries that choose their code at run time."""
ALLOCATORS = {"jemalloc": b"<jemalloc>", "tcmalloc": b"tcmalloc: ", "mimalloc": b"mimalloc: "}
"""Maps each allocator to a string in the programs that are linked with it."""
INSTRUMENTED = (b"__gcov_", b"__llvm_profile_")

DEBUG = Path("/usr/lib/debug")
_COMPRESSED = 0x800
_NOT_IN_FILE = 8
"""The type of the sections whose content is not in the file, SHT_NOBITS."""
_LOAD = 1
"""The type of the segments that are loaded into memory, PT_LOAD."""
_COMPILER = re.compile(
    r"clang version (?P<clang>\d+(\.\d+)+)|GCC: .*?(?P<gcc>\d+\.\d+\.\d+)|GNU \S+ (?P<gnu>\d+\.\d+\.\d+)"
)
_LATER = re.compile(rb"\xc4[\xe2\xc2\x62\x42].\xf7|\xc5\xf8\x77", re.DOTALL)
_FRAME = re.compile(rb"\x0d\x06|\x0c\x06")
"""Matches the unwind instructions DW_CFA_def_cfa_register and DW_CFA_def_cfa with the register rbp."""
_FUNCTION = 2
"""The type of the symbols of functions, STT_FUNC."""
_PRODUCER, _STR_OFFSETS_BASE, _COMPILE_UNITS = 0x25, 0x72, (0x01, 0x04)
_INLINE, _STRP, _LINE_STRP = 0x08, 0x0E, 0x1F
_INDEXED = {0x25: 1, 0x26: 2, 0x27: 3, 0x28: 4}
"""Maps the DWARF forms that index the string offsets of a unit to their sizes in bytes."""
_SIZES = {0x01: 8, 0x05: 2, 0x06: 4, 0x07: 8, 0x0B: 1, _STRP: 4, 0x17: 4, 0x19: 0, _LINE_STRP: 4, **_INDEXED}


def how_compiled(program: Path, of_engine: "Callable[[Elf], dict[str, str]]" = lambda _: {}) -> dict[str, str]:
    """The facts about the compilation: maps `compiler`, `optimization`, `lto` and others to their values, or to
    UNKNOWN if the file does not show the value. Empty if the file is damaged or is not an ELF file for x86-64.
    `of_engine` reads the facts that only programs of one engine have."""
    try:
        return {**_facts(elf := Elf(program.read_bytes())), **of_engine(elf)}
    except (ValueError, IndexError, OverflowError, struct.error, zlib.error):
        return {}


def _facts(elf: "Elf") -> dict[str, str]:
    recorded = elf.producers()
    with_flags = Counter({text: number for text, number in recorded.items() if " -" in text})
    with_flags = with_flags or Counter({text: 1 for text in elf.strings(".GCC.command.line") if " -" in text})

    def voted(read: Callable[[list[str]], str]) -> str | None:
        """Reads one fact from the flags of each source file and returns the most frequent value; None if no flags
        were recorded."""
        votes = Counter[str]()
        for text, number in with_flags.items():
            votes[read(text.split())] += number
        return votes.most_common(1)[0][0] if votes else None

    return {
        "compiler": _compiler([*elf.strings(".comment"), *recorded]),
        "optimization": voted(lambda flags: _last(flags, ("-O",)) or "-O0") or UNKNOWN,
        "frame_pointers": elf.frame_pointers(),
        "instruction_set": voted(_instruction_set) or elf.instruction_set(),
        "lto": "yes" if elf.has_symbol(b".lto_priv") else voted(_lto) or UNKNOWN,
        "pgo": "instrumented" if any(map(elf.has_symbol, INSTRUMENTED)) else voted(_pgo) or UNKNOWN,
        "allocator": elf.allocator(),
    }


def in_short(facts: dict[str, str]) -> str:
    """The facts about a compilation in one line.

    >>> in_short({"compiler": "gcc 12.2.0", "optimization": "-O2", "frame_pointers": "yes", "lto": "unknown"})
    'gcc 12.2.0, -O2, frame pointers; unknown: lto'
    """
    words = {
        "frame_pointers": {"yes": "frame pointers", "no": "no frame pointers"},
        "lto": {"yes": "LTO", "no": ""},
        "pgo": {"yes": "PGO", "no": "", "instrumented": "instrumented for PGO"},
        "instruction_set": {"x86-64": ""},
        "allocator": {"libc": ""},
        "profiling": {"yes": "", "no": "no profiling of statements"},
        "instruments": {"all": "", "none": "no instruments"},
    }
    known = [words.get(name, {}).get(value, value) for name, value in facts.items() if value != UNKNOWN]
    unknown = [name.replace("_", " ") for name, value in facts.items() if value == UNKNOWN]
    parts = [", ".join(filter(None, known)), f"unknown: {', '.join(unknown)}" if unknown else ""]
    return "; ".join(filter(None, parts))


def _compiler(texts: list[str]) -> str:
    """The newest of the compilers that left their names in the program. clang takes precedence, since builds by clang
    also contain start-up code that gcc compiled."""
    versions = [
        (
            match["clang"] is not None,
            [int(part) for part in (match["clang"] or match["gcc"] or match["gnu"]).split(".")],
        )
        for text in texts
        for match in _COMPILER.finditer(text)
    ]
    if not versions:
        return UNKNOWN
    is_clang, number = max(versions)
    return f"{'clang' if is_clang else 'gcc'} {'.'.join(map(str, number))}"


def _last(flags: list[str], beginnings: tuple[str, ...]) -> str:
    return next((flag for flag in reversed(flags) if flag.startswith(beginnings)), "")


def _instruction_set(flags: list[str]) -> str:
    return _last(flags, ("-march=",)).removeprefix("-march=") or "x86-64"


def _lto(flags: list[str]) -> str:
    chosen = _last(flags, ("-flto", "-fno-lto", "-fltrans"))
    return "no" if chosen in ("", "-fno-lto") else "yes"


def _pgo(flags: list[str]) -> str:
    return "yes" if _last(flags, ("-fprofile-use", "-fprofile-instr-use", "-fauto-profile")) else "no"


def functions(program: Path) -> list[str]:
    """The names of a program's functions in the order of their addresses, one name per address; empty if the program
    was stripped."""
    return Elf(program.read_bytes()).functions()


class DebugFile(NamedTuple):
    """The file that has the debug information of a program."""

    path: Path | None
    """None if the debug information is not on this machine."""
    segments: tuple[tuple[int, int, int], ...] = ()
    """The offset in the program's file, the size and the address of each segment that is loaded into memory."""
    ignored: str = ""
    """Files of debug information that are damaged or belong to another build of the program, and why."""


@cache
def debug_file(program: Path) -> DebugFile:
    """The debug information of a program: in the program's own file, in a file for its build id, or in the file that
    its debug link names. A separate file must have the program's build id."""
    elf = Elf(program.read_bytes())
    segments = tuple(elf.segments())
    if elf.has_debug_information():
        return DebugFile(program, segments)
    own, link = elf.build_id(), text_at(elf.section(".gnu_debuglink") or b"\0", 0)
    folders = (program.parent, program.parent / ".debug", DEBUG / str(program.parent).lstrip("/"))
    files = [DEBUG / ".build-id" / own[:2] / f"{own[2:]}.debug"] * bool(own)
    others = []
    for file in [*files, *(folder / link for folder in folders if link)]:
        if not file.is_file() or file == program:
            continue
        try:
            debug = Elf(file.read_bytes())
        except (ValueError, IndexError, struct.error):
            others.append(f"{file} is damaged")
            continue
        if own and debug.build_id() == own and debug.has_debug_information():
            return DebugFile(file, segments)
        others.append(f"{file} has build id {debug.build_id() or 'none'}, the program {own or 'none'}")
    return DebugFile(None, segments, "; ".join(others))


def text_at(content: bytes, start: int) -> str:
    """The text from `start` to the next zero byte."""
    return content[start : content.find(b"\0", start)].decode(errors="replace")


class Elf:
    """The sections of the ELF file of a program or library for x86-64."""

    def __init__(self, content: bytes) -> None:
        if content[:6] != b"\x7fELF\x02\x01" or content[18:20] != b"\x3e\x00":
            raise ValueError("not an ELF file for x86-64")
        self._content = content
        (start,), (size, count, names) = struct.unpack_from("<Q", content, 40), struct.unpack_from("<3H", content, 58)
        headers = [struct.unpack_from("<2I4Q", content, start + size * number) for number in range(count)]
        names_at = headers[names][4] if headers else 0
        self._headers = {text_at(content, names_at + header[0]): header for header in headers}

    def section(self, name: str) -> bytes:
        """The content of a section, decompressed; empty if the section is missing."""
        if name not in self._headers:
            return b""
        _, kind, flags, _, start, size = self._headers[name]
        content = b"" if kind == _NOT_IN_FILE else self._content[start : start + size]
        return zlib.decompress(content[24:]) if flags & _COMPRESSED else content

    def has_debug_information(self) -> bool:
        return ".debug_info" in self._headers and self._headers[".debug_info"][1] != _NOT_IN_FILE

    def build_id(self) -> str:
        """The build id in hexadecimal; empty if the linker wrote none."""
        return self.section(".note.gnu.build-id")[16:].hex()

    def segments(self) -> Iterator[tuple[int, int, int]]:
        """Yields the offset in the file, the size and the address of each loaded segment."""
        (start,), (size, count) = (
            struct.unpack_from("<Q", self._content, 32),
            struct.unpack_from("<2H", self._content, 54),
        )
        for at in range(start, start + count * size, size):
            kind, _, offset, address, _, length = struct.unpack_from("<2I4Q", self._content, at)
            if kind == _LOAD:
                yield offset, length, address

    def strings(self, name: str) -> list[str]:
        return [text.decode(errors="replace") for text in self.section(name).split(b"\0") if text]

    def has_symbol(self, part: bytes) -> bool:
        return part in self.section(".strtab") or part in self.section(".dynstr")

    def functions(self) -> list[str]:
        start, size = (self._headers[".text"][number] for number in (3, 5))
        names, by_address = self.section(".strtab"), dict[int, str]()
        for name, info, _, _, address, _ in struct.iter_unpack("<I2BH2Q", self.section(".symtab")):
            if info & 15 == _FUNCTION and start <= address < start + size:
                by_address[address] = text_at(names, name)
        return [by_address[address] for address in sorted(by_address)]

    def producers(self) -> Counter[str]:
        """Counts the source files by the compiler that the debug information names; gcc's name includes its flags."""
        info, abbreviations = self.section(".debug_info"), self.section(".debug_abbrev")
        texts = {_STRP: self.section(".debug_str"), _LINE_STRP: self.section(".debug_line_str")}
        offsets = self.section(".debug_str_offsets")
        return Counter(filter(None, (_producer(info, at, abbreviations, texts, offsets) for at in _units(info))))

    def frame_pointers(self) -> str:
        frames = self.section(".eh_frame")
        functions = with_frame = at = 0
        while at + 8 <= len(frames):
            length, of = struct.unpack_from("<2I", frames, at)
            if length in (0, 0xFFFFFFFF):
                break
            if of:  # not 0 in an FDE, which describes one function; 0 in a CIE, which many FDEs share
                functions += 1
                with_frame += _FRAME.search(frames, at + 16, at + 4 + length) is not None
            at += 4 + length
        return UNKNOWN if not functions else "yes" if with_frame / functions >= FRAME_POINTER_SHARE else "no"

    def instruction_set(self) -> str:
        if not (code := self.section(".text")):
            return UNKNOWN
        later = sum(1 for _ in _LATER.finditer(code))
        return "beyond x86-64" if later * 1e6 / max(len(code), 1_000_000) > LATER_INSTRUCTIONS_PER_MB else "x86-64"

    def allocator(self) -> str:
        names, dynamic = self.section(".dynstr"), self.section(".dynamic")
        needed = [text_at(names, value) for tag, value in struct.iter_unpack("<2Q", dynamic) if tag == 1]
        constants = self.section(".rodata")
        for name, text in ALLOCATORS.items():
            if text in constants or any(library.startswith(f"lib{name}") for library in needed):
                return name
        return "libc" if needed else UNKNOWN


def _units(info: bytes) -> Iterator[int]:
    at = 0
    while at + 12 <= len(info):
        (length,) = struct.unpack_from("<I", info, at)
        if length in (0, 0xFFFFFFFF):  # 0xFFFFFFFF marks 64-bit DWARF, which compilers do not write by default
            return
        yield at
        at += 4 + length


def _producer(info: bytes, at: int, abbreviations: bytes, texts: dict[int, bytes], offsets: bytes) -> str:
    """The producer (DW_AT_producer) of the unit at an offset; empty if the unit is not a compile unit, or if it
    uses a DWARF form that this function does not read."""
    (version,) = struct.unpack_from("<H", info, at + 4)
    if version >= 5:
        if info[at + 6] not in _COMPILE_UNITS:
            return ""
        where, at = struct.unpack_from("<I", info, at + 8)[0], at + 12
    else:
        where, at = struct.unpack_from("<I", info, at + 6)[0], at + 11
    code, at = _uleb(info, at)
    index = base = None
    for attribute, form in _attributes(abbreviations, where, code):
        if attribute == _PRODUCER and form == _INLINE:
            return text_at(info, at)
        if attribute == _PRODUCER and form in texts:
            return text_at(texts[form], struct.unpack_from("<I", info, at)[0])
        if form not in _SIZES:
            return ""
        value, at = int.from_bytes(info[at : at + _SIZES[form]], "little"), at + _SIZES[form]
        index = value if attribute == _PRODUCER and form in _INDEXED else index
        base = value if attribute == _STR_OFFSETS_BASE else base
        if index is not None and base is not None:
            return text_at(texts[_STRP], struct.unpack_from("<I", offsets, base + 4 * index)[0])
    return ""


def _attributes(abbreviations: bytes, at: int, code: int) -> Iterator[tuple[int, int]]:
    """Yields the attributes and forms of the entry `code` in the table of abbreviations that begins at `at`."""
    while at < len(abbreviations):
        number, at = _uleb(abbreviations, at)
        if number == 0:
            return
        _, at = _uleb(abbreviations, at)
        at += 1
        while True:
            attribute, at = _uleb(abbreviations, at)
            form, at = _uleb(abbreviations, at)
            if form == 0x21:  # DW_FORM_implicit_const: the value is in this table
                _, at = _uleb(abbreviations, at)
            if attribute == form == 0:
                break
            if number == code:
                yield attribute, form
        if number == code:
            return


def _uleb(content: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = content[at]
        value, shift, at = value | (byte & 127) << shift, shift + 7, at + 1
        if byte < 128:
            return value, at
