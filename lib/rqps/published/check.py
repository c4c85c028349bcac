"""A statement of a source held against its own numbers, as a value."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields

import polars as pl

KINDS = {
    "contradiction": "not both can be right",
    "imprecise": "the wording claims more than the numbers bear",
    "slip": "a name, label or version is mixed up, and the meaning is clear",
    "unclear": "what is meant can't be told",
    "repeat": "measured twice with different results: no mistake, but it tells how far the numbers reach",
}


@dataclass(frozen=True)
class Check:
    source: str
    place: str
    says: str
    evidence: str
    kind: str = "agrees"
    """`agrees`, or one of KINDS."""
    difference: str = ""
    rounding: str = ""
    """Whether rounding explains it; empty where no number was rounded."""


def frame_of(checks: Iterable[Check]) -> pl.DataFrame:
    """One row each."""
    schema = dict.fromkeys((field.name for field in fields(Check)), pl.String)
    return pl.DataFrame([asdict(each) for each in checks], schema=schema)
