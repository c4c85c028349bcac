"""A study in a few sentences, the largest changes first. Each number has its interval and its rounds."""

from collections.abc import Iterator, Sequence
from operator import itemgetter

import polars as pl

from rqps.pages.relative_throughput.tables import MANY, by_group
from rqps.show import Row, Sentences, brackets, comparison, inconclusive, number_of, ratio, rounds_of
from rqps.show.words import NOT_COMPARED, short_steps
from rqps.stats.metrics import CPU, THROUGHPUT
from rqps.terminal import percent

MOST_STEPS, MOST_DBMS = 3, 5
WORST, MOST_DBMS_OF_A_GROUP = 3, 2  # of each group of steps


def findings(compared: pl.DataFrame, within: pl.DataFrame, gains: pl.DataFrame, changes: pl.DataFrame) -> Sentences:
    """Sentences on what is compared with the base, many steps by group, and on configs within a build."""
    names = short_steps(compared, between="_range=")
    compared, within, gains = (
        frame.with_columns(pl.col("step").replace(names)) for frame in (compared, within, gains)
    )
    if compared.is_empty():
        return Sentences([NOT_COMPARED])
    hosts = compared["host"].unique(maintain_order=True).to_list()
    found: list[str] = []
    for host in hosts:
        where = f"On {host}: " if len(hosts) > 1 else ""
        mine = (compared.filter(host=host), within.filter(host=host), gains.filter(host=host))
        found += [where + sentence for sentence in _of_host(*mine, changes)]
    return Sentences(found)


def _of_host(
    compared: pl.DataFrame, within: pl.DataFrame, gains: pl.DataFrame, changes: pl.DataFrame
) -> Iterator[str]:
    throughput = compared.filter(metric=THROUGHPUT)
    others = throughput.filter(~pl.col("dbms").is_in(within["dbms"].to_list()))
    size = others.group_by("dbms").agg(pl.col("estimate").log().abs().max())
    named = set(size.top_k(MOST_DBMS, by="estimate")["dbms"])
    for (dbms,), rows in others.group_by("dbms", maintain_order=True):
        if dbms in named:
            yield _relation(rows, str(dbms))
    if size.height > MOST_DBMS:
        yield f"Of {size.height} dbms compared, these are the {MOST_DBMS} that changed most; the table has them all."
    if others["step"].n_unique() > MANY:
        for _, of_group in others.group_by("group", maintain_order=True):
            yield _of_group(of_group)
    else:
        sure = others.filter(pl.col("verdict").is_in(["slower", "faster"]))
        by_size = sure.sort(pl.col("estimate").log().abs(), descending=True, maintain_order=True)
        for row in by_size.unique("step", keep="first", maintain_order=True).head(MOST_STEPS).to_dicts():
            yield _step(row, compared, gains)
    of_throughput = within.filter(metric=THROUGHPUT)
    for (dbms, instead_of), rows in of_throughput.group_by("dbms", "base", maintain_order=True):
        asked = "".join(f" ({each})" for each in changes.filter(dbms=dbms, instead_of=instead_of)["change"])
        yield f"Same build, other config: {_relation(rows, f'{dbms}{asked}')}"
    if unsure := inconclusive(throughput):
        yield f"Inconclusive by throughput: {unsure}."


def _relation(throughput: pl.DataFrame, me: str) -> str:
    rows, base = throughput.to_dicts(), throughput["base"][0]
    median = itemgetter("estimate")
    low, high = min(rows, key=median), max(rows, key=median)
    reach = _named(low) if len(rows) == 1 else f"{_named(low)} to {_named(high)}"
    return f"{me} {_verdicts(rows)}. It runs at {reach} of {base}; means of {rounds_of(throughput['n'])}."


