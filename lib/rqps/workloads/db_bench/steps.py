"""The steps of db-bench and the set-ups on which they run, as steps.yaml describes them. `byrx.readrandom` is the
step readrandom on the set-up byrx."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

from rqps.engines import table

ALL = "all"
Values = Mapping[str, str | int | float | bool]

_DESCRIBED = table(__package__, "steps")


@dataclass(frozen=True)
class Setup:
    """A set-up of the database: its compression, and the block cache that holds all or part of it."""

    name: str
    does: str
    flags: Values
    cache: Literal["whole", "part"]
    reads: str
    large: bool = False


@dataclass(frozen=True)
class Step:
    """A step of db_bench. `load` names the load of the step in rqps's driver; `benchmarks` is the value of the flag
    --benchmarks of db_bench itself."""

    name: str
    does: str
    load: Literal["fill", "overwrite", "read", "multiread", "seek", "nothing"]
    benchmarks: str
    work: str = ""
    flags: Values = field(default_factory=dict)
    lasts: Literal["keys", "seconds", "writes"] | None = None
    before: str = ""
    after: str = ""
    writes: bool = False
    measured: bool = True
    unit: str = "query"

    @property
    def writes_beside(self) -> float:
        """Bytes per second that a background thread writes during the step."""
        return float(self.flags.get("benchmark_write_rate_limit", 0))

    @property
    def reads_only(self) -> bool:
        return self.load in ("read", "multiread", "seek") and not self.writes_beside


@cache
def steps() -> Mapping[str, Step]:
    return {name: Step(name, **described) for name, described in _DESCRIBED["steps"].items()}


@cache
def setups() -> Mapping[str, Setup]:
    return {name: Setup(name, **described) for name, described in _DESCRIBED["setups"].items()}


def common() -> Values:
    """The flags of every step."""
    flags: Values = _DESCRIBED["flags"]
    return flags


def does(row: Mapping[str, Any], _: object = None) -> str:
    """A sentence on what a step does, and one on its set-up."""
    return f"{steps()[row['kind']].does} {setups()[row['group']].does}"


@cache
def _named() -> Mapping[str, tuple[Setup, Step]]:
    return {f"{setup.name}.{step.name}": (setup, step) for setup in setups().values() for step in steps().values()}


def find(name: str) -> tuple[Setup, Step]:
    """The set-up and the step of a name SETUP.STEP.

    >>> setup, step = find("iodir.readrandom")
    >>> setup.flags["use_direct_reads"], step.load
    (True, 'read')
    """
    return _named()[name]


def work_of(row: Mapping[str, Any]) -> str:
    """The kind of work of a step. If the step only reads, the kind depends on its set-up, as in `direct reads`."""
    return steps()[row["kind"]].work or setups()[row["group"]].reads
