"""What a printed number can have been before it was rounded."""

from dataclasses import dataclass
from math import inf
from typing import Any

# Decimal fractions are not exact in binary: 0.985 - 0.005 is a little less than 0.98.
SLACK = 1e-9


@dataclass(frozen=True)
class Range:
    """From `low` to `high`, both of them possible."""

    low: float
    high: float

    def __truediv__(self, other: "Range") -> "Range":
        """
        >>> Range(0.5, 1.5) / Range(1.5, 2.5)
        Range(low=0.2, high=1.0)
        """
        return Range(self.low / other.high, self.high / other.low if other.low > 0 else inf)

    def __sub__(self, other: "Range") -> "Range":
        return Range(self.low - other.high, self.high - other.low)

    def meets(self, other: "Range") -> bool:
        """Whether the same number can be behind both.

        >>> Range(0.955, 0.965).meets(Range(0.9650001, 0.97)), Range(0.955, 0.965).meets(Range(0.965, 0.97))
        (False, True)
        """
        return self.low <= other.high + SLACK and other.low <= self.high + SLACK


def printed(row: dict[str, Any], name: str = "") -> Range:
    """The range of a row's number; `name` is a suffix of its columns."""
    value, half = row[f"value{name}"], row[f"half{name}"]
    return Range(max(value - half, 0.0), value + half)


def around(values: "list[Range]") -> Range:
    """From the lowest to the highest."""
    return Range(min(each.low for each in values), max(each.high for each in values))


def percent(ratio: float) -> str:
    """How far a ratio is from 1, in words.

    >>> percent(0.9), percent(1.614)
    ('-10 %', '+61 %')
    """
    return f"{100 * (ratio - 1):+.0f} %"
