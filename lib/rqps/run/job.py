"""One run as a file that says everything: written by the command, read by the run's notebook.

Names of runs.yaml are looked up, builds found and options translated once, by the command.
"""

from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, PlainSerializer, PlainValidator, TypeAdapter, ValidationInfo

from rqps.engines import Prepared, engine_of
from rqps.observe import placement
from rqps.store.manifest import Placement
from rqps.study import Run
from rqps.workloads import PARAMETERS, workload
from rqps.workloads.protocol import Workload

JOB = "job.json"


def _written(prepared: Prepared) -> Any:
    return TypeAdapter(type(prepared)).dump_python(prepared, mode="json")


def _read(value: Any, info: ValidationInfo) -> Any:
    kind = engine_of(info.data["run"].build_spec).prepared
    return value if isinstance(value, kind) else TypeAdapter(kind).validate_python(value)


class Job(BaseModel):
    """A run with its build found, its config in the form of that version, its tables loaded and its CPUs chosen."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    run: Run
    folder: Path
    """Tables and manifest are written there."""
    prepared: Annotated[Prepared, PlainValidator(_read), PlainSerializer(_written)]
    """The dbms, in the form of its engine."""
    data: Path
    """Loaded tables; the run's server starts on a copy of them."""
    placements: dict[int, Placement]
    """By how many clients a step has."""
    git_revision: str | None
    """Of the folder that has the runs.yaml."""

    @property
    def workload(self) -> Workload:
        return workload(self.run.workload)

    @property
    def placement(self) -> Placement:
        """Of the whole run: where its server starts."""
        return placement.of_run(self.placements)

    def placement_of(self, step: str) -> Placement:
        return self.placements[self.workload.clients(step, self.run.parameters)]

    @property
    def logs(self) -> Path:
        return self.folder / "logs"

    def write(self) -> Path:
        """Writes it among the logs of its folder; gives back the file."""
        file = self.logs / JOB
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(self.model_dump_json(indent=1) + "\n", encoding="utf-8")
        return file


def read_job(file: str | Path) -> Job:
    """Reads the file that a run's notebook is given."""
    return Job.model_validate_json(Path(file).read_text(encoding="utf-8"), context=PARAMETERS)
