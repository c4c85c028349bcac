"""What a study may set of the sysbench workload."""

from typing import Annotated

from pydantic import Field, field_validator

from rqps.workloads.parameters import Parameters
from rqps.workloads.sysbench.steps import all_steps

Count = Annotated[int, Field(ge=1)]


class SysbenchParameters(Parameters):
    steps: tuple[str, ...] = Field(default_factory=lambda: tuple(all_steps()), min_length=1, strict=False)
    """Done in this order, on the same server, one after the other."""
    tables: Count = 1
    table_rows: Count = 100_000
    index_first: bool = False
    """Create the secondary index before the rows are loaded. After them, as the published tests do, its pages are
    full: on a small table a short update step then measures how they split and merge again."""
    threads: Count = 1
    seconds: Count = 30
    """The measured part of a step."""
    warmup_seconds: Annotated[int, Field(ge=0)] = 5
    """Before it, not measured."""
    prepared: bool = True
    """Prepared statements, where the step has them."""

    @field_validator("steps")
    @classmethod
    def _steps_exist_once(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        unknown = [name for name in names if name not in all_steps()]
        if unknown:
            known = ", ".join(all_steps())
            raise ValueError(f"unknown step {', '.join(map(repr, unknown))}; the steps are {known}")
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"step {', '.join(map(repr, twice))} stands twice")
        return names

    @property
    def estimated_seconds(self) -> float:
        """What the steps of one run take, without its set-up."""
        return float(len(self.steps) * (self.seconds + self.warmup_seconds))
