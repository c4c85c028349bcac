"""How a program was compiled, read back from what gcc and clang make here."""

import subprocess
from dataclasses import replace
from pathlib import Path
from random import Random

import polars as pl
import pytest
import rqps
from rqps.engines.compiled import UNKNOWN, how_compiled, in_short
from rqps.engines.making.recipe import mismatches, parts_of
from rqps.engines.mysql.build import mysqld_compiled
from rqps.engines.mysql.perf_schema import classes
from rqps.show import sections
from rqps.stats import all_warnings, builds

pytestmark = pytest.mark.usefixtures("clang")

SOURCES = {
    "main.c": "int sum(const int *, int);\nint twice(int);\nint outside(int n) { return n * 7; }\n"
    "int main(int n, char **a) { int x[64];"
    " for (int i = 0; i < 64; i++) x[i] = n * i + (a[0] != 0); return twice(sum(x, 64)) & 1; }\n",
    "sum.c": "int outside(int);\n"
    "int sum(const int *x, int n) { int s = 0; for (int i = 0; i < n; i++) s += x[i] << (s & 7);"
    " return s; }\nint twice(int n) { return n > 1000 ? n * 2 : n * 3; }\n"
    + "".join(f"int more{n}(int *x, int m) {{ return outside(x[{n}]) + outside(m); }}\n" for n in range(20)),
}


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    for name, text in SOURCES.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def made(folder: Path, by: str, *flags: str) -> Path:
    command = [by, *flags, *SOURCES, "-o", "program"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return folder / "program"


def version(by: str) -> str:
    answer = subprocess.run([by, "-dumpfullversion" if by == "gcc" else "-dumpversion"], capture_output=True)
    return f"{by} {answer.stdout.decode().strip()}"


@pytest.mark.parametrize(
    ("by", "flags", "expected"),
    [
        ("gcc", "-O2 -g1 -fno-omit-frame-pointer", {"optimization": "-O2", "frame_pointers": "yes", "lto": "no"}),
        ("gcc", "-O3 -g1 -gz -march=x86-64-v3 -O2", {"optimization": "-O2", "instruction_set": "x86-64-v3"}),
        ("gcc", "-O3 -g -gdwarf-4", {"optimization": "-O3", "frame_pointers": "no", "pgo": "no"}),
        ("gcc", "-O2 -g1 -flto=1", {"lto": "yes", "optimization": "-O2"}),
        ("gcc", "-O2 -g1 -flto=1 -fno-lto", {"lto": "no"}),
        ("gcc", "-g1", {"optimization": "-O0", "frame_pointers": "yes"}),
        ("gcc", "-O2 -s -frecord-gcc-switches", {"optimization": "-O2", "lto": "no", "instruction_set": "x86-64"}),
        ("gcc", "-O2", {"optimization": UNKNOWN, "lto": UNKNOWN, "pgo": UNKNOWN, "allocator": "libc"}),
        ("gcc", "-O2 -static", {"allocator": UNKNOWN}),
        ("gcc", "-O2 -fprofile-generate", {"pgo": "instrumented"}),
        ("gcc", "-O2 -g1 -fprofile-use=. -Wno-missing-profile", {"pgo": "yes"}),
        ("clang", "-O3 -frecord-command-line -fno-omit-frame-pointer", {"optimization": "-O3", "lto": "no"}),
        ("clang", "-O2 -g -gdwarf-5 -grecord-command-line -march=native", {"instruction_set": "native"}),
        ("clang", "-O2 -g1", {"optimization": UNKNOWN, "frame_pointers": "no"}),
        ("clang", "-O2 -s -flto -fuse-ld=lld -frecord-command-line", {"optimization": "-O2", "lto": "yes"}),
        ("clang", "-O2 -fprofile-generate", {"pgo": "instrumented"}),
    ],
)
def test_flags_are_read_back(sources: Path, by: str, flags: str, expected: dict[str, str]) -> None:
    facts = how_compiled(made(sources, by, *flags.split()))
    assert {name: facts[name] for name in expected} == expected
    assert facts["compiler"] == version(by)


def test_the_flags_are_those_of_most_files(sources: Path) -> None:
    for number in range(3):
        (sources / f"another{number}.c").write_text(f"int another{number}(int n) {{ return n + {number}; }}\n")
    gcc = "gcc"
    for file in sources.glob("*.c"):
        level = "-O1" if file.name == "sum.c" else "-O2"
        subprocess.run([gcc, "-g1", level, "-c", file.name], cwd=sources, check=True)
    objects = sorted(path.name for path in sources.glob("*.o"))
    subprocess.run([gcc, *objects, "-o", "program"], cwd=sources, check=True)
    assert how_compiled(sources / "program")["optimization"] == "-O2"


def test_code_shows_later_instructions_where_no_flags_are_recorded(sources: Path) -> None:
    # Twenty of them in a megabyte are the limit, so many functions that shift by a variable.
    (sources / "sum.c").write_text(
        SOURCES["sum.c"]
        + "".join(
            f"unsigned long shift{number}(unsigned long n, int by) {{ return (n >> by) + {number}; }}\n"
            for number in range(40)
        )
    )
    assert how_compiled(made(sources, "gcc", "-O2", "-march=haswell"))["instruction_set"] == "beyond x86-64"
    assert how_compiled(made(sources, "gcc", "-O2"))["instruction_set"] == "x86-64"


def test_the_allocator_is_the_library_that_a_program_needs(sources: Path) -> None:
    library = ["-shared", "-fPIC", "-o", "libtcmalloc.so.4", "sum.c"]
    subprocess.run(["gcc", *library], cwd=sources, check=True)
    command = ["gcc", "-o", "program", "main.c", "libtcmalloc.so.4"]
    subprocess.run(command, cwd=sources, check=True)
    assert how_compiled(sources / "program")["allocator"] == "tcmalloc"


def test_what_is_missing_is_unknown_and_a_file_that_is_damaged_has_no_facts(sources: Path) -> None:
    program = made(sources, "gcc", "-O2", "-g1")
    complete = program.read_bytes()
    subprocess.run(["objcopy", "-R", ".comment", "--strip-all", str(program)], check=True)
    stripped = how_compiled(program)
    assert [stripped[name] for name in ("compiler", "optimization", "lto", "pgo")] == [UNKNOWN] * 4
    assert "unknown: compiler, optimization, lto, pgo" in in_short(stripped)
    (sources / "script").write_text("#!/bin/sh\n")
    assert how_compiled(sources / "script") == {}
    luck = Random(0)
    for _ in range(300):  # each gives facts or none, and raises nothing
        damaged = bytearray(complete[: luck.randrange(len(complete))] if luck.random() < 0.5 else complete)
        for _ in range(luck.randrange(40)):
            damaged[luck.randrange(len(damaged))] = luck.randrange(256)
        (sources / "damaged").write_bytes(damaged)
        assert isinstance(how_compiled(sources / "damaged"), dict)


REGISTERED = """
static struct {kind} {{ unsigned *key; const char *name; }} all_{kind}[] = {{{{ &keys[{number}], "{name}" }}}};
static inline void register_{kind}(struct {kind} *instruments) {{
#ifndef DISABLE_PSI_{macro}
  puts(instruments->name);
#endif
}}
"""
"""Instruments in the form in which mysqld has them: a static array and an inline function that registers it."""


@pytest.mark.parametrize("by", ["gcc", "clang"])
@pytest.mark.parametrize(
    ("flags", "instruments"),
    [
        ("-DENABLED_PROFILING", "all"),
        ("-DDISABLE_PSI_MUTEX -DDISABLE_PSI_MEMORY", "no instruments of mutex, memory"),
        (" ".join(f"-DDISABLE_PSI_{kind.upper()}" for kind in classes().in_program), "none"),
        ("-DWITHOUT_TABLES", "no performance schema"),
    ],
)
def test_a_stripped_mysqld_shows_which_instruments_were_left_out(
    sources: Path, by: str, flags: str, instruments: str
) -> None:
    known = classes().in_program
    parts = [
        REGISTERED.format(kind=kind, macro=kind.upper(), number=number, name=name)
        for number, (kind, (_, name)) in enumerate(known.items())
    ]
    tables = "".join(f'puts("{table}"); ' for table, _ in known.values())
    calls = "".join(f"register_{kind}(all_{kind}); " for kind in known)
    (sources / "sum.c").write_text("")
    (sources / "main.c").write_text(
        f"#include <stdio.h>\nunsigned keys[{len(known)}];\n{''.join(parts)}"
        "#ifdef ENABLED_PROFILING\nvoid _ZN9PROFILINGC1Ev(void) {}\n#endif\n"
        f"int main(void) {{\n#ifndef WITHOUT_TABLES\n{tables}\n#endif\n{calls} return 0; }}\n"
    )
    program = made(sources, by, "-O2", "-rdynamic", "-s", *flags.split())
    facts = mysqld_compiled(program)
    profiling = "yes" if "PROFILING" in flags else "no"
    assert (facts["instruments"], facts["profiling"]) == (instruments, profiling)
    words = {"all": "", "none": "no instruments"}
    assert in_short({"instruments": instruments}) == words.get(instruments, instruments)
    wrong, _ = mismatches(parts_of("recipe", "mysql", [by, "lessps"]), facts)
    refused = ["profiling has to be no, and it shows yes", "instruments must not be all, and it shows all"]
    assert wrong == [f"lessps: {text}" for text in refused if instruments == "all"]


def test_a_page_shows_it_and_warns_of_versions_that_were_compiled_otherwise(study: rqps.Study) -> None:
    assert "compiled" not in builds(study.runs, study.conditions).columns
    facts = study.conditions.filter(kind="tool", name="rqps").with_columns(
        kind=pl.lit("compiled"),
        name=pl.lit("optimization"),
        value=pl.when(pl.col("build") == "my1").then(pl.lit("-O2")).otherwise(pl.lit("-Os")),
    )
    with_facts = replace(study, conditions=pl.concat([study.conditions, facts]))
    warned = all_warnings(with_facts).filter(kind="compiled")
    others = study.runs.filter(pl.col("build") != "my1")["dbms"].unique().to_list()
    assert sorted(warned["dbms"]) == sorted(others)
    assert set(warned["text"]) == {"optimization: -Os, the base: -O2"}
    assert not all_warnings(with_facts).filter(pl.col("text").str.contains("between runs")).height
    assert "-Os" in sections.builds(with_facts).as_raw_html()
    conditions, runs = with_facts.conditions, study.runs.with_columns(version=pl.lit("1.0.0"))
    one_version = replace(study, conditions=conditions, runs=runs)
    assert all_warnings(one_version).filter(kind="compiled").is_empty()
