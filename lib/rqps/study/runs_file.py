"""runs.yaml as typed values."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from rqps.study.builds import BuildSpec
from rqps.study.configs import ConfigSpec, Name
from rqps.workloads import PARAMETERS
from rqps.workloads.parameters import Parameters


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True)


class StudySpec(_Strict):
    """A question, and the runs that answer it."""

    question: Annotated[str, Field(min_length=1, examples=["What did 8.0 cost since 5.6?"])]
    """In a sentence; it heads the report."""
    workload: Annotated[str, Field(examples=["sysbench"])]
    """What load is put on the servers."""
    dbms: Annotated[tuple[str, ...], Field(min_length=1, examples=[["my5624.base", "my8033.base"]])]
    """What is compared, each as build.config."""
    base: Annotated[str, Field(examples=["my5624.base"])]
    """The one of `dbms` that the others are compared with."""
    rounds: Annotated[int, Field(ge=1, le=999, examples=[6])]
    """How often each dbms runs; fewer than 4 give no verdict, 6 give an interval."""
    stacks_rounds: Annotated[int, Field(ge=0, le=999, examples=[2])] = 0
    """How often each dbms runs once more while its call stacks are sampled; these runs give no throughput."""
    instructions_rounds: Annotated[int, Field(ge=0, le=999, examples=[1])] = 0
    """How often each dbms runs once more under callgrind, which counts instructions; it takes long."""
    parameters: dict[str, Any] = Field(default_factory=dict)
    """What the workload may be told: its steps, sizes and times."""
    placement: Literal["same-cpu", "split", "free"] | None = None
    """Which CPUs server and load generator share; chosen for the host if not given."""
    seed: Annotated[int, Field(ge=0)] | None = None
    """Of the random order; follows from the study's name if not given."""
    take_apart: Annotated[str, Field(examples=["my8033.ps-all-enabled"])] | None = None
    """One of `dbms`: when the study is measured, what the performance schema records there is taken apart, in levels
    that are studies of their own, as far as it costs something."""
    extends: Name | None = None
    """The study that this one takes over what it does not say itself from; of the parameters, each by itself."""

    @property
    def typed_parameters(self) -> Parameters:
        """`parameters` as the workload's own model, with its defaults."""
        return PARAMETERS[self.workload].model_validate(self.parameters)


class RunsFile(_Strict):
    """Builds, configs, and the studies that put them together."""

    builds: dict[Name, BuildSpec]
    """Server binaries by name, and where each comes from."""
    configs: dict[Name, ConfigSpec]
    """Named sets of server options."""
    studies: dict[Name, StudySpec]
    """What is to be measured."""
