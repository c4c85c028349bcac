"""What the other posts say in sentences, against the numbers that they print."""

from collections.abc import Iterator

import polars as pl

from rqps.published.check import Check
from rqps.published.read import Published
from rqps.published.rounding import Range, percent, printed

REGRESSIONS, ADVANCED = "regressions-8040-2024", "advanced-mysql-2024"
INSERT, SCHEMA, LOOKUPS = "insert-benchmark-8027", "perf-schema-2023", "point-lookups-2014"
LAST = "my8040_rel_o2nofp"


def check_text(published: Published) -> Iterator[Check]:
    """Sentences that can be calculated again."""
    yield _rows_of_the_table(published)
    yield from _insert_benchmark(published)
    yield from _performance_schema(published)
    yield from _counts_of_steps(published)
    yield from _servers_that_lose(published)
    yield _random_points(published)
    yield _redo_log(published)
    yield from _advanced(published)


def _told(published: Published, source: str, **where: str) -> pl.DataFrame:
    return published.prose.filter(source=source, **where)


def _rows_of_the_table(published: Published) -> Check:
    told = {row["metric"] + row["place"][:5]: int(row["value"]) for row in
            _told(published, LOOKUPS, unit="count").iter_rows(named=True)}  # fmt: skip
    rows = told["rowssetup"] * 2 ** told["doublingssetup"]
    return Check(
        LOOKUPS,
        "setup, statements",
        f"The table has {told['rowsparag']} rows.",
        f"The statements give {told['rowssetup']} rows, doubled {told['doublingssetup']} times: {rows}.",
        "agrees" if rows == told["rowsparag"] else "contradiction",
    )


def _insert_benchmark(published: Published) -> Iterator[Check]:
    ratios = _told(published, INSERT, metric="throughput", unit="ratio").filter(pl.col("sign") == "=")
    least, most = ratios.sort("value").row(-1, named=True), ratios.sort("value").row(0, named=True)
    new = ratios.filter(dbms="8.0.27")
    yield Check(
        INSERT,
        "paragraph 2",
        "8.0 has between 10 % and 37 % less throughput than 5.6 (CPU-bound).",
        f"37 % is right ({most['step']}, {most['printed']}). The least loss printed is"
        f" {100 * (1 - least['value']):.0f} % ({least['step']} of {least['dbms']}, {least['printed']}); of 8.0.27"
        f" alone it is {100 * (1 - max(new['value'])):.0f} %.",
        "contradiction",
        f"10 % where {100 * (1 - least['value']):.0f} % is printed",
        "no",
    )
    for step in ("l.i0", "l.i1"):
        yield _explained(published, step)
    old = dict(ratios.filter(dbms="8.0.22").select("step", "value").iter_rows())
    pairs = [(step, old[step], value) for step, value in new.select("step", "value").iter_rows() if step in old]
    yield Check(
        INSERT,
        "disclaimers, bullet 3",
        "After 8.0.20 and 8.0.22, the exciting releases, performance slowly improves.",
        f"8.0.22 is better than 8.0.27 in all {len(pairs)} steps for which both are printed: "
        + ", ".join(f"{step} {a:.2f} and {b:.2f}" for step, a, b in pairs)
        + ".",
        "contradiction",
        f"{percent(min(b / a for _, a, b in pairs))} to {percent(max(b / a for _, a, b in pairs))} since 8.0.22",
        "no",
    )


def _explained(published: Published, step: str) -> Check:
    cost = {
        row["dbms"]: printed(row) for row in _told(published, INSERT, step=step, metric="cpupq").iter_rows(named=True)
    }
    told = _told(published, INSERT, step=step, metric="throughput", dbms="8.0.27").row(0, named=True)
    possible = cost["5.6.49"] / cost["8.0.27"]
    explains = possible.meets(printed(told))
    return Check(
        INSERT,
        f"comments on CPU-bound, {step}",
        f"CPU per query explains the throughput ratio of {told['printed']}.",
        f"With the CPU as the limit, the printed CPU per query gives {possible.low:.2f} to {possible.high:.2f}."
        + ("" if explains else " Something else takes time too, or another CPU has a part in it."),
        "agrees" if explains else "imprecise",
        "" if explains else f"{percent(told['value'] / ((possible.low + possible.high) / 2))} from what it explains",
        "" if explains else "no",
    )


