"""Frames of published numbers in the form in which the notebook shows them."""

import polars as pl

from rqps.published.checks import AGREES, checked, recomputed, view
from rqps.published.figures import KINDS, Published
from rqps.published.labels import labelled

SIGNS = {"=": "", "~": "about ", "<=": "at most ", ">=": "at least "}
UNITS = {"percent": " %", "percent more": " % more", "ratio": "×", "count": ""}


def in_short(published: Published, contradictions: pl.DataFrame) -> list[str]:
    """What the page comes to, counted."""
    ratios = recomputed(published)
    agree = {**dict.fromkeys(AGREES, 0), **dict(ratios.group_by("agrees").len().rows())}
    kinds = dict(contradictions.group_by("kind").len().rows())
    frames = (published.rqps, published.per_operation, published.busy_wait, published.ut_delay, published.timers)
    statements = checked(published)
    return [
        f"{len(published.sources)} studies are quoted here, with {sum(each.height for each in frames):,} numbers from"
        f" their tables and {published.prose.height} from their text.",
        f"{ratios.height} ratios have both of their inputs in print. {agree['exactly']} agree with them,"
        f" {agree['zeros']} are 0 / 0 printed as 1, and {agree['no']} are wrong by more than rounding.",
        f"{contradictions.height} places do not hold: "
        + ", ".join(f"{kind} {kinds[kind]}" for kind in KINDS if kind in kinds)
        + f". {statements.filter(kind='agrees').height} statements that could be calculated again do hold.",
        *(
            f"The gravest: the rQPS table that {copy['source']} prints under {copy['section']!r} repeats all"
            f" {copy['numbers']} numbers of {copy['original']!r}. The rQPS of that host is not in print."
            for copy in view(published, "copies").iter_rows(named=True)
        ),
    ]


def where_from(published: Published) -> pl.DataFrame:
    """One row a source."""
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


def tally(contradictions: pl.DataFrame) -> str:
    """How many places of each kind a source has, as lines of text."""
    counts = contradictions.group_by("source", "kind", maintain_order=True).len()
    lines = [
        f"{source:24}{', '.join(f'{row[2]} {row[1]}' for row in of_source.iter_rows())}"
        for (source,), of_source in counts.group_by("source", maintain_order=True)
    ]
    return "\n".join([*lines, f"{'all':24}{contradictions.height}"])


def rqps_table(published: Published, source: str) -> pl.DataFrame:
    """The rQPS tables of a source, without its summaries and without what only repeats another host's table."""
    copied = view(published, "copies").filter(source=source)["section"].to_list()
    whole = published.rqps.filter(~pl.col("section").is_in(copied), ~pl.col("section").str.contains(r"\("))
    return labelled(whole.filter(source=source))


def quoted_ratios(published: Published, source: str) -> pl.DataFrame:
    """Throughput ratios given in prose as a table of steps by dbms; of a range, both ends stand in the cell."""
    told = published.prose.filter(
        pl.col("step") != "", pl.col("base") != "", source=source, metric="throughput", unit="ratio"
    )
    text = pl.concat_str(pl.col("sign").replace({"=": "", "<=": "≤", ">=": "≥"}), "printed").str.join(" ")
    return told.group_by("step", pl.col("dbms").alias("label"), maintain_order=True).agg(
        text.alias("printed"), pl.col("value").mean()
    )


def response_times(published: Published) -> pl.DataFrame:
    """Response time of a point lookup relative to 5.0.85, by release, with and without the performance schema."""
    told = published.prose.filter(source="point-lookups-2014", metric="response time", sign="=")
    told = told.filter(pl.col("dbms") != "")
    return told.select(
        pl.col("dbms").str.replace(r"\.ps$", "").alias("release"),
        pl.when(pl.col("dbms").str.ends_with(".ps"))
        .then(pl.lit("performance schema on"))
        .otherwise(pl.lit("performance schema off"))
        .alias("schema"),
        "value",
        "printed",
    ).sort("release")


def quotes(published: Published, source: str) -> pl.DataFrame:
    """What a source gives as numbers in its text, and where."""
    of = pl.concat_str(pl.col("host", "step", "dbms").replace("", None), separator=", ", ignore_nulls=True)
    number = pl.concat_str(
        pl.col("sign").replace(SIGNS),
        "printed",
        pl.col("unit").replace_strict(UNITS, default=pl.lit(" ") + pl.col("unit")),
    )
    return published.prose.filter(source=source).select(
        "place", pl.col("metric").alias("what"), number.alias("number"), of.alias("of"),
        pl.col("base").alias("relative to"), "about",
    )  # fmt: skip


def hosts(published: Published) -> pl.DataFrame:
    """Each host once, with its hardware."""
    rows = [(name, host.hardware) for source in published.sources.values() for name, host in source.hosts.items()]
    return pl.DataFrame(rows, schema=["host", "hardware"], orient="row").unique(maintain_order=True)


def nanoseconds(published: Published) -> pl.DataFrame:
    """The time of a call by function and way of compiling, one column a host."""
    cells = published.busy_wait.unique(["host", "function", "compiled"], maintain_order=True)
    return cells.pivot("host", index=["version", "function", "compiled"], values="printed", maintain_order=True)


def timers(published: Published) -> pl.DataFrame:
    """Timers that the performance schema has on a host: how often they tick, and what reading one costs."""
    named = published.timers.with_columns(pl.format("{}, {}", "metric", "unit").alias("column"))
    return named.pivot("column", index=["source", "host", "timer"], values="printed", maintain_order=True)
