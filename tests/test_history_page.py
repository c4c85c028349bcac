"""The page of histories, and a study that only counts."""

import math
import re
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
import rqps
from rqps import profile, stats
from rqps.pages import history
from rqps.report.claimed import frames_of
from rqps.report.first_page import answer
from rqps.report.site import NOTEBOOKS, analysis_notebooks, applies
from rqps.show import Clause, claims_of
from rqps.show.claims import wrong
from rqps.stats.metrics import INSTRUCTIONS
from test_bad_input import write

STUDY = "rocksdb-history"


def findings(study: rqps.Study) -> tuple[str, ...]:
    course = stats.courses_of(study)
    return history.findings(study, course.summary, course.changes).sentences


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
    _, _, first, *_ = findings(study)
    assert first.startswith(
        "byrx.fwdrange changed most: instructions per operation +60.6 points of 6.0.1 from 5.18.4 to 11.8.1: +"
    )
    course = stats.courses_of(study)
    frames = {"changes": course.changes, "courses": course.summary, "means": stats.means(study)}
    for frame in course:
        assert set(frame.filter(group="byrx", kind="fwdrange")["step"]) == {"byrx.fwdrange"}
    claims = claims_of(*findings(study))
    assert len(claims) > 10
    assert all(claim.recomputed(frames[claim.frame]) is not None for claim in claims)


def test_the_mean_is_a_sentence_on_releases_and_the_steps_that_they_changed(samples: Path) -> None:
    study = rqps.load("mysql-history", samples)
    mean, by_release, *_ = findings(study)
    assert mean.startswith(
        "Over 12 steps MySQL 9.7.4 executes 10.3 % more instructions per operation than 5.5.34 (geometric mean); by "
    )
    assert by_release.startswith(
        "By release, each since the one measured before: 5.6.14 −1.0 points (most: delete −14.2), 5.6.24 −"
    )
    assert ", 8.0.15 +4.0 (most: hot-points +24.0), 8.0.31 +" in by_release
    before, after = (compared_of(study, "hot-points", dbms) for dbms in ("my8012.common", "my8015.common"))
    assert round(100 * (after - before), 1) == 24.0, "as a reader subtracts the table's ratios"


@pytest.mark.parametrize("name", ["mysql-history", "pg-history", "rocksdb-history", "releases"])
def test_a_wrong_number_in_the_sentence_on_the_mean_is_found(name: str, samples: Path) -> None:
    study = rqps.load(name, samples)
    frame_of = frames_of(study)
    for sentence in findings(study)[:2]:
        assert stats.ALL_STEPS not in sentence
        assert wrong(sentence, frame_of) == []
        assert claims_of(sentence)
        for claim in claims_of(sentence):
            other = replace(claim, number=claim.number + 1, written="")
            assert len(wrong(Clause(sentence, [other]), frame_of)) == 1


def compared_of(study: rqps.Study, step: str, dbms: str) -> float:
    ratio: float = stats.relate(study)[1].filter(step=step, dbms=dbms, metric=INSTRUCTIONS)["estimate"].item()
    return ratio


def courses_over(folder: Path, speeds: dict[str, dict[str, float]]) -> rqps.Study:
    """A study of releases 50 to 53, of four steps; `speeds` maps releases to the steps that they changed."""
    names = tuple(f"my{number}.base" for number in range(50, 54))

    def speed(name: str, step: str, number: int) -> float:
        noise = 1 + 0.001 * ((7 * number + len(step) + int(name[2:4])) % 5 - 2)
        return noise * math.prod(speeds.get(one, {}).get(step, 1.0) for one in names[: names.index(name) + 1])

    write(folder, speed, names, ("point-query", "scan", "insert", "delete"))
    return rqps.load(folder)


@pytest.mark.parametrize(
    ("speeds", "says", "by_release"),
    [
        (
            {"my52.base": {"scan": 0.8, "insert": 0.8, "delete": 1.1}},
            "Over 4 steps MySQL 53.0.0 delivers 8 % less throughput than 50.0.0 (geometric mean)",
            "52.0.0 −8 points (most: a step −20)",
        ),
        (
            {
                "my51.base": dict.fromkeys(("point-query", "scan", "insert", "delete"), 1.25),
                "my53.base": {"point-query": 0.8},
            },
            "Over 4 steps MySQL 53.0.0 delivers 18 % more throughput than 50.0.0 (geometric mean)",
            "51.0.0 +25 points (most: a step +25), 53.0.0 −7 (most: a step −25)",
        ),
        (
            dict.fromkeys(
                ("my51.base", "my53.base"), dict.fromkeys(("point-query", "scan", "insert", "delete"), 0.8)
            ),
            "Over 4 steps MySQL 53.0.0 delivers 36 % less throughput than 50.0.0 (geometric mean)",
            "51.0.0 −20 points (most: a step −20), 53.0.0 −16 (most: a step −16)",
        ),
    ],
)
def test_the_mean_of_throughput(
    tmp_path: Path, speeds: dict[str, dict[str, float]], says: str, by_release: str
) -> None:
    study = courses_over(tmp_path / "raw/study=synthetic", speeds)
    mean, of_releases, *others = findings(study)
    number = re.compile(r"(?<![\d.])\d+\.\d(?!\.?\d)")
    rounded, of_steps = (number.sub(lambda one: f"{float(one[0]):.0f}", text) for text in (mean, of_releases))
    assert re.split("; (?:by|without) ", rounded)[0].rstrip(".") == says
    of_steps = re.sub(r"most: [\w-]+", "most: a step", of_steps)
    assert of_steps == f"By release, each since the one measured before: {by_release}."
    assert wrong(mean, frames_of(study)) + wrong(of_releases, frames_of(study)) == []
    assert len(others) == len({step for steps in speeds.values() for step in steps}) + (len(speeds) < 2)


def test_a_flat_mean_is_not_one_of_the_steps(tmp_path: Path) -> None:
    study = courses_over(tmp_path / "raw/study=synthetic", {})
    (flat,) = findings(study)
    assert flat.startswith("the mean of all steps, ")
    assert " are flat: a change of " in flat


def test_functions_of_a_change_add_up_to_it(samples: Path) -> None:
    study = rqps.load(STUDY, samples)
    costs = profile.profiled_costs(study, "instructions").filter(step="byrx.readrandom")
    pair = ("rx6221.c8r32-small", "rx6253.c8r32-small")
    functions = profile.function_changes(costs, *pair)
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
    assert {"change, %", "points of the base", "release", "release before"} <= heads
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
    assert given.sentences[0].startswith("Over 2 steps RocksDB 11.8.1 executes 50.9 % more instructions per ")
    assert "5.18.4 to 11.8.1" in given.sentences[1]
