"""What every workload's parameters have."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, SerializerFunctionWrapHandler, model_serializer


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

    @model_serializer(mode="wrap")
    def _without_what_is_not_given(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """So that what a study is known by stays what it was when a parameter comes into being."""
        return {name: value for name, value in serialize(self).items() if value is not None}

    @property
    @abstractmethod
    def estimated_seconds(self) -> float:
        """What the steps of one run take, without its set-up."""

    @property
    @abstractmethod
    def connections(self) -> Connections:
        """What the steps of one run need of a server's max_connections."""
