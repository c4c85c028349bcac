"""The page on db_bench: names of releases, findings, and our ratios beside published ratios of RocksDB 6.0 to 9.7."""

from typing import Any

import polars as pl
from great_tables import GT

from rqps import show, stats
from rqps.numbers import formatted
from rqps.published import read
from rqps.published.quoted import SIGNS
from rqps.show import Clause, Column, Nothing, Sentences, comparison, finding, inconclusive, listed, phrase, rounds_of
from rqps.show.sentences import CHANGED
from rqps.show.words import short_dbms
from rqps.stats.metrics import THROUGHPUT
from rqps.store import Study

AS_PUBLISHED = {"fillseq": "fillseq", "revrangewhilewriting": "revrangeww", "fwdrangewhilewriting": "fwdrangeww"}
AS_PUBLISHED |= {"readwhilewriting": "readww", "overwrite": "overwrite"}
"""Maps the steps with published numbers to their published names."""
WHILE_WRITING = ("revrangewhilewriting", "fwdrangewhilewriting", "readwhilewriting")
SOURCE = "rocksdb-leveled-2024"
UNUSED_OPTIONS = (
    r"^(blob_|compaction_options_|(bottommost_)?compression_opts|hash_index_|(wal|db_log)_dir|persist_user)"
)
SAME_IN_OTHER_WORDS = ("filter_policy", "read_amp_bytes_per_bit", "rocksdb_version", "options_file_version")
"""Options whose text differs between releases although their effect is the same."""


def releases(study: Study) -> dict[str, str]:
    """Maps each dbms to its name in tables, older versions first. The names are versions; if two dbms have the same
    version, all names are short forms of the dbms instead."""
    versions = dict(by_version(study).select("dbms", "version").rows())
    return versions if len(set(versions.values())) == len(versions) else short_dbms(versions)[0]


def by_version(study: Study) -> pl.DataFrame:
    """The first run of each dbms, older versions first."""
    ranked = study.runs.join(stats.version_order(study.runs), on="dbms").sort("rank")
    return ranked.unique("dbms", maintain_order=True)


def named(study: Study, rows: pl.DataFrame) -> pl.DataFrame:
    """The rows with `release`, the name of the dbms and of its host, and `short`, the published name of the step."""
    if rows.is_empty():
        return rows.with_columns(release="dbms", short="kind")
    names = show.by_host(rows.with_columns(dbms=pl.col("dbms").replace_strict(releases(study))))["dbms"]
    return show.by_host(rows).with_columns(release=names, short=pl.col("kind").replace(AS_PUBLISHED))


def findings(study: Study, compared: pl.DataFrame) -> Sentences:
    """A sentence for each step that changed in throughput or cost per operation; then one on unsure comparisons."""
    rows = stats.deciding(compared)
    if rows.is_empty():
        return Sentences(["Nothing is compared with the base."])
    rows = rows.with_columns(named(study, rows).select("release", "short"))
    of_step = rows.with_columns(of_step=pl.len().over("short"))
    sentences = [
        _finding(study, decided)
        for verdict in CHANGED
        for _, decided in of_step.filter(verdict=verdict).group_by("short", "metric", maintain_order=True)
    ]
    unsure = inconclusive(rows, "decided", releases(study))
    return Sentences([*sentences, finding(phrase("Inconclusive: {}", unsure))] if unsure else sentences)


def _finding(study: Study, decided: pl.DataFrame) -> Clause:
    """One sentence for all comparisons of a step that have the same verdict by the same metric."""
    is_worst_low = (decided["verdict"][0] == "slower") == (decided["metric"][0] == THROUGHPUT)
    most = decided.sort("estimate", descending=not is_worst_low).row(0, named=True)
    names, base = releases(study), releases(study)[most["base"]]
    changed = [name for name in names.values() if name in set(decided["release"])]
    changed = changed or show.in_order(decided["release"])
    how_many = f"{decided.height} of {most['of_step']} comparisons ({listed(changed)})"
    step = f"{most['short']} {CHANGED[most['verdict']]} against {base} in {how_many}"
    where = f"{'most ' * (decided.height > 1)}on {most['group']}"
    return finding(phrase("{}, {}: {}", step, where, comparison(most, most["release"], base, "compared")))


