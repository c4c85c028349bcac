"""db_bench as published: relative throughput of each set-up, and beside it what throughput alone hides."""

from collections.abc import Iterator, Sequence
from typing import Any

import polars as pl
from great_tables import GT

from rqps import stats, view
from rqps.profile.instructions import instruction_ratios, instructions_per_operation
from rqps.published import read
from rqps.published.quoted import SIGNS
from rqps.store import Study, load
from rqps.view import Column, Nothing, Row, Sentences, in_order, number_of, rounds_of, two_lines
from rqps.view.words import short_dbms, three_digits

THROUGHPUT, CPU, LONGEST = "operations_per_s", "server_cpu_us_per_operation", "latency_max_us"
BYTES_OF_A_ROW = 420
SOURCE = "rocksdb-leveled-2024"
AS_PUBLISHED = {"fillseq": "fillseq", "revrangewhilewriting": "revrangeww", "fwdrangewhilewriting": "fwdrangeww"}
AS_PUBLISHED |= {"readwhilewriting": "readww", "overwrite": "overwrite"}
"""The steps whose numbers are published, as they are called there."""
NOT_USED = (
    r"^(blob_|compaction_options_|(bottommost_)?compression_opts|hash_index_|wal_dir|db_log_dir|persist_user_defined)"
)
OF_IODIR_ALONE = (
    " These are of iodir alone, since rqps kept only those of the last set-up when this was measured. In the others "
    "compaction_readahead_size is 0 up to 8.5 and 2 MB from 8.6 on; O_DIRECT makes it 2 MB in every release."
)
WRITTEN_OTHERWISE = ("filter_policy", "read_amp_bytes_per_bit", "rocksdb_version", "options_file_version")
"""Options that say the same in other words; of the second, 6.11 writes more bits than it has."""


def releases(study: Study) -> dict[str, str]:
    """The dbms in the order of their versions, which are their names where each has its own."""
    order = (
        study.runs.join(stats.version_order(study.runs), on="dbms").sort("rank").unique("dbms", maintain_order=True)
    )
    versions = dict(order.select("dbms", "version").rows())
    return versions if len(set(versions.values())) == len(versions) else short_dbms(versions)[0]


def named(study: Study, rows: pl.DataFrame) -> pl.DataFrame:
    """Rows with the names that releases and steps have in tables."""
    release = pl.col("dbms").replace_strict(releases(study))
    return view.by_host(rows.with_columns(release=release, short=pl.col("kind").replace(AS_PUBLISHED)))


def setups(study: Study) -> list[str]:
    """The set-ups of a study, in their order."""
    return in_order(study.steps.sort("table_position")["group"])


def findings(study: Study, compared: pl.DataFrame) -> Sentences:
    """Each step that is decided somewhere in a sentence, by throughput or else by CPU time; and in the last one what
    the rounds can't tell."""
    rows = named(study, stats.deciding(compared))
    if rows.is_empty():
        return Sentences(["Nothing is compared with the base."])
    said = [*_decided(study, rows, "slower"), *_decided(study, rows, "faster")]
    unsure = rows.filter(verdict="unsure")
    if unsure.height:
        half: Any = (unsure["sure_high"] / unsure["sure_low"]).sqrt().median()
        told = f"; a difference below some {100 * (half - 1):.0f} % can't be told by them" if half else ""
        said.append(
            f"The rounds leave {unsure.height} of {rows.height} comparisons unsure, by throughput and CPU "
            f"time{told}. "
            "Nothing is said of these, neither that a release is slower there nor that it is not: "
            f"{', '.join(in_order(unsure['short']))}."
        )
    return Sentences(said)


def _decided(study: Study, rows: pl.DataFrame, verdict: str) -> Iterator[str]:
    names = releases(study)
    for (step,), of_step in rows.group_by("short", maintain_order=True):
        for (metric,), shown in of_step.filter(verdict=verdict).group_by("metric", maintain_order=True):
            most = shown.sort("median", descending=(verdict == "faster") == (metric == THROUGHPUT)).row(0, named=True)
            which = [name for dbms, name in names.items() if dbms in set(shown["dbms"])]
            word = view.verdict_words(metric)[verdict]
            text = f"{step}: shown to be {word} than {names[most['base']]} in {shown.height} of {of_step.height} "
            text += (
                f"comparisons ({', '.join(which)}); most in {most['release']} on {most['group']}, {number_of(most)}"
            )
            yield text + (" times the CPU time of an operation." if metric == CPU else ".")


