"""Point lookups as published: response times of all kinds and clients relative to that of one lookup."""

from collections.abc import Callable
from typing import Any

import polars as pl
from great_tables import GT, loc, style

from rqps.errors import RqpsError
from rqps.pages.point_lookups.response_charts import chart
from rqps.published import read
from rqps.published.releases import lookups_beside, lookups_contradictions, lookups_differ, response_time_values
from rqps.show import Column, Sentences, by_host, coverage_of, in_order, ratio, rounds_of, spread, table
from rqps.show.table import with_interval
from rqps.show.words import interval_of, medians_of, three_digits
from rqps.stats import MEDIAN, absolute, all_warnings, tidy, usable
from rqps.store import Study

_KINDS = ("pk", "pk-force", "cover-noforce", "nocover-force", "cover-force")
KINDS = {kind: kind.replace("pk", "PK") for kind in _KINDS}
"""Kinds of query as the published study calls them."""
UNIT_KIND = "pk"


def _microseconds(value: float) -> str:
    return f"{value:,.{1 if value < 1000 else 0}f}"


QUANTITIES: dict[str, tuple[str, str, Callable[[float], str]]] = {  # title and name of a table, form of a number
    "relative": ("Response time, relative to PK of {} from one client on the same engine", "ratio", ratio),
    "microseconds": ("Response time, µs", "µs", _microseconds),
    "generator_share": ("The load generator's share of its CPU time and the server's", "share", "{:.0%}".format),
    "server_cpu": ("CPU time of the server for a query, µs", "µs-CPU", _microseconds),
}
_COSTS = {
    "generator_share": pl.col("client_cpu_s") / (pl.col("client_cpu_s") + pl.col("server_cpu_s")),
    "server_cpu": pl.col("server_cpu_s") * 1e6 / pl.col("operations"),
}
_KEYS = ("host", "step", "position", "storage_engine", "group", "kind", "kind_words", "clients", "dbms", "config")


def values(study: Study, of: str) -> pl.DataFrame:
    """Median of the rounds of each step and dbms, with its interval: of one of `QUANTITIES`."""
    if of == "relative":
        return _relative(study)
    if of == "microseconds":
        found = response_time_values(study)
    else:
        found = tidy(usable(study.steps).with_columns(_COSTS[of].alias(of)), [of], study.runs)
    return absolute(_described(found, study), keys=_KEYS)


def _relative(study: Study) -> pl.DataFrame:
    """Ratios to the unit: PK of the base from one client on that storage engine and round, or the nearest step."""
    times, base = _described(response_time_values(study), study), study.card.base
    of_base = times.filter(dbms=base).sort("clients", pl.col("kind") != UNIT_KIND, "position")
    unit = of_base.unique("storage_engine", keep="first", maintain_order=True).select("step")
    keys = ["host", "storage_engine", "round"]
    units = of_base.join(unit, on="step", how="semi").select(*keys, base="dbms", unit="step", unit_us="value")
    ratios = times.join(units, on=keys, maintain_order="left").with_columns(pl.col("value") / pl.col("unit_us"))
    if ratios.is_empty():
        raise RqpsError(
            f"no round has the lookups of its base {base!r} that all others are relative to",
            fix="run the study again: it measures what is missing",
        )
    return MEDIAN.estimate(ratios, [*_KEYS, "base", "unit"], "value")


def answers(study: Study) -> GT:
    """Response times of the first kind of query, one column per storage engine and number of clients."""
    found = by_host(values(study, "relative")).sort("position", maintain_order=True)
    first = found.filter(pl.col("position") == pl.col("position").min().over("group"))
    columns = [Column(each, form=with_interval(three_digits), align="right") for each in in_order(first["group"])]
    what = f"Response time of {first['kind_words'][0]}; 1 is {' or '.join(in_order(found['unit']))}"
    note = f"{what} of {found['base'][0]}. {medians_of(first)}"
    return table(spread(first, "group", ["dbms"]), columns, name="lookups-short", rows="dbms", note=note)


def generator_answers(study: Study) -> Sentences:
    """The load generator's share of the CPU: in the middle of all steps and dbms, at most, and at least."""
    rows = by_host(values(study, "generator_share")).sort("estimate", maintain_order=True)
    least, most = (
        f"{word} {row['estimate']:.0%} ({interval_of(row, '.0%')}), in {row['step']} of {row['dbms']}."
        for word, row in (("At least", rows.row(0, named=True)), ("At most", rows.row(-1, named=True)))
    )
    half: Any = rows["estimate"].median()
    middle = f"In half of all steps and dbms it takes {half:.0%} or more of the CPU time of both."
    return Sentences([middle, f"{most} {least} Medians of {rounds_of(rows['n'])}."])


