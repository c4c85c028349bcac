"""Relative throughput on a report's first page: a table of all steps; for many steps, a table of groups and a table
of the steps that changed most."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType

import polars as pl
from great_tables import GT

from rqps import show, stats
from rqps.pages import FirstPage
from rqps.show import Column, Row, ratio, rounds_of, two_lines
from rqps.stats.metrics import THROUGHPUT
from rqps.stats.verdict import VERDICTS
from rqps.store.read import Study

MANY = 12
"""Maximum number of steps in a table. For more steps, one table has the groups, and a second table has the steps that
changed most."""


def on_first_page(page: FirstPage) -> FirstPage:
    """Adds tables of relative throughput, unless the headline is on another metric."""
    if page.measure != THROUGHPUT:
        return page
    throughput = page.compared.filter(metric=THROUGHPUT)
    named = stats.names(page.study)
    full, short = (dict(named.select("dbms", column).iter_rows()) for column in ("name", "short"))
    of_steps = partial(show.ratio_table, means=page.means, left_out=stats.left_out(page.study), names=short)
    title = f"Throughput relative to {full[page.study.card.base]}"
    tables = [(title, of_steps(throughput))]
    if throughput["step"].n_unique() > MANY:
        most = throughput.filter(pl.col("step").is_in(stats.most_changed(throughput, MANY)))
        tables = [(title, group_table(throughput, short)), (f"The {MANY} steps that changed most", of_steps(most))]
    if (versions := stats.by_version(page.study, THROUGHPUT)).height:
        tables.append(("A build that was rebuilt", show.versions_table(versions, "versions")))
    return replace(page, tables=(*page.tables, *tables))


def means(study: Study) -> pl.DataFrame:
    """The geometric means over the steps of a study, from which the numbers in the page's sentences are
    recomputed."""
    return stats.over_steps(stats.relate(study)[0], stats.left_out(study))


def by_group(throughput: pl.DataFrame) -> pl.DataFrame:
    """One row per group of steps and dbms: the median, lowest and highest ratio of the group's steps, and the number
    of steps with each verdict."""
    estimate = pl.col("estimate")
    return throughput.group_by("host", "group", "base", "dbms", maintain_order=True).agg(
        steps=pl.len(),
        middle=estimate.median(),
        low=estimate.min(),
        high=estimate.max(),
        rounds=pl.col("n"),
        **{verdict: (pl.col("verdict") == verdict).sum() for verdict in VERDICTS},
    )


def group_table(throughput: pl.DataFrame, names: Mapping[str, str] = MappingProxyType({})) -> GT:
    """A table with one row per dbms and one column per group of steps. `names` maps dbms to the names shown."""
    rows = by_group(throughput).with_columns(pl.col("dbms", "base").replace(names))
    rows = show.by_host(rows).with_columns(pl.col("group").replace("", "All steps"))
    steps = dict(rows.sort("steps").select("group", "steps").iter_rows())
    signs = show.signs_of(THROUGHPUT)

    def middle(row: Row) -> str:
        verdicts = " ".join(f"{signs[word]}{row[word]}" for word in VERDICTS if row[word])
        reach = f"{ratio(row['low'])} to {ratio(row['high'])}<br>" if row["steps"] > 1 else ""
        return two_lines(f"<b>{ratio(row['middle'])}</b>", reach + verdicts)

    groups = [
        Column(group, f"{group} ({steps[group]})", middle, _colour_of_group, "center")
        for group in show.in_order(rows["group"])
    ]
    return show.table(
        show.spread(rows, "group", ["dbms"]),
        [Column("dbms"), *groups],
        name="groups",
        note=f"Relative to {rows['base'][0]}: the median of the steps, below it from the lowest to the highest, and "
        f"how many steps are {', '.join(f'{signs[word]} {word}' for word in VERDICTS)}, each by "
        f"{rounds_of(rows['rounds'].list.explode())}.",
    )


def _colour_of_group(row: Row | None) -> str | None:
    """The colour of a group's median ratio; it is paler if most comparisons of the group are unsure."""
    unsure = row and row["unsure"] > row["steps"] / 2
    return show.colour_of(row["middle"], "unsure" if unsure else "") if row else None
