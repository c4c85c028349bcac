"""The workloads: what load is put on a server, and reading the load generator's answer."""

from pydantic import BaseModel

from rqps.workloads.sysbench.parameters import SysbenchParameters

PARAMETERS: dict[str, type[BaseModel]] = {"sysbench": SysbenchParameters}
