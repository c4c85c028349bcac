"""Where the difference went, in sentences: each number with its error, the largest first."""

import math
from collections.abc import Iterator
from typing import Any

import polars as pl

from rqps.analysis.interval import ROUNDS_FOR_A_VERDICT
from rqps.analysis.stacks.breakdown import MICROSECONDS
from rqps.analysis.stacks.tables import OTHER

MOST_PARTS = 4

Row = dict[str, Any]


def breakdown_findings(parts: pl.DataFrame) -> tuple[str, ...]:
    """One sentence or two for every step and dbms of a breakdown by component."""
    hosts = parts["host"].unique(maintain_order=True).to_list()
    return tuple(
        (f"On {host}, " if len(hosts) > 1 else "") + f"{step}: {' '.join(_told(rows.to_dicts()))}"
        for (host, step, _), rows in parts.group_by("host", "step", "dbms", maintain_order=True)
    )


def _told(rows: list[Row]) -> Iterator[str]:
    of = rows[0]
    difference, error = of["me_measured"] - of["base_measured"], of["measured_error"]
    unit = "µs of server CPU" if of["unit"] == MICROSECONDS else "instructions"
    short = "µs" if of["unit"] == MICROSECONDS else "instructions"
    rounds = f"{of['n']} round{'s' if of['n'] > 1 else ''}"
    yield (
        f"an operation costs {of['dbms']} {_plain(of['me_measured'], error)} {unit}, and {of['base']} "
        f"{_plain(of['base_measured'], error)} (means of {rounds})."
    )
    if abs(difference) <= error:
        yield f"The difference, {_signed(difference, error)} {short}, is within its error."
        return
    way = "more" if difference > 0 else "less"
    told = [row for row in rows if _is_told(row) and (row["difference"] > 0) == (difference > 0)][:MOST_PARTS]
    back = [row for row in rows if _is_told(row) and (row["difference"] > 0) != (difference > 0)][:MOST_PARTS]
    size = f"{_plain(abs(difference), error)} ± {_plain(error, error)} {short} {way}"
    if not told:
        yield f"No part of the {size} can be told from chance."
    else:
        yield f"Of the {size}, {_listed([_part(row) for row in told], 'are')}."
    if back:
        yield f"The other way went {_listed([_part(row) for row in back], '')}."
    if of["unit"] == MICROSECONDS and of["n"] < ROUNDS_FOR_A_VERDICT:
        yield f"With {rounds} these are no verdicts: it takes {ROUNDS_FOR_A_VERDICT}."


def _is_told(row: Row) -> bool:
    """A finding; of too few rounds, what would be one. What belongs nowhere is no answer."""
    sure = row["verdict"] in ("slower", "faster")
    few = row["unit"] == MICROSECONDS and row["n"] < ROUNDS_FOR_A_VERDICT
    return row["part"] != OTHER and (sure or (few and abs(row["difference"]) > row["error"]))


def _part(row: Row) -> tuple[str, str]:
    size, error = abs(row["difference"]), row["error"]
    return f"{_plain(size, error)} ± {_plain(error, error)}", row["part"]


def _listed(parts: list[tuple[str, str]], verb: str) -> str:
    """`3.1 ± 0.4 are performance schema, 2.2 ± 0.3 handler and 1.0 ± 0.2 parser`."""
    (size, name), *more = parts
    texts = [" ".join(filter(None, (size, verb, name))), *(f"{size} {name}" for size, name in more)]
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"


def _signed(value: float, error: float) -> str:
    return f"{'−' if value < 0 else '+'}{_plain(abs(value), error)} ± {_plain(error, error)}"


def _plain(value: float, error: float) -> str:
    """With as many digits as the error has any use for.

    >>> _plain(12.345, 0.42), _plain(0.0123, 0.004), _plain(12345.6, 87.0)
    ('12.3', '0.012', '12,346')
    """
    digits = 3 if error <= 0 else max(0, min(3, -math.floor(math.log10(error))))
    return f"{value:,.{digits}f}"