def relative(study: Study, compared: pl.DataFrame, setup: str) -> GT | Sentences:
    """Relative throughput on a set-up: a row for each release, a column for each step, as in the published tables."""
    rows = named(study, compared.filter(metric=THROUGHPUT, group=setup))
    if rows.is_empty():
        return Sentences([f"Nothing is compared on {setup}."])
    columns = [Column(step, "", view.ratio_cell, view.ratio_colour, "center") for step in in_order(rows["short"])]
    note = (
        f"Throughput relative to {releases(study)[study.card.base]}: mean of {rounds_of(rows['n'])}, "
        f"{view.coverage_of(rows['coverage'])}. {view.legend_of(rows)}"
    )
    cells = view.spread(rows, "short", ["release"])
    return view.table(cells, [Column("release", setup), *columns], name=setup, note=note)


def instructions(study: Study) -> GT | Sentences:
    """Counted instructions of an operation relative to the base's, and the counts."""
    counted = load(study.place, mode="instructions")
    if study.card.base not in set(counted.runs["dbms"]):
        return Nothing(["No instructions were counted."])
    values = instructions_per_operation(counted.instructions, counted.steps, counted.runs)
    rows = named(study, instruction_ratios(values, counted.runs, study.card.base))

    def cell(row: Row) -> str:
        number = f"<b>{view.signs_of(row['metric'])[row['verdict']]} {view.ratio(row['median'])}</b>"
        return view.whose(row, two_lines(number, f"{row['me_median']:,.0f} / {row['base_median']:,.0f}"))

    columns = [Column(step, form=cell, align="center") for step in in_order(rows["short"])]
    note = (
        f"Instructions of an operation relative to {releases(study)[study.card.base]}, and both counts: "
        f"{rounds_of(rows['n'])}. {view.legend_of(rows)}"
    )
    cells = view.spread(rows, "short", ["group", "release"])
    return view.table(cells, [Column("release"), *columns], name="instructions", group="group", note=note)


def behind(study: Study) -> pl.DataFrame:
    """One row per step and dbms, the median of its rounds: latencies, stalls, CPU time by whom, bytes, memory."""
    steps = stats.usable(study.steps).join(_status(study), on=["run", "step"], how="left", maintain_order="left")
    operations = pl.col("operations")
    beside = pl.col("target_per_s") * pl.col("elapsed_s")
    rows_written = pl.when(unit="row").then(operations).otherwise(beside)  # null where nothing was written
    values = {
        **{f"{name}_us": pl.col(f"latency_{name}_us") for name in ("p50", "p99", "p99_9")},
        "max_ms": pl.col(LONGEST) / 1e3,
        "stalled": pl.col("stall_percent") / 100,
        "cpu_us": pl.col("server_cpu_s") * 1e6 / operations,
        "client_cpu_us": pl.col("foreground_cpu_s") * 1e6 / operations,
        "background_cpu_us": (pl.col("server_cpu_s") - pl.col("foreground_cpu_s")) * 1e6 / operations,
        "compaction_cpu_us": pl.col("compaction_cpu_s") * 1e6 / operations,
        "written_mb": pl.col("server_write_kb") / 1024,
        "write_amplification": pl.col("server_write_kb") * 1024 / (rows_written * BYTES_OF_A_ROW),
        "rss_mb": pl.col("rss_peak_kb") / 1024,
    }
    ordered = steps.with_columns(**values).join(stats.version_order(study.runs), on="dbms")
    found = (
        ordered.group_by("host", "group", "table_position", "step", "kind", "rank", "dbms")
        .agg(*(pl.col(name).median() for name in (THROUGHPUT, *values)), pl.len().alias("n"))
        .sort("host", "table_position", "rank")
    )
    return named(study, found)


def _status(study: Study) -> pl.DataFrame:
    """One row per run and step, a column for each number that RocksDB or the driver gave at its end."""
    names = ("stall_percent", "foreground_cpu_s", "compaction_cpu_s", "rss_peak_kb")
    status = study.status.filter(pl.col("moment") == "after", pl.col("name").is_in(names)).collect()
    wide = status.pivot("name", index=["run", "step"], values="value", aggregate_function="first")
    missing = [pl.lit(None, pl.String).alias(name) for name in names if name not in wide.columns]
    return wide.with_columns(missing).with_columns(pl.col(names).cast(pl.Float64))


