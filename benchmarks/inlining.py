"""Cost of inlined functions: seconds to turn perf's file of one sampled step into stacks, with them and without.

python benchmarks/inlining.py --dbms my8033.common --seconds 30
"""

import time
from collections import Counter

from bench import choosing, serving
from rqps.measure.inlined import inlined
from rqps.measure.modes import recorded
from rqps.measure.recording import recording
from rqps.measure.stack_text import Folded
from rqps.measure.stacks import read
from rqps.store.schemas import INLINED
from rqps.workloads.sysbench.generator import Generator
from rqps.workloads.sysbench.parameters import SysbenchParameters
from rqps.workloads.sysbench.steps import find

TIMES = 3
"""The file is read so often; the shortest time counts."""

options = choosing(__doc__)
options.add_argument("--seconds", type=int, default=15, help="of the step")
options.add_argument("--step", default="point-query")
asked = options.parse_args()
parameters = SysbenchParameters(index_first=True, seconds=asked.seconds, warmup_seconds=2)

with serving(asked.dbms, parameters, asked.study) as (server, where, folder):
    what = recorded("stacks", server.build.program, where, server.pids)
    step, cpus = find(asked.step), where.client_cpus
    with (
        Generator((server,), step, parameters, seed=1, cpus=cpus, log=folder / "log") as load,
        recording(what, server_cpus=where.server_cpus, cpus=where.observer_cpus, scratch=folder) as perf,
    ):
        load.wait_for_begin()
        perf.begin()
        pids = server.pids  # with the process of the connection, which ends with it
        load.wait_for_end()
        perf.end()
        load.wait_until_gone()
        perf.finish()
        print(f"{asked.step} of {asked.dbms}, {asked.seconds} s, a file of {perf.data.stat().st_size / 1e6:.1f} MB")
        for with_inlined in (False, True):
            seconds = []
            for _ in range(TIMES):
                began = time.monotonic()
                with inlined(server.build.program, where.observer_cpus) as functions:
                    into = Folded(inlined=functions if with_inlined else None)
                    stacks = list(read(perf.data, pids, where.observer_cpus, into=into).stacks())
                seconds.append(time.monotonic() - began)
            leaves = Counter[str]()
            for stack in stacks:
                leaves[stack.frames[-1].name if stack.frames else ""] += stack.samples
            most = [f"{name} {samples}" for name, samples in leaves.most_common() if name.endswith(INLINED)]
            print(
                f"{'with' if with_inlined else 'without'} inlined functions: {min(seconds):.2f} s, "
                f"{leaves.total()} samples, {len(stacks)} stacks; {', '.join(most[:3]) or 'none inlined'}"
            )
