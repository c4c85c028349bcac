"""The parameters of the toy's load."""

from typing import ClassVar

from rqps.study import Connections, Parameters


class ToyParameters(Parameters):
    of_engines: ClassVar[tuple[str, ...]] = ("toy",)

    seconds: int = 1
    """The time of the one step."""

    @property
    def not_sliced(self) -> str:
        return "its client knows one server"

    @property
    def estimated_seconds(self) -> float:
        return self.seconds

    @property
    def connections(self) -> Connections:
        return Connections("threads", 1, 1)


PARAMETERS = ToyParameters
