"""The workloads: they put load on an engine and read the results of the load generators.

The classes here define everything that a run needs from a workload.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, NotRequired, Protocol, TypedDict, Unpack

from rqps.errors import RqpsError
from rqps.store.manifest import Warning_
from rqps.study import Parameters

_FOLDERS = {
    path.parent.name.replace("_", "-"): path.parent.name
    for path in sorted(Path(__file__).parent.glob("*/workload.py"))
}
"""Maps the name of each workload in runs.yaml to its folder."""


def _module(name: str, part: str) -> Any:
    return import_module(f"{__name__}.{_FOLDERS[name]}.{part}")


class _Models(Mapping[str, type[Parameters]]):
    """Maps each workload to the model of its parameters. The module of a workload is imported when its model is first
    asked for: most processes need one workload only."""

    def __getitem__(self, name: str) -> type[Parameters]:
        model: type[Parameters] = _module(name, "parameters").PARAMETERS
        return model

    def __iter__(self) -> Iterator[str]:
        return iter(_FOLDERS)

    def __len__(self) -> int:
        return len(_FOLDERS)


PARAMETERS = _Models()

UNKNOWN = (KeyError, ValueError, ModuleNotFoundError)
"""The exceptions that are raised if a workload does not know a step, or if it has no module `steps`."""


def work_of(workload: str, row: Mapping[str, Any]) -> str | None:
    """The kind of work of a step, such as `point queries`. `row` is the step's row in the table `steps`. Means are
    taken over the steps of a kind, as in published reports. None for a user's own statements, and for imported
    steps that the workload does not know."""
    try:
        return _module(workload, "steps").work_of(row) or None
    except UNKNOWN:
        return None


@dataclass(frozen=True)
class Checked:
    """The plans from EXPLAIN before a step, as rows of the table `plans`, and warnings about them."""

    plans: tuple[dict[str, Any], ...] = ()
    warnings: tuple[Warning_, ...] = ()


@dataclass(frozen=True)
class Answer:
    """The result of a step, as columns and rows of the raw tables."""

    columns: dict[str, Any]
    """The step's row in `steps`: kind, range, clients and group, operations, errors, latencies. A column
    that is given here replaces the run's own counter of that name; null means that the value is not known."""
    intervals: list[dict[str, Any]]
    latencies: list[dict[str, Any]]
    warnings: tuple[Warning_, ...] = ()
    more: Mapping[str, list[dict[str, Any]]] = field(default_factory=dict)
    """Maps the name of each raw table that only this workload has to its rows; all steps of a workload have the
    same tables."""


class How(TypedDict):
    """The settings of a load: the seed of its random values, its CPUs, and the file for its output.

    A load whose instructions are counted runs the same number of transactions on every server; other loads run for
    some seconds.
    """

    seed: int
    cpus: tuple[int, ...]
    log: Path
    counted: NotRequired[bool]
    by_connection: NotRequired[bool]
    """True if each client shares one of `cpus` with the server's thread that serves its connection."""
    in_turns: NotRequired[bool]
    """True if the load's process is stopped during the slices of other servers."""


class Load(Protocol):
    """A running load generator, which runs the load of one step."""

    @property
    def pid(self) -> int: ...

    def wait_for_begin(self) -> int:
        """Wait until the measured part begins or can begin; returns the time of this moment, CLOCK_MONOTONIC in ns.

        Some load generators begin only at a signal, which `wait_for_end` sends after all recorders have started. For
        these, this method returns as soon as all clients are ready.
        """

    def wait_for_end(self) -> None:
        """Wait until the measured part has ended. The counters of the processes are still readable then."""

    def wait_until_gone(self) -> None:
        """Wait until the generator has ended; raises an error if it failed."""


class StoppableLoad(Load, Protocol):
    """The load on a single server: it runs only in that server's slices, and its clock stands still between them."""

    slice_s: float
    """Length of a slice, in seconds. A resumed server finds cold CPU caches, which can cost half a millisecond, so a
    slice has to be many times as long."""
    patience_s: float
    """The load fails if it has not ended after this many seconds; only the time in its own slices counts."""

    def wait_for_origin(self) -> int:
        """Wait until the load is ready. Returns the time, in ns, that the load's clock will show when its first
        slice begins."""

    def set_stopped(self, ns: int) -> None:
        """Tells a stopped load for how many ns in total it was stopped; its clock leaves out this time."""

    def ended_within(self, seconds: float) -> bool:
        """Wait until the measured part has ended, but no longer than `seconds`; True if it has ended."""

    def operations(self) -> int | None:
        """The number of operations so far; None if the load reports it only at its end."""

    def failure(self, late: str = "") -> RqpsError:
        """The error of a failed load. `late` names the time limit, if the load exceeded one."""


class Workload(ABC):
    """A family of steps. In all methods, `parameters` is an object of the workload's own parameter class, and
    `server` is a running server or, if the engine is a library, a folder of databases."""

    stoppable = False
    """True if each server of a duet has its own load, and server and load are stopped during the slices of other
    servers; False if one load has connections to all servers."""

    @abstractmethod
    def data_name(self, parameters: Any) -> str:
        """A name for the loaded tables: tables with the same name have the same bytes."""

    @abstractmethod
    def load(self, server: Any, parameters: Any) -> None:
        """Create and fill the tables on an empty server."""

    @abstractmethod
    def prepare(self, server: Any, parameters: Any) -> None:
        """Check the tables and warm the server up, before the first step."""

    @abstractmethod
    def steps(self, parameters: Any) -> Sequence[str]:
        """The names of the steps, in the order in which they run."""

    def uncountable(self, parameters: Any) -> Sequence[str]:  # noqa: ARG002
        """The names of the steps that can't run a fixed number of operations."""
        return ()

    @abstractmethod
    def clients(self, step: str, parameters: Any) -> int:
        """The number of clients of a step; the choice of CPUs for the clients depends on it."""

    def places_connections(self, servers: int) -> bool:  # noqa: ARG002
        """True if a load on this number of servers can pin its connections to CPUs."""
        return False

    def check(self, server: Any, step: str, parameters: Any) -> Checked:  # noqa: ARG002
        """Ask the server for the plans of a step before the step begins. Some workloads raise an error if a plan is
        not the one that the step is named for."""
        return Checked()

    @abstractmethod
    def generating(
        self, servers: Sequence[Any], step: str, parameters: Any, **how: Unpack[How]
    ) -> AbstractContextManager[Load]:
        """The load of one step, for one server or for all servers of a duet."""

    @abstractmethod
    def answers(self, step: str, parameters: Any, load: Any) -> Sequence[Answer]:
        """The results of a finished step, one per server."""

    @abstractmethod
    def tools(self, parameters: Any, servers: int) -> dict[str, str]:
        """Maps each load generator that a load on `servers` servers needs to its version; fetches missing ones."""


def workload(name: str) -> Workload:
    """The workload of this name. Its module is imported only here, since reading runs.yaml does not need it."""
    workload: type[Workload] = _module(name, "workload").WORKLOAD
    return workload()


def does(workload: str, row: Mapping[str, Any], parameters: Mapping[str, Any]) -> str:
    """A sentence on what a step does, such as `One row by its primary key.`. `row` is the step's row in the table
    `steps`; `parameters` are the study's stored parameters. Empty for imported steps that the workload does not
    know."""
    try:
        return str(_module(workload, "steps").does(row, parameters))
    except UNKNOWN:
        return ""
