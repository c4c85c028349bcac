"""Builds of one version are named by how they were compiled, as far as that differs and is known."""

import shutil
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import rqps
from rqps import stats
from rqps.cli import main
from rqps.report import build
from rqps.report.site import NOTEBOOKS
from synthetic import Shape, write_study
from test_bad_input import sentences, write

SAMPLES = Path(__file__).parent.parent / "data/sample"
GCC, CLANG = "gcc 12.2.0", "clang 14.0.6"


def compiled(compiler: str, optimization: str = "-O2", *options: str, **facts: str) -> dict[str, str]:
    """The facts that rqps reads from a program."""
    usual = {"frame_pointers": "no", "instruction_set": "x86-64", "lto": "no", "pgo": "no"}
    return {"compiler": compiler, "optimization": optimization, **usual, **dict.fromkeys(options, "yes"), **facts}


def write_builds(folder: Path, builds: Mapping[str, Mapping[str, Any]], **of_run: Any) -> None:
    """A study of builds of version 8.0.28; `builds` maps dbms to facts of their programs."""
    known = {"version": lambda _: "8.0.28", "compiled": lambda name: builds[name]} | of_run
    write(folder, lambda name, *_: 0.8 if name == [*builds][-1] else 1.0, tuple(builds), **known)


def names(folder: Path, column: str = "short") -> list[str]:
    return stats.names(rqps.load(folder))[column].to_list()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "raw/study=synthetic"


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ((compiled(GCC), compiled(CLANG)), ("gcc -O2", "clang -O2")),
        ((compiled(GCC), compiled(GCC, "-O3", "lto", "pgo")), ("gcc -O2", "gcc -O3, LTO, PGO")),
        # what all have in common does not tell them apart, except for the compiler and its optimization
        ((compiled(GCC, "-O3", "lto"), compiled(GCC, "-O3", "lto", "pgo")), ("gcc -O3", "gcc -O3, PGO")),
        ((compiled(GCC), compiled(GCC, instruction_set="znver4")), ("gcc -O2", "gcc -O2, native")),
        ((compiled(GCC), compiled("gcc 13.1.0")), ("gcc 12.2.0 -O2", "gcc 13.1.0 -O2")),
        # frame pointers differ with the optimization, which is enough, or alone
        ((compiled(GCC, "-O2", "frame_pointers"), compiled(GCC, "-O3")), ("gcc -O2", "gcc -O3")),
        (
            (compiled(GCC, "-O2", "frame_pointers"), compiled(GCC)),
            ("gcc -O2, frame pointers", "gcc -O2, no frame pointers"),
        ),
        # not recorded is not named
        ((compiled(GCC, instruction_set="unknown"), compiled(GCC, lto="yes")), ("gcc -O2", "gcc -O2, LTO")),
        ((compiled(GCC, "unknown"), compiled(CLANG, "unknown")), ("gcc", "clang")),
        # the same, or nothing known: the builds' own names
        ((compiled(GCC), compiled(GCC)), ("8.0.28 (my0)", "8.0.28 (my1)")),
        ((compiled(GCC), {}), ("8.0.28 (my0)", "8.0.28 (my1)")),
        (({}, {}), ("8.0.28 (my0)", "8.0.28 (my1)")),
        # two alike and one that differs
        ((compiled(GCC), compiled(GCC), compiled(CLANG)), ("gcc -O2, my0", "gcc -O2, my1", "clang -O2")),
        ((compiled(GCC), compiled(CLANG), {}), ("8.0.28 by gcc -O2", "8.0.28 by clang -O2", "8.0.28 (my2)")),
    ],
)
def test_builds_are_named_by_what_differs(
    folder: Path, facts: tuple[dict[str, str], ...], expected: tuple[str, ...]
) -> None:
    write_builds(folder, {f"my{number}.base": of_build for number, of_build in enumerate(facts)})
    assert tuple(names(folder)) == expected


def test_sentences_have_these_names(folder: Path) -> None:
    write_builds(folder, {"my0.base": compiled(GCC), "my1.base": compiled(CLANG, "-O3", "lto")})
    shown = sentences(folder)
    assert " MySQL 8.0.28 by clang -O3, LTO delivers 20 % less throughput than gcc -O2 (" in shown[0]
    assert " regressed most: clang -O3, LTO −20 %" in shown[1]
    assert "my0" not in " ".join(shown)


