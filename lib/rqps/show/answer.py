"""The answer of a study as text or as Markdown: one row per step and one column per dbms, as in benchstat.

If a study has more than `MANY_DBMS` dbms, and more than twice as many dbms as steps, its tables have one row per dbms
and one column per step.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import chain

import polars as pl

from rqps.errors import RqpsError, instead
from rqps.numbers import formatted, sized
from rqps.show.words import NOT_COMPARED, Row, by_host, coverage_of, in_order, rounds_of, signs_of
from rqps.stats import COMPARED, THROUGHPUTS, TITLES, holds_for
from rqps.study import ROUNDS_FOR_A_VERDICT
from rqps.terminal import GAP, in_columns

MANY_DBMS = 6
"""If a study has more dbms than this number, and more than twice as many dbms as steps, each row of a table is a dbms
and each column is a step; otherwise each row is a step and each column is a dbms."""
_MARKUP = re.compile(r"[\\`*_|<>~\[\]]")

Cells = list[list[str]]
"""Rows of a table, the head first; the first column holds names, all other columns hold numbers."""


def steps_named(steps: Sequence[str], patterns: Sequence[str]) -> list[str]:
    """The steps that match any of the patterns, such as `read-*`; without patterns, all steps. Raises RqpsError if a
    pattern matches no step."""
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in steps):
            fix = "name a step, or a pattern such as 'read-*'"
            raise RqpsError(f"no step {pattern!r}; {instead(pattern, steps, 'steps')}", fix=fix)
    return [name for name in steps if not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)]


def answer_text(
    compared: pl.DataFrame,
    means: pl.DataFrame | None = None,
    *,
    steps: Sequence[str] = (),
    every: bool = False,
    markdown: bool = False,
    names: Mapping[str, str] | None = None,
    width: int = 0,
) -> str:
    """The answer of a study from its compared frame, as one table per metric. A table has one row per step and one
    column per dbms or, if the study has many dbms (`MANY_DBMS`), one row per dbms and one column per step.

    After the steps, the table has the `means` over all steps and, if the frame `means` has the column `work`, the
    means over each kind of work. `steps` are names or patterns such as `read-*`; if some are given, there are no
    means. `every` shows all metrics, not only throughput. A legend above the tables maps each dbms to its name in
    `names`; a table with one row per dbms has these names in its rows instead. Columns that exceed `width` characters
    continue in another block below; 0 means no limit.
    """
    if compared.is_empty():
        return NOT_COMPARED
    asked = steps_named(in_order(compared["step"]), steps)
    rows = by_host(compared.filter(pl.col("step").is_in(asked)))
    order = {metric: place for place, metric in enumerate(COMPARED)}
    metrics = sorted(in_order(rows["metric"]), key=lambda metric: order.get(metric, 0))
    only_counted = not set(metrics) & set(THROUGHPUTS)
    means = compared.clear() if means is None or steps else by_host(means)
    parts, by_dbms = [], rows["dbms"].n_unique() > max(MANY_DBMS, 2 * rows["step"].n_unique())
    if names and not by_dbms:
        parts.append("\n".join(_legend(names).values()))
    for metric in metrics:
        if every or only_counted or metric in THROUGHPUTS:
            of_metric = rows.filter(metric=metric)
            cells = _cells(of_metric, means.filter(metric=metric))
            if by_dbms:
                cells = _one_row_per_dbms(cells, names or {})
            shown = as_markdown(cells) if markdown else in_columns(cells, width)
            parts.append("\n".join([_head(of_metric), *([""] * markdown), *shown]))
    return "\n\n".join(parts)


def watch_text(study: str, watched: pl.DataFrame, unacknowledged: pl.DataFrame, *, markdown: bool = False) -> str:
    """The answer of `rqps watch`: the newest version of the build, the unacknowledged changes, and the acknowledged
    changes. `watched` is the frame of `stats.watched` with one more column, `remark`: the reason why a change was
    acknowledged."""
    if watched.is_empty():
        return f"{study}: its build is as it was when it was first measured"
    newest = watched.filter(pl.col("number") == pl.col("number").max().over("build_of"))
    about = newest.select("build", "note", "revision").unique(maintain_order=True).to_dicts()
    commits = (f" (commit {row['revision'][:10]})" if row["revision"] else "" for row in about)
    notes = (f": {row['note']}" if row["note"] else "" for row in about)
    builds = (f"{row['build']}{commit}{note}" for row, commit, note in zip(about, commits, notes, strict=True))
    last = newest.filter(against="last")
    compared = f"{last['step'].n_unique()} steps against {', '.join(last['base'].unique(maintain_order=True))}"
    count = f"{unacknowledged.height} changes" if unacknowledged.height != 1 else "1 change"
    head = f"{study}: {count} not acknowledged" if unacknowledged.height else f"{study}: no change to acknowledge"
    parts = [f"{'### ' * markdown}{head}", f"Newest: {', '.join(builds)}; {compared}"]
    for title, rows in (("", unacknowledged), ("Acknowledged:", watched.filter(pl.col("remark").is_not_null()))):
        of_changes = rows.filter(state="changed")
        if of_changes.height:
            cells = _change_cells(of_changes)
            shown = as_markdown(cells) if markdown else in_columns(cells)
            above = [title, *([""] * markdown)] if title else []
            parts.append("\n".join([*above, *shown]))
    return "\n\n".join(parts)


def _change_cells(rows: pl.DataFrame) -> Cells:
    cells = [["step", "measure", "build", "relative to", "ratio", "verdict", "remark"]]
    for row in rows.to_dicts():
        to = row["base"] if row["against"] == "last" else f"{row['base']} since {row['level_of']}"
        measure = TITLES.get(row["metric"], row["metric"])
        cells.append([row["step"], measure, row["build"], to, ratio_in_words(row), row["seen"], row["remark"] or "–"])
    if rows["remark"].null_count() == rows.height:
        cells = [line[:-1] for line in cells]
    return cells


def _head(rows: pl.DataFrame) -> str:
    metric, base = rows["metric"][0], rows["base"][0]
    signs = signs_of(metric)
    certain = rows["coverage"].max()
    half = f", ± half the width of {coverage_of(rows['coverage'])} for {holds_for(rows)}" if certain else ""
    few = (rows["n"] < ROUNDS_FOR_A_VERDICT).all()
    takes = f"; a verdict takes {ROUNDS_FOR_A_VERDICT} rounds" if few else ""
    return (
        f"{TITLES.get(metric, metric)} relative to {base}: means of {rounds_of(rows['n'])}{half}; "
        f"{signs['slower']} worse, {signs['faster']} better, = the same, ~ unsure, by wider intervals{takes}"
    )


def _cells(rows: pl.DataFrame, means: pl.DataFrame) -> Cells:
    dbms, base = in_order(rows["dbms"]), rows["base"][0]
    one_host = rows["host"].n_unique() == 1
    cells = [["step", *([base] if one_host else []), *dbms]]
    for step in in_order(rows["step"]):
        of_step = rows.filter(step=step)
        by_dbms = {row["dbms"]: row for row in of_step.to_dicts()}
        absolute = [sized(of_step["base_estimate"][0])] if one_host else []
        cells.append([step, *absolute, *(ratio_in_words(by_dbms.get(name)) for name in dbms)])
    if not means.is_empty():
        by_work = means.partition_by("work", as_dict=True, maintain_order=True) if "work" in means.columns else {}
        for (work,), of_work in (by_work or {(None,): means}).items():
            by_dbms = {row["dbms"]: row for row in of_work.to_dicts()}
            last = f"geometric mean of {work}," if work else "geometric mean of"
            last += f" {max(row['steps'] for row in by_dbms.values())} steps"
            cells.append([last, *([""] if one_host else []), *(ratio_in_words(by_dbms.get(name)) for name in dbms)])
    return cells


def _one_row_per_dbms(cells: Cells, names: Mapping[str, str]) -> Cells:
    """The table with rows and columns exchanged; the full name of each dbms is added to its row."""
    head, *rows = ([*column] for column in zip(*cells, strict=True))
    legend = _legend(names)
    return [["dbms", *head[1:]], *([legend.get(dbms, dbms), *ratios] for dbms, *ratios in rows)]


def _legend(names: Mapping[str, str]) -> dict[str, str]:
    widest = max(map(len, names), default=0)
    return {dbms: f"{dbms:{widest}}{GAP}{name}" for dbms, name in names.items()}


def ratio_in_words(row: Row | None) -> str:
    """The sign, ratio and error of one comparison as text, such as `▼ 0.889 ± 0.006`."""
    if row is None:
        return "–"
    sign = (signs_of(row["metric"]) | {"unsure": "~"})[row["verdict"]]
    half = "" if row["low"] is None else f" ± {formatted((row['high'] - row['low']) / 2, '.3f')}"
    return f"{sign} {formatted(row['estimate'], '.3f')}{half}"


def as_markdown(cells: Cells) -> Iterator[str]:
    """The lines of a Markdown table; Markdown characters in names are escaped.

    >>> list(as_markdown([["step", "n"], ["a_b|c", "1"]]))
    ['| step | n |', '|---|--:|', '| a\\\\_b\\\\|c | 1 |']
    """
    rule = "|" + "".join(chain(["---|"], ["--:|"] * (len(cells[0]) - 1)))
    first, *others = ("| " + " | ".join(_MARKUP.sub(r"\\\g<0>", cell) for cell in line) + " |" for line in cells)
    yield from (first, rule, *others)
