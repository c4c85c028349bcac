"""Measures how steadily the CPUs run: times equal pieces of work on several CPUs at once.

On each CPU this file runs as a program that uses only the standard library, and so starts in milliseconds.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

PIECE_LOOPS = 20_000
WINDOW_NS = 100_000_000
START_DELAY_S = 0.3
MOST_CPUS = 8


@dataclass(frozen=True)
class Noise:
    """Interference with a process that repeats one piece of work on one CPU. All shares are shares of the elapsed
    time."""

    cpu: int
    piece_us: float
    """The time of an undisturbed piece of work: the 10th percentile of all pieces."""
    lost_share: float
    """Share of the elapsed time that was lost, for whatever reason: 1 minus the time that the same number of
    undisturbed pieces would have taken, divided by the elapsed time."""
    waited_share: float
    """Share of the time in which the process was not on its CPU, mostly since another process of this machine ran
    there."""
    stolen_share: float
    """Share of the time in which the hypervisor gave the CPU to another guest, as the kernel counts it."""
    spread: float
    """Spread of the work done per tenth of a second: the 90th minus the 10th percentile, divided by the median."""
    longest_ms: float
    """The longest interruption, in ms: the time of the longest piece of work minus the time of an undisturbed one."""


def measure_noise(cpus: Collection[int], seconds: float = 1.5) -> list[Noise]:
    """Spins on all these CPUs at once, or on MOST_CPUS of them, evenly spaced, if there are more."""
    every = sorted(cpus)
    chosen = every if len(every) <= MOST_CPUS else [every[i * len(every) // MOST_CPUS] for i in range(MOST_CPUS)]
    start_ns = time.monotonic_ns() + round(START_DELAY_S * 1e9)
    program = [sys.executable, "-I", "-S", __file__]
    argvs = [[*program, str(cpu), str(start_ns), str(seconds)] for cpu in chosen]
    spinners = [subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) for argv in argvs]
    try:
        return [Noise(**json.loads(spinner.communicate()[0])) for spinner in spinners]
    finally:
        for spinner in spinners:
            spinner.kill()
            spinner.wait()


def summarise(cpu: int, done_ns: list[int], cpu_ns: int, stolen_s: float) -> Noise:
    """Computes the noise from `done_ns`: the start of the first piece of work, then the end of each piece."""
    pieces = [later - earlier for earlier, later in pairwise(done_ns)]
    whole_ns = done_ns[-1] - done_ns[0]
    pace_ns = percentile(pieces, 10)
    rates, first = [], 0
    for last, now_ns in enumerate(done_ns):
        if (window_ns := now_ns - done_ns[first]) >= WINDOW_NS:
            rates.append((last - first) / window_ns)
            first = last
    rates = rates or [len(pieces) / whole_ns]
    return Noise(
        cpu=cpu,
        piece_us=pace_ns / 1e3,
        lost_share=max(0.0, 1 - len(pieces) * pace_ns / whole_ns),
        waited_share=max(0.0, 1 - cpu_ns / whole_ns),
        stolen_share=stolen_s * 1e9 / whole_ns,
        spread=(percentile(rates, 90) - percentile(rates, 10)) / percentile(rates, 50),
        longest_ms=(max(pieces) - pace_ns) / 1e6,
    )


def percentile(values: Sequence[float], percent: int) -> float:
    """The percentile of the values, without interpolation.

    >>> percentile([4, 1, 3, 2, 5], 10), percentile([4, 1, 3, 2, 5], 50), percentile([7], 90)
    (1, 3, 7)
    """
    return sorted(values)[percent * (len(values) - 1) // 100]


def _spin(cpu: int, start_ns: int, seconds: float) -> Noise:
    os.sched_setaffinity(0, {cpu})
    time.sleep(max(0, start_ns - time.monotonic_ns()) / 1e9)
    stolen_s, cpu_ns = _stolen_s(cpu), time.process_time_ns()
    done_ns = [time.perf_counter_ns()]
    until_ns = done_ns[0] + round(seconds * 1e9)
    while done_ns[-1] < until_ns:
        for _ in range(PIECE_LOOPS):
            pass
        done_ns.append(time.perf_counter_ns())
    return summarise(cpu, done_ns, time.process_time_ns() - cpu_ns, _stolen_s(cpu) - stolen_s)


def _stolen_s(cpu: int) -> float:
    line = next(line for line in Path("/proc/stat").read_text().splitlines() if line.startswith(f"cpu{cpu} "))
    return int(line.split()[8]) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    print(json.dumps(vars(_spin(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])))))
