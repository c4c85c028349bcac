"""The first page answers: how much in all, what changed most, where that goes, and what is inconclusive."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
import rqps
import synthetic
import synthetic_duet
import synthetic_scenarios
from rqps import stats
from rqps.pages import insert_benchmark_report
from rqps.report.first_page import Answer, answer
from rqps.report.index import facts_of
from rqps.stats.metrics import INSTRUCTIONS, THROUGHPUT
from rqps.store import write_study_card

ROOT = Path(__file__).parent.parent


ANALYSIS = ROOT / "notebooks/analysis"
WHERE = ("flamegraph_breakdown", "relative_throughput")
"""Notebooks of every study with profiles."""


def answer_of(data: Path, study: str = "synthetic", pages: tuple[str, ...] = ()) -> Answer:
    loaded = rqps.load(study, data)
    return answer(loaded, *stats.relate(loaded), notebooks(*pages))


def notebooks(*names: str) -> list[Path]:
    return [ANALYSIS / f"{name}.ipynb" for name in names]


@pytest.mark.parametrize("write", [synthetic.write_study, synthetic_duet.write_duets])
def test_the_largest_sure_change_comes_first_with_its_interval(write: Callable[[Path], Path], tmp_path: Path) -> None:
    in_all, most, cpu, configs, last = answer_of(write(tmp_path)).sentences
    over = r"Over 2 single-client steps \(point-query, update-index\) MySQL 2\.0\.0 delivers (29|30)\.\d % less "
    assert re.match(rf"{over}throughput than 1\.0\.0 \(geometric means, ± 0\.\d points, 6 rounds\)\.", in_all)
    assert re.search(r" regressed most: 2\.0\.0 −(29|30)\.\d % \(−", most)
    assert ", 6 rounds), CPU per operation +4" in most
    assert most.endswith("; without other configs, 2 of 2 comparisons regressed.")
    of_base = r" of CPU per operation \(1\.0\.0 uses \d+\.\d+ µs\), "
    assert re.match(rf"(point-query|update-index) on 2\.0\.0: \+\d+\.\d+ µs \(\+[^)]*\){of_base}", cpu)
    assert re.search(r" \+\d+\.\d+ in user space and [+−]\d+\.\d+ in the kernel", cpu)
    assert re.match(
        r"With performance schema off, .* to 1\.0\.0: 2\.0\.0 recovers from −\d+\.\d % to −(19|20)\.\d %\.", configs
    )
    start = "Without other configs, all comparisons are conclusive; the smallest decided change of throughput is "
    assert last.startswith(start)


def test_what_throughput_leaves_open_is_said_by_the_cpu_of_an_operation(tmp_path: Path) -> None:
    """The load generator took its own time, now this and now that; the server's CPU per operation is as it was."""
    shape, folder = synthetic.Shape(), tmp_path / "raw/study=synthetic"
    write_study_card(folder, synthetic.card(shape))
    for number in range(1, shape.rounds + 1):
        for place, dbms in enumerate(shape.dbms):
            facts = synthetic.manifest(dbms, number, shape)
            rows = synthetic.tables(facts, shape)
            for step in rows["steps"]:
                step["operations_per_s"] /= 1 + (3 * number + 7 * place) % 5
            synthetic.write_rows(folder, facts, rows)
    in_all, most, cpu, *_, last = answer_of(tmp_path).sentences
    assert " 2.0.0 is inconclusive against 1.0.0 (geometric means, ± " in in_all
    assert " regressed most: 2.0.0 +4" in most
    assert " % of CPU per operation (+4" in most
    counts = "2 of 2 comparisons are inconclusive, of which cost per operation decides 2: "
    assert most.endswith(f"{counts}point-query of 2.0.0 and update-index of 2.0.0 more expensive.")
    assert " on 2.0.0: +" in cpu
    assert last == "Without other configs, all comparisons are conclusive by throughput or by cost."


def test_an_unsure_number_is_never_the_headline(tmp_path: Path) -> None:
    synthetic.write_study(tmp_path, rounds=2)
    in_all, counts, *_, last = answer_of(tmp_path).sentences
    assert "2.0.0 is inconclusive against 1.0.0" in in_all
    assert counts == (
        "No change is shown, neither in throughput nor in cost per operation: 2 of 2 comparisons are inconclusive."
    )
    assert last.startswith("Inconclusive, without other configs: 2 of 2 comparisons (point-query of 2.0.0 and ")
    assert last.endswith("; a verdict takes 4 rounds: there are 2.")


