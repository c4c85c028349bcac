"""Sections that pages share: builds, conditions, warnings, absolute numbers, CPU, and the source of one number."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import polars as pl
from great_tables import GT

from rqps import stats
from rqps.show.lines import counters, throughput
from rqps.show.table import Column, absolute_table, cut, table
from rqps.show.words import NOT_COMPARED, Sentences, hosts_together, in_order, on_host
from rqps.store import Study

LONGEST_VALUE = 24
NAMED, MOST_BESIDE = 3, 40
MANY_ALIKE = 3
"""If more steps of a dbms than this have warnings that differ only in their numbers, these share one row."""
NO_DIFFERENCE = "\0"
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
    """Sentences on the statistic of the comparisons and on the interval that decides the verdicts."""
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
    """A chart of the counters of the host, the server and the load generator over a run."""
    return counters(stats.counters_over_time(run.counters, run.steps, run.runs))


def trace(study: Study, rounds: pl.DataFrame, compared: pl.DataFrame, metric: str = "") -> Any:
    """A table of the rounds behind the ratio that is farthest from 1, each with its runs."""
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
    """The flags of a list such as `a=on,b=off` that differ from those of the base; any other value is unchanged.

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
