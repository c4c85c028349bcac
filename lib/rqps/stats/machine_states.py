"""The machine of a study: the findings of `rqps doctor`, and the state of the machine while the study was measured.

The state is the CPU's clock rate and the *room*: the part of the last-level cache that this machine can use, while
other guests of the CPU use the rest. Ratios depend on this state, so wherever the numbers of two studies stand side
by side, a difference between the two states is named."""

from typing import Any, NamedTuple

import polars as pl

from rqps.finding import LEVELS, Finding, machine_findings
from rqps.numbers import formatted
from rqps.store.manifest import Manifest
from rqps.store.read import Study

OTHER_ROOM, OTHER_CLOCK = 1.9, 1.1
"""Two states differ if their room in the cache differs by more than the factor `OTHER_ROOM` (the room is measured as
a power of two), or their clock by more than the factor `OTHER_CLOCK`."""


class MachineState(NamedTuple):
    """The state of a study's machine, as medians over its steps."""

    room_mb: float
    """The part of the last-level cache that this machine can use. Reads from areas of several sizes are timed; the
    room is the size of the largest area whose reads take less than half as long as those from the largest area."""
    cache_mb: float | None
    """The size of the last-level cache, as the CPU reports it."""
    clock_ghz: float

    def __str__(self) -> str:
        """The state in words.

        >>> str(MachineState(4, 32, 2.61))
        '4 of the 32 MB of last-level cache, clock 2.6 GHz'
        """
        of = "" if self.cache_mb is None else f"of the {self.cache_mb:g} "
        room, clock = formatted(self.room_mb, ".2g"), formatted(self.clock_ghz, ".1f")
        return f"{room} {of}MB of last-level cache, clock {clock} GHz"

    def differs(self, other: "MachineState") -> bool:
        """True if the room in the cache or the clock differs.

        >>> [MachineState(4, 32, 2.6).differs(MachineState(*other)) for other in ((4, 32, 2.7), (8, 32, 2.6))]
        [False, True]
        """
        rooms = [max(state.room_mb, 1e-3) for state in (self, other)]
        clocks = [state.clock_ghz for state in (self, other)]
        return max(rooms) > OTHER_ROOM * min(rooms) or max(clocks) > OTHER_CLOCK * min(clocks)


def machine_state(study: Study) -> MachineState | None:
    """The state of the machine in a study; None if it was not recorded."""
    read = study.machine_state.group_by("kb").agg(pl.col("load_ns").median()).sort("kb").collect()
    if read.height < 2 or read["kb"][0] != 0:
        return None
    near_kb = read.filter(pl.col("kb") > 0, pl.col("load_ns") < pl.col("load_ns").last() / 2)["kb"].max()
    cache_kb = study.conditions.filter(kind="machine", name="cache_kb")["value"].cast(pl.Float64).max()
    room_mb, cache_mb = (None if kb is None else float(kb) / 1024 for kb in (near_kb, cache_kb))  # type: ignore[arg-type]
    return MachineState(room_mb or 0.0, cache_mb, 1 / float(read["load_ns"][0]))


def changed_state(first: Study, second: Study) -> str:
    """A sentence on the state of the machine if it differs between two studies or only one recorded it, else an empty
    text."""
    names, (one, other) = [study.card.study for study in (first, second)], map(machine_state, (first, second))
    if one and other:
        states = f"in {names[0]} {one}; in {names[1]} {other}"
        return f"The state of the machine differs, and ratios depend on it: {states}." * one.differs(other)
    unknown = names[0] if other else names[1]
    return f"The state of the machine was not recorded in {unknown}." if one or other else ""


def recorded_findings(study: Study) -> pl.DataFrame:
    """The findings of `rqps doctor`, computed from the description of the machine in each host's first run: one row
    per host and finding, the worst first, with `level`, `observed`, `effect` and `fix`."""
    findings: list[tuple[Any, ...]] = []
    for host, folder in study.runs.unique("host", keep="first", maintain_order=True).select("host", "folder").rows():
        [text] = study.manifests.filter(folder=folder).collect()["manifest"]
        run = Manifest.model_validate_json(text)
        cpus = {*run.placement.server_cpus, *run.placement.client_cpus, *run.placement.observer_cpus}
        # The run recorded `cpus_allowed` after it was bound to one CPU: its placement shows that more were allowed.
        allowed = max(run.machine.get("cpus_allowed", 0), len(cpus))
        findings += [(host, *finding) for finding in machine_findings({**run.machine, "cpus_allowed": allowed})]
    findings.sort(key=lambda row: -LEVELS.index(row[2]))
    return pl.DataFrame(findings, dict.fromkeys(("host", *Finding._fields), pl.String), orient="row")
