"""The versions of a rebuilt build, each compared with the base and with the version before it, as text or a table."""

from typing import Any

import polars as pl

from rqps.show.answer import Cells, as_markdown, in_columns, ratio_in_words
from rqps.show.table import Column, ratio_colour, spread, table, two_lines, unbroken
from rqps.show.words import Nothing, in_order, interval_of, legend_of, ratio, signs_of, verdict_words
from rqps.stats import COMPARED, THROUGHPUTS, TITLES

COMMIT_DIGITS = 10
INDEX = ("build_of", "build", "since", "revision", "note", "step")


def versions_text(versions: pl.DataFrame, *, every: bool = False, markdown: bool = False) -> str:
    """A table per rebuilt build, one row per version and step, then a sentence that compares the newest version with
    the one before it. Empty if no build was rebuilt. `versions` is the frame of `stats.by_version`."""
    parts = []
    for (build,), rows in versions.group_by("build_of", maintain_order=True):
        for metric in [name for name in COMPARED if every or name in THROUGHPUTS]:
            of_metric = rows.filter(pl.col("metric").is_null() | (pl.col("metric") == metric))
            if of_metric["metric"].null_count() == of_metric.height:
                continue
            cells = _cells(of_metric)
            shown = as_markdown(cells) if markdown else in_columns(cells, 0)
            parts.append("\n".join([f"{TITLES.get(metric, metric)} of {build} as it was rebuilt", *shown]))
            parts.append(_last_step(of_metric))
    return "\n\n".join(filter(None, parts))


def _cells(rows: pl.DataFrame) -> Cells:
    """The rows of `stats.by_version` of one metric as cells: one line per version and step; only the first line of a
    version has its name, date and commit."""
    base = next(iter(rows.filter(against="base")["base"]), "the base")
    cells = [["build", "since", "commit", "step", f"to {base}", "to the one before"]]
    for version in rows.partition_by("build", maintain_order=True):
        first = version.row(0, named=True)
        words = f"{first['build']}: {first['note']}" if first["note"] else first["build"]
        facts = [words, _minute(first["since"]), _commit(first["revision"])]
        for step in in_order(version["step"]):
            by_side = {row["against"]: row for row in version.to_dicts() if row["step"] == step}
            cells.append([*facts, step or "–", *(ratio_in_words(by_side.get(side)) for side in ("base", "last"))])
            facts = ["", "", ""]
    return cells


def _last_step(rows: pl.DataFrame) -> str:
    """A sentence that compares the newest version with the version before it."""
    newest = rows.filter(pl.col("number") == pl.col("number").max(), against="last")
    if newest.is_empty():
        return ""
    steps = [f"{row['step']} {ratio_in_words(row)} ({row['verdict']}, n={row['n']})" for row in newest.to_dicts()]
    first = newest.row(0, named=True)
    return f"{first['dbms']} against {first['base']}: {', '.join(steps)}"


def versions_table(rows: pl.DataFrame, name: str) -> Any:
    """The rows of `stats.by_version` of one metric as a table: one row per version and step; only the first row of a
    version has its name, date, commit and note."""
    if rows.is_empty():
        return Nothing(["No build of this study was rebuilt."])
    lines = spread(rows.with_columns(pl.col("against").fill_null("base")), "against", INDEX)
    compared = rows.drop_nulls("metric")
    shown = ""
    for line in lines:
        if line["build"] != shown:
            shown = line["build"]
            line |= {"since": _minute(line["since"]), "commit": _commit(line["revision"])}
        else:
            line |= dict.fromkeys(("build", "since", "commit", "note"), "")
        line |= {side: row if (row := line.get(side)) and row["metric"] else None for side in ("base", "last")}
    base = next(iter(compared.filter(against="base")["base"]), "the base")
    return table(
        lines,
        [
            Column("build", form=unbroken),
            Column("since", form=unbroken),
            Column("commit"),
            Column("note"),
            Column("step", form=unbroken),
            Column("base", f"to {base}", _cell, ratio_colour, "center"),
            Column("last", "to the version before", _cell, ratio_colour, "center"),
        ],
        name=name,
        group="build_of",
        note="A step from one version to the next is judged by itself; those to the base hold with all of the study. "
        f"{legend_of(compared)}",
    )


def _cell(row: Any) -> str:
    """The cell of a compared row: sign, ratio and verdict; below them the interval and the number of rounds."""
    words = f"{signs_of(row['metric'])[row['verdict']]} {ratio(row['estimate'])}"
    verdict = verdict_words(row["metric"])[row["verdict"]]
    return two_lines(f"<b>{words}</b> {verdict}", f"{interval_of(row)} · n={row['n']}")


def _minute(since: Any) -> str:
    return str(since.astimezone().strftime("%Y-%m-%d %H:%M"))


def _commit(revision: str | None) -> str:
    """The first digits of a commit, followed by + if the build had uncommitted changes.

    >>> _commit("37f284029e12345+"), _commit(None)
    ('37f284029e+', '–')
    """
    return revision[:COMMIT_DIGITS] + "+" * revision.endswith("+") if revision else "–"
