"""Means over all steps and over a part of them: they are what the table says, and a mean of unlike steps says so."""

import math
import re
import statistics
from dataclasses import replace
from functools import partial
from pathlib import Path

import polars as pl
import pytest
import rqps
import scipy.stats
from hypothesis import assume, given
from hypothesis import strategies as st
from rqps import stats
from rqps.cli import main
from rqps.report.claimed import frames_of
from rqps.report.first_page import answer
from rqps.report.overall import MOST_NAMED
from rqps.show import Clause, claims_of
from rqps.show.claims import wrong
from rqps.stats.estimate import STUDENT
from rqps.stats.summary import OVER_ALL, PARTS, apart, means_of
from rqps.workloads import work_of
from test_bad_input import sentences, write

SAMPLES = Path(__file__).parent.parent / "data/sample"
OF_READS, OF_WRITES = ("point-query", "hot-points"), ("update-index", "insert")
CELL = ("host", "metric", "base", "dbms")

VALUES = st.tuples(st.floats(0.2, 5), st.floats(0, 0.1), st.booleans())
"""The ratio of a round, its error, and whether the round was measured."""
ROUNDS = st.integers(1, 4).flatmap(
    lambda steps: st.lists(st.lists(VALUES, min_size=steps, max_size=steps), min_size=1)
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "raw/study=synthetic"


def paired(rounds: list[list[tuple[float, float, bool]]]) -> pl.DataFrame:
    rows = [
        {"step": f"s{step}", "round": number, "ratio": ratio, "error": error or None}
        for number, values in enumerate(rounds)
        for step, (ratio, error, measured) in enumerate(values)
        if measured
    ]
    fixed = {"host": "vm", "metric": "operations_per_s", "base": "a", "dbms": "b", "smallest_effect": 0.02}
    schema = {"step": pl.String, "round": pl.Int64, "ratio": pl.Float64, "error": pl.Float64}
    frame = pl.DataFrame(rows, schema=schema).with_columns(**{name: pl.lit(value) for name, value in fixed.items()})
    return frame.with_columns(looks=pl.lit(1, pl.Int32))


@given(ROUNDS)
def test_a_mean_is_the_product_of_what_the_table_says_of_its_steps(
    rounds: list[list[tuple[float, float, bool]]],
) -> None:
    of = paired(rounds)
    for row in means_of(of, "base").to_dicts():
        estimates = STUDENT.estimate(of, [*CELL, "step"], "ratio")["estimate"]
        assert len(estimates) == row["steps"] > 1
        assert row["estimate"] == pytest.approx(math.prod(estimates) ** (1 / row["steps"]))
        if row["low"] is not None:
            assert row["sure_low"] <= row["low"] <= row["estimate"] <= row["high"] <= row["sure_high"]


@given(ROUNDS)
def test_an_interval_is_as_wide_as_that_of_the_means_of_the_rounds(
    rounds: list[list[tuple[float, float, bool]]],
) -> None:
    """Where each step weighs the rounds alike, the mean of the rounds' means is the mean."""
    of = paired([[(ratio, 0.0, True) for ratio, *_ in values] for values in rounds])
    by_round = of.group_by(*CELL, "round", maintain_order=True).agg(pl.col("ratio").log().mean().exp())
    own = STUDENT.estimate(by_round, [*CELL], "ratio").select("n", "estimate", "low", "high").row(0)
    for row in means_of(of, "base").select("n", "estimate", "low", "high").rows():
        assert row == pytest.approx(own, nan_ok=True)


@pytest.mark.parametrize("name", ["sysbench-releases", "releases", "point-lookups", "pg-history", "rocksdb-reads"])
def test_one_thing_has_one_number_on_the_pages_of_a_sample(name: str) -> None:
    study = rqps.load(str(SAMPLES / f"study={name}"))
    rounds, compared = stats.relate(study)
    without = [step for steps in stats.left_out(study).values() for step in steps]
    of_tables = stats.over_steps(rounds, stats.left_out(study))
    of_steps = compared.filter(~pl.col("step").is_in(without)).group_by(CELL)
    products = of_steps.agg(product=pl.col("estimate").log().mean().exp())
    for frame in (stats.means_to_base(study), of_tables):
        assert frame.height > 1
        both = frame.join(products, on=CELL).select("estimate", "product").rows()
        assert [mean for mean, _ in both] == pytest.approx([product for _, product in both])
    courses = stats.courses_of(study)
    for row in courses.summary.filter(step=stats.ALL_STEPS).to_dicts():
        of_metric = stats.means_to_base(study).filter(metric=row["metric"], host=row["host"])
        ratios = {study.card.base: 1.0, **dict(of_metric.select("dbms", "estimate").iter_rows())}
        assert row["estimate"] == pytest.approx(ratios[row["last"]] / ratios[row["first"]])
        cell = {key: row[key] for key in ("host", "step", "metric")}
        assert row["estimate"] == courses.points.filter(**cell)["estimate"][-1]
        for change in courses.changes.filter(**cell).to_dicts():
            points = 100 * (ratios[change["dbms"]] - ratios[change["before"]])
            assert change["points"] == pytest.approx(points), "as a reader subtracts the table's ratios"


def test_kinds_of_work_that_disagree_are_named(folder: Path) -> None:
    write(
        folder,
        lambda name, step, _: 0.8 if name == "my97.base" and step in OF_WRITES else 1.0,
        steps=(*OF_READS, *OF_WRITES),
    )
    in_all, by_work, *_ = sentences(folder)
    assert "97.0.0 delivers 11 % less throughput than 56.0.0; 80.0.0 matches" in in_all
    assert by_work == "By kind of work, the throughput of MySQL 97.0.0: writes −20 %, the same for point queries."


def test_kinds_of_work_that_agree_are_not(folder: Path) -> None:
    write(folder, lambda name, *_: 0.8 if name == "my97.base" else 1.0, steps=(*OF_READS, *OF_WRITES))
    assert not any("kind of work" in sentence or "alone" in sentence for sentence in sentences(folder))


def test_one_step_that_makes_the_mean_is_named(folder: Path) -> None:
    steps = (*OF_READS, "points-covered-pk")
    write(folder, lambda name, step, _: 1.3 if name == "my97.base" and step == "hot-points" else 1.0, steps=steps)
    in_all, *_ = sentences(folder)
    assert "97.0.0 delivers 9 % more" in in_all
    assert re.search(r"; without hot-points, 97\.0\.0 is at [+−]?0 %\.$", in_all)


WRITES = ("insert", "delete", "update-index", "update-nonindex", "update-one", "update-zipf")


@pytest.mark.parametrize(
    ("speeds", "says"),
    [
        # in the direction of the others, in the other one, and where the mean is inconclusive
        ((0.8, 0.82, 0.79, 0.81, 0.8, 0.3), "writes −32 % (update-zipf alone −70 %), the same for point queries"),
        ((0.8, 0.82, 0.79, 0.81, 0.8, 1.6), "writes −10 % (update-zipf alone +60 %), the same for point queries"),
        ((1.0, 1.0, 1.0, 1.0, 1.0, 1.5), "writes +7 % (update-zipf alone +50 %), the same for point queries"),
        # steps that differ among each other, or by less than matters
        ((0.8, 1.2, 0.7, 1.1, 0.6, 1.6), ""),
        ((0.8, 0.8, 0.8, 0.8, 0.8, 0.83), "writes −20 %, the same for point queries"),
    ],
)
def test_a_step_that_stands_apart_is_named_beside_the_mean_of_its_kind(
    folder: Path, speeds: tuple[float, ...], says: str
) -> None:
    by_step = dict(zip(WRITES, speeds, strict=True))
    write(
        folder,
        lambda name, step, _: by_step.get(step, 1.0) if name == "my97.base" else 1.0,
        steps=(*OF_READS, *WRITES),
    )
    _, by_work, *_ = sentences(folder)
    assert (" alone " in by_work.split(";")[0]) == (" alone " in says)
    assert not says or f": {says}" in by_work


def test_it_is_named_where_the_kinds_agree(folder: Path) -> None:
    """But the kinds without such a step are not."""
    of_writes = (0.8**5 * 0.2) ** (1 / 6)
    speeds = dict.fromkeys(WRITES, 0.8) | {"update-zipf": 0.2} | dict.fromkeys(OF_READS, of_writes)
    write(folder, lambda name, step, _: speeds[step] if name == "my97.base" else 1.0, steps=(*OF_READS, *WRITES))
    _, by_work, *_ = sentences(folder)
    assert by_work == "By kind of work, the throughput of MySQL 97.0.0: writes −36 % (update-zipf alone −80 %)."


STEPS_OF_A_KIND = st.lists(st.tuples(st.floats(-0.5, 0.5), st.floats(0, 0.1)), min_size=2, max_size=12)


@given(STEPS_OF_A_KIND)
def test_a_step_stands_apart_by_the_prediction_interval_of_the_others(steps: list[tuple[float, float]]) -> None:
    of = paired([[(math.exp(log + way * noise), 0.0, True) for log, noise in steps] for way in (1, -1, 1, -1)])
    named = apart(of, [*CELL])["apart"].to_list()
    ends = STUDENT.estimate(of, [*CELL, "step"], "ratio").select(pl.col("estimate", "low", "high").log()).rows()
    beyond = {}
    for number, (_, low, high) in enumerate(ends):
        others = [estimate for at, (estimate, *_) in enumerate(ends) if at != number]
        if len(others) > 1:
            spread = max(statistics.stdev(others), 0.02)
            quantile = scipy.stats.t.ppf(1 - 0.025 / len(ends), len(others) - 1)
            reach = quantile * spread * math.sqrt(1 + 1 / len(others))
            middle = statistics.fmean(others)
            beyond[f"s{number}"] = max(low - middle, middle - high) - reach
    assume(all(abs(distance) > 1e-6 for distance in beyond.values()))
    most = max(beyond, key=beyond.__getitem__, default="")
    if len(ends) == 2:
        total = sum(estimate for estimate, *_ in ends)
        way = math.copysign(1, total)
        least = [min(way * low, way * high) for _, low, high in ends]
        shares = [way * estimate - 2 / 3 * abs(total) for estimate, *_ in ends]
        assume(all(abs(number) > 1e-6 for number in (*shares, *(low - 0.02 for low in least))))
        assert named == [f"s{at}" for at in (0, 1) if shares[at] > 0 and least[at] > 0.02]
        return
    assert named == ([most] if most and beyond[most] > 0 else [])


@pytest.mark.parametrize(
    ("name", "apart_from_its_kind"),
    [
        ("pg-compiler-builds", ["PGO: point queries +22.3 % (hot-points alone +36.3 %)"]),
        *((name, []) for name in ("releases", "sysbench-releases", "point-lookups", "rocksdb-releases")),
    ],
)
def test_a_sample_names_the_step_that_stands_apart(name: str, apart_from_its_kind: list[str]) -> None:
    study = rqps.load(str(SAMPLES / f"study={name}"))
    shown = answer(study, *stats.relate(study), []).sentences
    (by_work,) = [sentence for sentence in shown if sentence.startswith("By kind of work, ")]
    assert re.findall(r"[^,]*\([^)]* alone [^)]*\)", by_work) == [f" {says}" for says in apart_from_its_kind]
    assert wrong(by_work, frames_of(study)) == []
    damaged = Clause(by_work, [replace(claim, number=claim.number * 1.1) for claim in claims_of(by_work)])
    assert len(wrong(damaged, frames_of(study))) >= len(claims_of(by_work)) > 0


def test_an_older_release_did_not_improve(folder: Path) -> None:
    """The base is the newest: what an older one does better is no gain."""
    speeds = {"my97.base": 1.0, "my80.base": 1.0, "my56.base": 1.25}
    write(folder, lambda name, step, _: speeds[name] if step == "insert" else 1.0, tuple(speeds))
    shown = " ".join(sentences(folder))
    assert "insert is faster in 56.0.0, which is older than 97.0.0: +25 % (" in shown
    assert "1 of 6 comparisons is faster, 5 are unchanged (within 2 %)" in shown
    assert not re.search("improved|regressed", shown)


@pytest.mark.parametrize(
    ("alike", "says"),
    [
        (("my97.base hot-points",), "hot-points"),
        (("my80.base point-query",), "80.0.0"),
        (("my80.base hot-points", "my80.base insert"), "hot-points of 80.0.0 and insert of 80.0.0"),
    ],
)
def test_comparisons_that_changed_about_as_much_are_named(folder: Path, alike: tuple[str, ...], says: str) -> None:
    """Also those of other steps."""

    def speed(name: str, step: str, number: int) -> float:
        most = (name, step) == ("my97.base", "point-query")
        noise = 1 + 0.005 * (2 * number % 5 - 2)
        return (0.8 - 0.0001 * most) * noise if most or f"{name} {step}" in alike else 1.0

    write(folder, speed, steps=(*OF_READS, *OF_WRITES))
    (most,) = [sentence for sentence in sentences(folder) if " regressed most: " in sentence]
    assert most.startswith("point-query regressed most: 97.0.0 −20 %")
    assert f", and {says} about as much; " in most


def test_of_many_that_changed_as_much_the_number_is_named(folder: Path) -> None:
    steps = (*OF_READS, *OF_WRITES)
    write(folder, lambda name, *_: 1.0 if name == "my56.base" else 0.8, steps=steps)
    (most,) = [sentence for sentence in sentences(folder) if " regressed most: " in sentence]
    assert MOST_NAMED < 7
    of = "point-query, hot-points, update-index and insert"
    assert f", and 7 other comparisons of {of} about as much; " in most


@pytest.mark.parametrize(
    ("workload", "row", "work"),
    [
        ("sysbench", {"kind": "point-query"}, "point queries"),
        ("sysbench", {"kind": "read-only.pre"}, "range queries with aggregation"),
        ("sysbench", {"kind": "of-somebody-else"}, None),
        ("insert-benchmark", {"kind": "l.i2"}, "inserts in small transactions"),
        ("insert-benchmark", {"kind": "q"}, "range queries"),
        ("insert-benchmark", {"kind": "of-somebody-else"}, None),
        ("db-bench", {"kind": "readrandom", "group": "iodir"}, "direct reads"),
        ("db-bench", {"kind": "fwdrangewhilewriting", "group": "byrx"}, "reads from the block cache"),
        ("db-bench", {"kind": "overwrite", "group": "byrx"}, "overwrites"),
        ("point-lookups", {"kind": "pk", "storage_engine": "heap"}, "heap by primary key"),
        ("own", {"kind": "point-query"}, None),
        ("imported", {"kind": "point-query"}, None),
    ],
)
def test_a_step_has_one_kind_of_work_or_none(workload: str, row: dict[str, str], work: str | None) -> None:
    assert work_of(workload, row) == work


def test_means_say_which_part_of_the_steps_they_are_over(folder: Path) -> None:
    """At most one part for each mean; a kind of work may have one step."""
    write(folder, lambda *_: 1.0, steps=(*OF_READS, "update-index"))
    means = stats.means(rqps.load(folder))
    assert means.select(parts=pl.sum_horizontal(pl.col(*PARTS).is_not_null()).max()).item() == 1
    steps = dict(
        means.filter(dbms="my97.base", metric="operations_per_s").select("work", "steps").drop_nulls().rows()
    )
    assert steps == {"point queries": 2, "writes": 1}
    assert means.filter(OVER_ALL)["steps"].unique().to_list() == [3]


def test_show_has_the_means_by_kind_of_work_under_its_table(capsys: pytest.CaptureFixture[str]) -> None:
    shows = partial(main, ["show", str(SAMPLES / "study=pg-insert")])
    assert shows() == 0
    last = [re.split(r"  +", line)[0] for line in capsys.readouterr().out.splitlines()[-4:]]
    works = ("load and index, 2", "range queries, 3", "point queries, 3")
    assert last == ["geometric mean of 10 steps", *(f"geometric mean of {work} steps" for work in works)]