def test_a_study_of_the_performance_schema_answers_with_its_cost(tmp_path: Path) -> None:
    result = answer_of(synthetic_scenarios.write(tmp_path), pages=("perf_schema_overhead",))
    first, second, *_ = result.sentences
    assert first.startswith(
        "CPU per operation against the performance schema off with 1 client: the default instruments "
    )
    assert "; everything enabled +" in first
    assert second.startswith("In point-query, each against off: +")
    assert ") by recording waits, " in second
    assert [heading for heading, _ in result.tables] == ["What the performance schema costs"]


def test_a_study_of_profiles_names_functions(samples: Path) -> None:
    result = answer_of(samples, "where-did-it-go", WHERE)
    in_all, by_release, by_work, most, where, *_ = result.sentences
    assert re.search(r" of MySQL 9\.7\.4: point-query \+2\d\.\d %, .*, writes \+1\d\.\d %\.$", by_work)
    assert " more CPU per operation than 5.6.24 (geometric means" in in_all
    assert by_release.startswith("By release, each since the one measured before: CPU per operation +")
    assert re.search(r": −[\d.]+ at 5\.6\.24, \+[\d.]+ at 8\.0\.33, −", by_release), "in the order of the releases"
    assert most.startswith("point-query regressed most: 9.7.4 +26.8 % of CPU per operation (")
    assert re.search(r"Components, in µs: .* Functions, in µs: .*; all others", where)
    assert result.tables[0][0] == "Where the time goes"


def test_one_counted_round_decides_nothing_that_time_leaves_open(samples: Path) -> None:
    reads = rqps.load("rocksdb-reads", samples)
    rounds, compared = stats.relate(reads)
    by_time_nothing = compared.with_columns(verdict=pl.lit("unsure"))
    sentences = answer(reads, rounds, by_time_nothing, notebooks(*WHERE)).sentences
    assert sentences[3].startswith("No change is shown")
    assert sentences[-1].startswith("Inconclusive: 30 of 30 ")
    counted = compared.filter(metric=INSTRUCTIONS)
    assert set(counted["n"]) == {1}
    assert set(counted["verdict"]) == {"unsure"}
    assert set(counted["needs"]) == {"4 rounds: there are 1"}


def asking(study: rqps.Study, asks: str | None) -> rqps.Study:
    return replace(study, card=study.card.model_copy(update={"asks": asks}))


def first_rounds(study: rqps.Study, most: int) -> rqps.Study:
    runs = study.runs.filter(pl.col("round") <= most)
    frames = {name: getattr(study, name) for name in ("steps", "slices", "status", "conditions", "engine")}
    of_runs = {name: frame.filter(pl.col("run").is_in(runs["run"].implode())) for name, frame in frames.items()}
    return replace(study, runs=runs, **of_runs)


@pytest.mark.parametrize(
    ("study", "kind"),
    [
        ("sysbench-releases", "releases"),
        ("ps-statements", "parts"),
        ("pg-compiler-builds", "builds"),
        ("rocksdb-variations", "config"),
    ],
)
def test_the_kind_of_question_follows_from_what_differs(study: str, kind: str, samples: Path) -> None:
    assert stats.asks(asking(rqps.load(study, samples), None)) == kind


@pytest.mark.parametrize(
    ("study", "asks", "page", "words"),
    [
        (
            "writes-of-inserts",
            "writes",
            "writes_explained",
            "Written per operation by 5.7.22 (4 rounds, which differ ",
        ),
        ("waits-of-updates", "waits", "waiting", "insert: 8.0.33 waits longest, "),
    ],
)
def test_a_study_of_bytes_or_waits_answers_with_them(
    study: str, asks: str, page: str, words: str, samples: Path
) -> None:
    """The same study without its kind answers with throughput."""
    loaded = rqps.load(study, samples)
    assert loaded.card.asks == asks
    related = stats.relate(loaded)
    first, *others = answer(loaded, *related, notebooks(page)).sentences
    assert first.startswith(words)
    assert any("less throughput than 5." in sentence for sentence in others), "what is inconclusive is of throughput"
    assert " less throughput than 5." in answer(asking(loaded, None), *related, notebooks(page)).sentences[0]


def test_bytes_have_their_change_and_its_purposes(samples: Path) -> None:
    second = answer_of(samples, "writes-of-inserts", ("writes_explained",)).sentences[1]
    assert second.startswith("l.i0 against 5.7.22: 8.0.33 writes 0.28 KB (+6.3 %): redo log +0.01 KB; 9.7.4 writes ")
    assert second.endswith("; 9.7.4 writes 5.42 KB (−41.6 %): growing files −4.09 KB.")


