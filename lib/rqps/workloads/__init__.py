"""The workloads: what load is put on a server, and reading the load generator's answer."""

from typing import TYPE_CHECKING

from rqps.workloads.parameters import Parameters
from rqps.workloads.sysbench.parameters import SysbenchParameters

if TYPE_CHECKING:
    from rqps.workloads.protocol import Workload

PARAMETERS: dict[str, type[Parameters]] = {"sysbench": SysbenchParameters}


def workload(name: str) -> "Workload":
    """A workload by its name. What it runs with is imported only here: to read runs.yaml none of it is needed."""
    from rqps.workloads.sysbench.workload import Sysbench

    return {"sysbench": Sysbench}[name]()
