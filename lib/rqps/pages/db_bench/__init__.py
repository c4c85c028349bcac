"""db_bench as published: relative throughput of each set-up, and beside it what throughput alone hides."""

from collections.abc import Callable
from typing import Any

import polars as pl
from great_tables import GT

from rqps import show, stats
from rqps.profile import add_instruction_counts, counted_ratios
from rqps.profile.pair import ASSUMED
from rqps.show import Column, Nothing, Row, Sentences, in_order, number_of, rounds_of, two_lines
from rqps.show.words import short_dbms, three_digits
from rqps.stats.metrics import CPU, INSTRUCTIONS, THROUGHPUT
from rqps.store import Study

LONGEST = "latency_max_us"
BYTES_OF_A_ROW = 420
AS_PUBLISHED = {"fillseq": "fillseq", "revrangewhilewriting": "revrangeww", "fwdrangewhilewriting": "fwdrangeww"}
AS_PUBLISHED |= {"readwhilewriting": "readww", "overwrite": "overwrite"}
"""The steps whose numbers are published, as they are called there."""
NOT_USED = r"^(blob_|compaction_options_|(bottommost_)?compression_opts|hash_index_|(wal|db_log)_dir|persist_user)"
WRITTEN_OTHERWISE = ("filter_policy", "read_amp_bytes_per_bit", "rocksdb_version", "options_file_version")
"""Options that say the same in other words; of the second, 6.11 writes more bits than it has."""
_COSTS = {CPU: " times the CPU time of an operation", INSTRUCTIONS: " times the instructions of an operation"}


def releases(study: Study) -> dict[str, str]:
    """The dbms in the order of their versions, which are their names where each has its own."""
    versions = dict(_by_version(study).select("dbms", "version").rows())
    return versions if len(set(versions.values())) == len(versions) else short_dbms(versions)[0]


def _by_version(study: Study) -> pl.DataFrame:
    """A run of each dbms, older versions first."""
    ranked = study.runs.join(stats.version_order(study.runs), on="dbms").sort("rank")
    return ranked.unique("dbms", maintain_order=True)


def named(study: Study, rows: pl.DataFrame) -> pl.DataFrame:
    """Rows with the names that releases and steps have in tables."""
    release = pl.col("dbms").replace_strict(releases(study))
    shown = show.by_host(rows.with_columns(dbms=release))["dbms"]
    return show.by_host(rows).with_columns(release=shown, short=pl.col("kind").replace(AS_PUBLISHED))


def by_release(
    rows: pl.DataFrame,
    form: Callable[[Row], str],
    name: str,
    note: str,
    setup: str = "",
    colour: Callable[[Row | None], str | None] | None = None,
) -> GT:
    """A row for each release and a column for each step, of one set-up or of each below its name."""
    columns = [Column(step, "", form, colour, "center") for step in in_order(rows["short"])]
    group = "" if setup else "group"
    cells = show.spread(rows, "short", [*filter(None, [group]), "release"])
    return show.table(cells, [Column("release", setup), *columns], name=name, group=group, note=note)


def setups(study: Study) -> list[str]:
    """The set-ups of a study, in their order."""
    return in_order(study.steps.sort("table_position")["group"])


def findings(study: Study, compared: pl.DataFrame) -> Sentences:
    """Each step that is decided somewhere in a sentence, by throughput or else by what an operation costs; and in the
    last one what the rounds can't tell."""
    rows = named(study, stats.deciding(add_instruction_counts(study, compared)))
    if rows.is_empty():
        return Sentences(["Nothing is compared with the base."])
    of_step = rows.with_columns(of_step=pl.len().over("short"))
    said = [
        _decided(study, shown)
        for verdict in ("slower", "faster")
        for _, shown in of_step.filter(verdict=verdict).group_by("short", "metric", maintain_order=True)
    ]
    unsure = rows.filter(verdict="unsure")
    if unsure.height:
        half: Any = (unsure["sure_high"] / unsure["sure_low"]).sqrt().median()
        floor = f"; they resolve differences of about {100 * (half - 1):.0f} %" if half else ""
        said.append(
            f"The rounds leave {unsure.height} of {rows.height} comparisons unsure, by throughput and by what an "
            f"operation costs{floor}. No conclusion is drawn for these: {', '.join(in_order(unsure['short']))}."
        )
    return Sentences(said)


def _decided(study: Study, shown: pl.DataFrame) -> str:
    """Comparisons of a step with the same verdict by the same metric, as a sentence."""
    cost, is_faster = _COSTS.get(shown["metric"][0], ""), shown["verdict"][0] == "faster"
    most = shown.sort("estimate", descending=is_faster != bool(cost)).row(0, named=True)
    word = show.verdict_words(most["metric"])[most["verdict"]]
    which = [name for name in releases(study).values() if name in set(shown["release"])]
    return (
        f"{most['short']}: shown to be {word} than {releases(study)[most['base']]} in {shown.height} of "
        f"{most['of_step']} comparisons ({', '.join(which)}); most in {most['release']} on {most['group']}, "
        f"{number_of(most)}{cost}.{f' {ASSUMED}' * (most['n'] == 1)}"
    )


def relative(study: Study, compared: pl.DataFrame, setup: str) -> GT | Sentences:
    """Relative throughput on a set-up: a row for each release, a column for each step, as in the published tables."""
    rows = named(study, compared.filter(metric=THROUGHPUT, group=setup))
    if rows.is_empty():
        return Sentences([f"Nothing is compared on {setup}."])
    note = (
        f"Throughput relative to {releases(study)[study.card.base]}: mean of {rounds_of(rows['n'])}, "
        f"{show.coverage_of(rows['coverage'])}. {show.legend_of(rows)}"
    )
    return by_release(rows, show.ratio_cell, setup, note, setup, show.ratio_colour)


