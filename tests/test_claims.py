"""Sentences carry what they claim of a frame as data; test_every_page recomputes the claims of all samples."""

import polars as pl
import pytest
from rqps.show import Claim, Clause, claims_of, phrase
from rqps.show.claims import as_item, from_item, wrong

ROWS = pl.DataFrame(
    {"step": ["scan", "scan", "insert"], "dbms": ["a", "b", "a"], "estimate": [0.82, 0.9, 1.2], "sure": [True] * 3}
)
CELL = {"step": "scan", "dbms": "a"}


@pytest.mark.parametrize(
    ("claim", "problem"),
    [
        (Claim("compared", CELL, 0.82, written="0.82x"), ""),
        (Claim("compared", CELL, 0.83, written="0.83x"), "estimate of step scan, dbms a is 0.82, not 0.83"),
        (Claim("compared", CELL, 0.82, written="18 %"), ""),
        (Claim("compared", CELL, 0.82, written="17 %"), "'17 %' is not 0.82"),
        (Claim("compared", {"step": "scan"}, 0.82, reading="lowest"), ""),
        (
            Claim("compared", {"step": "scan"}, 0.82, reading="highest"),
            "the highest estimate of step scan is 0.9, not 0.82",
        ),
        (Claim("compared", {"step": ["scan", "insert"]}, 3, reading="count"), ""),
        (Claim("compared", {"step": "scan"}, 3, reading="count"), "the number of rows with step scan is 2, not 3"),
        (Claim("compared", {"step": "scan"}, 1.72, reading="sum"), ""),
        (Claim("compared", {"step": "none"}, 1.0), "the frame compared has no estimate of step none"),
    ],
)
def test_a_claim_that_the_frame_contradicts_is_named(claim: Claim, problem: str) -> None:
    sentence = Clause(f"scan is at {claim.written}", [claim])
    result = wrong(sentence, {"compared": ROWS}.__getitem__)
    assert result == ([f"{str(sentence)!r}: {problem}"] if problem else [])


def test_a_number_that_the_words_lack_is_named() -> None:
    (problem,) = wrong(Clause("scan slowed", [Claim("compared", CELL, 0.82, written="0.82x")]), lambda _: ROWS)
    assert problem.endswith("does not say '0.82x'")


def test_claims_survive_being_put_together_and_written_to_a_page() -> None:
    claim = Claim("compared", CELL, 0.82, written="0.82x")
    sentence = phrase("{} <is> at {}", "scan", Clause("0.82x", [claim]))
    item = as_item(sentence)
    assert "scan &lt;is&gt; at 0.82x" in item
    data = item.split('data-claims="')[1].split('">')[0].replace("&quot;", '"')
    assert claims_of(from_item(str(sentence), data)) == (claim,)
    assert "data-claims" not in as_item("nothing claimed")