@pytest.mark.parametrize(
    ("study", "page", "rounds", "words"),
    [
        ("where-did-it-go", "flamegraph_breakdown", 2, "By release, each since the one"),
        ("ps-cost-insert", "perf_schema_overhead", 1, "CPU per operation against the performance schema off "),
        ("writes-of-inserts", "writes_explained", 1, "Written per operation by 5.7.22 (1 round): "),
    ],
)
def test_changes_of_few_rounds_say_that_they_decide_nothing(
    study: str, page: str, rounds: int, words: str, samples: Path
) -> None:
    complete = rqps.load(study, samples)
    few = f" This is from {rounds} round{'s' * (rounds > 1)} and decides nothing: a verdict takes 4."
    for part, says in ((first_rounds(complete, rounds), True), (complete, False)):
        sentences = answer(part, *stats.relate(part), notebooks(page)).sentences
        (about,) = [sentence for sentence in sentences if sentence.startswith(words.partition(" (1")[0])]
        assert about.endswith(few) == says


def test_steps_are_explained_where_they_are_named(samples: Path) -> None:
    result = answer_of(samples, "sysbench-releases", ("relative_throughput",))
    assert "update-one_range=100" in result.steps
    assert result.steps["random-points.pre_range=100"] == (
        "100 random rows by their primary keys. Before anything was written."
    )
    of_groups, of_steps = (table for _, table in result.tables)
    assert "<abbr" not in of_groups
    assert '<abbr title="R' not in of_steps
    assert '<abbr title="100 random values of the secondary index, which holds all that is asked for.">' in of_steps


