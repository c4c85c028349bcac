"""What both sides of `relating.py` have in common. It needs the standard library only: DuckDB's Python has no more.

A side is a process of its own, so that its memory is its own: it works once for each line that it is sent, tells what
came of it in a line of JSON, and its peak memory at the end. The times and the memory of processes below it count.
"""

import json
import os
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Rows = list[tuple[Any, ...]]
"""host, step, metric, dbms, n, estimate, low, high"""


def serve(load: Callable[[], Any], relate: Callable[[Any], Rows]) -> None:
    """Loads and relates as often as it is asked to."""
    for _ in sys.stdin:
        began, cpu_s = time.perf_counter(), sum(os.times()[:4])
        loaded = load()
        between = time.perf_counter()
        rows = relate(loaded)
        ended = time.perf_counter()
        times = {"load_s": between - began, "relate_s": ended - between, "cpu_s": sum(os.times()[:4]) - cpu_s}
        print(json.dumps({**times, "rows": sorted(rows)}), flush=True)
    status = Path("/proc/self/status").read_text()
    own_kb = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
    peak_kb = max(own_kb, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
    print(json.dumps({"peak_mb": peak_kb / 1024}), flush=True)
