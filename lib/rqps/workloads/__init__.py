"""The workloads: the load that is put on an engine, and the answers of the load generators.

The protocol here is all that a run needs of a workload.
"""

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
    """Plans that were explained before a step, as rows of the table `plans`, and warnings about them."""

    plans: tuple[dict[str, Any], ...] = ()
    warnings: tuple[Warning_, ...] = ()


@dataclass(frozen=True)
class Answer:
    """The result of a step, as columns and rows of the raw tables."""

    columns: dict[str, Any]
    """The step's row in `steps`: kind, range, clients and group, operations, errors, latencies. A column
    that is not given is null; a counter that can't be had is given as null."""
    intervals: list[dict[str, Any]]
    latencies: list[dict[str, Any]]
    warnings: tuple[Warning_, ...] = ()
    more: Mapping[str, list[dict[str, Any]]] = field(default_factory=dict)
    """Rows of raw tables that only this workload has, by their names: the same ones in every step."""


class How(TypedDict):
    """The circumstances of a load: the seed of its random values, its CPUs, and the file for all that it writes.

    A counted load does the same transactions on every server, however slow; the others last some seconds.
    """

    seed: int
    cpus: tuple[int, ...]
    log: Path
    counted: NotRequired[bool]
    by_connection: NotRequired[bool]
    """Each client shares one of those CPUs with the server's thread that serves it."""
    in_turns: NotRequired[bool]
    """Its process will be stopped in the turns of others."""


class Load(Protocol):
    """A load generator at work on one step."""

    @property
    def pid(self) -> int: ...

    def wait_for_begin(self) -> int:
        """Wait until the measured part begins; gives that moment of CLOCK_MONOTONIC, in ns.

        A load that waits for us begins in `wait_for_end`, when everything that observes it is on.
        """

    def wait_for_end(self) -> None:
        """Wait until the measured part has ended. The counters of the processes can still be read then."""

    def wait_until_gone(self) -> None:
        """Wait until the generator has ended, and fail if it did not end well."""


class StoppableLoad(Load, Protocol):
    """A load on a server of its own, which waits for its turns and does not count the time in between."""

    def wait_for_origin(self) -> int:
        """Wait until it has connected; gives the moment at which it begins by its own clock, which lies far ahead."""

    def set_stopped(self, ns: int) -> None:
        """Put its clock back by so many ns in all; it is stopped meanwhile."""

    def ended_within(self, seconds: float) -> bool:
        """Wait so long, or until the measured part has ended, which it says."""

    def failure(self) -> RqpsError:
        """The reason for its end."""


class Workload(Protocol):
    """A family of steps. `parameters` are of the workload's own type, and `server` is what its engine opens."""

    countable: bool
    """True if its steps can be done a number of times."""
    stoppable: bool
    """True if each server has a load of its own, and is stopped in the turns of others; else one load is on all."""

    def data_name(self, parameters: Any) -> str:
        """A name for the loaded tables: equal names mean equal bytes."""

    def load(self, server: Any, parameters: Any) -> None:
        """Make and fill the tables on an empty server."""

    def prepare(self, server: Any, parameters: Any) -> None:
        """Check the tables and warm the server up, before the first step."""

    def steps(self, parameters: Any) -> Sequence[str]:
        """The steps in their order."""

    def clients(self, step: str, parameters: Any) -> int:
        """The number of clients of a step, which decides the CPUs that they get."""

    def places_connections(self, servers: int) -> bool:
        """True if a load on so many servers can share out the CPUs by connection."""

    def check(self, server: Any, step: str, parameters: Any) -> Checked:
        """Ask the server before a step for the plans that the step is named for; fail where they must be right."""

    def generating(
        self, servers: Sequence[Any], step: str, parameters: Any, **how: Unpack[How]
    ) -> AbstractContextManager[Load]:
        """The load of one step; several servers take turns in it, unless each has a load of its own."""

    def answers(self, step: str, parameters: Any, load: Any) -> Sequence[Answer]:
        """The result of a step that has ended, for each of its servers."""

    def tools(self, parameters: Any, servers: int) -> dict[str, str]:
        """The load generators for so many servers at once, with their versions; fetched if they are not here yet."""


def workload(name: str) -> Workload:
    """A workload by its name. Its modules are imported only here: reading runs.yaml needs none of them."""
    workload: type[Workload] = _module(name, "workload").WORKLOAD
    return workload()
