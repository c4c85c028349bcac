"""Formats intervals, verdicts, warnings and names in the same way for tables, charts and sentences."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from html import escape
from types import MappingProxyType
from typing import Any

import polars as pl

from rqps.numbers import change, difference, form_of_ratio, formatted
from rqps.show.claims import as_item
from rqps.stats import THROUGHPUTS, most_changed

SIGNS = {"slower": "▼", "faster": "▲", "same": "=", "unsure": "?"}
COST_SIGNS = {"slower": "▲", "faster": "▼", "same": "=", "unsure": "?"}
MOST_NAMED, MOST_SENTENCES = 3, 5
MOST_STEPS = 100
"""Maximum number of steps in one table or heat map; of more steps, only those that changed most are shown."""

NOT_COMPARED = "Nothing was compared here: no round has both its base and another dbms with such a number."

Row = Mapping[str, Any]


class Sentences:
    """Sentences as a list in a notebook and on a page, where all but the first few are folded, and as lines
    elsewhere. HTML in the sentences is escaped. Each list item has the claims of its sentence as a data attribute."""

    def __init__(self, sentences: Iterable[str]) -> None:
        self.sentences = tuple(sentences)

    def __repr__(self) -> str:
        return "\n".join(f"- {sentence}" for sentence in self.sentences)

    def _repr_html_(self) -> str:
        first, more = self.sentences[:MOST_SENTENCES], self.sentences[MOST_SENTENCES:]
        fold = f"<details class='long'><summary>{len(more)} more</summary>{_listed(more)}</details>" if more else ""
        return _listed(first) + fold


def _listed(sentences: Iterable[str]) -> str:
    return f"<ul class='findings'>{''.join(map(as_item, sentences))}</ul>"


def first_of_many(rows: pl.DataFrame, ratios: pl.DataFrame) -> tuple[pl.DataFrame, str]:
    """The rows of the at most 100 steps whose ratios are farthest from 1, and a sentence on the omitted steps."""
    steps = rows["step"].n_unique()
    if steps <= MOST_STEPS:
        return rows, ""
    shown = most_changed(ratios.filter(pl.col("estimate").is_finite() & (pl.col("estimate") > 0)), MOST_STEPS)
    return rows.filter(pl.col("step").is_in(shown)), (
        f" Shown are the {len(shown)} of {steps:,} steps that changed most; the notebook's frames have all of them."
    )


class Nothing(Sentences):
    """The reason why a section is empty; a page omits such a section together with the prose above it."""

    MARK = "rqps-nothing"

    def _repr_html_(self) -> str:
        return f"<div class='{self.MARK}'>{super()._repr_html_()}</div>"


class Text(str):
    """Text in columns: in a notebook and on a page, long lines scroll and do not wrap."""

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return f"<pre class='text' style='white-space:pre;overflow-x:auto'>{escape(self)}</pre>"


@dataclass(frozen=True)
class Folded:
    """Texts below headings: a notebook and a page fold each text until a click; a terminal prints them as lines."""

    note: str
    texts: Mapping[str, str]

    def __repr__(self) -> str:
        return f"{self.note} (print it to see {', '.join(self.texts)})"

    def __str__(self) -> str:
        return "\n\n".join([self.note, *(f"{heading}\n{text}" for heading, text in self.texts.items())])

    def _repr_html_(self) -> str:
        parts = [
            f"<details class='long' style='margin:4px 0'><summary>{escape(heading)}</summary>"
            f"{Text(text)._repr_html_()}</details>"
            for heading, text in self.texts.items()
        ]
        return f"<p>{escape(self.note)}</p>{''.join(parts)}"


def change_interval(row: Row) -> str:
    """The interval of a ratio as changes in percent.

    >>> change_interval({"low": 0.98, "high": 1.371}), change_interval({"low": None, "high": None})
    ('−2.0 to +37.1 %', 'no interval')
    """
    return "no interval" if row["low"] is None else f"{change(row['low'])[:-2]} to {change(row['high'])}"


def interval_of(row: Row, form: str = "", of: str = "") -> str:
    """The interval as text, from the columns `low` and `high`, or `OF_low` and `OF_high` if `of` is given. By
    default, `form` is the format in which `ratio` writes the estimate.

    >>> interval_of({"low": 0.601, "high": 0.65}), interval_of({"low": None, "high": None})
    ('0.60–0.65', 'no interval')
    >>> interval_of({"low": 0.981, "high": 1.2, "estimate": 1.03}), interval_of({"low": 0.981, "high": 1.012})
    ('0.981–1.200', '0.981–1.012')
    >>> interval_of({"added_low": -0.2, "added_high": 0.1}, "+.1f", "added")
    '−0.2 to +0.1'
    """
    low, high = (row[f"{of}_{end}" if of else end] for end in ("low", "high"))
    if low is None:
        return "no interval"
    names = (f"{of}_estimate", of) if of else ("estimate",)
    middle = next((row[name] for name in names if name in row), (low + high) / 2)
    form = form or form_of_ratio(middle)
    return f"{formatted(low, form)}{' to ' if form.startswith('+') else '–'}{formatted(high, form)}"


def rounds_of(counts: Iterable[int]) -> str:
    """The number of rounds, in words.

    >>> rounds_of([6, 6]), rounds_of([5, 6]), rounds_of([1]), rounds_of([])
    ('6 rounds', '5 to 6 rounds', '1 round', '0 rounds')
    """
    counts = list(counts) or [0]
    low, high = min(counts), max(counts)
    return f"{low} to {high} rounds" if low < high else f"{low} round{'' if low == 1 else 's'}"


def coverage_of(coverages: Iterable[float]) -> str:
    """The coverage of the intervals, in words.

    >>> coverage_of([0.96875]), coverage_of([0.875, 0.75]), coverage_of([0.0])
    ('97 % intervals', '75 to 88 % intervals', 'no intervals')
    """
    percent = sorted({round(100 * coverage) for coverage in coverages if coverage > 0})
    if not percent:
        return "no intervals"
    return f"{percent[0]} to {percent[-1]} % intervals" if len(percent) > 1 else f"{percent[0]} % intervals"


def shown_of(shown: int, steps: int) -> str:
    """A sentence on the number of steps shown; empty if all steps are shown."""
    return f" {shown} of {steps} steps are shown." if shown < steps else ""


def medians_of(rows: pl.DataFrame) -> str:
    """A sentence on the number of rounds and the coverage of the intervals in a table of medians."""
    if rows["n"].max() == 1:
        return "One round, so there is no interval."
    return f"Medians of {rounds_of(rows['n'])}, below them the {coverage_of(rows['coverage'])}."


def reach_of(row: Row, form: Callable[[float], str]) -> str:
    """An interval whose ends are formatted by `form`; if both ends have the same unit, the unit is written once.

    >>> from rqps.numbers import duration_us
    >>> [reach_of({"low": low, "high": 1400.0}, duration_us) for low in (1200.0, 900.0, 1400.0, None)]
    ['1.2–1.4 ms', '900 µs–1.4 ms', '±0', 'no interval']
    """
    if row["low"] is None:
        return "no interval"
    low, high = form(row["low"]), form(row["high"])
    if low == high:
        return "±0"
    number, _, unit = low.partition(" ")
    return f"{number}–{high}" if unit and high.endswith(f" {unit}") else f"{low}–{high}"


def signs_of(metric: str) -> dict[str, str]:
    """Maps verdicts to signs; ▲ means that the number is higher, which is worse for a cost."""
    return SIGNS if metric in THROUGHPUTS else COST_SIGNS


def verdict_words(metric: str) -> dict[str, str]:
    """Maps verdicts to words: throughput is slower or faster, a cost is more expensive or cheaper."""
    worse, better = ("slower", "faster") if metric in THROUGHPUTS else ("more expensive", "cheaper")
    return {"slower": worse, "faster": better, "same": "same", "unsure": "unsure"}


def legend_of(compared: pl.DataFrame) -> str:
    """The legend of the signs. An arrow means that the number is higher or lower, for throughput and for costs."""
    if compared.is_empty():
        return ""
    signs = f"▲ surely higher, ▼ surely lower, = within {smallest_effect(compared)}, ? inconclusive"
    return f"{signs}. Verdicts use wider intervals than those shown, corrected for the number of comparisons."


def smallest_effect(compared: pl.DataFrame) -> str:
    """The smallest effect that matters in these comparisons, in words."""
    return difference(compared["smallest_effect"][0])


def in_order(values: Iterable[str]) -> list[str]:
    """The distinct values, in order of first occurrence."""
    return list(dict.fromkeys(values))


def by_host(frame: pl.DataFrame, names: Mapping[str, str] = MappingProxyType({})) -> pl.DataFrame:
    """Replaces each dbms by its entry in `names`, and adds ` on HOST` if there are several hosts."""
    frame = frame.with_columns(pl.col("dbms").replace(names)) if names else frame
    if frame["host"].n_unique() < 2:
        return frame
    return frame.with_columns(pl.format("{} on {}", "dbms", "host").alias("dbms"))


def on_host(frame: pl.DataFrame, host: str) -> str:
    """The text ` on HOST` if the frame has several hosts, else an empty text."""
    return f" on {host}" if frame["host"].n_unique() > 1 else ""


def hosts_together(frame: pl.DataFrame) -> pl.DataFrame:
    """Merges rows that differ only in their host: the column `hosts` replaces `host`. With a single host, removes the
    column `host`.

    >>> frame = pl.DataFrame({"host": ["big", "small", "twin"], "version": ["8.0", "8.4", "8.0"]})
    >>> hosts_together(frame).rows()
    [('8.0', 'big, twin'), ('8.4', 'small')]
    """
    same = [name for name in frame.columns if name != "host"]
    if frame["host"].n_unique() < 2:
        return frame.select(same)
    return frame.group_by(same, maintain_order=True).agg(hosts=pl.col("host").str.join(", "))


def own_warnings(numbers: pl.DataFrame) -> tuple[pl.DataFrame, str]:
    """Splits the warnings of a frame of numbers: the returned sentence has the warnings that all numbers share, and
    the returned frame has each number's other warnings in the column `warned`."""
    warnings = [dict(zip(*row, strict=True)) for row in numbers.select("warnings", "explained").iter_rows()]
    common = set.intersection(*map(set, warnings)) if warnings else set()
    own = ["; ".join(line for kind, line in lines.items() if kind not in common) for lines in warnings]
    lines_of = {kind: {lines[kind] for lines in warnings} for kind in sorted(common)}
    words = [lines.pop() if len(lines) == 1 else kind for kind, lines in lines_of.items()]
    of_all = f" A warning concerns every number here: {'; '.join(words)}." if common else ""
    return numbers.drop("warnings", "explained").with_columns(pl.Series("warned", own, pl.String)), of_all