def _performance_schema(published: Published) -> Iterator[Check]:
    ratios = _told(published, SCHEMA, metric="throughput", unit="ratio")
    old = ratios.filter(pl.col("dbms").str.starts_with("my5744"))
    lost = {row["step"]: 100 * (1 - 1 / row["value"]) for row in old.iter_rows(named=True)}
    worst = max(lost, key=lambda step: lost[step])
    others = [value for step, value in lost.items() if step != worst]
    yield Check(
        SCHEMA,
        "tl;dr, bullet 1",
        "The performance schema costs at most 4 % of throughput in 5.7.",
        f"{min(others):.1f} to {max(others):.1f} %, but {lost[worst]:.1f} % for {worst}. The text below makes that"
        " exception, the summary does not.",
        "imprecise",
        f"{lost[worst]:.1f} % where at most 4 % is said",
        "no",
    )
    new = ratios.filter(pl.col("dbms").str.starts_with("my8035_rel.cz10aps0"), pl.col("step") != "l.x")
    costs = [100 * (1 - 1 / row["value"]) for row in new.iter_rows(named=True)]
    yield Check(
        SCHEMA,
        "tl;dr, bullet 2",
        "It costs about 10 % of throughput in 8.0, index creation excepted.",
        f"1.07 times the throughput without it is a cost of {min(costs):.1f} % for writes; 1.11 to 1.15 times is"
        f" {sorted(costs)[-2]:.1f} to {max(costs):.1f} % for reads.",
        "imprecise",
        f"{min(costs):.0f} to {max(costs):.0f} %, by kind of step",
        "no",
    )


def _counts_of_steps(published: Published) -> Iterator[Check]:
    for source in (REGRESSIONS, ADVANCED):
        tables = published.rqps.filter(source=source).group_by("section", maintain_order=True)
        count = {section: steps["step"].n_unique() for (section,), steps in tables}
        full = [name for name, steps in count.items() if steps == 42]
        part = {name: steps for name, steps in count.items() if 1 < steps < 42}
        fewer = (
            f"; {', '.join(f'{name} {n}' for name, n in part.items())}, where steps before the writes were left out"
        )
        yield Check(
            source,
            "benchmark",
            "A full run has 42 microbenchmarks.",
            f"42 rows in {len(full)} tables{fewer if part else ''}.",
        )


def _servers_that_lose(published: Published) -> Iterator[Check]:
    for step, said in (("scan_range=100", 4), ("update-index_range=100", 2)):
        found = published.rqps.filter(source=REGRESSIONS, step=step).filter(~pl.col("section").str.contains(r"\("))
        wide = found.filter(pl.col("build").is_in([LAST, "my8030_rel_o2nofp"])).pivot(
            "build", index="host", values="value", maintain_order=True
        )
        change = {row["host"]: row[LAST] / row["my8030_rel_o2nofp"] for row in wide.iter_rows(named=True)}
        less = [host for host, ratio in change.items() if ratio < 1]
        yield Check(
            REGRESSIONS,
            "tl;dr; results",
            f"From 8.0.30 to 8.0.40 {step.split('_')[0]} loses throughput on {said} of 5 servers.",
            f"On {len(less)}: " + ", ".join(f"{host} {percent(ratio)}" for host, ratio in change.items()) + ".",
            "agrees" if len(less) == said else "contradiction",
        )
    dell = published.rqps.filter(source=REGRESSIONS, host="dell32", step="update-index_range=100", build=LAST)
    yield Check(
        REGRESSIONS,
        "tl;dr, bullet 4; results, paragraph 4",
        "update-index drops in half on dell32, in another place almost in half.",
        f"rQPS is {dell['printed'][0]}: {100 * (1 - dell['value'][0]):.0f} % less.",
        "imprecise",
        "44 % where 50 % is said",
        "no",
    )


