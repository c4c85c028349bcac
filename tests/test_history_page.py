"""The page of histories, and a study that only counts."""

from pathlib import Path

import polars as pl
import rqps
from rqps import profile, stats
from rqps.pages import history
from rqps.report.first_page import answer
from rqps.report.site import NOTEBOOKS, analysis_notebooks, applies
from rqps.show import claims_of
from rqps.stats.metrics import INSTRUCTIONS

STUDY = "rocksdb-history"


def test_a_study_that_only_counts_is_its_counts(samples: Path) -> None:
    study = rqps.load(STUDY, samples)
    assert set(study.runs["mode"]) == {"instructions"}
    assert study.runs["dbms"].n_unique() == 84
    _, compared = stats.relate(study)
    assert set(compared["metric"]) == {INSTRUCTIONS}  # its times are those of counting
    assert stats.measured(study).is_empty()


def test_its_report_has_the_pages_that_are_about_releases(samples: Path) -> None:
    study = rqps.load(STUDY, samples)
    pages = [path.stem for path in analysis_notebooks(NOTEBOOKS) if applies(path, study.runs, study)]
    assert pages == ["history"]


def test_releases_are_in_the_order_of_versions(samples: Path) -> None:
    study = rqps.load(STUDY, samples)
    ordered = stats.releases(study)
    versions = dict(study.runs.select("dbms", "version").iter_rows())
    numbers = [tuple(map(int, versions[dbms].split("."))) for dbms in ordered]
    assert numbers == sorted(numbers)
    assert numbers[0] == (5, 18, 4)


def test_findings_name_the_releases_and_claim_what_the_frames_have(samples: Path) -> None:
    study = rqps.load(STUDY, samples)
    first, *_ = history.findings(study).sentences
    assert first.startswith(
        "byrx.fwdrange: instructions per operation +61.1 % from 5.18.4 to 11.8.1: +7.2 points at 6.10.2, "
    )
    course = stats.courses_of(study)
    frames = {"changes": course.changes, "courses": course.summary}
    claims = claims_of(*history.findings(study).sentences)
    assert len(claims) > 10
    assert all(claim.recomputed(frames[claim.frame]) is not None for claim in claims)


def test_functions_of_a_change_add_up_to_it(samples: Path) -> None:
    study = rqps.load(STUDY, samples)
    of_step = study.steps.filter(step="byrx.readrandom")
    pair = ("rx6221.c8r32-small", "rx6253.c8r32-small")
    functions = profile.function_changes(study.instructions, of_step, *pair)
    assert functions["function"][0] == "rocksdb::BlockIter::CompareCurrentKey"
    totals = functions.select(pl.col("before", "after").sum())
    rounds, _ = stats.relate(study)
    ratios = dict(rounds.filter(step="byrx.readrandom").select("dbms", "me_value").iter_rows())
    assert [round(total) for total in totals.row(0)] == [round(ratios[dbms]) for dbms in pair]


def test_what_one_round_can_not_know_is_in_no_table(samples: Path) -> None:
    study = rqps.load(STUDY, samples)
    course = stats.courses_of(study)
    assert history.once(study)
    heads = set(history.with_heads(course.changes, study).columns)
    assert {"change, %", "points of the first", "release", "release before"} <= heads
    assert not heads & {"certainty, %", "from, %", "to, %", "at the earliest", "at the latest", "host"}
    assert "smallest to be named, %" not in history.with_heads(course.summary, study).columns
    several = rqps.load("releases", samples)
    changes = stats.courses_of(several).changes
    assert {"certainty, %", "from, %", "at the latest"} <= set(history.with_heads(changes, several).columns)


def test_a_first_page_of_counts_does_not_call_its_own_answer_inconclusive(samples: Path) -> None:
    study = rqps.load(STUDY, samples)
    notebooks = [path for path in analysis_notebooks(NOTEBOOKS) if applies(path, study.runs, study)]
    given = answer(study, *stats.relate(study), notebooks)
    assert not any("nconclusive" in str(sentence) for sentence in given.sentences)
    assert "decided" not in given.measured
    assert "5.18.4 to 11.8.1" in str(given.sentences[0])
