"""Sections that pages share: builds, conditions, warnings, absolute numbers, charts over time, the rounds behind one
number, and the versions of a rebuilt build."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import polars as pl
from great_tables import GT

from rqps import stats
from rqps.numbers import ratio
from rqps.show.answer import Cells, as_markdown, ratio_in_words
from rqps.show.lines import counters, throughput
from rqps.show.table import Column, absolute_table, cut, ratio_colour, spread, table, two_lines, unbroken
from rqps.show.words import (
    NOT_COMPARED,
    Nothing,
    Sentences,
    hosts_together,
    in_order,
    interval_of,
    legend_of,
    on_host,
    signs_of,
    verdict_words,
)
from rqps.stats import COMPARED, THROUGHPUTS, TITLES
from rqps.store import Study
from rqps.terminal import in_columns

LONGEST_VALUE = 24
MANY_ALIKE = 3
"""Warnings that differ only in their numbers share one row of the table if more than this number of steps of a dbms
have them."""
NO_DIFFERENCE = "\0"
COMMIT_DIGITS = 10
INDEX = ("build_of", "build", "since", "revision", "note", "step")
_NUMBER = r"\d[\d,]*(?:\.\d+)?"


def warnings(study: Study) -> GT:
    """A table of all warnings of a study: from its runs, and from comparing the runs."""
    return warnings_table(stats.all_warnings(study))


def builds(study: Study) -> GT:
    """A table of the builds, as the servers reported them."""
    servers = hosts_together(stats.builds(study.runs, study.conditions))
    labels = {"version_comment": "calls itself", "build_source": "source", "options": "options that differ"}
    note = "sha256: the first 12 digits of the digest of the program or library. Options: those with two values."
    note += " Runs: on each of the hosts." if "hosts" in servers.columns else ""
    columns = [Column(name, labels.get(name, "")) for name in servers.columns]
    return table(servers, columns, name="builds", note=note)


def conditions(study: Study) -> Iterator[GT | Sentences]:
    """Tables of the builds, of options that only some dbms set, of the conditions of hosts and runs, and of settings
    that differ although no config sets them."""
    yield builds(study)
    columns = [Column("option"), Column("value"), Column("dbms", "asked of")]
    yield table(stats.options_of_some(study.conditions, study.runs), columns, name="options-of-some")
    yield from conditions_tables(stats.same_for_all(study.conditions))
    yield differences_table(stats.hidden_differences(study, study.card.base))


def method(compared: pl.DataFrame) -> Sentences:
    """Sentences on the statistical method, and on the interval that decides the verdicts."""
    statistic = stats.STUDENT
    judged = compared.drop_nulls("verdict")
    looks = max(judged["looks"].to_list(), default=1)
    decided_by = stats.verdict.method(*stats.verdict.deciding(judged), looks)
    return Sentences([f"{statistic.name}. {statistic.assumption}", decided_by])


def absolute(study: Study) -> GT:
    """A table of throughput and of the costs per operation in absolute numbers."""
    values = stats.measured(study)
    return absolute_table(stats.in_tables(stats.absolute(values)))


def seconds(run: Study) -> Any:
    """A chart of a run's throughput in each second."""
    return throughput(stats.throughput_over_time(run.intervals, run.steps))


def sampled(run: Study) -> Any:
    """A chart of the counters of the host, the dbms and the load generator over a run."""
    return counters(stats.counters_over_time(run.counters, run.steps, run.runs))


def trace(study: Study, rounds: pl.DataFrame, compared: pl.DataFrame, metric: str = "") -> Any:
    """A table of the rounds behind the ratio that is farthest from 1, with the runs of me and base in each round."""
    metric = metric or stats.metric_of(compared)
    if metric not in set(compared["metric"]):
        return Sentences([NOT_COMPARED])
    host, step, dbms = stats.strongest(compared, metric)
    source = stats.where_from(rounds.filter(host=host), step, dbms, metric)
    who = f"{step}, {dbms}{on_host(compared, host)} against {study.card.base}"
    note = f"{who}: the mean of `ratio`, by its logarithm, is the number above."
    if "cycles" in source.columns:
        note += (
            " The values of a round are totals over its rows of `slices`: operations over their time. Rounds whose "
            "cycles agree better weigh more."
        )
    return table(source, name="trace", note=note)


