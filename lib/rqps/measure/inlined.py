"""Finds the functions that the compiler inlined at sampled addresses, by a program's debug information."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path

from rqps import keeper
from rqps.engines.compiled import DebugFile, debug_file
from rqps.engines.sources.programs import symbolizer

_NO_NAME = "??"


@dataclass
class Inlined:
    """The inlined functions of one program. llvm-symbolizer is asked once for each address."""

    debug: DebugFile
    process: "subprocess.Popen[str] | None" = None
    ending: bytes = b"\n"
    """The end of perf's lines for functions of the program: the program's path in brackets. Without llvm-symbolizer,
    `ending` is a line break, which no line contains, so that no line matches."""
    doubt: str = ""
    """A warning if the program has debug information that can't be used."""
    _known: dict[int, tuple[str, ...]] = field(default_factory=dict)

    def at(self, offset: int) -> tuple[str, ...]:
        """The functions that are inlined at an offset in the program's file, the outermost first."""
        if offset not in self._known:
            self._known[offset] = self._ask(offset)
        return self._known[offset]

    def _ask(self, offset: int) -> tuple[str, ...]:
        places = (
            address + offset - start for start, size, address in self.debug.segments if 0 <= offset - start < size
        )
        if (address := next(places, None)) is None:
            return ()
        assert self.process
        assert self.process.stdin
        assert self.process.stdout
        try:
            self.process.stdin.write(f"{address:#x}\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            self.doubt = "llvm-symbolizer ended early: inlined functions are missing in some stacks"
        lines = [line.rstrip("\n") for line in takewhile(str.strip, self.process.stdout)]
        # Lines of names and of source places alternate, from the innermost function on. The last function is the one
        # that contains the others: it is not inlined.
        names = lines[0:-2:2]
        return tuple(name for name in reversed(names) if name != _NO_NAME)


@contextmanager
def inlined(program: Path, cpus: tuple[int, ...]) -> Iterator[Inlined]:
    """Starts llvm-symbolizer on these CPUs, if the program's debug information is on this machine."""
    debug, tool = debug_file(program), symbolizer()
    if debug.path is None or tool is None:
        doubt = f"debug information is ignored: {debug.ignored}" if debug.ignored else ""
        missing = "inlined functions are not shown, since llvm-symbolizer is missing: install llvm"
        yield Inlined(debug, doubt=missing if debug.path else doubt)
        return
    options = ("--inlines", "--demangle", "--functions=linkage", f"--obj={debug.path}")
    process = subprocess.Popen(
        keeper.command("exec", [*tool.argv, *options], cpus=cpus),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        errors="replace",
        env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"},
    )
    try:
        yield Inlined(debug, process, f"({program.resolve()})".encode())
    finally:
        process.kill()
        process.communicate()
