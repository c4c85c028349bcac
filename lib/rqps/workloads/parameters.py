"""What every workload's parameters have."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict


@dataclass(frozen=True)
class Connections:
    """How many connections a server has to take at once."""

    parameter: str
    """The one that asks for the most clients: `threads`."""
    clients: int
    ours: int
    """Beside those of the clients."""

    @property
    def needed(self) -> int:
        return self.clients + self.ours


class Parameters(BaseModel, ABC):
    """What a study may set of a workload."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True)

    @property
    @abstractmethod
    def estimated_seconds(self) -> float:
        """What the steps of one run take, without its set-up."""

    @property
    @abstractmethod
    def connections(self) -> Connections:
        """What the steps of one run need of a server's max_connections."""
