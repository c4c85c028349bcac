"""What the tables of the performance schema take at the sizes that a config asks for."""

import re
from collections.abc import Mapping
from pathlib import Path

from rqps.engines.mysql.perf_schema.known import Known
from rqps.errors import RqpsError

_SIZE = re.compile(r"performance_schema_(?P<what>\w+)_size")
_TABLES = {"digests": "events_statements_summary_by_digest"}
"""Where a size is not called like the table that has it."""


def refuse_too_large(options: Mapping[str, str], known: Known, dbms: str, available_bytes: int | None = None) -> None:
    """Refuses sizes that need more memory than the machine has left: the server takes it at its start."""
    available = _available_bytes() if available_bytes is None else available_bytes
    needed = {name: each for name, value in options.items() if (each := _bytes(name, value, known))}
    if sum(needed.values()) <= available:
        return
    largest = max(needed, key=lambda name: needed[name])
    most = int(int(options[largest]) * available / sum(needed.values()))
    raise RqpsError(
        f"{dbms}: {largest}={options[largest]} takes {_gigabytes(needed[largest])} of memory at the server's start, "
        f"and {_gigabytes(available)} are left on this machine",
        fix=f"ask for {most} at most, or run it on a larger machine",
    )


def _bytes(name: str, value: str, known: Known) -> int:
    """What a table takes at a size, by what it takes at the size that the release gives it."""
    found = _SIZE.fullmatch(name)
    usual = known.sizes.get(name, 0)
    if not found or usual <= 0 or not value.isdecimal():
        return 0
    table = _TABLES.get(found["what"], found["what"])
    return known.memory_bytes.get(table, 0) * int(value) // usual


def _gigabytes(number: int) -> str:
    return f"{number / 1e9:.1f} GB"


def _available_bytes() -> int:
    lines = Path("/proc/meminfo").read_text().splitlines()
    found = next(line for line in lines if line.startswith("MemAvailable:"))
    return int(found.split()[1]) * 1024
