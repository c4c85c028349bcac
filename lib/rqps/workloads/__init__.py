"""The workloads: the load on an engine, and the results of the load generators.

The protocol here is everything that a run needs from a workload.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
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
"""The folder of each workload, by its name in runs.yaml."""


def _module(name: str, part: str) -> Any:
    return import_module(f"{__name__}.{_FOLDERS[name]}.{part}")


PARAMETERS: dict[str, type[Parameters]] = {name: _module(name, "parameters").PARAMETERS for name in _FOLDERS}


@dataclass(frozen=True)
class Checked:
    """The plans from EXPLAIN before a step, as rows of the table `plans`, and warnings about them."""

    plans: tuple[dict[str, Any], ...] = ()
    warnings: tuple[Warning_, ...] = ()


@dataclass(frozen=True)
class Answer:
    """The result of a step, as columns and rows of the raw tables."""

    columns: dict[str, Any]
    """The step's row in `steps`: kind, range, clients and group, operations, errors, latencies. A missing column
    is null; a counter that this machine lacks is given as null."""
    intervals: list[dict[str, Any]]
    latencies: list[dict[str, Any]]
    warnings: tuple[Warning_, ...] = ()
    more: Mapping[str, list[dict[str, Any]]] = field(default_factory=dict)
    """Rows of raw tables that only this workload has, by table name: the same tables in every step."""


class How(TypedDict):
    """The settings of a load: the seed of its random values, its CPUs, and the file for its output.

    A counted load runs the same transactions on every server, however slow; other loads run for some seconds.
    """

    seed: int
    cpus: tuple[int, ...]
    log: Path
    counted: NotRequired[bool]
    by_connection: NotRequired[bool]
    """Each client shares one of those CPUs with the server's thread that serves it."""
    in_turns: NotRequired[bool]
    """Its process will be stopped during the turns of others."""


class Load(Protocol):
    """A load generator at work on one step."""

    @property
    def pid(self) -> int: ...

    def wait_for_begin(self) -> int:
        """Wait for the beginning of the measured part, and return that moment of CLOCK_MONOTONIC, in ns.

        A load that waits for us begins in `wait_for_end`, after all observers have started.
        """

    def wait_for_end(self) -> None:
        """Wait for the end of the measured part. The counters of the processes are still readable then."""

    def wait_until_gone(self) -> None:
        """Wait until the generator has ended; an error if it failed."""


class StoppableLoad(Load, Protocol):
    """A load on a server of its own that waits for its turns and does not count the time in between."""

    slice_s: float
    """The length of a turn. A resumed server finds its caches cold, which can cost it half a millisecond."""
    patience_s: float
    """The longest time of its own."""

    def wait_for_origin(self) -> int:
        """Wait until it has connected; returns the moment at which it begins by its own clock, far ahead."""

    def set_stopped(self, ns: int) -> None:
        """Put its clock back by so many ns in total. The load is stopped meanwhile."""

    def ended_within(self, seconds: float) -> bool:
        """Wait that long or until the measured part has ended; True if it has."""

    def operations(self) -> int | None:
        """Operations so far; None where it tells them only at its end."""

    def failure(self, late: str = "") -> RqpsError:
        """The error with which it ended, or for being late."""


class Workload(ABC):
    """A family of steps. `parameters` have the workload's own type, and `server` is an opened server of its
    engine."""

    countable = True
    """True if its steps can run a fixed number of operations."""
    stoppable = False
    """True if each server has a load of its own and is stopped during the turns of others; False if one load is on
    all servers."""

    @abstractmethod
    def data_name(self, parameters: Any) -> str:
        """A name for the loaded tables: equal names mean equal bytes."""

    @abstractmethod
    def load(self, server: Any, parameters: Any) -> None:
        """Create and fill the tables on an empty server."""

    @abstractmethod
    def prepare(self, server: Any, parameters: Any) -> None:
        """Check the tables and warm the server up, before the first step."""

    @abstractmethod
    def steps(self, parameters: Any) -> Sequence[str]:
        """The steps in their order."""

    @abstractmethod
    def clients(self, step: str, parameters: Any) -> int:
        """The number of clients of a step, which decides the CPUs that they get."""

    def places_connections(self, servers: int) -> bool:  # noqa: ARG002
        """True if a load on that many servers can place its connections on CPUs."""
        return False

    def check(self, server: Any, step: str, parameters: Any) -> Checked:  # noqa: ARG002
        """Ask the server before a step for the plans that the step promises; fail if they have to be right and are
        not."""
        return Checked()

    @abstractmethod
    def generating(
        self, servers: Sequence[Any], step: str, parameters: Any, **how: Unpack[How]
    ) -> AbstractContextManager[Load]:
        """The load of one step. Several servers take turns in it, unless each has a load of its own."""

    @abstractmethod
    def answers(self, step: str, parameters: Any, load: Any) -> Sequence[Answer]:
        """The results of a finished step, one per server."""

    @abstractmethod
    def tools(self, parameters: Any, servers: int) -> dict[str, str]:
        """The load generators for that many servers, with their versions; fetched if missing."""


def workload(name: str) -> Workload:
    """A workload by its name. Its modules are imported only here: reading runs.yaml needs none of them."""
    workload: type[Workload] = _module(name, "workload").WORKLOAD
    return workload()