def _random_points(published: Published) -> Check:
    wide = published.rqps.filter(
        pl.col("step").str.starts_with("random-points_"),
        pl.col("build").is_in(["my8030_rel_o2nofp", "my8033_rel_o2nofp"]),
        source=REGRESSIONS,
    ).pivot("build", index=["host", "step"], values="value", maintain_order=True)
    wide = wide.with_columns((pl.col("my8033_rel_o2nofp") / pl.col("my8030_rel_o2nofp")).alias("grown"))
    by_step = wide.group_by("step", maintain_order=True).agg(
        pl.col("grown").min().alias("low"), pl.col("grown").max().alias("high")
    )
    listed = "; ".join(
        f"{step.split('=')[1]} values {percent(low)} to {percent(high)}" for step, low, high in by_step.iter_rows()
    )
    return Check(
        REGRESSIONS,
        "results of each host, bullet 1",
        "random-points has a big improvement in 8.0.33.",
        f"From 8.0.30 to 8.0.33, over the hosts: {listed}. The first summary does say that it is for large lists.",
        "imprecise",
        "only with 1000 values; with 10 it is no gain",
        "no",
    )


def _redo_log(published: Published) -> Check:
    files = _told(published, REGRESSIONS, metric="redo log files")
    sizes = _told(published, REGRESSIONS, metric="redo log file")
    in_mb = [
        n * size * (1024 if unit == "GB" else 1)
        for n, size, unit in zip(files["value"], sizes["value"], sizes["unit"], strict=True)
    ]
    return Check(
        REGRESSIONS,
        "results: beelink, list on update-index",
        "The redo log has the same size in 8.0.28 (15 x 1G) and 8.0.40 (32 x 480M).",
        f"{in_mb[0]:.0f} MB and {in_mb[1]:.0f} MB.",
        "agrees" if in_mb[0] == in_mb[1] else "contradiction",
    )


def _advanced(published: Published) -> Iterator[Check]:
    wide = published.rqps.filter(source=ADVANCED, section="Results: dell32").pivot(
        "build", index="step", values="value", maintain_order=True
    )
    theirs = "my8040adv_rel_o2nofp"
    near = wide.filter((pl.col(theirs) - pl.col(LAST)).abs() <= 0.0201).height
    yield Check(
        ADVANCED,
        "results: dell32, summary",
        "Both 8.0.40 perform alike in most microbenchmarks.",
        f"They are within 0.02 of each other in {near} of {wide.height}.",
    )
    row = wide.filter(step="update-index_range=100").row(0, named=True)
    back = Range(row[theirs] - row[LAST], 1 - row[LAST])
    yield Check(
        ADVANCED,
        "tl;dr, bullet 2",
        "Advanced MySQL gives back most of the regression of update-index on dell32.",
        f"{100 * back.low / back.high:.0f} % of it: {row[LAST]} and {row[theirs]} of 8.0.28.",
    )
    costs = published.per_operation.filter(
        pl.col("metric").is_in(["cpu/o", "cs/o"]), source=ADVANCED, part="absolute"
    )
    ratios = costs.pivot("build", index=["table", "metric"], values="value", maintain_order=True)
    ratios = ratios.with_columns((pl.col(theirs) / pl.col(LAST)).alias("ratio"))
    most, least = (ratios.sort("ratio").row(place, named=True) for place in (0, -1))
    yield Check(
        ADVANCED,
        "below both rQPS tables",
        "CPU and context switches per operation are much lower in Advanced MySQL.",
        f"Against upstream 8.0.40 they are {percent(most['ratio'])} to {percent(least['ratio'])}; the least is"
        f" {least['metric']} in {least['table']}.",
        "imprecise",
        f"{percent(least['ratio'])} in one of {ratios.height}",
        "no",
    )
