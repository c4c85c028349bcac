"""Claims: the numbers that a sentence takes from a polars frame, stored with the sentence for recomputation.

>>> claim = Claim("compared", {"step": "scan", "dbms": "my80.z"}, 0.82, written="0.82x")
>>> text = phrase("scan regressed most: {}", Clause("my80.z runs at 0.82x", [claim]))
>>> text, claims_of(text) == (claim,)
('scan regressed most: my80.z runs at 0.82x', True)
>>> import polars as pl
>>> wrong(text, {"compared": pl.DataFrame({"step": ["scan"], "dbms": ["my80.z"], "estimate": [0.79]})}.__getitem__)
["'scan regressed most: my80.z runs at 0.82x': estimate of step scan, dbms my80.z is 0.79, not 0.82"]
"""

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from html import escape
from typing import Any, Literal, Self

import polars as pl

from rqps.errors import RqpsError
from rqps.numbers import formatted

Reading = Literal["value", "count", "lowest", "highest", "sum"]
DIGITS, FEW = 8, 1e-6
"""Significant digits of a claim's number in HTML, and the relative difference that is allowed when the number is
recomputed: polars may add the rows in another order."""
STABLE_DIGITS = 12
"""Significant digits of a sum that do not depend on the order of adding."""
_NUMBER = re.compile(r"[+−-]?\d[\d,]*(\.\d+)?")
_WORDS = {
    "value": "{column} of {rows}",
    "count": "the number of rows with {rows}",
    "lowest": "the lowest {column} of {rows}",
    "highest": "the highest {column} of {rows}",
    "sum": "the sum of {column} of {rows}",
}


@dataclass(frozen=True)
class Claim:
    """A number in a sentence, and its source: one column of a frame, in those rows that match `rows`."""

    frame: str
    """Name of the frame: `compared`, `means`, or another name that the page knows."""
    rows: Mapping[str, Any]
    """Maps columns to the value that a row must have; a list means any of its values."""
    number: float
    column: str = "estimate"
    reading: Reading = "value"
    written: str = ""
    """The number as written in the sentence, such as `0.82x` or `8.95 µs`. A ratio of 1.11 may be written as its
    change from 1: `11 %`, or `11 points` if it is in percentage points of the base."""

    def recomputed(self, frame: pl.DataFrame) -> float | None:
        """The number computed from the frame; None if no row matches or the matching rows disagree."""
        values = frame.filter(*(_matches(column, value) for column, value in self.rows.items()))
        if self.reading == "count":
            return float(values.height)
        column = values[self.column].drop_nulls()
        if column.is_empty() or (self.reading == "value" and column.n_unique() > 1):
            return None
        of = {"value": column.first, "lowest": column.min, "highest": column.max, "sum": column.sum}
        return float(of[self.reading]())  # type: ignore[arg-type]


class Clause(str):
    """A part of a sentence, with the claims on its numbers."""

    claims: tuple[Claim, ...]

    def __new__(cls, text: str, claims: Iterable[Claim] = ()) -> Self:
        clause = super().__new__(cls, text)
        clause.claims = tuple(claims)
        return clause


def claims_of(*texts: str) -> tuple[Claim, ...]:
    """The claims of all clauses among the texts; plain text has no claims."""
    return tuple(claim for text in texts if isinstance(text, Clause) for claim in text.claims)


def phrase(form: str, *parts: Any, **named: Any) -> Clause:
    """A clause: `form` filled in as by `str.format`, with the claims of all parts."""
    return Clause(form.format(*parts, **named), claims_of(*parts, *named.values()))


def joined(separator: str, parts: Iterable[str]) -> Clause:
    parts = tuple(parts)
    return Clause(separator.join(parts), claims_of(*parts))


def as_item(sentence: str) -> str:
    """A sentence as an HTML list item, with its claims as an attribute."""
    facts = [asdict(claim) | {"number": _rounded(claim.number)} for claim in claims_of(sentence)]
    claims = json.dumps(facts, ensure_ascii=False)
    data = f' data-claims="{escape(claims)}"' if claims != "[]" else ""
    return f"<li{data}>{escape(sentence)}</li>"


def _rounded(number: float) -> float:
    """A claim's number, rounded to `DIGITS` significant digits for HTML. It is first rounded to `STABLE_DIGITS`, so
    that a sum gives the same result in whatever order its terms were added.

    >>> f"{13356.1675 + 1e-11:.8g}", f"{13356.1675:.8g}"
    ('13356.168', '13356.167')
    >>> _rounded(13356.1675 + 1e-11) == _rounded(13356.1675)
    True
    """
    return float(f"{float(f'{number:.{STABLE_DIGITS}g}'):.{DIGITS}g}")


def from_item(text: str, claims: str) -> Clause:
    """The sentence of a list item, from its text and its claims as JSON. Raises RqpsError if the JSON is damaged."""
    try:
        return Clause(text, [Claim(**facts) for facts in json.loads(claims)])
    except (ValueError, TypeError) as error:
        what = f"the claims of {text[:80]!r} can't be read: {error}"
        raise RqpsError(what, fix="have the report made or sent again") from error


def wrong(sentence: str, frame_of: Callable[[str], pl.DataFrame]) -> list[str]:
    """Describes each wrong claim of a sentence. A claim is wrong if the frame has another number or none, or if the
    sentence does not contain the number as written."""
    return [
        f"{str(sentence)!r}: {problem}"
        for claim in claims_of(sentence)
        for problem in _problems(sentence, claim, frame_of)
    ]


def _problems(sentence: str, claim: Claim, frame_of: Callable[[str], pl.DataFrame]) -> Iterator[str]:
    rows = ", ".join(f"{column} {value}" for column, value in claim.rows.items())
    what = _WORDS[claim.reading].format(column=claim.column, rows=rows)
    is_ = claim.recomputed(frame_of(claim.frame))
    if is_ is None:
        yield f"the frame {claim.frame} has no {what}"
    elif not math.isclose(is_, claim.number, rel_tol=FEW, abs_tol=FEW):
        yield f"{what} is {formatted(is_, '.6g')}, not {formatted(claim.number, '.6g')}"
    if claim.written and claim.written not in sentence:
        yield f"does not say {claim.written!r}"
    elif claim.written and not _agrees(claim.written, claim.number):
        yield f"{claim.written!r} is not {formatted(claim.number, '.6g')}"


def _agrees(written: str, number: float) -> bool:
    """True if the written number is `number`, rounded to the written digits.

    >>> _agrees("11 %", 0.8886), _agrees("11 %", 0.8842), _agrees("0.82x", 0.8249), _agrees("+8.95 µs", 8.9541)
    (True, False, True, True)
    """
    if (match := _NUMBER.search(written)) is None:
        return False
    text = match[0].replace(",", "").replace("−", "-")
    value, half_digit = float(text), 0.5 * 10.0 ** -len(text.partition(".")[2])
    if "%" in written or "points" in written:
        number = 100 * (number - 1)
    if text[0] not in "+-":
        number = abs(number)
    return abs(value - number) <= half_digit * (1 + FEW) + FEW


def _matches(column: str, value: Any) -> pl.Expr:
    if isinstance(value, list | tuple):
        return pl.col(column).is_in(list(value))
    return pl.col(column).eq_missing(pl.lit(value))
