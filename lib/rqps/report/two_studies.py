"""A page that compares two studies, such as last month's and today's: their ratios, and conditions that changed."""

from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from functools import partial
from pathlib import Path

import polars as pl
from great_tables import GT
from markupsafe import Markup

import rqps
from rqps import show, stats
from rqps.report.render import MOST_ROWS, render, write_page
from rqps.show import Column, Row, by_host, in_order
from rqps.show.sentences import CHANGED
from rqps.store import manifest
from rqps.store.manifest import data_folder
from rqps.store.read import Study, load

LONGEST_VALUE, MOST_NAMED = 44, 3
_CHANGED = pl.col("verdict").is_in(["slower", "faster"])


def two_studies(
    first: str, second: str, data: Path | str | None = None, out: Path | str | None = None
) -> tuple[Path, str]:
    """Write a page on two studies, given by name or path, to `out/FIRST-SECOND.html`. Returns the page's path, and
    sentences on the dbms and steps that both studies have."""
    root = data_folder(data).resolve()
    studies = load(first, root), load(second, root)
    compared = _of_the_same_hosts([stats.relate(study)[1] for study in studies])
    names, conditions = _names(studies), stats.changed_conditions(*studies)
    both = stats.change(*(frame.filter(pl.col("metric").is_in(list(stats.SIDES))) for frame in compared))
    shared = _shared(studies, names)
    tables = [
        (heading, Markup(made.as_raw_html()), height) for heading, made, height in _tables(both, conditions, names)
    ]
    now = datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z")
    page = render(
        "two_studies.html.j2",
        title=f"{names[0]} and {names[1]} · rqps",
        heading=f"{names[0]} and {names[1]}, side by side",
        beside=" ".join(study.card.study for study in studies),
        questions=in_order(study.card.question for study in studies),
        said=(shared, *_in_short(both, conditions, names), *filter(None, [stats.changed_state(*studies)])),
        tables=tables,
        most_rows=MOST_ROWS,
        made=f"Rendered by rqps {rqps.__version__} on {now}, from the raw tables of both studies.",
        contents={f"table-{number}": heading for number, (heading, *_) in enumerate(tables, start=1)},
        to_rounds=Markup(""),
    )
    file = "-".join(study.card.study for study in studies)
    return write_page((Path(out) if out else root / "report") / f"{file}.html", page), shared


def _of_the_same_hosts(compared: list[pl.DataFrame]) -> list[pl.DataFrame]:
    """The compared frames, with the host in the names of dbms if both studies have several hosts. If only one of them
    has, only its rows of the other's host remain, if there are any."""
    hosts = [set(frame["host"]) for frame in compared]
    if min(map(len, hosts)) < 2 and (shared := hosts[0] & hosts[1]):
        return [frame.filter(pl.col("host").is_in(list(shared))) for frame in compared]
    return [by_host(frame) for frame in compared]


def pages_beside(study: str, data: Path, pages: Path) -> list[tuple[str, str]]:
    """Links to the pages in the folder `pages` that compare the study with another one, each with its title. The
    links are relative to the study's report, which is in the same folder."""
    files = {f"{name}-{study}.html": name for name in manifest.studies(data)}
    return [(f"../{file}", f"Beside the study {name}") for file, name in files.items() if (pages / file).is_file()]


def _shared(studies: tuple[Study, Study], names: tuple[str, str]) -> str:
    """Sentences on the dbms and steps that both studies have, and on those that only one study has."""
    parts = []
    for column, several in (("dbms", "dbms"), ("step", "steps")):
        ours, theirs = (in_order(study.steps[column]) for study in studies)
        both = [name for name in ours if name in theirs]
        what, are = (column, "is") if len(both) == 1 else (several, "are")
        if len(both) == len(ours) == len(theirs):
            parts.append(f"Both studies have the same {len(both)} {what}.")
            continue
        sizes = f"{names[0]} has {len(ours)} and {names[1]} has {len(theirs)}"
        parts.append(f"{len(both) or 'No'} {what} {are} in both studies; {sizes}.")
        for study, every in zip(names, (ours, theirs), strict=True):
            if own := [name for name in every if name not in both]:
                more = f" and {len(own) - MOST_NAMED} more" if len(own) > MOST_NAMED else ""
                parts.append(f"Only {study} has {', '.join(own[:MOST_NAMED])}{more}.")
    return " ".join(parts)