def test_other_versions_have_only_their_version(folder: Path) -> None:
    builds = {"my0.base": compiled(GCC), "my1.base": compiled(CLANG), "my2.base": compiled(GCC)}
    write_builds(folder, builds, version=lambda name: "8.0.40" if name == "my2.base" else "8.0.28")
    assert names(folder) == ["8.0.28 by gcc -O2", "8.0.28 by clang -O2", "8.0.40"]
    assert names(folder, "name")[0] == "MySQL 8.0.28 by gcc -O2"


def test_configs_of_a_build_are_compiled_alike(folder: Path) -> None:
    """The sentence on a config is that on its options, whatever the names of the builds have."""
    builds = {
        "my0.base": compiled(GCC),
        "my1.base": compiled(GCC, "-O3", "lto"),
        "my0.ps0": compiled(GCC),
        "my1.ps0": compiled(GCC, "-O3", "lto"),
    }
    write_builds(folder, builds)
    assert names(folder) == [
        *("gcc -O2", "gcc -O3, LTO", "gcc -O2, performance schema off", "gcc -O3, LTO, performance schema off")
    ]
    (of_config,) = [sentence for sentence in sentences(folder) if sentence.startswith("With ")]
    assert of_config.startswith("With performance schema off, throughput ")
    assert "gcc -O3, LTO" in of_config


def test_layouts_are_named_where_they_differ(folder: Path) -> None:
    builds = {"my0.base": compiled(GCC), "my1.base": compiled(GCC)}
    write_builds(folder, builds, layout=lambda name: 7 if name == "my1.base" else None)
    assert names(folder) == ["gcc -O2", "gcc -O2, layout 7"]
    assert stats.short_names(rqps.load(SAMPLES / "study=pg-layouts")) == {
        "pg15_sections.pg-built": "gcc -O2, layouts 1 to 14",
        "pg15_relinked.pg-built": "gcc -O2, layouts 101 to 114",
    }


def test_hosts_that_compile_otherwise_leave_the_names_of_builds(folder: Path) -> None:
    """A name stands for a dbms on all hosts."""
    write_builds(folder, {"my0.base": compiled(GCC), "my1.base": compiled(CLANG)})
    here = rqps.load(folder)
    optimized = (pl.col("dbms") == "my1.base") & (pl.col("name") == "optimization")
    value = pl.when(optimized).then(pl.lit("-O3")).otherwise("value")
    far = [frame.with_columns(host=pl.lit("far")) for frame in (here.runs, here.conditions.with_columns(value=value))]
    both = replace(here, runs=pl.concat([here.runs, far[0]]), conditions=pl.concat([here.conditions, far[1]]))
    assert stats.names(both)["short"].to_list() == ["8.0.28 by gcc -O2", "8.0.28 (my1)"]


@pytest.mark.usefixtures("one_kernel")
def test_the_sample_has_its_builds_in_the_legend(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (notebooks := tmp_path / "notebooks").mkdir()
    shutil.copy(NOTEBOOKS / "relative_throughput.ipynb", notebooks)
    page = build("pg-compiler-builds", SAMPLES.parent, tmp_path / "report", notebooks).read_text()
    legend = "<dt>pg15_clang_lto_pgo.pg-built</dt><dd>PostgreSQL 15.18 by clang -O3, LTO, PGO</dd>"
    assert legend in page
    assert ">clang -O3, LTO, PGO<" in page, "the head of a column"
    shows = partial(main, ["show", str(SAMPLES / "study=pg-compiler-builds")])
    assert shows() == 0
    assert "pg15_gcc_o2.pg-built         PostgreSQL 15.18 by gcc -O2" in capsys.readouterr().out


def test_a_base_without_runs_keeps_its_own_name(tmp_path: Path) -> None:
    data = write_study(tmp_path, Shape(dbms=("my2.base", "my2.ps0")))
    for run in (data / "raw/study=synthetic").glob("run=*@my2.base@*"):
        shutil.rmtree(run)
    names = stats.short_names(rqps.load("synthetic", data))
    assert names["my2.base"] == "my2.base"
    assert names.keys() == {"my2.base", "my2.ps0"}
