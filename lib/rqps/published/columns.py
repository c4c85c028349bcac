"""What the files of published numbers look like: one row a number, and each column's kind."""

from dataclasses import dataclass
from typing import Literal

from rqps.stats.metrics import PUBLISHED

Kind = Literal["text", "optional", "whole", "source", "host", "unit", "number"]
"""`source` and `host` are keys of sources.yaml; `number` is kept as it was printed; only `optional` may be empty."""


@dataclass(frozen=True)
class File:
    """One file: its columns in order, and the units that its numbers have."""

    columns: dict[str, Kind]
    units: tuple[str, ...]

    @property
    def key(self) -> tuple[str, ...]:
        """The columns that say which number a row is: no two rows have all of them the same."""
        return tuple(name for name, kind in self.columns.items() if kind not in ("number", "unit"))


COSTS = {metric.name: metric.unit for metric in PUBLISHED.values()}
"""The columns of a per-operation table, in the order in which they are printed."""

FILES: dict[str, File] = {
    "rqps": File(
        {
            "source": "source",
            "section": "text",
            "host": "host",
            "threads": "whole",
            "dbms": "text",  # as it is printed
            "base": "text",
            "build": "text",  # the same name for the same server in every table
            "step": "text",
            "value": "number",
            "unit": "unit",
        },
        ("ratio",),
    ),
    "per_operation": File(
        {
            "source": "source",
            "section": "text",
            "table": "text",
            "part": "text",
            "host": "host",  # of the section in which the table stands
            "threads": "whole",  # of the table's own name
            "dbms": "text",
            "build": "text",
            "step": "text",
            "metric": "text",
            "value": "number",
            "unit": "unit",
        },
        (*dict.fromkeys(COSTS.values()), "ratio"),
    ),
    "busy_wait": File(
        {
            "source": "source",
            "table": "text",
            "row": "text",  # the host as that table calls it
            "host": "host",
            "version": "text",
            "function": "text",
            "compiled": "text",
            "value": "number",
            "unit": "unit",
        },
        ("ns",),
    ),
    "ut_delay": File(
        {
            "source": "source",
            "table": "text",
            "host": "host",
            "version": "text",
            "x": "whole",
            "value": "number",
            "unit": "unit",
        },
        ("us",),
    ),
    "timers": File(
        {
            "source": "source",
            "table": "text",
            "host": "host",
            "timer": "text",
            "metric": "text",
            "value": "number",
            "unit": "unit",
        },
        ("ticks/s", "ticks", "cycles"),
    ),
    "prose": File(
        {
            "source": "source",
            "place": "text",
            "host": "optional",
            "step": "optional",
            "dbms": "optional",
            "base": "optional",
            "metric": "text",
            "sign": "text",
            "value": "number",
            "unit": "unit",
            "about": "optional",
        },
        (
            "ratio",
            "percent",
            "percent more",
            "count",
            "CPU/query",
            "transactions/s",
            "switches/operation",
            "pages/operation",
            "MB",
            "GB",
            "ns",
            "us",
        ),
    ),
}