def longest(study: Study) -> pl.DataFrame:
    """The longest operation of each step and round, compared with the base's as everything is."""
    return stats.compare(stats.rounds(stats.measured(study, [LONGEST]), study.runs, study.card.base))


def hidden(study: Study, setup: str) -> GT:
    """Throughput of a set-up, and below it what it may hide: the longest operation, and stalls of writes."""
    rows = behind(study).filter(group=setup)
    signs = {
        (row["host"], row["step"], row["dbms"]): view.signs_of(LONGEST)[row["verdict"]]
        for row in longest(study).filter(pl.col("verdict").is_in(["slower", "faster"])).to_dicts()
    }

    def cell(row: Row) -> str:
        sign = signs.get((row["host"], row["step"], row["dbms"]), "")
        below = f"{sign} {three_digits(row['max_ms'])} ms".strip() if row["max_ms"] is not None else "–"
        below += f" · {100 * row['stalled']:.0f} %" if row["stalled"] else ""
        return view.whose(row, two_lines(f"{row[THROUGHPUT]:,.0f}", below))

    columns = [Column(step, form=cell, align="center") for step in in_order(rows["short"])]
    longer, shorter = (view.signs_of(LONGEST)[verdict] for verdict in ("slower", "faster"))
    note = (
        f"Operations a second, below them the longest one ({longer} shown to be longer than that of "
        f"{releases(study)[study.card.base]}, {shorter} shorter) and, if any, the share of time in which "
        f"RocksDB held writes up. Medians of {rounds_of(rows['n'])}."
    )
    cells = view.spread(rows, "short", ["release"])
    return view.table(cells, [Column("release", setup), *columns], name=f"hidden-{setup}", note=note)


def stalls(study: Study) -> Sentences:
    """Each longest operation that is shown to be longer or shorter than the base's."""
    rows, base = named(study, longest(study)), releases(study)[study.card.base]
    words = {"slower": "longer", "faster": "shorter"}
    said = [
        f"{row['step']}: the longest operation of {row['release']} is shown to be {words[row['verdict']]} than that "
        f"of {base}: it takes {number_of(row)} times as long."
        for row in rows.filter(pl.col("verdict").is_in(list(words))).to_dicts()
    ]
    none = (
        f"Of {rows.height} comparisons none shows a longest operation that is longer or shorter than that of {base}."
    )
    return Sentences(said or [none])


def tail(study: Study) -> GT:
    """All that was recorded beside throughput."""
    rows, cpu = behind(study), "CPU of an operation, µs"
    columns = [
        Column("release"),
        Column(THROUGHPUT, "operations/s", ",.0f", align="right"),
        Column("p50_us", "p50, µs", ",.1f", align="right"),
        Column("p99_us", "p99, µs", ",.1f", align="right"),
        Column("p99_9_us", "p99.9, µs", ",.0f", align="right"),
        Column("max_ms", "max, ms", ",.1f", align="right"),
        Column("stalled", "stalled", ".1%", align="right"),
        Column("cpu_us", "all", ",.2f", align="right", under=cpu),
        Column("client_cpu_us", "clients", ",.2f", align="right", under=cpu),
        Column("background_cpu_us", "background", ",.2f", align="right", under=cpu),
        Column("compaction_cpu_us", "compaction", ",.2f", align="right", under=cpu),
        Column("written_mb", "MB", ",.0f", align="right", under="written"),
        Column("write_amplification", "of a row", ".1f", align="right", under="written"),
        Column("rss_mb", "memory, MB", ",.0f", align="right"),
    ]
    note = (
        f"Medians of {rounds_of(rows['n'])}. Max: the longest operation. Stalled: the share of time in which RocksDB "
        "held writes up. Clients: also the one that writes beside reads; background: flush and compaction; "
        "compaction: as RocksDB itself counts it. Written: all bytes by the process, and times a row was written."
    )
    return view.table(rows, columns, name="tail", group="step", note=note)


