"""Cost of observing: throughput while everything that a run records is recorded, against the same load alone.

One sysbench loads one server; observing is switched on and off every few seconds, in random order within a pair, so
that both sides of a pair are neighbours in time. The goal is a ratio of at least 0.99.

The CPU's own counters are on while it is observed, as in a run. Where it has none, the kernel's clock stands in for
each of them: the kernel counts it for every thread and reads it at every switch, too. `--as-here` leaves it out.
"""

import os
import random
import time
from contextlib import closing

from bench import choosing, report, serving
from rqps.measure.machine import device_of
from rqps.measure.perf_events import HARDWARE, TASK_CLOCK, EventCounters
from rqps.measure.step_counters import Sampler, read_counters
from rqps.workloads.sysbench.generator import Generator, read_seconds
from rqps.workloads.sysbench.parameters import SysbenchParameters
from rqps.workloads.sysbench.steps import find

options = choosing(__doc__)
options.add_argument("--pairs", type=int, default=40)
options.add_argument("--seconds", type=int, default=2, help="of each half of a pair")
options.add_argument(
    "--as-here", action="store_true", help="as a run on this machine: without stand-ins for counters"
)
asked = options.parse_args()
with closing(EventCounters([os.getpid()])) as own:
    readable = None not in own.read().values()
EVENTS = HARDWARE if readable or asked.as_here else dict.fromkeys(HARDWARE, TASK_CLOCK)
parameters = SysbenchParameters(index_first=True, seconds=asked.pairs * 2 * asked.seconds, warmup_seconds=2)


def sleep_until(moment_ns: int) -> None:
    time.sleep(max(0.0, (moment_ns - time.monotonic_ns()) / 1e9))


halves = [half for _ in range(asked.pairs) for half in random.choice([(True, False), (False, True)])]
with serving(asked.dbms, parameters, asked.study) as (server, where, folder):
    device = device_of(server.directory)
    with Generator(
        (server,), find("point-query"), parameters, seed=1, cpus=where.client_cpus, log=folder / "log"
    ) as load:
        origin_ns = load.wait_for_begin()
        for number, observed in enumerate(halves, start=1):
            until_ns = origin_ns + number * asked.seconds * 1_000_000_000
            if observed:
                with closing(EventCounters(server.pids, EVENTS)) as events:
                    read_counters(server.pids, load.pid, device)
                    events.read()
                    with Sampler(lambda: server.pids, load.pid, device, origin_ns):
                        sleep_until(until_ns)
            else:
                sleep_until(until_ns)
        load.wait_until_gone()

measured = [second.transactions for second in read_seconds(load.lines, 1) if second.second >= 0]
rates = [
    sum(measured[number * asked.seconds : (number + 1) * asked.seconds]) / asked.seconds
    for number in range(len(halves))
]
pairs = [
    (rates[first], rates[first + 1]) if halves[first] else (rates[first + 1], rates[first])
    for first in range(0, len(rates), 2)
]
report(f"{asked.dbms}, point-query, operations/s, observed (me) against not (base), {where.kind}", pairs)