def test_a_redo_log_that_only_some_fill_is_a_warning(samples: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a lower limit than InnoDB's, since no sample fills a log."""
    page = "insert_benchmark_report"
    assert not any("redo log" in text for text in answer_of(samples, "ps-cost-insert", (page,)).sentences)
    monkeypatch.setattr(insert_benchmark_report, "FULL_LOG", 45)
    (warning,) = [text for text in answer_of(samples, "ps-cost-insert", (page,)).sentences if "redo log" in text]
    assert warning.startswith("In l.i1 and l.i2 up to 49 % of the redo log of 8.0.33")
    assert " is in use (of others, at most 43 %): from 45 % on, " in warning
    assert re.search(r" Without l\.i1 and l\.i2, .* over the other steps", warning)


def test_further_scenarios_stand_behind_the_headline(samples: Path) -> None:
    """Digests are what recording statements costs beyond recording them without."""
    second = answer_of(samples, "ps-statements-as-text", ("perf_schema_overhead",)).sentences[1]
    with_digests, without, nothing = second.removeprefix("In point-query, each against off: ").split(" by ")[:3]
    assert float(with_digests.split(" ")[0]) > float(without.split(", ")[1].split(" ")[0]) > 2
    assert nothing.endswith(", less than 2 %")


def test_options_of_all_stand_in_a_line_and_those_of_some_with_their_dbms(samples: Path) -> None:
    measured = rqps.load("sysbench-releases", samples)
    of_all, *of_some = [text for name, text in facts_of(measured, measured.runs) if name == "options"]
    assert "innodb_buffer_pool_size 256M; " in of_all
    assert "performance_schema ON" in of_all
    newest = "on my8031.common, my8033.common, my97.common: "
    assert any(text.startswith(newest) and "redo_log_capacity" in text for text in of_some)


def test_one_line_says_what_it_was_measured_on(tmp_path: Path) -> None:
    written = synthetic.write_study(tmp_path)
    assert answer_of(written).measured == (
        "5 s a step · 1,000 rows · machine, ? CPUs, 0 GB · 6 rounds in random order · 4 of 4 comparisons decided "
        "for this hour"
    )


def test_runs_of_all_occasions_are_planned(tmp_path: Path) -> None:
    synthetic.write_study(tmp_path)
    write_study_card(tmp_path / "raw/study=synthetic", synthetic.card(occasions=2))
    study = rqps.load("synthetic", tmp_path)
    planned = "6 rounds on each of 2 occasions planned; 18 of 36 runs finished"
    assert dict(facts_of(study, study.runs))["runs"] == planned


def test_a_mean_says_over_how_many_steps_it_is_where_a_dbms_lacks_one(tmp_path: Path) -> None:
    shape = synthetic.Shape(steps=("point-query", "update-index", "insert"))
    folder = tmp_path / "raw/study=synthetic"
    write_study_card(folder, synthetic.card(shape))
    for number in range(1, shape.rounds + 1):
        for dbms in shape.dbms:
            facts = synthetic.manifest(dbms, number, shape)
            rows = synthetic.tables(facts, shape)
            rows["steps"] = [row for row in rows["steps"] if (dbms, row["step"]) != ("my2.base", "insert")]
            synthetic.write_rows(folder, facts, rows)
    assert answer_of(tmp_path).sentences[0].startswith("Over 2 of 3 single-client steps MySQL 2.0.0 delivers ")


VERDICTS = {"slower": "(?:regressed|are slower)", "faster": "(?:improved|are faster)"}
VERDICTS |= {"same": r"(?:is|are) unchanged \(within 2 %\)", "unsure": "(?:is|are) inconclusive"}


@pytest.mark.parametrize("study", ["pg-insert", "point-lookups", "pg-releases-since-16", "mysql-history-timed"])
def test_verdicts_are_counted_as_the_table_marks_them(study: str, samples: Path) -> None:
    """Of the dbms and steps of the first sentence; what cost per operation decides is named beside them."""
    loaded = rqps.load(study, samples)
    rounds, compared = stats.relate(loaded)
    shown = answer(loaded, rounds, compared, []).sentences
    (says,) = [text for text in shown if re.search(r" \d+ of \d+ comparisons (?!\()", text)]
    without = [step for steps in stats.left_out(loaded).values() for step in steps]
    alike = pl.col("dbms").str.ends_with(loaded.card.base.partition(".")[2])
    rows = compared.filter(alike, ~pl.col("step").is_in(without), metric=THROUGHPUT)
    for verdict, words in VERDICTS.items():
        marked = rows.filter(verdict=verdict).height
        counted = re.search(rf" (\d+)(?: of {rows.height} comparisons)? {words}", says)
        assert int(counted[1] if counted else 0) == marked
    by_cost = stats.deciding(compared.filter(alike, ~pl.col("step").is_in(without)))
    by_cost = by_cost.filter(pl.col("metric") != THROUGHPUT, pl.col("verdict") != "unsure")
    assert (f", of which cost per operation decides {by_cost.height}: " in says) == bool(by_cost.height)
    assert all(f"{step} of " in says for step in by_cost["step"]) or re.search(r" and \d+ others? ", says)


def test_a_larger_change_that_is_inconclusive_stands_beside_the_decided_one(samples: Path) -> None:
    shown = answer_of(samples, "pg-releases-since-16").sentences
    (says,) = [text for text in shown if "range-covered-si regressed: 18.6 −3.5 %" in text]
    assert " (larger, but inconclusive: 17.0 −4.2 %)" in says


def test_points_of_a_release_are_those_that_the_table_shows_also_where_the_base_is_not_the_first(
    samples: Path,
) -> None:
    study = rqps.load("mysql-history-timed", samples)
    shown = answer_of(samples, "mysql-history-timed").sentences
    (says,) = [text for text in shown if text.startswith("By release, ")]
    assert re.search(r" throughput −\d+\.\d points of 5\.6\.24 from 5\.5\.34 to 9\.7\.4: ", says)
    means = stats.means_to_base(study).filter(metric=THROUGHPUT)
    ratios = {study.card.base: 1.0, **dict(means.select("dbms", "estimate").iter_rows())}
    names = {short: dbms for dbms, short in stats.short_names(study).items()}
    before = dict(zip(stats.releases(study)[1:], stats.releases(study), strict=False))
    points = re.findall(r"([+−][\d.]+) at (\d[\d.]+\d)", says)
    assert len(points) > 2
    for written, release in points:
        dbms = names[release]
        assert float(written.replace("−", "-")) == pytest.approx(
            100 * (ratios[dbms] - ratios[before[dbms]]), abs=0.051
        )


def test_scenarios_that_are_inconclusive_are_those_against_off(samples: Path) -> None:
    """Not the comparisons of releases with the base."""
    result = answer_of(samples, "ps-by-release", ("perf_schema_overhead",)).sentences
    assert result[1].startswith("Highest cost: everything enabled on 9.7.4 in point-query, +38.3 % (")
    assert ", throughput −19.8 % (−" in result[1]
    says = "Costs that are inconclusive: 1 of 24 comparisons (update-index of the default instruments on 5.6.14)."
    assert result[-1].startswith(says)


def test_each_option_of_a_build_has_its_own_effect(samples: Path) -> None:
    shown = answer_of(samples, "pg-compiler-builds", ("compiler_builds",)).sentences
    assert shown[1].startswith(
        "Each option by itself (geometric means): clang in place of gcc −1.8 % (−3.0 to −0.7 %) with -O2, "
    )
    assert "; LTO +3.2 % (+2.2 to +4.3 %) with gcc -O3, +7.1 % (+6.1 to +8.1 %) with gcc -O3, PGO, +4." in shown[1]
    assert shown[2].endswith(", which is measured here: a best case.")


def test_two_layouts_answer_with_their_difference(samples: Path) -> None:
    first, *_ = answer_of(samples, "pg-layouts", ("compiler_builds",)).sentences
    assert first.startswith(
        "Two builds of equal code differ in throughput, in 19 of 20 cases, by less than 3.2 % in "
    )
    assert first.endswith("; in range-covered-si, they differ no more than the base from itself.")
