"""The answer of a study as text for a terminal, as terse as benchstat, or as Markdown."""

import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

import polars as pl

from rqps.errors import RqpsError, instead
from rqps.show.words import (
    NOT_COMPARED,
    Row,
    by_host,
    coverage_of,
    in_order,
    rounds_of,
    sized,
    verdict_words,
)
from rqps.stats import COMPARED, THROUGHPUTS, TITLES

MOST_LINES = 30
"""More comparisons than these are listed only where something is shown of them."""
RIGHT = (1, 3)
"""Columns of numbers."""
_MARKUP = re.compile(r"[\\`*_|<>~\[\]]")


def answer_text(
    compared: pl.DataFrame,
    means: pl.DataFrame | None = None,
    *,
    steps: Sequence[str] = (),
    every: bool = False,
    markdown: bool = False,
) -> str:
    """The answer of a study from its compared frame: one line per comparison, first what is shown to differ.

    `means` over all steps come last. `steps` are names or patterns such as `read-*`. `every` has all metrics, and all
    comparisons however many.
    """
    if compared.is_empty():
        return NOT_COMPARED
    names = in_order(compared["step"])
    for pattern in steps:
        if not any(fnmatchcase(name, pattern) for name in names):
            fix = "name a step, or a pattern such as 'read-*'"
            raise RqpsError(f"no step {pattern!r}; {instead(pattern, names, 'steps')}", fix=fix)
    asked = [name for name in names if not steps or any(fnmatchcase(name, pattern) for pattern in steps)]
    rows = by_host(compared.filter(pl.col("step").is_in(asked)))
    measured = sorted(
        in_order(rows["metric"]), key=lambda metric: COMPARED.index(metric) if metric in COMPARED else 0
    )
    metrics = [metric for metric in measured if every or metric in THROUGHPUTS]
    means = compared.clear() if means is None or steps else by_host(means)
    parts = [
        _comparisons(rows.filter(metric=metric), means.filter(metric=metric), every or bool(steps), markdown)
        for metric in metrics
    ]
    return "\n\n".join(filter(None, parts))


def _comparisons(rows: pl.DataFrame, means: pl.DataFrame, every: bool, markdown: bool) -> str:
    if rows.is_empty():
        return ""
    differs = pl.col("verdict").is_in(["slower", "faster"])
    far = pl.col("estimate").log().abs()
    ordered = rows.sort(~differs, pl.col("verdict") == "unsure", -far, maintain_order=True)
    shown = ordered if every or ordered.height <= MOST_LINES else ordered.filter(differs)
    metric, base = rows.select("metric", "base").row(0)
    words = verdict_words(metric) | {"unsure": "~"}
    cells = [("step", base, "", "", "ratio", "")]
    for row in shown.iter_rows(named=True):
        values = (sized(row["base_estimate"]), row["dbms"], sized(row["me_estimate"]))
        cells.append((row["step"], *values, _ratio(row), words[row["verdict"]]))
    for row in means.iter_rows(named=True):
        cells.append((f"geometric mean of {row['steps']} steps", "", row["dbms"], "", _ratio(row), ""))
    sure = coverage_of(rows["coverage"])
    head = (
        f"{TITLES.get(metric, metric)}, medians of {rounds_of(rows['n'])}; "
        f"relative to {base}: means of their ratios, {sure}; ~ is unsure"
    )
    more = ordered.height - shown.height
    rest = [f"{more} more are the same or unsure; --all lists them"] if more else []
    if markdown:
        return "\n".join([head, "", *_as_markdown(cells), *([""] * bool(rest)), *rest])
    return "\n".join([head, *_in_columns(cells), *rest])


def _ratio(row: Row) -> str:
    return f"{row['estimate']:.3f}" + ("" if row["low"] is None else f" ± {(row['high'] - row['low']) / 2:.3f}")


def _in_columns(cells: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for line in cells:
        placed = (
            f"{cell:>{width}}" if place in RIGHT else f"{cell:{width}}"
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        yield "  ".join(placed).rstrip()


def _as_markdown(cells: Sequence[Sequence[str]]) -> Iterator[str]:
    """The lines of a table in which names stay text.

    >>> list(_as_markdown([("step", "n"), ("a_b|c", "1")]))
    ['| step | n |', '|---|--:|', '| a\\\\_b\\\\|c | 1 |']
    """
    for number, line in enumerate(cells):
        yield "| " + " | ".join(_MARKUP.sub(r"\\\g<0>", cell) for cell in line) + " |"
        if number == 0:
            yield "|" + "".join("--:|" if place in RIGHT else "---|" for place in range(len(line)))
