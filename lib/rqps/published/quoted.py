"""Frames of published numbers as a page shows them."""

import polars as pl

from rqps.published.checks import AGREES, checked, view
from rqps.published.figures import KINDS, Published
from rqps.published.versions import short

SIGNS = {"=": "", "~": "about ", "<=": "at most ", ">=": "at least "}
_UNITS = {"percent": " %", "percent more": " % more", "ratio": "×", "count": ""}


def in_short(published: Published, contradictions: pl.DataFrame) -> list[str]:
    """The numbers, the ratios and the places that do not hold, counted."""
    ratios, copies = view(published, "ratios"), view(published, "copies")
    agree = {**dict.fromkeys(AGREES, 0), **dict(ratios.group_by("agrees").len().rows())}
    kinds = dict(contradictions.group_by("kind").len().rows())
    frames = (published.rqps, published.per_operation, published.busy_wait, published.ut_delay, published.timers)
    return [
        f"{len(published.sources)} studies are quoted here, with {sum(frame.height for frame in frames):,} numbers "
        f"from their tables and {published.prose.height} from their text.",
        f"{ratios.height} ratios have both of their inputs in print. {agree['exactly']} agree with them,"
        f" {agree['zeros']} are 0 / 0 printed as 1, and {agree['no']} are wrong by more than rounding.",
        f"{contradictions.height} places do not hold: "
        + ", ".join(f"{kind} {kinds[kind]}" for kind in KINDS if kind in kinds)
        + f". {checked(published).filter(kind='agrees').height} statements that could be calculated again do hold.",
        *(
            f"The gravest: the rQPS table that {copy['source']} prints under {copy['section']!r} repeats all"
            f" {copy['numbers']} numbers of {copy['original']!r}. The rQPS of that host is not in print."
            for copy in copies.iter_rows(named=True)
        ),
    ]


def tally(contradictions: pl.DataFrame) -> str:
    """The number of places of each kind in each source, as lines of text."""
    counts = contradictions.group_by("source", "kind", maintain_order=True).len()
    lines = [
        f"{source:24}{', '.join(f'{row[2]} {row[1]}' for row in of_source.iter_rows())}"
        for (source,), of_source in counts.group_by("source", maintain_order=True)
    ]
    return "\n".join([*lines, f"{'all':24}{contradictions.height}"])


def rqps_table(published: Published, source: str) -> pl.DataFrame:
    """The rQPS tables of a source, without summaries and copies; `label` is the build, with the host if several."""
    rows = view(published, "whole_tables").filter(source=source)
    build = pl.col("build").map_elements(short, return_dtype=pl.String)
    several = rows["host"].n_unique() > 1
    return rows.with_columns((pl.format("{} {}", "host", build) if several else build).alias("label"))


def quoted_ratios(published: Published, source: str) -> pl.DataFrame:
    """Throughput ratios given in prose as a table of steps by dbms; of a range, both ends stand in the cell."""
    given = published.prose.filter(
        pl.col("step") != "", pl.col("base") != "", source=source, metric="throughput", unit="ratio"
    )
    text = pl.concat_str(pl.col("sign").replace({"=": "", "<=": "≤", ">=": "≥"}), "printed").str.join(" ")
    return given.group_by("step", pl.col("dbms").alias("label"), maintain_order=True).agg(
        text.alias("printed"), pl.col("value").mean()
    )


def costs_table(per_operation: pl.DataFrame) -> pl.DataFrame:
    """Per-operation tables, one column per metric: the number, and behind it the printed ratio."""
    key = ["section", "table", "dbms", "metric"]
    ratio = per_operation.filter(part="relative").select(*key, pl.col("printed").alias("ratio"))
    cells = per_operation.filter(part="absolute").join(ratio, on=key, how="left", maintain_order="left")
    text = pl.format("{}{}", "printed", pl.format(" ×{}", "ratio").fill_null(""))
    of = pl.format("{}: {}", "section", "table")
    return cells.with_columns(text.alias("cell"), of.alias("of")).pivot(
        "metric", index=["of", "dbms"], values="cell", maintain_order=True
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


def small_tables(published: Published) -> dict[str, pl.DataFrame]:
    """The small tables by name: sources, their hosts, nanoseconds of a random number, and timers."""
    sources = [
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
    hosts = [(name, host.hardware) for source in published.sources.values() for name, host in source.hosts.items()]
    calls = published.busy_wait.unique(["host", "function", "compiled"], maintain_order=True)
    of_metric = pl.format("{}, {}", "metric", "unit").alias("column")
    return {
        "sources": pl.DataFrame(sources),
        "hosts": pl.DataFrame(hosts, schema=["host", "hardware"], orient="row").unique(maintain_order=True),
        "nanoseconds": calls.pivot(
            "host", index=["version", "function", "compiled"], values="printed", maintain_order=True
        ),
        "timers": published.timers.with_columns(of_metric).pivot(
            "column", index=["source", "host", "timer"], values="printed", maintain_order=True
        ),
    }
