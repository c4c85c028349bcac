"""Courses over releases: which change is named, where, and how large it is said to be."""

import numpy as np
import polars as pl
import pytest
from rqps.stats.change_points import CELL, Courses, courses
from rqps.stats.stretches import stretched

RELEASES = [f"r{number:02}.z" for number in range(12)]


def paired(
    levels: dict[str, list[float]], rounds: int = 6, spread: float = 0.004, seed: int = 1, **columns: object
) -> pl.DataFrame:
    """Rounds of steps with these true ratios, release after release: the first is the base, which has luck, too."""
    random = np.random.default_rng(seed)
    rows = []
    for step, ratios in levels.items():
        for number in range(rounds):
            lucks = np.exp(random.normal(0, spread, len(ratios)))
            for name, ratio, luck in zip(RELEASES[1:], ratios[1:], lucks[1:], strict=False):
                rows.append(
                    {"step": step, "round": number, "dbms": name, "ratio": ratio / ratios[0] * luck / lucks[0]}
                )
    fixed = {"host": "vm", "metric": "operations_per_s", "base": RELEASES[0]} | columns
    return pl.DataFrame(rows).with_columns(pl.lit(value).alias(name) for name, value in fixed.items())


def course(*ratios: float, **how: object) -> Courses:
    return courses(paired({"scan": list(ratios)}, **how), RELEASES)  # type: ignore[arg-type]


def test_a_step_is_named_with_its_pair_and_its_size() -> None:
    (row,) = course(1, 1, 1, 1, 0.9, 0.9, 0.9, 0.9).changes.to_dicts()
    assert (row["before"], row["dbms"], row["earliest"], row["latest"]) == (*RELEASES[3:5], RELEASES[4], RELEASES[4])
    assert row["low"] < 0.9 < row["high"] < 0.92
    assert row["points"] == pytest.approx(-10, abs=1)
    assert row["certainty"] > 0.99


def test_changes_of_opposite_sign_add_up_to_the_whole() -> None:
    of = course(1, 1, 0.85, 0.85, 0.85, 0.9, 0.9, 0.76, 0.76)
    assert of.changes["dbms"].to_list() == [RELEASES[at] for at in (2, 5, 7)]
    (complete,) = of.summary.to_dicts()
    assert complete["course"] == "steps"
    assert of.changes["points"].sum() == pytest.approx(100 * (complete["estimate"] - 1), abs=0.1)
    assert complete["estimate"] == of.points["estimate"][-1], "as its point is"


def test_a_single_slow_release_comes_and_goes() -> None:
    assert course(1, 1, 1, 0.93, 1, 1, 1).changes["dbms"].to_list() == RELEASES[3:5]


def test_a_flat_course_is_flat_and_says_what_it_would_have_seen() -> None:
    of = course(*[1.0] * 8)
    (complete,) = of.summary.to_dicts()
    assert of.changes.is_empty()
    assert complete["course"] == "flat"
    assert 0.005 <= complete["resolves"] < 0.03
    assert complete["low"] < 1 < complete["high"]


def test_a_drift_is_no_step() -> None:
    of = course(*np.linspace(1, 0.8, 12))
    assert of.summary["course"].to_list() == ["drift"]
    assert of.changes.is_empty()
    assert of.summary["estimate"][0] == pytest.approx(0.8, abs=0.02)


def test_a_release_of_few_rounds_has_a_wider_interval_and_no_change_of_its_own() -> None:
    rounds = paired({"scan": [1.0] * 8}, rounds=8)
    few = rounds.filter((pl.col("dbms") != RELEASES[4]) | (pl.col("round") == 0))
    of = courses(few, RELEASES)
    width = dict(of.points.select("dbms", (pl.col("high") - pl.col("low"))).iter_rows())
    assert width[RELEASES[4]] > 1.5 * width[RELEASES[3]]
    assert of.changes.is_empty()
    assert of.points.filter(dbms=RELEASES[4])["n"].to_list() == [1]