def differences_table(differences: pl.DataFrame) -> GT | Sentences:
    """One row per setting, one column per dbms; a cell is empty if the dbms has the same value as the base."""
    if differences.is_empty():
        return Sentences(["None: all settings that no config sets are the same."])
    rows = differences.with_columns(
        pl.struct("base_value", "value").map_elements(_flags_that_differ, pl.String).alias("value")
    )
    base, several = str(rows["base"][0]), rows["host"].n_unique() > 1
    wide = rows.pivot("dbms", index=["host", "name", "base_value"], values="value", maintain_order=True)
    dbms = [Column(name, form=_short) for name in in_order(rows["dbms"])]
    together = hosts_together(wide).sort("name", maintain_order=True)
    return table(
        together.with_columns(pl.col(column.name).fill_null(NO_DIFFERENCE) for column in dbms),
        [Column("name"), *([Column("hosts")] if several else []), Column("base_value", base, form=_short), *dbms],
        name="differences",
        note=f"An empty cell: the same as {base}. Of a list of flags, those that differ. "
        "Hover over a value that is cut off.",
    )


def warnings_table(warnings: pl.DataFrame) -> GT:
    """One row per warning text, with the steps, dbms and rounds that have the warning.

    If the texts of many steps of a dbms differ only in their numbers, they share one row with the ranges of numbers.
    """
    if warnings.is_empty():
        return table(pl.DataFrame({"kind": ["none"], "text": ["No run gave a warning."]}), name="warnings")
    form = pl.col("text").str.replace_all(_NUMBER, "#")
    steps = pl.col("step").n_unique().over("kind", "host", "dbms", form)
    many = steps > MANY_ALIKE
    rows = (
        warnings.with_columns(
            pl.when(many).then(pl.format("{} steps", steps)).otherwise("step").fill_null("all").alias("step"),
            pl.when(many).then(form).otherwise("text").alias("form"),
            pl.col("dbms").fill_null("all"),
        )
        .group_by("kind", "host", "dbms", "step", "form", maintain_order=True)
        .agg("text", pl.col("round").drop_nulls().unique().sort())
        .sort("kind", maintain_order=True)
    )
    rounds = pl.col("round").cast(pl.List(pl.String)).list.join(", ").replace("", "all")
    text = pl.col("text").map_elements(_with_reach, pl.String)
    return table(rows.select("kind", "host", "dbms", "step", text, rounds.alias("rounds")), name="warnings")


def _with_reach(texts: Sequence[str]) -> str:
    """Merges texts that differ only in their numbers: each number becomes the range from its lowest to its highest.

    >>> _with_reach(["others kept 16% of a CPU", "others kept 101% of a CPU", "others kept 42% of a CPU"])
    'others kept 16 to 101% of a CPU'
    """
    numbers = zip(*(re.findall(_NUMBER, text) for text in texts), strict=True)
    ordered = [sorted(column, key=lambda number: float(number.replace(",", ""))) for column in numbers]
    ranges = iter([" to ".join(dict.fromkeys((column[0], column[-1]))) for column in ordered])
    return re.sub(_NUMBER, lambda _: next(ranges), texts[0])


def conditions_tables(conditions: pl.DataFrame) -> Iterator[GT]:
    """Tables of the conditions that all runs of a host share, by subject: first the conditions that differ between
    hosts, then all others."""
    rows = conditions.with_columns(pl.col("value").fill_null("not known"))
    by_subject = {"group": "kind", "rows": "name"}
    if len(hosts := in_order(rows["host"])) > 1:
        wide = rows.pivot("host", index=["kind", "name"], values="value", maintain_order=True).fill_null("–")
        differ = wide.filter(pl.concat_list(hosts).list.n_unique() > 1)
        rows = rows.join(differ, on=["kind", "name"], how="anti", maintain_order="left").filter(host=hosts[0])
        title = "What differs between the hosts"
        if not differ.is_empty():
            yield table(differ, [Column(host) for host in hosts], name="hosts-differ", title=title, **by_subject)
    yield table(rows, [Column("value")], name="conditions", **by_subject)


