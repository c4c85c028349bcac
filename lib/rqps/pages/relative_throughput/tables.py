"""Tables of many steps: their groups and the worst of them; and of configs within each build."""

from collections.abc import Callable, Iterator

import polars as pl
from great_tables import GT

from rqps import show, stats
from rqps.show import Column, Nothing, Row, Sentences, interval_of, ratio, rounds_of, two_lines
from rqps.show.table import means_of
from rqps.show.words import own_warnings
from rqps.stats import verdict
from rqps.stats.metrics import CPU, THROUGHPUT
from rqps.stats.verdict import VERDICTS
from rqps.store import Study
from rqps.terminal import counted

MANY = 12
"""Steps; of more than these, a reader wants the groups first."""
ALL = "All steps"
Configs = tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]
Colour = Callable[[Row | None], str | None]


def by_group(compared: pl.DataFrame, metric: str = THROUGHPUT) -> pl.DataFrame:
    """One row per group and dbms: the median of its steps' ratios, their reach, and the number of each verdict."""
    middle = pl.col("estimate")
    return (
        compared.filter(metric=metric)
        .group_by("host", "group", "base", "dbms", maintain_order=True)
        .agg(
            pl.len().alias("steps"),
            middle.median().alias("middle"),
            middle.min().alias("low"),
            pl.col("step").sort_by("estimate").first().alias("low_step"),
            middle.max().alias("high"),
            pl.col("step").sort_by("estimate").last().alias("high_step"),
            pl.col("n").min().alias("fewest_rounds"),
            pl.col("n").max().alias("most_rounds"),
            *((pl.col("verdict") == word).sum().alias(word) for word in VERDICTS),
        )
    )


def group_table(compared: pl.DataFrame, means: pl.DataFrame | None = None) -> GT:
    """One row per dbms, one column per group of steps, and the `means` over all of them."""
    rows = show.by_host(by_group(compared)).with_columns(pl.col("group").replace("", ALL))
    steps = dict(rows.sort("steps").select("group", "steps").iter_rows())
    signs = show.signs_of(THROUGHPUT)
    legend = ", ".join(f"{signs[word]} {word}" for word in VERDICTS[:2])

    def middle(row: Row) -> str:
        counted = " ".join(f"{signs[word]}{row[word]}" for word in VERDICTS if row[word])
        reach = f"{ratio(row['low'])} to {ratio(row['high'])}<br>" if row["steps"] > 1 else ""
        return two_lines(f"<b>{ratio(row['middle'])}</b>", reach + counted)

    groups = [
        Column(each, f"{each} ({steps[each]})", middle, _colour_of_group, "center")
        for each in show.in_order(rows["group"])
    ]
    of_all = means_of(means, THROUGHPUT)
    cells = [row | {"all": of_all.get(row["dbms"])} for row in show.spread(rows, "group", ["dbms"])]
    return show.table(
        cells,
        [
            Column("dbms"),
            *groups,
            *([Column("all", "geometric mean", show.ratio_cell, align="center")] if of_all else []),
        ],
        name="groups",
        note=f"rQPS against {rows['base'][0]}, a step counts once: the median of the steps, below it from the lowest "
        f"to the highest, and how many of them are {legend}, {signs['same']} the same or {signs['unsure']} unsure, "
        f"each by {rounds_of([*rows['fewest_rounds'], *rows['most_rounds']])}.",
    )


def _colour_of_group(row: Row | None) -> str | None:
    """Pale where most steps of the group are unsure."""
    unsure = row and row["unsure"] > row["steps"] / 2
    return show.colour_of(row["middle"], "unsure" if unsure else "") if row else None


def worst(compared: pl.DataFrame, at_most: int = MANY) -> pl.DataFrame:
    """Each step with the dbms that does worst in it, the worst first, and the server's CPU there."""
    ratios = compared.filter(metric=THROUGHPUT).sort("estimate", maintain_order=True)
    first = ratios.unique(["host", "step"], keep="first", maintain_order=True)
    keys = ["host", "step", "base", "dbms"]
    cpu = compared.filter(metric=CPU).select(*keys, cpu="estimate", cpu_low="low", cpu_high="high")
    shown = first.head(at_most).with_columns(of_steps=pl.lit(first.height))
    return shown.join(cpu, on=keys, how="left", maintain_order="left")


def worst_table(compared: pl.DataFrame) -> GT:
    """One row per step, the worst first."""

    def cost(row: Row) -> str:
        return two_lines(ratio(row["cpu"]), interval_of(row, of="cpu"))

    rows = show.by_host(worst(compared))
    of_steps = rows["of_steps"][0]
    shown = f"The worst {rows.height} of {of_steps} steps" if rows.height < of_steps else "All steps"
    cells = [row | {"ratio": row, "cost": None if row["cpu"] is None else row} for row in rows.to_dicts()]
    return show.table(
        cells,
        [
            Column("step"),
            Column("dbms"),
            Column("ratio", "rQPS", show.ratio_cell, show.ratio_colour, align="center"),
            Column("cost", "server CPU/o", cost, align="center"),
        ],
        name="worst",
        note=f"{shown}, each with the dbms that does worst in it. Relative to {rows['base'][0]}: mean of "
        f"{rounds_of(rows['n'])}, {show.coverage_of(rows['coverage'])}. {show.legend_of(rows)} Server CPU/o: "
        "its CPU time for an operation, relative to the base.",
    )


