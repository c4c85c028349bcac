"""A weak profile has warnings that travel with the number; a profile of something else is an error."""

import struct
from dataclasses import replace
from pathlib import Path

import pytest
from rqps.errors import RqpsError
from rqps.measure.recording import CALLERS_PER_S, PROLOGUE, Sampling, has_frame_pointers
from rqps.measure.stack_text import Folded, Frame, Stack, Thread
from rqps.measure.stacks import Expected, weaknesses

SAMPLING = Sampling("cpu-clock", 1000, CALLERS_PER_S, "frame pointers", large_buffer=True)
BUSY = Expected(pid=7, program="mysqld", elapsed_s=10, sampled_s=10, server_cpu_s=1)


def stack(*names: str, samples: int, module: str = "mysqld", tid: int = 8) -> Stack:
    return Stack(Thread("t", 7, tid), "cpu-clock", tuple(Frame(name, module) for name in names), samples, samples)


IDLE = replace(BUSY, server_cpu_s=0.001)
LATE = replace(BUSY, sampled_s=5)
NAMELESS = [stack("main", "f", samples=900), stack("main", "f", "[unknown]", samples=100)]
STRIPPED = [stack("[unknown]", "[unknown]", samples=990), stack("f", samples=10, module="libc.so.6")]


@pytest.mark.parametrize(
    ("stacks", "expected", "folded", "texts"),
    [
        ([stack("main", "f", samples=960)], BUSY, Folded(), []),
        ([], IDLE, Folded(), ["no samples: the server used 0.001 s of CPU in 10 s, so it was idle"]),
        ([stack("f", samples=3)], IDLE, Folded(), ["only 3 samples: a longer step or more rounds would show more"]),
        ([stack("f", samples=500)], BUSY, Folded(), ["the samples stand for 0.5 s of CPU, but the server"]),
        ([stack("f", samples=500)], LATE, Folded(), ["only 50 % of the measured time was sampled, since perf"]),
        ([stack("f", samples=1000)], BUSY, Folded(lost=12, unreadable=3), ["perf lost 12", "3 pieces of perf"]),
        (NAMELESS, BUSY, Folded(), ["10 % of the samples are in functions without a name"]),
        ([stack("main", "[unknown]", "f", samples=1000)], BUSY, Folded(), []),
        (STRIPPED, BUSY, Folded(), ["mysqld has no symbols: 100 % of its frames have no name"]),
    ],
)
def test_weaknesses_are_warnings(stacks: list[Stack], expected: Expected, folded: Folded, texts: list[str]) -> None:
    warnings = list(weaknesses(stacks, folded, SAMPLING, expected))
    assert len(warnings) == len(texts)
    assert all(warning.startswith(text) for warning, text in zip(warnings, texts, strict=True)), warnings


def test_a_profile_of_something_else_is_an_error() -> None:
    with pytest.raises(RqpsError, match=r"no sample is of the server \(process 7\), though .* used 1 s of CPU"):
        list(weaknesses([], Folded(), SAMPLING, BUSY))


@pytest.mark.parametrize(("functions", "expected"), [(64, True), (1, False)])
def test_frame_pointers_are_seen_in_the_code(functions: int, expected: bool, tmp_path: Path) -> None:
    """In 64 KB of code, behind as many bytes that are not code and look as if they were full of functions."""
    code = (PROLOGUE * functions).ljust(65536, b"\x90")
    header = b"\x7fELF".ljust(32, b"\0") + struct.pack("<QQIHHH", 64, 0, 0, 64, 56, 2)
    segments = [(1, 4, 4096, 65536), (1, 5, 4096 + 65536, 65536)]  # readable, and executable as well
    table = b"".join(
        struct.pack("<IIQQQQQQ", kind, flags, at, 0, 0, size, size, 0) for kind, flags, at, size in segments
    )
    program = tmp_path / "mysqld"
    program.write_bytes((header.ljust(64, b"\0") + table).ljust(4096, b"\0") + PROLOGUE * 16384 + code)
    assert has_frame_pointers(program) is expected
