"""The one step of the toy's load: `count`."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Unpack

from rqps.workloads import Answer, How, Workload
from rqps.workloads.answers import by_second, interval_rows, latency_rows, read_seconds, step_columns, total
from rqps.workloads.load_generator import LoadGenerator
from rqps.workloads.toy.parameters import ToyParameters  # type: ignore[import-untyped]

STEP = "count"


class _Load(LoadGenerator):
    program = "toyload"
    begins_by_itself = False
    patience_s = 60.0


class ToyLoad(Workload):
    def data_name(self, parameters: ToyParameters) -> str:  # noqa: ARG002
        return "nothing"

    def load(self, server: Any, parameters: ToyParameters) -> None: ...
    def prepare(self, server: Any, parameters: ToyParameters) -> None: ...
    def steps(self, parameters: ToyParameters) -> Sequence[str]:  # noqa: ARG002
        return (STEP,)

    def uncountable(self, parameters: ToyParameters) -> Sequence[str]:  # noqa: ARG002
        return (STEP,)

    def clients(self, step: str, parameters: ToyParameters) -> int:  # noqa: ARG002
        return 1

    @contextmanager
    def generating(
        self, servers: Sequence[Any], step: str, parameters: ToyParameters, **how: Unpack[How]
    ) -> Iterator[LoadGenerator]:
        call = [os.environ["TOYLOAD"], str(servers[0].socket), str(parameters.seconds)]
        with _Load((call, {}), servers, step, 1, how) as load:
            yield load

    def answers(self, step: str, parameters: ToyParameters, load: Any) -> Sequence[Answer]:
        seconds = read_seconds(load.lines)
        everything = total(seconds, STEP)
        columns = {
            "kind": STEP,
            "clients": 1,
            "group": "toy",
            "table_position": 0,
            "writes": False,
            "unit": "request",
            "warmup_s": 0.0,
            **step_columns(everything, float(parameters.seconds), everything.operations, 0),
        }
        rows = list(by_second(seconds))
        return [Answer(columns, interval_rows(step, rows), latency_rows(step, rows))]

    def tools(self, parameters: ToyParameters, servers: int) -> dict[str, str]:  # noqa: ARG002
        return {"toyload": "1"}


WORKLOAD = ToyLoad
