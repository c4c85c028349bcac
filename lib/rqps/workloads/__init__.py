"""The workloads: the load that is put on an engine, and the answers of the load generators."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from rqps.study import Parameters
from rqps.workloads.insert_benchmark import steps as insert_benchmark_steps
from rqps.workloads.insert_benchmark.parameters import InsertBenchmarkParameters
from rqps.workloads.point_lookups import steps as point_lookup_steps
from rqps.workloads.point_lookups.parameters import PointLookupsParameters
from rqps.workloads.sysbench import steps as sysbench_steps
from rqps.workloads.sysbench.parameters import SysbenchParameters

if TYPE_CHECKING:
    from rqps.workloads.protocol import Workload

PARAMETERS: dict[str, type[Parameters]] = {
    "sysbench": SysbenchParameters,
    "point-lookups": PointLookupsParameters,
    "insert-benchmark": InsertBenchmarkParameters,
}

GROUPED: dict[str, Callable[[Iterable[str]], dict[str, str]]] = {
    "sysbench": sysbench_steps.grouped,
    "point-lookups": point_lookup_steps.grouped,
    "insert-benchmark": insert_benchmark_steps.grouped,
}


def step_groups(name: str, steps: Iterable[str]) -> dict[str, str]:
    """A workload's steps with the group that each is shown in, in the order of tables; empty if it has no groups.

    >>> step_groups("sysbench", ["insert", "scan"])
    {'scan': 'Range queries without aggregation', 'insert': 'Writes'}
    """
    return GROUPED[name](steps) if name in GROUPED else {}


def step_label(name: str, step: str) -> str:
    """The name under which a workload's step is published."""
    return sysbench_steps.label(step) if name == "sysbench" else step


def workload(name: str) -> "Workload":
    """A workload by its name. Its modules are imported only here: reading runs.yaml needs none of them."""
    from rqps.workloads.insert_benchmark.workload import InsertBenchmark
    from rqps.workloads.point_lookups.workload import PointLookups
    from rqps.workloads.sysbench.workload import Sysbench

    known: dict[str, type[Workload]] = {
        "sysbench": Sysbench,
        "point-lookups": PointLookups,
        "insert-benchmark": InsertBenchmark,
    }
    return known[name]()
