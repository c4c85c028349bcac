"""Parameters of a user's own statements that a study may set."""

from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, model_validator

from rqps.errors import RqpsError, instead
from rqps.study import Connections, Count, Parameters
from rqps.workloads.own import generated_tables
from rqps.workloads.own.generated_tables import Tables
from rqps.workloads.own.steps import Step, StepSpec
from rqps.workloads.own.tables_file import digest_of, find
from rqps.workloads.sysbench.parameters import OUR_CONNECTIONS, SysbenchParameters

_NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,59}$"


class OwnParameters(Parameters):
    of_engines: ClassVar[tuple[str, ...]] = ("mysql", "postgres")
    plans_are_findings: ClassVar[bool] = True
    steps_stand_alone: ClassVar[bool] = True

    tables: Tables
    """The file with tables and rows: SQL, or a dump by mysqldump or pg_dump in plain text, gzipped or not; or the
    folder of a dump by mydumper. The path is absolute, or relative to the folder of runs.yaml. To generate the rows
    instead, a mapping of table names to descriptions of tables."""
    digest: str | None = None
    """The first digits of the SHA-256 of `tables`. rqps adds this key: results from other tables are not
    comparable."""
    steps: Annotated[dict[Annotated[str, Field(pattern=_NAME)], Step], Field(min_length=1)]
    """Maps the name of each step to its description; the steps run in this order. A bare SQL text is a step without
    values."""
    threads: Count = 1
    """Number of clients."""
    seconds: Count = 5
    """Duration of the measured part of a step, in seconds."""
    warmup_seconds: Annotated[int, Field(ge=0)] = 1
    """Duration of the warm-up before the measured part of every step, in seconds."""
    slice_ms: Count | None = None
    """Length of a slice, in milliseconds, in which one server of a duet has all the load; 20 if not given."""
    counted_operations: Count | None = None
    """Number of statements of a step whose instructions are counted, the same for every dbms; if not given, 2000, or
    1000 per client if that is more."""
    patience_seconds: Count = 60
    """Maximum time of a transaction, in seconds. A duet fails if its last cycle takes longer than this time
    multiplied by the number of slices in a cycle."""

    @model_validator(mode="before")
    @classmethod
    def _with_the_digest(cls, given: Any) -> Any:
        if isinstance(given, dict) and isinstance(given.get("tables"), str) and not given.get("digest"):
            return {**given, "digest": digest_of(find(given["tables"]))}
        return given

    @model_validator(mode="after")
    def _tables_stand_above(self) -> Self:
        if not isinstance(self.tables, str):
            generated_tables.checked(self.tables)
            if self.digest is None:
                object.__setattr__(self, "digest", generated_tables.digest_of(self.tables))
        return self

    @model_validator(mode="after")
    def _mixes_name_steps(self) -> Self:
        for name, step in self.steps.items():
            for member in step.mix or ():
                if member not in self.steps or self.steps[member].sql is None:
                    raise ValueError(f"steps.{name}.mix: {member!r} is no step with sql")
        return self

    @property
    def every(self) -> dict[str, StepSpec]:
        """All steps by name. The step of a log is followed by steps for its most frequent shapes; statements of one
        shape differ only in their values."""
        steps: dict[str, StepSpec] = {}
        for name, step in self.steps.items():
            steps[name] = step
            steps |= {f"{name}.{shape}": alone for shape, alone in step.logged_alone.items()}
        return steps

    def step(self, name: str) -> StepSpec:
        """The step of this name, which may be a step for one shape of a log."""
        return self.steps[name] if name in self.steps else self.every[name]

    def members(self, step: str) -> dict[str, int]:
        """The weights of the steps in a mix, by name; for a step that is no mix, its own name with weight 1."""
        return dict(self.step(step).mix or {step: 1})

    def writes(self, step: str) -> bool:
        return any(self.step(member).writes for member in self.members(step))

    def only(self, step: str) -> "OwnParameters":
        """These parameters with only this step, and the steps that it mixes."""
        if step not in self.every:
            raise RqpsError(f"no step {step!r}", fix=instead(step, self.every, "steps"))
        needed = {name: self.step(name) for name in (step, *self.members(step))}
        needed = {name: of.model_copy(update={"alone": 0}) if of.file else of for name, of in needed.items()}
        return self.model_copy(update={"steps": needed})

    @property
    def in_sysbench(self) -> SysbenchParameters:
        """These parameters in the form that the generator of the sysbench workload takes."""
        return SysbenchParameters(
            threads=self.threads,
            seconds=self.seconds,
            warmup_seconds=self.warmup_seconds,
            slice_ms=self.slice_ms,
            counted_operations=self.counted_operations,
        )

    @property
    def connections(self) -> Connections:
        return Connections("threads", self.threads, ours=OUR_CONNECTIONS)

    @property
    def estimated_seconds(self) -> float:
        return float(len(self.every) * (self.seconds + self.warmup_seconds))


PARAMETERS = OwnParameters
