"""The workloads: the load that is put on an engine, and the answers of the load generators."""

from typing import TYPE_CHECKING

from rqps.study import Parameters
from rqps.workloads.insert_benchmark.parameters import InsertBenchmarkParameters
from rqps.workloads.point_lookups.parameters import PointLookupsParameters
from rqps.workloads.sysbench.parameters import SysbenchParameters

if TYPE_CHECKING:
    from rqps.workloads.protocol import Workload

PARAMETERS: dict[str, type[Parameters]] = {
    "sysbench": SysbenchParameters,
    "point-lookups": PointLookupsParameters,
    "insert-benchmark": InsertBenchmarkParameters,
}


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
