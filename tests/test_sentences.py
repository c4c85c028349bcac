"""Findings are written by one grammar: subject, comparison, number with interval and rounds, place."""

import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from rqps.show import brackets, comparison, finding, inconclusive, number_of, verdict_counts
from rqps.stats.metrics import CPU, INSTRUCTIONS, THROUGHPUT
from rqps.stats.verdict import VERDICTS

ROOT = Path(__file__).parent.parent
ROW: dict[str, Any] = {
    "step": "update-index",
    "dbms": "my8033.z",
    "base": "my5624.z",
    "metric": THROUGHPUT,
    "verdict": "slower",
}
ROW |= {"estimate": 0.82, "low": 0.8, "high": 0.84, "n": 8}


@pytest.mark.parametrize(
    ("metric", "clause"),
    [
        (THROUGHPUT, "my8033.z runs at 0.82x of my5624.z (0.80–0.84, 8 rounds)"),
        (CPU, "my8033.z uses 0.82x the CPU of my5624.z per operation (0.80–0.84, 8 rounds)"),
        (INSTRUCTIONS, "my8033.z executes 0.82x the instructions of my5624.z per operation (0.80–0.84, 8 rounds)"),
        ("latency_max_us", "my8033.z has 0.82x the latency_max_us of my5624.z (0.80–0.84, 8 rounds)"),
    ],
)
def test_a_comparison_has_the_verb_of_its_metric(metric: str, clause: str) -> None:
    assert comparison(ROW | {"metric": metric}) == clause


def test_a_finding_begins_with_its_place_and_ends_with_a_full_stop() -> None:
    assert finding("update-index regressed most: it slowed", "", place="vm") == (
        "On vm: update-index regressed most: it slowed."
    )
    assert finding("One.") == "One."


def test_one_round_has_no_interval() -> None:
    one = ROW | {"low": None, "high": None, "n": 1}
    assert number_of(one) == "0.82x (no interval, 1 round)"
    assert brackets(one, after="assumed") == " (no interval, 1 round, assumed)"


@pytest.mark.parametrize("verdict", VERDICTS)
def test_comparisons_are_counted_in_the_singular_and_the_plural(verdict: str) -> None:
    words = {"slower": ("regressed",) * 2, "faster": ("improved",) * 2}
    words |= {"same": ("is unchanged", "are unchanged"), "unsure": ("is inconclusive", "are inconclusive")}
    assert verdict_counts([verdict]) == f"the comparison {words[verdict][0]}"
    assert verdict_counts([verdict] * 2) == f"2 of 2 comparisons {words[verdict][1]}"


def test_what_is_decided_is_not_inconclusive() -> None:
    assert inconclusive(pl.DataFrame([ROW])) == ""


BY_HAND = re.compile(r"\(\{(?:show\.)?(?:interval_of|reach_of)\(|\[.low.\]\)?:[^}]*\}(?:–| to )\{.*\[.high.\]")
"""An interval in an f-string's brackets."""
WRITES_INTERVALS = {
    "show/table.py": "the published text of ratios",
    "pages/cost_per_operation.py": "the published text of costs",
    "pages/insert_benchmark_report.py": "shares in percent",
}


def test_intervals_are_written_in_one_place() -> None:
    library = ROOT / "lib/rqps"
    by_hand = {str(path.relative_to(library)) for path in library.rglob("*.py") if BY_HAND.search(path.read_text())}
    assert by_hand <= WRITES_INTERVALS.keys()