def _names(studies: tuple[Study, Study]) -> tuple[str, str]:
    """The names of both studies; if the names are equal, each with the time at which the study started."""
    first, second = (study.card.study for study in studies)
    if first != second:
        return first, second
    one, other = (f"{study.runs.select(pl.col('started_at').min()).item():%Y-%m-%d %H:%M}" for study in studies)
    return f"{first} of {one}", f"{first} of {other}"


def _in_short(both: pl.DataFrame, conditions: pl.DataFrame, names: tuple[str, str]) -> Iterator[str]:
    """Sentences on the changes between the studies (the number of comparisons with each verdict, and the largest
    change), and on conditions that differ."""
    if both.is_empty():
        yield f"{names[0]} and {names[1]} have no comparison in common."
        return
    decided = stats.deciding(both)
    yield f"In both studies, {show.verdict_counts(decided['verdict'])}."
    by_size = decided.filter(_CHANGED).sort(pl.col("estimate").log().abs(), descending=True, maintain_order=True)
    for row in by_size.head(1).to_dicts():
        was, now = (show.number_of(row[of], rounds=False) for of in ("first", "second"))
        what = f"{stats.SIDES[row['metric']]} of {row['dbms']} relative to {row['base']}"
        change = f"was {was} in {names[0]} and is {now} in {names[1]}, {show.number_of(row)} of that"
        yield show.finding(f"{row['step']} {CHANGED[row['verdict']]} most: {what} {change}")
    bases = both.select(*(pl.col(of).struct.field("base").alias(of) for of in ("first", "second"))).unique()
    if other := [f"{first} and {second}" for first, second in sorted(bases.rows()) if first != second]:
        yield f"Their bases differ: {', '.join(other)}."
    kinds = [f"{kind} ({number})" for kind, number in Counter(conditions["kind"]).items()]
    yield f"Conditions that changed: {', '.join(kinds)}." if kinds else "No recorded condition changed."


def _tables(both: pl.DataFrame, conditions: pl.DataFrame, names: tuple[str, str]) -> Iterator[tuple[str, GT, int]]:
    """The tables of the page, each with its heading and its number of rows."""
    changed = both.filter(_CHANGED)
    if not changed.is_empty():
        yield "What changed", _ratios(changed, names, "changed", Column("measure")), changed.height
    if not conditions.is_empty():
        value = partial(show.cut, longest=LONGEST_VALUE)
        columns = [Column(side, name, value) for side, name in zip(("first", "second"), names, strict=True)]
        if set(conditions["dbms"]) != {"all"}:
            columns.append(Column("dbms"))
        made = show.table(conditions, columns, name="changed-conditions", group="kind", rows="name")
        yield "What changed in the conditions", made, conditions.height
    for metric in in_order(both["metric"]):
        rows = both.filter(metric=metric)
        heading = stats.SIDES[metric]
        yield f"{heading[0].upper()}{heading[1:]}: every comparison", _ratios(rows, names, metric), rows.height


def _ratios(rows: pl.DataFrame, names: tuple[str, str], name: str, *more: Column) -> GT:
    cells = [row | {"change": row, "measure": stats.SIDES[row["metric"]]} for row in rows.to_dicts()]
    labels = {"first": names[0], "second": names[1], "change": f"{names[1]} / {names[0]}"}
    ratios = [Column(key, label, show.ratio_cell, _colour, align="center") for key, label in labels.items()]
    columns = [Column("step"), Column("dbms"), *more, *ratios]
    return show.table(cells, columns, name=f"both-{name}", note=show.legend_of(rows))


def _colour(row: Row) -> str | None:
    return show.ratio_colour(row) if row["metric"] in stats.THROUGHPUTS else None