def defaults(study: Study) -> GT | Sentences:
    """Options that no config asks for, one column per release: those that changed, and new ones that are on."""
    names = releases(study)
    asked = study.conditions.filter(kind="option")["name"].str.replace_all("-", "_").unique().to_list()
    option, value = pl.col("name"), pl.col("value")
    found = (
        study.settings.select("dbms", "name", value.str.replace_all(r"[{}]", "")).unique(["dbms", "name"]).collect()
    )
    there = found.filter(~option.is_in([*asked, *WRITTEN_OTHERWISE]), ~option.str.contains(NOT_USED))
    changed = pl.col("value").n_unique() > 1
    came = (pl.len() < len(names)) & (pl.col("value") == "true").any()
    shown = there.group_by("name").agg(shown=changed | came).filter("shown")["name"].sort().to_list()
    values = {(dbms, name): value for dbms, name, value in there.filter(option.is_in(shown)).rows()}
    if not shown:
        return Sentences(["No option that the configs leave open differs between these releases."])
    rows = []
    for name in shown:
        of_name = [values.get((dbms, name)) for dbms in names]
        cells = [
            {"value": now, "changed": number > 0 and now != of_name[number - 1]} for number, now in enumerate(of_name)
        ]
        rows.append({"option": name} | dict(zip(names.values(), cells, strict=True)))

    def cell(row: Row) -> str:
        text = "–" if row["value"] is None else str(row["value"])
        return f"<b>{text}</b>" if row["changed"] else text

    columns = [Column("option"), *(Column(each, form=cell, align="center") for each in names.values())]
    note = (
        "As RocksDB wrote them into its OPTIONS file. Bold: not as in the release before. –: it has no such option."
    )
    direct = found.filter(option == "use_direct_reads")["value"].unique().to_list()
    if len(known := setups(study)) > 1 and "iodir" in known and direct == ["true"]:
        note += OF_IODIR_ALONE
    return view.table(rows, columns, name="defaults", note=note)


def trees(study: Study) -> GT | Sentences:
    """The tree before and after each step: megabytes by level, the median of the rounds."""
    name, value = pl.col("name"), pl.col("value").cast(pl.Float64)
    levels = study.status.filter(name.str.contains(r"^level\d+_kb$")).collect()
    if levels.is_empty():
        return Sentences(["The trees are not known: a db_bench of one's own prints them into its log."])
    keys = ["host", "step", "dbms"]
    sizes = (
        levels.with_columns(level=name.str.extract(r"(\d+)"), mb=value / 1024)
        .group_by(*keys, "moment", "level")
        .agg(pl.col("mb").median())
        .sort(pl.col("level").cast(pl.Int32))
        .group_by(*keys, "moment", maintain_order=True)
        .agg(pl.format("L{} {}", "level", pl.col("mb").round(1)).str.join(", ").alias("tree"))
        .pivot("moment", on_columns=["before", "after"], index=keys, values="tree")
    )
    order = study.steps.select("step", "kind", "table_position").unique("step")
    rows = (
        sizes.join(order, on="step").join(stats.version_order(study.runs), on="dbms").sort("table_position", "rank")
    )
    note = "Megabytes by level, medians of the rounds. Before fillseq there is nothing."
    columns = [Column("release"), Column("before"), Column("after")]
    return view.table(named(study, rows), columns, name="trees", group="step", note=note)


def built_by(study: Study) -> GT:
    """The compiler of each library and the compression libraries in it, which are part of what is compared."""
    rows = (
        study.runs.join(stats.version_order(study.runs), on="dbms").sort("rank").unique("dbms", maintain_order=True)
    )
    columns = [Column("dbms"), Column("version"), Column("version_comment", "built by, and with")]
    return view.table(rows, columns, name="built-by", note="As the files say themselves.")


def published(study: Study, compared: pl.DataFrame) -> Sequence[GT | Sentences]:
    """Our ratios beside the published ranges, and what differs between the two."""
    if not set(study.steps["kind"]) & set(AS_PUBLISHED):
        return [Nothing(["None of these steps has published numbers."])]
    return [beside(study, compared), what_differs(study)]


