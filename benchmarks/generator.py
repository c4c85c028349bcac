"""Is the load generator the limit? Its CPU per query, our Lua script against sysbench's own oltp_point_select.

CPU and queries are of the whole process, start and end included, on both sides. The goal is within 5 %.
"""

import argparse
import os
import re
import resource
import subprocess

from bench import compare, serving
from rqps.servers import keeper
from rqps.tools import sysbench
from rqps.workloads.sysbench.answer import read_seconds
from rqps.workloads.sysbench.generator import DATABASE, generating
from rqps.workloads.sysbench.parameters import SysbenchParameters
from rqps.workloads.sysbench.steps import find

options = argparse.ArgumentParser(description=__doc__)
options.add_argument("--pairs", type=int, default=20)
options.add_argument("--seconds", type=int, default=4)
asked = options.parse_args()
parameters = SysbenchParameters(index_first=True, seconds=asked.seconds, warmup_seconds=0)

with serving("my8033.base", parameters) as (server, where, folder):

    def cpu_s_of_children() -> float:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    def ours_us_per_query() -> float:
        before_s = cpu_s_of_children()
        with generating(
            server, find("point-query"), parameters, seed=1, cpus=where.client_cpus, log=folder / "log"
        ) as load:
            load.wait_until_gone()
        used_s = cpu_s_of_children() - before_s
        return used_s * 1e6 / sum(second.transactions for second in read_seconds(load.lines, 1))

    def stock_us_per_query() -> float:
        command = [
            *sysbench().argv,
            "oltp_point_select",
            "--db-driver=mysql",
            f"--mysql-socket={server.socket}",
            "--mysql-user=root",
            f"--mysql-db={DATABASE}",
            "--rand-type=uniform",
            f"--table-size={parameters.table_rows}",
            "--events=0",
            f"--time={parameters.seconds}",
            "run",
        ]
        before_s = cpu_s_of_children()
        said = subprocess.run(
            keeper.command("exec", command, cpus=where.client_cpus),
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, **sysbench().environment},
        ).stdout
        used_s = cpu_s_of_children() - before_s
        queries = re.search(r"total: +(\d+)", said)
        assert queries, said
        return used_s * 1e6 / int(queries[1])

    compare(
        f"generator CPU, µs a query, ours (me) against oltp_point_select (base), {where.kind}",
        asked.pairs,
        me=ours_us_per_query,
        base=stock_us_per_query,
    )
