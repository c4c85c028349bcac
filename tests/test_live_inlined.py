"""Inlined functions of programs that were compiled here are named in perf's samples by their debug information."""

import subprocess
from collections import Counter
from pathlib import Path

import pytest
from rqps.engines.compiled import debug_file
from rqps.engines.sources.programs import perf
from rqps.measure.inlined import inlined
from rqps.measure.recording import sampled_event
from rqps.measure.stack_text import Folded
from rqps.measure.stacks import read
from rqps.store.schemas import INLINED

pytestmark = pytest.mark.live

SOURCE = """
#include <stdlib.h>
static inline unsigned long mix(unsigned long hash) { return (hash ^ (hash >> 33)) * 0xff51afd7ed558ccdUL; }
static inline unsigned long hash_of(unsigned long key) {
    for (int round = 0; round < 1000; round++) key = mix(key + round);
    return key;
}
__attribute__((noinline)) unsigned long prepared(unsigned long key) { return key * 7; }
__attribute__((noinline)) unsigned long look_up(unsigned long key) { return hash_of(prepared(key)) + 1; }
static inline unsigned long serve(unsigned long rows) {
    unsigned long sum = 0;
    for (unsigned long row = 0; row < rows; row++) sum += look_up(row);
    return sum;
}
int main(int count, char **words) { return serve(count * 200000UL + atol(words[count - 1])) == 7; }
"""
HASHES = ("main", f"serve{INLINED}", "look_up", f"hash_of{INLINED}")
MIXES = (*HASHES, f"mix{INLINED}")
FLAGS = ("-g", "-O2", "-fno-omit-frame-pointer")


def compiled(folder: Path, *flags: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "program.c").write_text(SOURCE)
    subprocess.run(["gcc", *FLAGS, *flags, "-o", "program", "program.c"], cwd=folder, check=True)
    return folder / "program"


def sampled(program: Path) -> tuple[Counter[tuple[str, ...]], int, str]:
    """The samples of the program's own frames, their number, and the doubt about its debug information."""
    data = program.with_name("perf.data")
    record = ["record", "-q", "-F", "999", "-e", sampled_event(), "-g", "-o", str(data), str(program)]
    subprocess.run([*perf().argv, *record], check=True)
    with inlined(program, ()) as functions:
        folded = read(data, (), (), into=Folded(inlined=functions))
        counts = Counter[tuple[str, ...]]()
        for stack in folded.stacks():
            if stack.thread.name == "program":
                counts[tuple(name for name, module in stack.frames if module == "program")] += stack.samples
    return counts, counts.total(), functions.doubt


def separated(program: Path, debug: Path) -> None:
    """Moves the debug information of a program to another file, which the program names."""
    subprocess.run(["objcopy", "--only-keep-debug", program, debug], check=True)
    subprocess.run(["objcopy", "--strip-debug", f"--add-gnu-debuglink={debug}", program], check=True)


@pytest.mark.parametrize("flags", [(), ("-no-pie",), ("-g1",)])
def test_a_hot_inlined_function_has_its_samples(flags: tuple[str, ...], tmp_path: Path) -> None:
    counts, samples, doubt = sampled(compiled(tmp_path, *flags))
    assert samples > 100
    assert counts[HASHES] + counts[MIXES] > 0.9 * samples, counts
    assert counts[MIXES] > 0
    assert doubt == ""


def test_debug_information_may_be_in_a_file_of_the_same_build(tmp_path: Path) -> None:
    program = compiled(tmp_path)
    separated(program, tmp_path / "program.debug")
    assert debug_file(program).path == tmp_path / "program.debug"
    counts, samples, doubt = sampled(program)
    assert counts[HASHES] + counts[MIXES] > 0.9 * samples > 90, counts
    assert doubt == ""


def test_debug_information_of_another_build_is_ignored_with_a_warning(tmp_path: Path) -> None:
    program, other = compiled(tmp_path), compiled(tmp_path / "other", "-DOTHER")
    separated(program, tmp_path / "program.debug")
    (tmp_path / "program.debug").write_bytes(other.read_bytes() + b"\0")
    counts, samples, doubt = sampled(program)
    assert counts[("main", "look_up")] > 0.9 * samples > 90, counts
    assert doubt.startswith(f"debug information is ignored: {tmp_path}/program.debug has build id ")


def test_damaged_debug_information_is_ignored_with_a_warning(tmp_path: Path) -> None:
    program = compiled(tmp_path)
    separated(program, tmp_path / "program.debug")
    (tmp_path / "program.debug").write_bytes(b"\x7fELF")
    assert debug_file(program).ignored == f"{tmp_path}/program.debug is damaged"


def test_without_debug_information_stacks_are_those_of_symbols(tmp_path: Path) -> None:
    program = compiled(tmp_path)
    subprocess.run(["objcopy", "--strip-debug", program], check=True)
    counts, samples, doubt = sampled(program)
    assert counts[("main", "look_up")] > 0.9 * samples > 90, counts
    assert doubt == ""


def test_without_a_symbolizer_there_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = compiled(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    with inlined(program, ()) as functions:
        assert functions.doubt == "inlined functions are not shown, since llvm-symbolizer is missing: install llvm"
        assert functions.process is None
