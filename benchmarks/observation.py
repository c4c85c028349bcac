"""Does observing disturb? Throughput with all observation of a run against sysbench alone, on the same server.

The goal is a ratio of at least 0.99.
"""

import argparse

from bench import compare, serving
from rqps.observe.device import device_of
from rqps.observe.ends import read_end
from rqps.observe.sampler import Sampler
from rqps.observe.status import read_status
from rqps.workloads.sysbench.answer import read_seconds, whole
from rqps.workloads.sysbench.generator import generating
from rqps.workloads.sysbench.parameters import SysbenchParameters
from rqps.workloads.sysbench.steps import find

options = argparse.ArgumentParser(description=__doc__)
options.add_argument("--pairs", type=int, default=20)
options.add_argument("--seconds", type=int, default=4)
asked = options.parse_args()
parameters = SysbenchParameters(index_first=True, seconds=asked.seconds, warmup_seconds=1)

with serving("my8033.base", parameters) as (server, where, folder):
    device = device_of(server.data)

    def operations_per_s(observed: bool) -> float:
        with generating(
            server, find("point-query"), parameters, seed=1, cpus=where.client_cpus, log=folder / "log"
        ) as load:
            connection = server.connect()
            origin_ns = load.wait_for_begin()
            if observed:
                read_status(connection)
                read_end(server.pid, load.pid, device)
                with Sampler(server.pid, load.pid, device, origin_ns):
                    load.wait_for_end()
                    read_end(server.pid, load.pid, device)
                read_status(connection)
            load.wait_until_gone()
            connection.close()
        return whole(read_seconds(load.lines, 1)).transactions / parameters.seconds

    compare(
        f"point-query, operations/s, observed (me) against not (base), {where.kind}",
        asked.pairs,
        me=lambda: operations_per_s(True),
        base=lambda: operations_per_s(False),
    )