def charts(study: Study) -> list[Any]:
    """One chart per storage engine and number of clients, and one with its axis cut where a few bars are too long."""
    found = values(study, "relative").sort("position", maintain_order=True)
    groups = found.group_by("host", "group", maintain_order=True)
    return [drawn for _, bars in groups for drawn in chart(bars)]


def numbers(study: Study, of: str) -> GT:
    """One row per dbms, one column per kind of query: the median of one of `QUANTITIES` with its interval."""
    what, name, form = QUANTITIES[of]
    found = by_host(values(study, of)).sort("position", maintain_order=True)

    rows = spread(found, "kind_words", ["group", "dbms"])
    columns = [Column(kind, form=with_interval(form), align="right") for kind in in_order(found["kind_words"])]
    medians = f"median of {rounds_of(found['n'])}, below it its {coverage_of(found['coverage'])}"
    note = f"{what.format(study.card.base)}: {medians}."
    return table(rows, columns, name=f"lookups-{name}", group="group", rows="dbms", note=note)


def plans(study: Study) -> GT | Sentences:
    """One row per kind, storage engine and way of reading; marked where the kind's name promises another."""
    found = read_by(study)
    if found.is_empty():
        return Sentences(["No plans were kept: these runs were measured before plans were."])
    mark = pl.when("differs").then(pl.lit("⚠ not as named")).otherwise(pl.lit("as named")).alias("plan")
    shown = found.with_columns(mark, pl.col("dbms").list.join(", "))
    labels = {"kind_words": "kind", "statement": "", "reads": "reads by", "rows": "", "plan": "", "dbms": ""}
    columns = [Column(name, label) for name, label in labels.items()]
    note = "By EXPLAIN, before each step; rows is what the server expects to read."
    made = table(shown, columns, name="plans", group="storage_engine", note=note)
    warned = style.text(color="#a63c06", weight="bold")
    return made.tab_style(warned, loc.body(["reads", "plan"], shown["differs"].arg_true().to_list()))


def read_by(study: Study) -> pl.DataFrame:
    """One row per kind, storage engine and way of reading, with the dbms that read so; `differs` has a warning."""
    warned = all_warnings(study).filter(kind="plan").select("dbms", "step", pl.lit(True).alias("differs")).unique()
    # That a server looks at the row once more is of no interest, and not said by all releases.
    extra = pl.col("extra").str.replace(r"(^|; )Using where", "").str.strip_prefix("; ").replace("", None)
    read = pl.concat_str(pl.col("key").fill_null("no index"), "access", extra, separator=", ", ignore_nulls=True)
    plans = _described(study.plans.collect(), study)
    known = plans.join(warned, on=["dbms", "step"], how="left", maintain_order="left")
    kinds = pl.col("kind").replace_strict(list(KINDS), range(len(KINDS)))
    return (
        known.with_columns(read.alias("reads"), pl.col("differs").fill_null(False))
        .group_by("storage_engine", "kind", "kind_words", "statement", "reads", "differs", maintain_order=True)
        .agg(pl.col("dbms").unique(maintain_order=True), pl.col("rows").max())
        .sort("storage_engine", kinds, maintain_order=True)
    )


def beside(study: Study) -> tuple[GT | Sentences, Sentences, Sentences]:
    """Ours beside the published study: the ratios of both, what differs, and where the published text contradicts."""
    figures = read()
    found = lookups_beside(figures, study)
    columns = [Column(name, "published" if name == "theirs" else "") for name in found.columns]
    note = "Ratios of response times, PK on InnoDB with one client. Published: in brackets what rounding leaves open."
    note += " Ours: the mean of the rounds and its interval."
    shown: GT | Sentences = table(found, columns, name="lookups-beside", note=note)
    if found.is_empty():
        shown = Sentences(["These releases have nothing in common with those of the published study."])
    return shown, Sentences(lookups_differ(figures, study)), Sentences(lookups_contradictions(figures))


def _described(frame: pl.DataFrame, study: Study) -> pl.DataFrame:
    steps = study.steps.select("step", "storage_engine", "kind").unique("step")
    new = steps.select("step", *(name for name in steps.columns[1:] if name not in frame.columns))
    found = frame.join(new, on="step", maintain_order="left")
    return found.with_columns(pl.col("kind").replace(KINDS).alias("kind_words"))