def instructions(study: Study) -> GT | Sentences:
    """Counted instructions of an operation relative to the base's, and the counts."""
    ratios = counted_ratios(study)
    if ratios.is_empty():
        return Nothing(["No instructions were counted."])
    rows = named(study, ratios)

    def cell(row: Row) -> str:
        number = f"<b>{show.signs_of(row['metric'])[row['verdict']]} {show.ratio(row['estimate'])}</b>"
        return show.whose(row, two_lines(number, f"{row['me_estimate']:,.0f} / {row['base_estimate']:,.0f}"))

    note = (
        f"Instructions of an operation relative to {releases(study)[study.card.base]}, and both counts: "
        f"{rounds_of(rows['n'])}. {show.legend_of(rows)}"
    )
    return by_release(rows, cell, "instructions", note)


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
    names = ["stall_percent", "foreground_cpu_s", "compaction_cpu_s", "rss_peak_kb"]
    status = study.status.filter(pl.col("moment") == "after", pl.col("name").is_in(names)).collect()
    wide = status.pivot("name", names, index=["run", "step"], values="value", aggregate_function="first")
    return wide.with_columns(pl.col(names).cast(pl.Float64))


def _longest(study: Study) -> pl.DataFrame:
    """The longest operation of each step and round, compared with the base's as everything is."""
    found = stats.compare(stats.rounds(stats.measured(study, [LONGEST]), study.runs, study.card.base))
    return named(study, found)


def hidden(study: Study, setup: str) -> GT:
    """Throughput of a set-up, and below it what it may hide: the longest operation, and stalls of writes."""
    rows = behind(study).filter(group=setup)
    signs = {
        (row["host"], row["step"], row["dbms"]): show.signs_of(LONGEST)[row["verdict"]]
        for row in _longest(study).filter(pl.col("verdict").is_in(["slower", "faster"])).to_dicts()
    }

    def cell(row: Row) -> str:
        sign = signs.get((row["host"], row["step"], row["dbms"]), "")
        below = f"{sign} {three_digits(row['max_ms'])} ms".strip() if row["max_ms"] is not None else "–"
        below += f" · {100 * row['stalled']:.0f} %" if row["stalled"] else ""
        return show.whose(row, two_lines(f"{row[THROUGHPUT]:,.0f}", below))

    longer, shorter = (show.signs_of(LONGEST)[verdict] for verdict in ("slower", "faster"))
    note = (
        f"Operations a second, below them the longest one ({longer} shown to be longer than that of "
        f"{releases(study)[study.card.base]}, {shorter} shorter) and, if any, the share of time in which "
        f"RocksDB held writes up. Medians of {rounds_of(rows['n'])}."
    )
    return by_release(rows, cell, f"hidden-{setup}", note, setup)


def stalls(study: Study) -> Sentences:
    """Each longest operation that is shown to be longer or shorter than the base's."""
    rows, base = _longest(study), releases(study)[study.card.base]
    words = {"slower": "longer", "faster": "shorter"}
    said = [
        f"{row['step']}: the longest operation of {row['release']} is shown to be {words[row['verdict']]} than that "
        f"of {base}: it takes {number_of(row)} times as long."
        for row in rows.filter(pl.col("verdict").is_in(list(words))).to_dicts()
    ]
    none = f"Of {rows.height} comparisons none shows a longest operation that is longer or shorter than {base}'s."
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
    return show.table(rows, columns, name="tail", group="step", note=note)


def defaults(study: Study) -> GT | Sentences:
    """Options that no config asks for, one column per release: those that changed, and new ones that are on."""
    names = releases(study)
    asked = study.conditions.filter(kind="option")["name"].str.replace_all("-", "_").unique().to_list()
    option, value = pl.col("name"), pl.col("value")
    cleaned = study.settings.select("dbms", "name", value.str.replace_all(r"[{}]", ""))
    found = cleaned.unique(["dbms", "name"]).collect()
    there = found.filter(~option.is_in([*asked, *WRITTEN_OTHERWISE]), ~option.str.contains(NOT_USED))
    rows: list[dict[str, str | None]] = []
    for name, *values in there.pivot("dbms", list(names), index="name", values="value").sort("name").rows():
        if len(set(values) - {None}) > 1 or (None in values and "true" in values):
            before = [values[0], *values]
            cells = [now if now == was else f"<b>{now or '–'}</b>" for now, was in zip(values, before, strict=False)]
            rows.append({"option": name} | dict(zip(names, cells, strict=True)))
    if not rows:
        return Sentences(["No option that the configs leave open differs between these releases."])
    columns = [Column("option"), *(Column(dbms, name, str, align="center") for dbms, name in names.items())]
    note = "As RocksDB wrote them into its OPTIONS file. Bold: not as the release before. –: it has no such option."
    return show.table(rows, columns, name="defaults", note=note)


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
    ranked = sizes.join(order, on="step").join(stats.version_order(study.runs), on="dbms")
    note = "Megabytes by level, medians of the rounds. Before fillseq there is nothing."
    columns = [Column("release"), Column("before"), Column("after")]
    rows = named(study, ranked.sort("table_position", "rank"))
    return show.table(rows, columns, name="trees", group="step", note=note)


def built_by(study: Study) -> GT:
    """The compiler of each library and the compression libraries in it, which are part of what is compared."""
    columns = [Column("dbms"), Column("version"), Column("version_comment", "built by, and with")]
    return show.table(_by_version(study), columns, name="built-by", note="As the files say themselves.")
