"""Measures the state of the machine before and after each step: the CPU's clock, and the latency of memory for
working sets of several sizes. Other guests on the same CPU change both within minutes: the cache that they use is
missing for a server."""

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rqps import keeper
from rqps.engines.sources.programs import compiled
from rqps.errors import RqpsError
from rqps.store.manifest import Warning_

SIZES_KB = (0, 16, *(256 << power for power in range(9)))
"""Sizes of the working sets. 0 stands for an addition, which takes one cycle; 16 KB fit into every CPU's first-level
cache."""
MS_A_SIZE = 10
PATIENCE_S = 60


def read_state(cpus: Sequence[int]) -> list[dict[str, Any]]:
    """Measures rows of `kb` and `load_ns` on one of these CPUs, which takes a fifth of a second."""
    program = compiled(Path(__file__).with_name("chase.c"))
    command = keeper.command("exec", [str(program), *map(str, (MS_A_SIZE, *SIZES_KB))], cpus=tuple(cpus))
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RqpsError(f"{program.name} did not end: {error}") from error
    if done.returncode != 0:
        raise RqpsError(f"{program.name} ended with code {done.returncode}: {done.stderr.strip()[-300:]}")
    return [{"kb": int(kb), "load_ns": float(ns)} for kb, ns in map(str.split, done.stdout.splitlines())]


class MachineStates:
    """The states before and after each step of a run. The state after a step is that before the next step."""

    def __init__(self, cpus: Sequence[int]) -> None:
        self._cpus = cpus
        self._before = self._read()

    def around(self, step: str) -> tuple[list[dict[str, Any]], tuple[Warning_, ...]]:
        """The rows of a step that has just ended; a warning in place of rows that could not be measured."""
        before, self._before = self._before, self._read()
        rows: list[dict[str, Any]] = []
        problems = []
        for moment, state in (("before", before), ("after", self._before)):
            if isinstance(state, RqpsError):
                problems.append(f"the state of the machine is unknown {moment} it: {state.message}")
            else:
                rows += [{"step": step, "moment": moment, **row} for row in state]
        return rows, tuple(Warning_(kind="machine state", text=text, step=step) for text in problems)

    def _read(self) -> "list[dict[str, Any]] | RqpsError":
        try:
            return read_state(self._cpus)
        except RqpsError as error:
            return error
