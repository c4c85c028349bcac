"""What an operation costs, in sentences: the dearest first, and whose CPU time the published measure counts."""

from collections.abc import Iterator
from typing import Any

import polars as pl

MOST = 5
SERVER, CLIENT, HOST = (f"{who}_cpu_us_per_operation" for who in ("server", "client", "host"))
_WORDS = {"slower": "dearer", "faster": "cheaper", "same": "the same within 2 %", "unsure": "unsure"}

Row = dict[str, Any]


def cost_findings(table: pl.DataFrame) -> tuple[str, ...]:
    """Sentences on the server's CPU per operation, from a `cost_table`: the dearest and the cheapest steps."""
    server = table.filter(pl.col("ratio").is_not_null(), metric=SERVER)
    return tuple(_told(server))


def _told(server: pl.DataFrame) -> Iterator[str]:
    counts = {word: server.filter(verdict=kind) for kind, word in _WORDS.items()}
    told = [f"{word} in {rows.height}" for word, rows in counts.items() if rows.height]
    yield f"Of {server.height} comparisons with {server['base'][0]}, an operation is {', '.join(told)}."
    several = server["host"].n_unique() > 1
    for word in ("dearer", "cheaper"):
        by_size = counts[word].sort("ratio", descending=word == "dearer", maintain_order=True)
        for row in by_size.unique("step", keep="first", maintain_order=True).head(MOST).to_dicts():
            yield (f"On {row['host']}: " if several else "") + _one(row)


def _one(row: Row) -> str:
    return (
        f"{row['step']}: {row['dbms']} uses {_number(row['ratio'])} ({_reach(row['ratio_low'], row['ratio_high'])}, "
        f"{row['ratio_n']} rounds) times the server CPU of {row['base']}: {_number(row['median'])} "
        f"({_reach(row['low'], row['high'])}) µs for an operation."
    )


def two_measures(values: pl.DataFrame) -> tuple[str, ...]:
    """Whose CPU time the published cpu/o counts, from what `measured` gives: shares of the host's, over all steps."""
    wide = values.filter(pl.col("metric").is_in([SERVER, CLIENT, HOST])).pivot(
        "metric", index=["run", "step"], values="value", maintain_order=True
    )
    shares = wide.filter(pl.col(HOST) > 0).select(
        (pl.col(SERVER) / pl.col(HOST)).alias("server"),
        (pl.col(CLIENT) / pl.col(HOST)).alias("generator"),
        (1 - (pl.col(SERVER) + pl.col(CLIENT)) / pl.col(HOST)).alias("rest"),
    )
    if shares.drop_nulls().is_empty():
        return ("The CPU time of the host is not known.",)
    server, generator, rest = (_share(shares[name].drop_nulls()) for name in shares.columns)
    return (
        f"Here the server used {server} of the CPU time that cpu/o counts, the load generator {generator}, and all "
        f"else on the host {rest}: medians, and the middle 90 % of {shares.height} steps of runs in brackets.",
    )


def _share(shares: pl.Series) -> str:
    low, middle, high = (round(100 * float(shares.quantile(each, "linear") or 0)) for each in (0.05, 0.5, 0.95))
    return f"{middle} % ({low}–{high})"


def _reach(low: float, high: float) -> str:
    return f"{_number(low)}–{_number(high)}"


def _number(value: float) -> str:
    """Three digits, and all that stand before the point.

    >>> _number(1.4567), _number(23.456), _number(12345.6)
    ('1.46', '23.5', '12,346')
    """
    decimals = 2 if value < 10 else 1 if value < 100 else 0
    return f"{value:,.{decimals}f}"