def beside(study: Study, compared: pl.DataFrame) -> GT | Sentences:
    """The published ranges beside our ratios of the same steps, by the releases of ours that are nearest."""
    said = read().prose.filter(pl.col("place").str.starts_with("tl;dr"), source=SOURCE)
    versions = study.runs.select("dbms", "version").unique("dbms")
    ratios = named(study, compared.filter(metric=THROUGHPUT)).join(versions, on="dbms", maintain_order="left")
    names, rows = releases(study), []
    for (where, me, base, metric), quoted in said.group_by("step", "dbms", "base", "metric", maintain_order=True):
        setup, _, step = str(where).partition(" ")
        steps = pl.col("kind") == step if step else pl.col("kind").is_in(list(AS_PUBLISHED))
        if quoted["about"].str.contains("that read").all():
            steps = pl.col("kind").str.ends_with("whilewriting")
        ours = _nearest(ratios.filter(steps, group=setup), str(me))
        if ours.is_empty():
            continue
        sign = -1 if metric == "throughput lost" else 1
        theirs = sorted(1 + sign * value / 100 for value in quoted["value"])
        about = SIGNS[quoted["sign"][0]] if quoted.height == 1 else ""
        row: dict[str, Any] = {"set-up": setup, "theirs": f"{me} / {base}"}
        row["published"] = about + " to ".join(f"{value:.2f}" for value in theirs)
        row["ours"] = f"{names[ours['dbms'][0]]} / {names[ours['base'][0]]}"
        rows.append(row | dict.fromkeys(AS_PUBLISHED.values()) | {each["short"]: each for each in ours.to_dicts()})
    if not rows:
        return Sentences(["No release here is near enough to those of the published study."])
    texts = [Column(name) for name in ("set-up", "theirs", "published", "ours")]
    shown = AS_PUBLISHED.values()
    cells = [Column(step, form=view.ratio_cell, colour=view.ratio_colour, align="center") for step in shown]
    note = "Published: from the least to the greatest ratio of the steps that have a number of ours beside it."
    return view.table(rows, [*texts, *cells], name="db-bench-beside", note=note)


def what_differs(study: Study) -> GT:
    """The conditions of the published study beside those of this one."""
    of_base = study.conditions.filter(dbms=study.card.base).unique(["kind", "name"], keep="first")
    ours = {(kind, name): value for kind, name, value in of_base.select("kind", "name", "value").rows()}

    def said(kind: str, name: str, unit: str = "") -> str:
        value = ours.get((kind, name))
        return "not said" if value is None else f"{int(value):,}{unit}" if value.isdecimal() else value + unit

    large = said("parameter", "large_keys") if ("parameter", "large_keys") in ours else said("parameter", "keys")
    driver = not study.status.filter(moment="before").head(1).collect().is_empty()  # a db_bench says nothing then
    rounds = study.runs.group_by("dbms").len()["len"].to_list()
    rows = [
        ("base", "6.0.2", releases(study)[study.card.base]),
        ("keys", "20 million of byrx, 400 million of iobuf and iodir", f"{said('parameter', 'keys')} and {large}"),
        (
            "block cache",
            "20 GB",
            f"{said('parameter', 'cache_mb', ' MB')} of byrx, else {said('parameter', 'part_cache_mb', ' MB')}",
        ),
        ("a step", "1,800 s, once", f"{said('parameter', 'seconds', ' s')}, {rounds_of(rounds)}"),
        ("CPUs", "8 cores", f"{said('machine', 'cpus')}, placement {said('placement', 'kind')}"),
        (
            "load put by",
            "each release's own db_bench",
            "our driver, one for all releases" if driver else "each build's own db_bench",
        ),
        (
            "checksums",
            "each release's default",
            "one for all" if ("option", "checksum_type") in ours else "each release's default",
        ),
    ]
    frame = pl.DataFrame(rows, schema=["condition", "published", "here"], orient="row")
    note = "What differs, beside the releases. Where the numbers disagree, this is where to look first."
    return view.table(frame, name="db-bench-differs", note=note)


def _nearest(ratios: pl.DataFrame, published: str) -> pl.DataFrame:
    """The rows of our dbms for a published one: the same variation, or the newest release of the same 9.x."""
    if published.endswith("ahcc"):
        return ratios.filter(pl.col("dbms").str.ends_with("ahcc"))
    same = ratios.filter(pl.col("version").str.starts_with(f"{published.partition('.')[0]}."))
    return same.filter(pl.col("dbms") == same["dbms"].last()) if same.height else same
