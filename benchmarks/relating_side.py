"""What both sides of `relating.py` have in common. It needs the standard library only: DuckDB's Python has no more.

A side is a process of its own, so that its memory is its own: it works once for each line that it is sent, tells what
came of it in a line of JSON, and its peak memory at the end.
"""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Rows = list[tuple[Any, ...]]
"""host, step, metric, dbms, n, median, low, high"""


def serve(load: Callable[[], Any], relate: Callable[[Any], Rows]) -> None:
    """Loads and relates as often as it is asked to."""
    for _ in sys.stdin:
        began = time.perf_counter()
        loaded = load()
        between = time.perf_counter()
        rows = relate(loaded)
        ended = time.perf_counter()
        told = {"load_s": between - began, "relate_s": ended - between, "rows": sorted(rows)}
        print(json.dumps(told), flush=True)
    status = Path("/proc/self/status").read_text()
    peak_kb = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
    print(json.dumps({"peak_mb": peak_kb / 1024}), flush=True)
