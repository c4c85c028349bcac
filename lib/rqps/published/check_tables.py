"""Contradictions between tables: the same table under two hosts, labels mixed up, values that can't be."""

from collections.abc import Iterator

import polars as pl

from rqps.published.check import Check
from rqps.published.read import Published
from rqps.published.recompute import recomputed
from rqps.published.rounding import percent
from rqps.published.twice import found_under_another_host, printed_twice, same_for_two_hosts


def check_tables(published: Published) -> Iterator[Check]:
    """What the tables say against each other."""
    yield from _copied(published)
    yield from _under_another_host(published)
    yield from _ratios(published)
    yield from _repeated(published)
    yield from _threads_of_scan(published)
    yield from _impossible_scans(published)
    yield from _labels(published)


def copies(published: Published) -> pl.DataFrame:
    """Tables of one source that repeat another host's table in every number; the later one is the copy."""
    same = same_for_two_hosts(published).filter(pl.col("source_1") == pl.col("source_2"))
    return same.filter(pl.col("equal") == pl.col("numbers"), pl.col("numbers") > 2)


def _copied(published: Published) -> Iterator[Check]:
    for copy in copies(published).iter_rows(named=True):
        place = f"{copy['source_2']}, {copy['section_2']}"
        twice = printed_twice(published).filter(pl.col("place_1") == place)
        (host,) = twice["host"].unique()
        elsewhere = twice.group_by("place_2").agg(pl.all()).sort(pl.col("step").list.len()).row(-1, named=True)
        pairs = list(zip(elsewhere["step"], elsewhere["value_1"], elsewhere["value_2"], strict=True))
        differ = [pair for pair in pairs if pair[1] != pair[2]]
        step, here, there = max(differ, key=lambda pair: max(pair[1] / pair[2], pair[2] / pair[1]))
        yield Check(
            copy["source_2"],
            f"{copy['section_2']}, rQPS table",
            f"This is the rQPS of {host}.",
            f"All {copy['numbers']} numbers are those of {copy['section_1']}. The same build of 8.0.40 on {host} has"
            f" other numbers in {elsewhere['place_2'].split(', ')[0]} for {len(differ)} of {len(pairs)} steps.",
            "contradiction",
            f"{step}: {here:.2f} here, {there:.2f} there ({percent(there / here)})",
            "no",
        )


def _under_another_host(published: Published) -> Iterator[Check]:
    found = found_under_another_host(published)
    for (source, section, host), rows in found.group_by("source", "section", "host", maintain_order=True):
        row = rows.row(0, named=True)
        true = published.sources[source].hosts
        yield Check(
            source,
            f"{section}, per-operation tables",
            f"These tables are of {host}; their names end in dop{row['threads']}.",
            f"{rows.height} of their rows stand, with all six numbers, under {row['host_2']} in {row['source_2']}."
            f" {row['threads']} is the number of threads of {row['host_2']}; {host} has {true[host].threads}.",
            "contradiction",
            f"{host} and {row['host_2']} are exchanged",
            "no",
        )


def _ratios(published: Published) -> Iterator[Check]:
    exchanged = found_under_another_host(published).select("source", "section").unique().rows()
    for row in recomputed(published).filter(agrees="no").iter_rows(named=True):
        told = row["metric"] != "rQPS"
        because = (row["source"], row["place"].split(", ")[0]) in exchanged
        yield Check(
            row["source"],
            row["place"],
            f"{row['metric']} of {row['dbms']} on {row['host']} is {row['printed']} of the base.",
            f"The printed numbers are {row['me']} and {row['base']}, which is {row['found']:.3f}."
            + (" This follows from the exchanged tables." if because else ""),
            "imprecise" if told else "contradiction",
            percent(row["found"] / float(row["printed"])),
            "no",
        )


