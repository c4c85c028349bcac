"""The answer of a study as text for a terminal, as terse as benchstat."""

from collections.abc import Sequence
from fnmatch import fnmatchcase

import polars as pl

from rqps.errors import RqpsError
from rqps.stats import COMPARED, THROUGHPUTS
from rqps.study.document import instead
from rqps.view.words import NOT_COMPARED, WORDS, by_host, coverage_of, in_order, rounds_of, sized, verdict_words

MOST_LINES = 30
"""More comparisons than these are listed only where something is shown of them."""
RIGHT = (1, 3)
"""Columns of numbers."""


def answer_text(compared: pl.DataFrame, steps: Sequence[str] = (), every: bool = False) -> str:
    """The answer of a study from its compared frame: one line per comparison, first what is shown to differ.

    `steps` are names or patterns such as `read-*`. `every` has all metrics, and all comparisons however many.
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
    there = sorted(in_order(rows["metric"]), key=lambda metric: COMPARED.index(metric) if metric in COMPARED else 0)
    metrics = [metric for metric in there if every or metric in THROUGHPUTS]
    parts = [_comparisons(rows.filter(metric=metric), every or bool(steps)) for metric in metrics]
    return "\n\n".join("\n".join(part) for part in parts if part)


def _comparisons(rows: pl.DataFrame, every: bool) -> list[str]:
    if rows.is_empty():
        return []
    differs = pl.col("verdict").is_in(["slower", "faster"])
    far = pl.col("median").log().abs()
    ordered = rows.sort(~differs, pl.col("verdict") == "unsure", -far, maintain_order=True)
    shown = ordered if every or ordered.height <= MOST_LINES else ordered.filter(differs)
    metric, base = rows.select("metric", "base").row(0)
    words = verdict_words(metric) | {"unsure": "~"}
    cells = [("step", base, "", "", "ratio", "")]
    for row in shown.iter_rows(named=True):
        ratio = f"{row['median']:.3f}"
        if row["low"] is not None:
            ratio += f" ± {(row['high'] - row['low']) / 2:.3f}"
        values = (sized(row["base_median"]), row["dbms"], sized(row["me_median"]))
        cells.append((row["step"], *values, ratio, words[row["verdict"]]))
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [
        "  ".join(
            f"{cell:>{width}}" if place in RIGHT else f"{cell:{width}}"
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in cells
    ]
    sure = coverage_of(rows["coverage"])
    head = f"{WORDS.get(metric, metric)}, relative to {base}: means of {rounds_of(rows['n'])}, {sure}; ~ is unsure"
    more = ordered.height - shown.height
    rest = [f"{more} more are the same or unsure; --all lists them"] if more else []
    return [head, *lines, *rest]