def published_beside(study: Study, compared: pl.DataFrame) -> GT | Sentences:
    """A table of published ranges of throughput ratios; each row also has this study's ratios in the same steps, of
    the dbms that is nearest to the published one."""
    quotes = read().prose.filter(pl.col("place").str.starts_with("tl;dr"), source=SOURCE)
    versions = study.runs.select("dbms", "version").unique("dbms")
    measured = compared.filter(pl.col("kind").is_in(list(AS_PUBLISHED)), metric=THROUGHPUT)
    ratios = named(study, measured.join(versions, on="dbms", maintain_order="left"))
    if ratios.is_empty():
        return Nothing(["None of these steps has published numbers."])
    caches = study.conditions.filter(kind="option", name="cache_type", value="auto_hyper_clock_cache")
    rows = []
    for (place, me, base, metric), quoted in quotes.group_by("step", "dbms", "base", "metric", maintain_order=True):
        of_place = (pl.col("group") == place) | (pl.format("{} {}", "group", "kind") == place)
        if quoted["about"].str.contains("that read").all():
            of_place &= pl.col("kind").is_in(WHILE_WRITING)
        ours = _nearest(ratios.filter(of_place), str(me), set(caches["dbms"]))
        if ours.is_empty():
            continue
        sign = -1 if metric == "throughput lost" else 1
        theirs = " to ".join(formatted(value, ".2f") for value in (1 + sign * quoted["value"] / 100).sort())
        about = SIGNS[quoted["sign"][0]] if quoted.height == 1 else ""
        row: dict[str, Any] = {"set-up": ours["group"][0], "theirs": f"{me} / {base}", "published": about + theirs}
        row["ours"] = f"{ours['release'][0]} / {releases(study)[study.card.base]}"
        rows.append(row | dict.fromkeys(AS_PUBLISHED.values()) | {cell["short"]: cell for cell in ours.to_dicts()})
    if not rows:
        return Sentences(["No release here is near enough to those of the published study."])
    texts = [Column(name) for name in ("set-up", "theirs", "published", "ours")]
    cells = [Column(step, "", show.ratio_cell, show.ratio_colour, "center") for step in AS_PUBLISHED.values()]
    note = "Published: the lowest and the highest ratio of the steps that have a number of ours in the same row."
    return show.table(rows, [*texts, *cells], name="db-bench-beside", note=note)


def _nearest(ratios: pl.DataFrame, published: str, automatic: set[str]) -> pl.DataFrame:
    """The rows of the dbms of this study that is nearest to a published dbms. A published name that ends with `ahcc`
    stands for RocksDB's auto_hyper_clock_cache: the nearest dbms is the one with this cache (in `automatic`). For any
    other name, it is the last release of the same major version."""
    if published.endswith("ahcc"):
        return ratios.filter(pl.col("dbms").is_in(automatic))
    same = ratios.filter(pl.col("version").str.starts_with(f"{published.partition('.')[0]}."))
    return same.filter(pl.col("dbms") == same["dbms"].last()) if same.height else same


def conditions_beside(study: Study) -> pl.DataFrame:
    """One row per condition: its value in the published study and in this study. Empty if this study has none of the
    published steps."""
    of_base = study.conditions.filter(dbms=study.card.base).unique(["kind", "name"], keep="first")
    values = {(kind, name): value for kind, name, value in of_base.select("kind", "name", "value").rows()}

    def here(name: str, unit: str = "", kind: str = "parameter") -> str:
        value = values.get((kind, name))
        return "not recorded" if value is None else f"{int(value):,}{unit}" if value.isdecimal() else value + unit

    large = here("large_keys" if ("parameter", "large_keys") in values else "keys")
    own_driver = not study.status.filter(moment="before").head(1).collect().is_empty()  # db_bench records no status
    rounds, checksums = rounds_of(study.runs["dbms"].value_counts()["count"]), "each release's default"
    rows = [
        ("base", "6.0.2", releases(study)[study.card.base]),
        ("keys", "20 million of byrx, 400 million of iobuf and iodir", f"{here('keys')} and {large}"),
        ("block cache", "20 GB", f"{here('cache_mb', ' MB')} of byrx, else {here('part_cache_mb', ' MB')}"),
        ("a step", "1,800 s, once", f"{here('seconds', ' s')}, {rounds}"),
        ("CPUs", "8 cores", f"{here('cpus', kind='machine')}, placement {here('kind', kind='placement')}"),
        ("load put by", "each release's own db_bench", "our driver, the same for all" if own_driver else "the same"),
        ("checksums", checksums, "one for all" if ("option", "checksum_type") in values else checksums),
    ]
    if ("machine", "max_sectors_kb") in values and "iobuf" in study.steps["group"]:
        theirs = "128 KB; of 2 MB that 8.6 and later ask for, the rest is read block by block (bug 12038)"
        rows.append(("max_sectors_kb", theirs, here("max_sectors_kb", " KB", "machine")))
    if not study.slices.head(1).collect().is_empty():
        rows.append(("releases", "one after the other", "in turns, stopped while another has the load"))
    rows = rows if set(study.steps["kind"]) & set(AS_PUBLISHED) else []
    return pl.DataFrame(rows, schema=["condition", "published", "here"], orient="row")