def test_changes_within_a_course_of_counts_below_the_smallest_are_left_out() -> None:
    counts = {"metric": "server_instructions_per_operation", "usual_spread": 0.001}
    steps = (1, 1, 1.002, 1.002, 1.004, 1.02, 1.02, 1.02)
    of = course(*steps, rounds=1, spread=0.00005, **counts)
    assert of.changes["dbms"].to_list() == [RELEASES[5]]


def test_one_round_that_shows_no_noise_gives_no_course() -> None:
    assert course(1, 1, 0.9, 0.9, rounds=1).summary.is_empty()


def test_two_releases_have_no_course() -> None:
    assert course(1, 0.9).summary.is_empty()


def test_the_order_is_the_given_one_whatever_the_names() -> None:
    rounds = paired({"scan": [1, 1, 1, 0.9, 0.9, 0.9]})
    backward = courses(rounds, RELEASES[5::-1])
    (row,) = backward.changes.to_dicts()
    assert (row["before"], row["dbms"]) == (RELEASES[3], RELEASES[2])
    assert row["estimate"] == pytest.approx(1 / 0.9, abs=0.02)


def test_a_step_that_some_releases_lack_has_a_course_over_the_others() -> None:
    """The release that brought the change lacks the step, so the change is placed at the one after it."""
    rounds = paired({"scan": [1, 1, 1, 0.9, 0.9, 0.9, 0.9], "read": [1, 1, 1, 0.9, 0.9, 0.9, 0.9]})
    of = courses(rounds.filter((pl.col("step") != "scan") | (pl.col("dbms") != RELEASES[3])), RELEASES)
    changes = {row["step"]: (row["before"], row["dbms"]) for row in of.changes.to_dicts()}
    assert changes == {"read": (RELEASES[2], RELEASES[3]), "scan": (RELEASES[2], RELEASES[4])}


def test_from_three_occasions_on_each_counts_as_one_round() -> None:
    hours = pl.concat(
        paired({"scan": [1.0, 1.0, 1 - shift, 1 - shift, 1 - shift]}, seed=occasion, occasion=occasion)
        for occasion, shift in ((1, 0.03), (2, 0.0), (3, -0.03))
    )
    assert courses(hours, RELEASES).changes.is_empty()  # which differs by the hour
    assert set(courses(hours, RELEASES).points["n"]) == {hours.select("occasion", "round").n_unique()}
    assert courses(hours.filter(occasion=1), RELEASES).changes.height == 1


def test_pages_of_equal_releases_rarely_have_a_change() -> None:
    equal = [courses(paired({f"s{at}": [1.0] * 8 for at in range(12)}, seed=seed), RELEASES) for seed in range(100)]
    assert (
        sum(not page.changes.is_empty() for page in equal) <= 10
    )  # 5 are expected; more than 10 once in 90 such tests


def test_the_range_holds_the_true_place() -> None:
    held = named = 0
    for seed in range(60):
        for row in course(*[1.0] * 5, *[0.985] * 5, spread=0.008, seed=seed).changes.to_dicts():
            named += 1
            held += row["earliest"] <= RELEASES[5] <= row["latest"]
    assert named > 30
    assert held >= 0.85 * named


def test_cells_are_apart() -> None:
    rounds = paired({"scan": [1, 1, 1, 0.9, 0.9], "insert": [1.0] * 5})
    of = courses(rounds, RELEASES)
    assert of.summary.select(*CELL, "course").rows() == [
        ("vm", "scan", "operations_per_s", "steps"),
        ("vm", "insert", "operations_per_s", "flat"),
    ]


def test_no_penalty_cuts_everywhere() -> None:
    values = np.array([0.0, 0.1, 0.0, 0.1])
    assert stretched(values, np.full(4, 0.01), 0.0).starts == (1, 2, 3)


def test_a_change_moves_to_its_best_place_when_a_smaller_one_beside_it_is_removed() -> None:
    course = np.log([1, 1, 1.0014, 0.9963, 0.9978, 0.9918, 0.9934, 0.9937, 0.9932, 0.9948, 0.9956])
    assert stretched(course, np.full(11, 0.0004), 15.0).starts == (5,)
