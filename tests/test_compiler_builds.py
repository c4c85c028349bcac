"""The page on builds by compiler and option: on a made-up study of eight flavours, and where there are none."""

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
import rqps
import synthetic
from executed import Notebook
from rqps import stats
from rqps.pages import compiler_builds as page
from rqps.report.claimed import frames_of
from rqps.report.site import NOTEBOOKS, analysis_notebooks, applies
from rqps.show import claims_of
from rqps.show.claims import wrong
from rqps.store import write_study_card

FLAVOURS = {
    "my1.base": ("gcc 12.2.0", "-O2", "x86-64", "no", "no", 1.0),
    "my2.base": ("gcc 12.2.0", "-O3", "x86-64", "no", "no", 1.0),
    "my3.base": ("clang 14.0.6", "-O3", "x86-64", "no", "no", 0.9),
    "my4.base": ("gcc 12.2.0", "-O3", "x86-64", "no", "yes", 1.2),
    "my5.base": ("clang 14.0.6", "-O3", "x86-64", "no", "yes", 1.3),
    "my6.base": ("gcc 12.2.0", "-O3", "x86-64", "yes", "yes", 1.201),
    "my7.base": ("clang 14.0.6", "-O3", "x86-64", "yes", "yes", 1.15),
    "my8.base": ("gcc 12.2.0", "-O3", "znver3", "no", "no", 1.1),
    "my9.base": ("clang 14.0.6", "-O3", "native", "no", "no", 0.95),
}
"""Maps builds to compiler, optimization, instruction set, LTO, PGO and speed. For `native`, gcc records the name of
the CPU, and clang the word."""


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> rqps.Study:
    data = tmp_path_factory.mktemp("flavours")
    shape = synthetic.Shape(dbms=tuple(FLAVOURS), noise=0.001)
    folder = data / "raw/study=synthetic"
    write_study_card(folder, synthetic.card(shape))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(synthetic, "SPEED", {dbms: speed for dbms, (*_, speed) in FLAVOURS.items()})
        for round_ in range(1, shape.rounds + 1):
            for dbms, (compiler, optimization, cpu, lto, pgo, _) in FLAVOURS.items():
                facts = {"compiler": compiler, "optimization": optimization, "lto": lto, "pgo": pgo}
                facts |= {"frame_pointers": "yes" if optimization == "-O2" else "no", "instruction_set": cpu}
                described = synthetic.manifest(dbms, round_, shape, version="8.0.28", compiled=facts)
                synthetic.write_run(folder, described, shape)
    return rqps.load("synthetic", data=data)


@pytest.fixture(autouse=True)
def trained_by_another_workload(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "TRAINED_BY", "another workload")


def test_flavours_are_named_by_what_their_programs_show(study: rqps.Study) -> None:
    flavours = dict(stats.flavours(study).select("dbms", "flavour").iter_rows())
    assert flavours["my1.base"] == "gcc -O2"
    assert flavours["my7.base"] == "clang -O3, LTO, PGO"
    assert flavours["my8.base"] == "gcc -O3, native"
    assert len(flavours) == len(FLAVOURS)
    assert flavours == stats.short_names(study)


def test_each_statement_is_tested_by_the_pairs_that_differ_in_it_alone(study: rqps.Study) -> None:
    tested = page.frame(study).filter(metric="operations_per_s")
    outcomes = {
        (row["statement"].split(" with ")[-1][:20], row["base"][:3], row["dbms"][:3]): row["outcome"]
        for row in tested.to_dicts()
    }
    assert [key[1:] for key in outcomes] == [
        *(("my2", "my3"), ("my8", "my9"), ("my4", "my5"), ("my6", "my7"), ("my4", "my6")),
        *(("my2", "my4"), ("my3", "my5")),
    ]
    assert [*outcomes.values()] == [*["confirmed"] * 3, "contradicted", *["confirmed"] * 3]


def test_native_is_an_option_of_the_page(study: rqps.Study) -> None:
    native = stats.effects_of_options(study).filter(option="native")
    assert dict(native.select("base", "dbms").iter_rows()) == {"my2.base": "my8.base", "my3.base": "my9.base"}
    assert native["estimate"].to_list() == pytest.approx([1.1, 0.95 / 0.9], abs=0.01)
    table = Notebook("compiler_builds", study)["table"]
    assert {row["options"] for row in table.to_dicts() if row["dbms"] in ("my8.base", "my9.base")} == {"-O3, native"}


def test_the_sentences_are_true_of_their_frame(study: rqps.Study) -> None:
    sentences = page.findings(study).sentences
    assert len(sentences) == len(page.STATEMENTS)
    assert sentences[0].startswith(
        "“gcc does slightly better than clang without LTO or PGO”: confirmed: clang -O3 runs"
    )
    assert len(claims_of(*sentences)) == 7
    frame_of = frames_of(study, analysis_notebooks(NOTEBOOKS))
    assert [problem for sentence in sentences for problem in wrong(sentence, frame_of)] == []


def test_the_workload_of_the_training_does_not_test_what_is_said_of_others(
    study: rqps.Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page, "TRAINED_BY", "sysbench")
    tested = page.frame(study).filter(metric="operations_per_s", statement=page.OTHER_WORKLOADS)
    assert set(tested["outcome"]) == {"not tested, since this study runs sysbench itself"}


def test_too_few_rounds_confirm_nothing(study: rqps.Study) -> None:
    few = replace(study, runs=study.runs.filter(pl.col("round") <= 3))
    tested = page.frame(few).filter(metric="operations_per_s")
    assert set(tested["outcome"]) == {"inconclusive"}


def test_a_statement_without_a_pair_is_not_tested(study: rqps.Study) -> None:
    only_gcc = replace(study, runs=study.runs.filter(pl.col("dbms").is_in(["my1.base", "my2.base", "my4.base"])))
    sentences = page.findings(only_gcc).sentences
    assert [("not tested" in sentence) for sentence in sentences] == [True, True, True, True, False]


def test_it_is_the_page_of_studies_with_flavours_alone(study: rqps.Study, samples: Path) -> None:
    notebook = NOTEBOOKS / "compiler_builds.ipynb"
    assert applies(notebook, study.runs, study)
    others = rqps.load("pg-releases", samples)
    assert not applies(notebook, others.runs, others)
    assert page.findings(others).sentences == (page.NO_FLAVOURS,)
