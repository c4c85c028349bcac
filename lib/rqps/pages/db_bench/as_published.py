"""Our ratios beside those that were published of RocksDB 6.0 to 9.7, and what differs between the two."""

from collections.abc import Sequence
from typing import Any

import polars as pl
from great_tables import GT

from rqps import show
from rqps.pages.db_bench import AS_PUBLISHED, named, releases
from rqps.published import read
from rqps.published.quoted import SIGNS
from rqps.show import Column, Nothing, Sentences, rounds_of
from rqps.stats.metrics import THROUGHPUT
from rqps.store import Study

SOURCE = "rocksdb-leveled-2024"


def tables(study: Study, compared: pl.DataFrame) -> Sequence[GT | Sentences]:
    """Our ratios beside the published ranges, and what differs between the two."""
    if not set(study.steps["kind"]) & set(AS_PUBLISHED):
        return [Nothing(["None of these steps has published numbers."])]
    return [beside(study, compared), what_differs(study)]


def beside(study: Study, compared: pl.DataFrame) -> GT | Sentences:
    """The published ranges beside our ratios of the same steps, by the releases of ours that are nearest."""
    said = read().prose.filter(pl.col("place").str.starts_with("tl;dr"), source=SOURCE)
    versions = study.runs.select("dbms", "version").unique("dbms")
    with_versions = compared.filter(metric=THROUGHPUT).join(versions, on="dbms", maintain_order="left")
    ratios, base = named(study, with_versions), releases(study)[study.card.base]
    caches = study.conditions.filter(kind="option", name="cache_type", value="auto_hyper_clock_cache")
    automatic = set(caches["dbms"])
    rows = []
    for (where, me, of, metric), quoted in said.group_by("step", "dbms", "base", "metric", maintain_order=True):
        setup, _, step = str(where).partition(" ")
        steps = pl.col("kind") == step if step else pl.col("kind").is_in(list(AS_PUBLISHED))
        if quoted["about"].str.contains("that read").all():
            steps = pl.col("kind").str.ends_with("whilewriting")
        ours = _nearest(ratios.filter(steps, group=setup), str(me), automatic)
        if ours.is_empty():
            continue
        sign = -1 if metric == "throughput lost" else 1
        theirs = sorted(1 + sign * value / 100 for value in quoted["value"])
        about = SIGNS[quoted["sign"][0]] if quoted.height == 1 else ""
        row: dict[str, Any] = {"set-up": setup, "theirs": f"{me} / {of}"}
        row["published"] = about + " to ".join(f"{value:.2f}" for value in theirs)
        row["ours"] = f"{ours['release'][0]} / {base}"
        rows.append(row | dict.fromkeys(AS_PUBLISHED.values()) | {each["short"]: each for each in ours.to_dicts()})
    if not rows:
        return Sentences(["No release here is near enough to those of the published study."])
    texts = [Column(name) for name in ("set-up", "theirs", "published", "ours")]
    cells = [Column(step, "", show.ratio_cell, show.ratio_colour, "center") for step in AS_PUBLISHED.values()]
    note = "Published: from the least to the greatest ratio of the steps that have a number of ours beside it."
    return show.table(rows, [*texts, *cells], name="db-bench-beside", note=note)


def _nearest(ratios: pl.DataFrame, published: str, automatic: set[str]) -> pl.DataFrame:
    """The rows of our dbms for a published one: by its `automatic` cache, or the newest release of the same 9.x."""
    if published.endswith("ahcc"):
        return ratios.filter(pl.col("dbms").is_in(automatic))
    same = ratios.filter(pl.col("version").str.starts_with(f"{published.partition('.')[0]}."))
    return same.filter(pl.col("dbms") == same["dbms"].last()) if same.height else same


def what_differs(study: Study) -> GT:
    """The conditions of the published study beside those of this one."""
    of_base = study.conditions.filter(dbms=study.card.base).unique(["kind", "name"], keep="first")
    ours = {(kind, name): value for kind, name, value in of_base.select("kind", "name", "value").rows()}

    def said(name: str, unit: str = "", kind: str = "parameter") -> str:
        value = ours.get((kind, name))
        return "not said" if value is None else f"{int(value):,}{unit}" if value.isdecimal() else value + unit

    cache = f"{said('cache_mb', ' MB')} of byrx, else {said('part_cache_mb', ' MB')}"
    large = said("large_keys" if ("parameter", "large_keys") in ours else "keys")
    driver = not study.status.filter(moment="before").head(1).collect().is_empty()  # a db_bench says nothing then
    own = "each release's default"
    here = {
        "base": ("6.0.2", releases(study)[study.card.base]),
        "keys": ("20 million of byrx, 400 million of iobuf and iodir", f"{said('keys')} and {large}"),
        "block cache": ("20 GB", cache),
        "a step": (
            "1,800 s, once",
            f"{said('seconds', ' s')}, {rounds_of(study.runs['dbms'].value_counts()['count'])}",
        ),
        "CPUs": ("8 cores", f"{said('cpus', kind='machine')}, placement {said('kind', kind='placement')}"),
        "load put by": ("each release's own db_bench", "our driver, one for all releases" if driver else "the same"),
        "checksums": (own, "one for all" if ("option", "checksum_type") in ours else own),
    }
    if not study.slices.head(1).collect().is_empty():
        here["releases"] = ("one after the other", "in turns, each stopped while others have the load")
    rows = [{"condition": name, "published": theirs, "here": its} for name, (theirs, its) in here.items()]
    note = "What differs, beside the releases. Where the numbers disagree, this is where to look first."
    return show.table(rows, name="db-bench-differs", note=note)