def _repeated(published: Published) -> Iterator[Check]:
    copied = [pl.format("{}, {}", "source_2", "section_2")]
    wrong = copies(published).select(*copied).to_series().to_list()
    twice = printed_twice(published).filter(~pl.col("place_1").is_in(wrong), ~pl.col("place_2").is_in(wrong))
    widest = (
        twice.filter(pl.col("source") != pl.col("source_2"))
        .group_by("host", "build", "step", maintain_order=True)
        .agg(
            pl.min_horizontal(pl.col("value_1").min(), pl.col("value_2").min()).alias("low"),
            pl.max_horizontal(pl.col("value_1").max(), pl.col("value_2").max()).alias("high"),
            pl.concat_list(pl.col("source").unique(), pl.col("source_2").unique())
            .list.explode()
            .unique()
            .alias("in"),
        )
        .with_columns((pl.col("high") / pl.col("low")).alias("apart"))
    )
    for (host, build), rows in widest.filter(pl.col("apart") > 1).group_by("host", "build", maintain_order=True):
        steps = widest.filter(host=host, build=build)
        most = rows.sort("apart").row(-1, named=True)
        both = steps.filter(pl.col("in").list.contains("busy-wait-2024")).height
        yield Check(
            "busy-wait-2024",
            f"results, rQPS table of {host}, column of {build}",
            f"rQPS of {build} against 8.0.28.",
            f"regressions-8040-2024 has other values for the same builds on the same host in {rows.height} of {both}"
            " steps, so the runs were repeated. No spread is printed; this is the only sign of its size.",
            "repeat",
            f"{most['step']}: {most['low']:.2f} and {most['high']:.2f} ({percent(most['apart'])})",
            "no",
        )


def _threads_of_scan(published: Published) -> Iterator[Check]:
    wrong = found_under_another_host(published)["section"].to_list()
    absolute = published.per_operation.filter(part="absolute", step="scan_range=100", metric="cpu/o")
    told, named, busy = [], [], []
    for (source, section, host), rows in absolute.group_by("source", "section", "host", maintain_order=True):
        about = published.sources[source].hosts[host]
        first = rows.row(0, named=True)
        if first["threads"] == about.threads or (source == "advanced-mysql-2024" and section in wrong):
            continue
        rate = published.per_operation.filter(
            source=source, section=section, part="absolute", metric="o/s", step="scan_range=100"
        )
        told.append(f"{host} {about.threads}")
        named.append(first["threads"])
        busy.append(first["value"] * rate["value"][0] / 100 * (about.cores or 0))
    yield Check(
        "regressions-8040-2024",
        "benchmark, list, and the names of the scan tables",
        f"Threads: {', '.join(told)}.",
        f"The scan tables are named dop{named[0]}. cpu/o times o/s, as percent of the host's cores, is"
        f" {min(busy):.1f} to {max(busy):.1f} cores: {named[0]} threads, one a table, and no more.",
        "contradiction",
        f"{named[0]} threads where {', '.join(each.split()[1] for each in told)} are stated",
    )


def _impossible_scans(published: Published) -> Iterator[Check]:
    rates = []
    for row in published.per_operation.filter(
        part="absolute", step="scan_range=100", metric="o/s", build="my8028_rel_o2nofp"
    ).iter_rows(named=True):
        rows = published.sources[row["source"]].hosts[row["host"]].rows_per_table or 0
        rates.append((row["value"] * rows / row["threads"], row))
    least, most = (pick(rates, key=lambda each: each[0]) for pick in (min, max))
    yield Check(
        "regressions-8040-2024",
        "scan tables, column o/s",
        f"{most[1]['printed']} operations a second on {most[1]['host']} with {most[1]['threads']} thread, and so on.",
        f"If an operation were a scan of the table, a thread would read {least[0] / 1e9:.2f} to"
        f" {most[0] / 1e9:.2f} billion rows a second, one in {1e9 / most[0]:.1f} to {1e9 / least[0]:.1f} ns, which no"
        " server does. What an operation is isn't said: cpu/o and o/s of scan are only good as ratios.",
        "unclear",
    )


def _labels(published: Published) -> Iterator[Check]:
    labels = published.per_operation.select("source", "section", "table", "dbms", "build").unique(maintain_order=True)
    for row in labels.iter_rows(named=True):
        if row["dbms"].removeprefix("x.") != row["build"]:
            yield Check(
                row["source"],
                f"{row['section']}, {row['table']}, absolute",
                f"The build is called {row['dbms']}.",
                f"Everywhere else it is {row['build']}.",
                "slip",
            )
    for row in published.busy_wait.select("source", "table", "row", "host").unique(maintain_order=True).iter_rows(
        named=True
    ):  # fmt: skip
        if row["row"] != row["host"]:
            yield Check(
                row["source"],
                f"table {row['table']}",
                f"A row is called {row['row']}.",
                f"The host is {row['host']} in the list of hosts and in the other tables.",
                "slip",
            )
