"""What every workload's parameters have."""

from pydantic import BaseModel, ConfigDict


class Parameters(BaseModel):
    """What a study may set of a workload."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True)

    @property
    def estimated_seconds(self) -> float:
        """What the steps of one run take, without its set-up."""
        raise NotImplementedError