def groups_of(rows: pl.DataFrame) -> dict[str, list[str]]:
    """Maps each group to its steps, in order."""
    return {str(group or ""): in_order(of["step"]) for (group,), of in rows.group_by("group", maintain_order=True)}


def short_steps(steps: pl.DataFrame) -> dict[str, str]:
    """Maps steps to short names: the kind if all steps of this kind have one range (the number of rows that a query
    asks for), else kind and range.

    Steps without a range, and steps whose short names would clash, keep their names.

    >>> short_steps(pl.DataFrame({
    ...     "step": ["scan_range=100", "read-only_range=10", "read-only_range=100", "qr100"],
    ...     "kind": ["scan", "read-only", "read-only", "qr"],
    ...     "range": [100, 10, 100, None],
    ... }))
    ... # doctest: +NORMALIZE_WHITESPACE
    {'scan_range=100': 'scan', 'read-only_range=10': 'read-only 10', 'read-only_range=100': 'read-only 100',
     'qr100': 'qr100'}
    """
    names = steps.select("step").unique(maintain_order=True)
    if not {"kind", "range"} <= set(steps.columns):
        return {step: step for step in names["step"]}
    sized = pl.when(pl.col("range").n_unique().over("kind") > 1).then(pl.format("{} {}", "kind", "range"))
    short = sized.otherwise("kind").alias("short")
    named = steps.select("step", "kind", "range").unique(maintain_order=True).with_columns(short)
    as_it_is = pl.col("range").is_null() | (pl.col("short").count().over("short") > 1)
    shortened = pl.when(as_it_is).then("step").otherwise("short")
    return dict(named.select("step", shortened.alias("short")).iter_rows())


def short_dbms(dbms: Iterable[str]) -> tuple[dict[str, str], str]:
    """Maps dbms to names without the ending that all share, and returns this ending, which consists of whole words.

    >>> short_dbms(["my8028_rel_o2nofp.z11a", "my8040_rel_o2nofp.z11a", "my8040adv_rel_o2nofp.z11a"])[1]
    '_rel_o2nofp.z11a'
    >>> short_dbms(["my5624.base", "my8033.base", "my8033.ps0"])[0]["my8033.base"]
    'my8033.base'
    """
    names = list(dict.fromkeys(dbms))
    words = [re.findall(r"^[^._ ]*|[._ ][^._ ]*", name) for name in names]
    end: list[str] = []
    while len(names) > 1 and all(len(parts) > 1 for parts in words) and len({parts[-1] for parts in words}) == 1:
        end.insert(0, words[0][-1])
        words = [parts[:-1] for parts in words]
    return {name: "".join(parts) for name, parts in zip(names, words, strict=True)}, "".join(end)
