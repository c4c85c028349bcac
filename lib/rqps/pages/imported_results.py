"""The page on imported results: the noise floor of one run, from near-A/A pairs (two runs that should perform alike),
and sentences for the first page."""

from collections.abc import Iterator
from dataclasses import replace

import polars as pl

from rqps import stats
from rqps.numbers import change, counted, difference
from rqps.pages import FirstPage
from rqps.show import Claim, Clause, Sentences, finding, listed, phrase, rounds_of
from rqps.show.sentences import counted_rows
from rqps.stats.metrics import THROUGHPUT
from rqps.stats.near_pairs import BEFORE_AND_AFTER, NEIGHBOURS, REPEATS
from rqps.stats.summary import ALL_PARTS
from rqps.store import Study

MOST_NAMED = 3
FRAME = "imported"
_NONE = "No near-A/A pair is among these results, so nothing shows how much one run differs by chance."


def pairs(study: Study) -> pl.DataFrame:
    """The throughput ratios of near-A/A pairs, one row per pair and step."""
    values = stats.measured(study, (THROUGHPUT,)).drop("usual_spread", strict=False)
    return stats.near_pairs(values, study.runs, study.steps)


def floors(study: Study) -> pl.DataFrame:
    """The noise floors of throughput, per step and number of clients, with the `group` and `kind` of each step."""
    return stats.with_groups(stats.noise_floors(stats.usual_spreads(pairs(study))), study.steps)


def beyond(study: Study) -> pl.DataFrame:
    """One row per comparison of throughput, with the noise floors of its step and `larger`: True if the ratio differs
    from 1 by more than the noise floor of one run."""
    compared = stats.relate(study)[1].filter(metric=THROUGHPUT)
    known = floors(study).select("host", "step", "clients", "pairs", "floor_1", "floor_4", "floor_10")
    rows = compared.join(known, on=["host", "step", "clients"], how="left", maintain_order="left", nulls_equal=True)
    size = pl.col("estimate").log().abs()
    return rows.with_columns(
        larger=size > pl.col("floor_1").log(),
        by_4=size > pl.col("floor_4").log(),
        nine_of_ten=pl.col("floor_1").quantile(0.9, "higher"),
        all=pl.lit("all"),
    )


def findings(study: Study, differences: pl.DataFrame) -> Sentences:
    """Sentences on the noise floor, on the `differences` (rows of `beyond`) that exceed it, on the near-A/A pairs
    from which the noise floor is estimated, and on the differences that more rounds would resolve."""
    return Sentences([*_floor(differences), *_named(study), *_more_rounds(differences)])


def on_first_page(page: FirstPage) -> FirstPage:
    """If the results have too few rounds for verdicts, makes the means the headline, and adds sentences on the noise
    floor."""
    if not stats.has_few_rounds(page.study):
        return page
    sentences = [*_means(page.study), *_floor(beyond(page.study)), *_named(page.study)]
    if not sentences:
        return page
    first, *others = sentences
    return replace(page, headline=first, row=None, explanation=" ".join(others))


def _means(study: Study) -> Iterator[Clause]:
    """A sentence per host on the mean of each dbms over the steps. If there are more than `MOST_NAMED` dbms, the
    sentence has only the lowest and the highest mean."""
    means = stats.means_to_base(study).filter(metric=THROUGHPUT)
    names = dict(stats.names(study).select("dbms", "name").iter_rows())
    for (host,), of_host in means.group_by("host", maintain_order=True):
        rows = of_host.sort("estimate").to_dicts()
        shown = rows if len(rows) <= MOST_NAMED else [rows[0], rows[-1]]
        parts = []
        many = len(shown) < len(rows)
        for row in shown:
            written = change(row["estimate"])
            cell = {name: row[name] for name in ("host", "metric", "relation", "base", "dbms")} | ALL_PARTS
            claim = Claim("means", cell, row["estimate"], written=written)
            name = names[row["dbms"]]
            parts.append(Clause(f"{written} ({name})" if many else f"{name} {written}", [claim]))
        who = phrase("from {} to {}", *parts) if many else listed(parts)
        numbers = sorted({row["steps"] for row in rows})
        over = " to ".join(map(str, dict.fromkeys((numbers[0], numbers[-1]))))
        text = f"Throughput relative to {names[study.card.base]}, over {over} steps: {{}}"
        of = "one run each" if max(row["n"] for row in rows) == 1 else rounds_of(row["n"] for row in rows)
        yield finding(
            phrase(f"{text} (geometric means of imported results, {of}: no verdict)", who),
            place=str(host) * (means["host"].n_unique() > 1),
        )


def _floor(differences: pl.DataFrame) -> Iterator[Clause]:
    """A sentence with the noise floor that nine in ten steps do not exceed, and with the number of comparisons whose
    difference is larger than the noise floor of their step."""
    rows = differences.filter(pl.col("floor_1").is_not_null())
    if rows.is_empty():
        yield finding(_NONE)
        return
    nine, larger = rows["floor_1"].quantile(0.9, "higher") or 0.0, rows.filter(pl.col("larger"))
    floor = Claim(FRAME, {"all": "all"}, nine, "nine_of_ten", written=difference(nine - 1))
    share = Clause(floor.written, [floor])
    counts = Clause(
        f"{larger.height} of {counted(rows.height, 'difference')}", [counted_rows(FRAME, larger.height, larger=True)]
    )
    verb = "is" if larger.height == 1 else "are"
    text = (
        "Noise floor of one run: {} of throughput or less in nine of ten steps; {} {} above the floor of their step"
    )
    yield finding(phrase(text, share, counts, verb))


def _named(study: Study) -> Iterator[Clause]:
    """A sentence that names the near-A/A pairs, with the median of their differences in throughput."""
    every = pairs(study).with_columns(size=pl.col("ratio").log().abs().exp())
    short = stats.short_names(study)
    words = []
    for because in (NEIGHBOURS, REPEATS, BEFORE_AND_AFTER):
        rows = every.filter(because=because)
        if rows.is_empty():
            continue
        named = rows.select("base", "dbms").unique(maintain_order=True).rows()
        who = [short[base] if base == dbms else f"{short[base]} and {short[dbms]}" for base, dbms in named]
        more = f" and {len(who) - MOST_NAMED} more" if len(who) > MOST_NAMED else ""
        median = float(rows["size"].median()) - 1  # type: ignore[arg-type]
        words.append(f"{because} ({', '.join(who[:MOST_NAMED])}{more}: {difference(median)} in the median step)")
    if words:
        yield finding(f"The floor comes from near-A/A pairs: {listed(words)}")


def _more_rounds(differences: pl.DataFrame) -> Iterator[Clause]:
    """A sentence on the number of differences that four rounds would resolve if the differences keep their size."""
    rows = differences.filter(pl.col("floor_1").is_not_null())
    left = rows.filter(~pl.col("larger"))
    if left.is_empty():
        return
    resolved = left.filter(pl.col("by_4")).height
    claims = [counted_rows(FRAME, resolved, larger=False, by_4=True)]
    text = f"Four rounds each would resolve {resolved} of the {counted(left.height, 'smaller difference')}"
    yield finding(Clause(f"{text}, if these keep their size", claims))
