"""Frames and sentences of published numbers, in the form in which a page shows them."""

import polars as pl

from rqps.published.checks import AGREES, checked, view
from rqps.published.figures import KINDS, Published
from rqps.published.versions import short

SIGNS = {"=": "", "~": "about ", "<=": "at most ", ">=": "at least "}
_UNITS = {"percent": " %", "percent more": " % more", "ratio": "×", "count": ""}


def in_short(published: Published, contradictions: pl.DataFrame) -> list[str]:
    """Sentences that say how many numbers are published, how many ratios, and how many assertions do not hold."""
    ratios, copies = view(published, "ratios"), view(published, "copies")
    agree = {**dict.fromkeys(AGREES, 0), **dict(ratios.group_by("agrees").len().rows())}
    kinds = dict(contradictions.group_by("kind").len().rows())
    frames = (published.rqps, published.per_operation, published.busy_wait, published.ut_delay, published.timers)
    return [
        f"{len(published.sources)} studies are quoted here, with {sum(frame.height for frame in frames):,} numbers "
        f"from their tables and {published.prose.height} from their text.",
        f"{ratios.height} ratios have both of their inputs in print. {agree['exactly']} agree with them,"
        f" {agree['zeros']} are 0 / 0 printed as 1, and {agree['no']} are wrong by more than rounding.",
        f"{contradictions.height} statements do not hold: "
        + ", ".join(f"{kind} {kinds[kind]}" for kind in KINDS if kind in kinds)
        + f". {checked(published).filter(kind='agrees').height} statements that could be calculated again do hold.",
        *(
            f"The gravest: the rQPS table that {copy['source']} prints under {copy['section']!r} repeats all"
            f" {copy['numbers']} numbers of {copy['original']!r}. The rQPS of that host is not in print."
            for copy in copies.iter_rows(named=True)
        ),
    ]


def printed_ratios(published: Published) -> pl.DataFrame:
    """The ratios of all rQPS tables, without summaries and copies; `server` is the short name of the build."""
    server = pl.col("build").map_elements(short, return_dtype=pl.String)
    return view(published, "whole_tables").with_columns(server.alias("server"))


def quoted_ratios(published: Published, source: str) -> pl.DataFrame:
    """Throughput ratios given in prose, by step and `server`; for a range, `printed` has both ends and `value` the
    mean."""
    given = published.prose.filter(
        pl.col("step") != "", pl.col("base") != "", source=source, metric="throughput", unit="ratio"
    )
    text = pl.concat_str(pl.col("sign").replace({"=": "", "<=": "≤", ">=": "≥"}), "printed").str.join(" ")
    return given.group_by("step", pl.col("dbms").alias("server"), maintain_order=True).agg(
        text.alias("printed"), pl.col("value").mean()
    )


def response_times(published: Published) -> pl.DataFrame:
    """Response time of a point lookup relative to 5.0.85, by release, with and without the performance schema."""
    given = published.prose.filter(
        pl.col("dbms") != "", source="point-lookups-2014", metric="response time", sign="="
    )
    switch = pl.when(pl.col("dbms").str.ends_with(".ps")).then(pl.lit("on")).otherwise(pl.lit("off"))
    return given.select(
        pl.col("dbms").str.replace(r"\.ps$", "").alias("release"),
        pl.format("performance schema {}", switch).alias("schema"),
        "value",
        "printed",
        "half",
    ).sort("release", "schema")


def quotes(published: Published, source: str) -> pl.DataFrame:
    """Numbers in the text of a source, each with its place."""
    of = pl.concat_str(pl.col("host", "step", "dbms").replace("", None), separator=", ", ignore_nulls=True)
    unit = pl.col("unit").replace_strict(_UNITS, default=pl.lit(" ") + pl.col("unit"))
    return published.prose.filter(source=source).select(
        "place",
        pl.col("metric").alias("what"),
        pl.concat_str(pl.col("sign").replace(SIGNS), "printed", unit).alias("number"),
        of.alias("of"),
        pl.col("base").alias("relative to"),
        "about",
    )


def sources(published: Published) -> pl.DataFrame:
    """One row per source: title, author, date, what was measured, and on which hosts."""
    rows = [
        {
            "source": key,
            "title": source.title or "not printed",
            "author": source.author + ("" if source.author_printed else " (not printed)"),
            "date": source.date or source.dated,
            "measured": source.measured,
            "hosts": ", ".join(source.hosts),
        }
        for key, source in published.sources.items()
    ]
    return pl.DataFrame(rows)