def _flags_that_differ(values: Mapping[str, str]) -> str:
    """The flags in a list such as `a=on,b=off` that differ from the base's list; a value that is no list is
    returned unchanged.

    >>> _flags_that_differ({"base_value": "a=on,b=on,c=on", "value": "a=on,b=off,d=on"})
    'b=off, with d, without c'
    >>> _flags_that_differ({"base_value": "128", "value": "256"})
    '256'
    """
    base, value = values["base_value"], values["value"]
    if "," not in base or "," not in value:
        return value
    theirs, ours = (dict(flag.partition("=")[::2] for flag in flags.split(",")) for flags in (base, value))
    other = [f"{name}={state}" for name, state in ours.items() if theirs.get(name, state) != state]
    other += [f"with {name}" for name in ours if name not in theirs]
    return ", ".join([*other, *(f"without {name}" for name in theirs if name not in ours)])


def _short(value: str) -> str:
    """A value as HTML, truncated to the width of a cell; lists of flags are not truncated."""
    if value == NO_DIFFERENCE:
        return " "
    return cut(value, len(value) if ", " in value else LONGEST_VALUE) or "(empty)"


def versions_text(versions: pl.DataFrame, *, every: bool = False, markdown: bool = False) -> str:
    """A table per rebuilt build, one row per version and step, then a sentence that compares the newest version with
    the version before. Empty if no build was rebuilt. `versions` is the frame of `stats.by_version`."""
    parts = []
    for (build,), rows in versions.group_by("build_of", maintain_order=True):
        for metric in [name for name in COMPARED if every or name in THROUGHPUTS]:
            of_metric = rows.filter(pl.col("metric").is_null() | (pl.col("metric") == metric))
            if of_metric["metric"].null_count() == of_metric.height:
                continue
            cells = _cells(of_metric)
            shown = as_markdown(cells) if markdown else in_columns(cells)
            parts.append("\n".join([f"{TITLES.get(metric, metric)} of {build} as it was rebuilt", *shown]))
            parts.append(_newest_version(of_metric))
    return "\n\n".join(filter(None, parts))


def _lines(rows: pl.DataFrame) -> tuple[str, list[dict[str, Any]]]:
    """The name of the base, and the lines of the table of one metric. A line has the two comparisons of one version
    in one step: with the base (`base`) and with the version before (`last`). Only the first line of a version has
    the version's date, commit and note. `rows` are from `stats.by_version`."""
    lines, shown = spread(rows.with_columns(pl.col("against").fill_null("base")), "against", INDEX), ""
    for line in lines:
        if line["build"] != shown:
            shown = line["build"]
            line |= {"since": _minute(line["since"]), "commit": _commit(line["revision"])}
        else:
            line |= dict.fromkeys(("build", "since", "commit", "note"), "")
        line |= {side: row if (row := line.get(side)) and row["metric"] else None for side in ("base", "last")}
    return next(iter(rows.filter(against="base")["base"]), "the base"), lines


def _cells(rows: pl.DataFrame) -> Cells:
    base, lines = _lines(rows)
    cells = [["build", "since", "commit", "step", f"to {base}", "to the one before"]]
    for line in lines:
        words = f"{line['build']}: {line['note']}" if line["note"] else line["build"]
        ratios = (ratio_in_words(line[side]) for side in ("base", "last"))
        cells.append([words, line["since"], line["commit"], line["step"] or "–", *ratios])
    return cells


def _newest_version(rows: pl.DataFrame) -> str:
    """A sentence that compares the newest version with the version before it."""
    newest = rows.filter(pl.col("number") == pl.col("number").max(), against="last")
    if newest.is_empty():
        return ""
    steps = [f"{row['step']} {ratio_in_words(row)} ({row['verdict']}, n={row['n']})" for row in newest.to_dicts()]
    first = newest.row(0, named=True)
    return f"{first['dbms']} against {first['base']}: {', '.join(steps)}"


def versions_table(rows: pl.DataFrame, name: str) -> Any:
    """The rows of `stats.by_version` of one metric as a table: one row per version and step."""
    if rows.is_empty():
        return Nothing(["No build of this study was rebuilt."])
    base, lines = _lines(rows)
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
        note="Verdicts from one version to the next are corrected without those of other versions; verdicts on the "
        "change from the base, with all comparisons of the study. "
        f"{legend_of(rows.drop_nulls('metric'))}",
    )


def _cell(row: Any) -> str:
    """The table cell of one comparison: the sign of the verdict, the ratio and the verdict in the first line; the
    interval and the number of rounds in the second."""
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
