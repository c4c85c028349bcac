"""What every workload's parameters have."""

from abc import ABC, abstractmethod

from pydantic import BaseModel, ConfigDict


class Parameters(BaseModel, ABC):
    """What a study may set of a workload."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True)

    @property
    @abstractmethod
    def estimated_seconds(self) -> float:
        """What the steps of one run take, without its set-up."""