def _verdicts(rows: Sequence[Row]) -> str:
    """`is slower than my5624.base in 3 of 4 steps`, and never more than the rounds support."""
    counts = {kind: sum(row["verdict"] == kind for row in rows) for kind in ("slower", "faster")}
    shown = [f"{kind} in {count}" for kind, count in counts.items() if count]
    of = f"of {len(rows)} step{'s' if len(rows) > 1 else ''}"
    if shown:
        shown[0] = shown[0].replace(" in ", f" than {rows[0]['base']} in ")
        return f"is {' and '.join(shown)} {of}"
    if all(row["verdict"] == "same" for row in rows):
        within = percent(rows[0]["smallest_effect"])
        return f"is as fast as {rows[0]['base']}, within {within}, in all {of}".replace("all of", "all")
    return f"is not shown to be slower or faster than {rows[0]['base']} in any {of}"


def _step(row: Row, compared: pl.DataFrame, gains: pl.DataFrame) -> str:
    text = f"{row['step']}: {comparison(row)}"
    cpu = compared.filter(metric=CPU, step=row["step"], dbms=row["dbms"], base=row["base"]).to_dicts()
    if cpu:
        text += f", and {comparison(cpu[0], 'it')}"
    for gain in gains.filter(metric=THROUGHPUT, step=row["step"], instead_of=row["dbms"]).to_dicts():
        text += f"; {_moved(gain)}"
    return text + "."


def _named(row: Row) -> str:
    return f"{ratio(row['estimate'])}x{brackets(row, before=row['step'], rounds=False)}"


def _moved(row: Row) -> str:
    """The throughput that another config gives back, where the rounds show that it gives back any."""
    if row["verdict"] not in ("slower", "faster"):
        change = f"{row['estimate']:+.2f}"
        return (
            f"the effect of {row['dbms']} on it is inconclusive{brackets(row, '+.2f', before=change, rounds=False)}"
        )
    way = "gives back" if row["estimate"] > 0 else "takes another"
    low, high = sorted((abs(row["low"]), abs(row["high"])))
    reach = brackets({"low": low, "high": high, "n": row["n"]}, ".2f")
    return f"{row['dbms']} {way} {abs(row['estimate']):.2f} of it{reach}"


def _of_group(throughput: pl.DataFrame) -> str:
    """One sentence on a group of steps: its middle, its reach and its worst steps."""
    middles = by_group(throughput).sort(pl.col("middle").log().abs(), descending=True, maintain_order=True)
    rows = middles.head(MOST_DBMS_OF_A_GROUP).to_dicts()
    steps, group = rows[0]["steps"], rows[0]["group"]
    counted = f"{steps} step{'s' if steps > 1 else ''}"
    reaches = ["" if steps == 1 else f" ({ratio(row['low'])} to {ratio(row['high'])})" for row in rows]
    first, *others = [
        f"{row['dbms']} {'runs at ' * (row is rows[0])}{ratio(row['middle'])}x{reach}"
        for row, reach in zip(rows, reaches, strict=True)
    ]
    does = ", ".join([f"{first} of {rows[0]['base']}", *others])
    name = f"{group} ({counted})" if group else f"All {counted}"
    return f"{name}: in the median step {does}. {_worst(throughput)}"


def _worst(of_group: pl.DataFrame) -> str:
    """The steps that are shown to be slower, each by the dbms that does worst in it."""
    slower = of_group.filter(verdict="slower").sort("estimate", maintain_order=True)
    rows = slower.unique("step", keep="first", maintain_order=True).head(WORST).to_dicts()
    if not rows:
        return "None of them is shown to be slower."
    named = [f"{row['step']} {number_of(row, rounds=False)}" for row in rows]
    if len(rows) > 1 and len({row["dbms"] for row in rows}) == 1:
        steps = f"{', '.join(named)}, all in {rows[0]['dbms']}"
    else:
        steps = ", ".join(f"{step} in {row['dbms']}" for step, row in zip(named, rows, strict=True))
    return f"Worst: {steps}; {rounds_of(row['n'] for row in rows)}."
