"""What a workload has to offer so that a run can be made of it."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from rqps.store.manifest import Warning_


@dataclass(frozen=True)
class Checked:
    """What the server was asked before a step: rows of the table `plans`, and what is not as the step is named."""

    plans: tuple[dict[str, Any], ...] = ()
    warnings: tuple[Warning_, ...] = ()


@dataclass(frozen=True)
class Answer:
    """What the load generator says of a step, as columns and rows of the raw tables."""

    columns: dict[str, Any]
    """Of the one row in `steps`: operations, transactions, errors, latencies; and counters that are not to be had."""
    intervals: list[dict[str, Any]]
    latencies: list[dict[str, Any]]
    warnings: tuple[Warning_, ...] = ()
    more: Mapping[str, list[dict[str, Any]]] = field(default_factory=dict)
    """Rows of raw tables that only this workload has, by their names: the same ones in every step."""


class Load(Protocol):
    """A load generator at work on one step."""

    @property
    def pid(self) -> int: ...

    def wait_for_begin(self) -> int:
        """Waits until the measured part begins; the moment of CLOCK_MONOTONIC, in ns, at which it does.

        A load that can be held begins no sooner than `wait_for_end`, so that all that is to observe it is on.
        """

    def wait_for_end(self) -> None:
        """Waits until the measured part has ended. What the processes used can still be read then."""

    def wait_until_gone(self) -> None:
        """Waits until the generator has ended, and well."""


class Workload(Protocol):
    """A family of steps. `parameters` are of the workload's own type, and `server` is what its engine opens."""

    def data_name(self, parameters: Any) -> str:
        """A name for the loaded tables: equal names mean equal bytes."""

    def load(self, server: Any, parameters: Any) -> None:
        """Makes and fills the tables on an empty server."""

    def prepare(self, server: Any, parameters: Any) -> None:
        """Checks the tables and warms the server up, before the first step."""

    def steps(self, parameters: Any) -> Sequence[str]:
        """The steps in their order."""

    def clients(self, step: str, parameters: Any) -> int:
        """How many clients a step has; with their number it is decided which CPUs are theirs."""

    def check(self, server: Any, step: str, parameters: Any) -> Checked:
        """Asks before a step whether the server will do what the step is named for; fails where it must."""

    def generating(
        self, server: Any, step: str, parameters: Any, *, seed: int, cpus: tuple[int, ...], log: Path
    ) -> AbstractContextManager[Load]:
        """The load of one step."""

    def answer(self, step: str, parameters: Any, load: Any) -> Answer:
        """What came of a step, when it has ended."""

    def tools(self, parameters: Any) -> dict[str, str]:
        """The load generators and their versions; fetched if need be."""


@runtime_checkable
class CountedWorkload(Protocol):
    """A family of steps that can be done a number of times instead of for some seconds."""

    def counting(
        self, server: Any, step: str, parameters: Any, *, seed: int, cpus: tuple[int, ...], log: Path
    ) -> AbstractContextManager[Load]:
        """The load of one step: the same transactions on every server, however slow; held until `wait_for_end`."""