def host_tables(compared: pl.DataFrame) -> Iterator[GT | Sentences]:
    """Host by dbms for each step, each host against its own base; then how far the hosts agree, also in words."""
    rows = compared.filter(metric=THROUGHPUT)
    hosts, dbms = show.in_order(rows["host"]), show.in_order(rows["dbms"])
    if len(hosts) < 2:
        yield Nothing(["All of it was measured on one host."])
        return

    def by_step(name: str, found: pl.DataFrame, cell: Callable[[Row], str], colour: Colour | None, note: str) -> GT:
        columns = [Column(each, "", cell, colour, "center") for each in dbms]
        named = show.by_host(found.with_columns(column="dbms"))  # a cell leads to the rounds of its host
        cells = show.spread(named, "column", ["step", "host"])
        return show.table(cells, columns, name=name, group="step", rows="host", note=note)

    numbers, of_all = own_warnings(rows)
    note = f"rQPS against {rows['base'][0]} on the same host: mean of {rounds_of(rows['n'])}, "
    note += f"{show.coverage_of(rows['coverage'])}. {show.legend_of(rows)}{of_all}"
    yield by_step("hosts", numbers, show.ratio_cell, show.ratio_colour, note)
    between = stats.between_hosts(rows)
    yield Sentences(_agreement(of_host) for of_host in between.partition_by("host", maintain_order=True))
    note = f"The ratio of a host divided by that of {hosts[0]}, with its interval. Where that holds 1, the hosts may "
    note += "agree; where it does not, the machine has a part in the cost, or chance, once in twenty."
    yield by_step("between-hosts", between, _factor, None, note)


def _agreement(between: pl.DataFrame) -> str:
    """A sentence on how far one host agrees with the first."""
    apart = between.filter((pl.col("low") > 1) | (pl.col("high") < 1))
    host, first = between.select("host", "than").row(0)
    of = counted(between.height, "comparison")
    if apart.is_empty():
        return f"{host} and {first} are not shown to differ in any of {of}."
    by_size = apart.sort(pl.col("estimate").log().abs(), descending=True, maintain_order=True)
    most = by_size.row(0, named=True)
    return (
        f"{host} and {first} differ in {apart.height} of {of} by the interval of each, by which one in twenty "
        f"does by chance; most in {most['step']}: beside its own base {most['dbms']} "
        f"does {show.number_of(most, rounds=False)} as much on {host} as on {first}."
    )


def _factor(row: Row) -> str:
    return two_lines(ratio(row["estimate"]), interval_of(row), muted=True)


def configs(study: Study, rounds: pl.DataFrame, compared: pl.DataFrame) -> Configs:
    """Configs within each build compared, what they give back against the study's base, and their options."""
    within, of_configs = stats.relate_configs(study, compared)
    return of_configs, gains_of(rounds, within), stats.config_changes(study.conditions)


def gains_of(rounds: pl.DataFrame, within: pl.DataFrame) -> pl.DataFrame:
    """Gains of rQPS by another config of a build: two ratios to one base, subtracted round by round."""
    keys = ["host", "step", "metric", "round"]
    mine = rounds.select(*keys, "base", "dbms", "ratio")
    of_first = mine.rename({"dbms": "instead_of", "ratio": "instead"})
    differences = (
        within.select(*keys, "position", "dbms", "looks", instead_of="base")
        .join(mine, on=[*keys, "dbms"], maintain_order="left")
        .join(of_first, on=[*keys, "base", "instead_of"], maintain_order="left")
        .with_columns((pl.col("ratio") - pl.col("instead")).alias("difference"))
    )
    whose = ["host", "step", "position", "metric", "base", "instead_of", "dbms"]
    gains = stats.estimated(differences, whose, "difference")
    return gains.with_columns(verdict.decided(null=0.0, near=0.0).alias("verdict"))


def config_table(within: pl.DataFrame, gains: pl.DataFrame, changes: pl.DataFrame) -> GT | Sentences:
    """Throughput and CPU of another config against the first one of its build, and the rQPS that it gives back."""
    if within.is_empty():
        return Nothing(["No build of this study ran with two configs."])

    def gain(row: Row) -> str:
        return two_lines(f"<b>{row['estimate']:+.2f}</b>", f"{interval_of(row, '+.2f')} · n={row['n']}")

    keys = ["step", "dbms", "base"]
    of_throughput = gains.filter(metric=THROUGHPUT).rename({"base": "of", "instead_of": "base"})
    gained = {tuple(row[key] for key in keys): row for row in show.by_host(of_throughput).to_dicts()}
    asked = changes.rename({"instead_of": "base"})
    named = show.by_host(within.join(asked, on=["dbms", "base"], how="left", maintain_order="left"))
    rows = []
    for row in show.spread(named, "metric", [*keys, "change"]):
        pair = f"{row['dbms']} ({row['change'] or 'same options'}) against {row['base']}"
        rows.append(row | {"pair": pair, "gain": gained.get(tuple(row[key] for key in keys))})
    return show.table(
        rows,
        [
            Column("step"),
            Column(THROUGHPUT, "throughput", show.ratio_cell, align="center"),
            Column(CPU, "server CPU/o", show.ratio_cell, align="center"),
            Column("gain", "rQPS given back", gain, align="center"),
        ],
        name="config",
        group="pair",
        note=f"Mean of {rounds_of(within['n'])}, {show.coverage_of(within['coverage'])}. {show.legend_of(within)} "
        "Given back: how much higher rQPS against the study's base is, round by round.",
    )
