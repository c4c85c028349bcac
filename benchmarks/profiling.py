"""Cost of sampling stacks, or of recording or sampling waits: throughput meanwhile, against the same load alone.

One sysbench loads one server; perf, or the sampling of waits from /proc, is switched on and off every few seconds,
in random order within a pair, so that both sides of a pair are neighbours in time. The goal for waits is 2 %. For
stacks there is no goal, but a rule: the cost is reported, and runs that were sampled are compared with none that were
not.
"""

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from statistics import median

from bench import choosing, report, serving
from rqps.measure.modes import recorded
from rqps.measure.off_cpu import WaitRecording
from rqps.measure.recording import Span, recording
from rqps.measure.sampled_waits import SampledWaits
from rqps.measure.stacks import Profiling
from rqps.measure.threads import ThreadLooks
from rqps.workloads.sysbench.generator import Generator, read_seconds
from rqps.workloads.sysbench.parameters import SysbenchParameters
from rqps.workloads.sysbench.steps import find

options = choosing(__doc__)
options.add_argument("--pairs", type=int, default=40)
options.add_argument("--seconds", type=int, default=2, help="of each half of a pair")
options.add_argument("--step", default="point-query")
options.add_argument("--threads", type=int, default=1)
options.add_argument("--waits", action="store_true", help="record waits instead of sampling stacks")
options.add_argument("--sampled", action="store_true", help="sample waits from /proc: what runs do without perf")
asked = options.parse_args()
seconds = asked.pairs * 2 * asked.seconds
parameters = SysbenchParameters(index_first=True, seconds=seconds, warmup_seconds=2, threads=asked.threads)
mode, kind = ("waits", WaitRecording) if asked.waits else ("stacks", Profiling)


@contextmanager
def observed(span: Span) -> Iterator[None]:
    """Records in this block, or samples the waits of the server's threads."""
    looks = ThreadLooks(lambda: server.pids, SampledWaits.looks_per_s, SampledWaits.looks_for_places)
    begin, end = (looks.begin, looks.end) if asked.sampled else (span.begin, span.end)
    begin()
    yield
    end()


halves = [half for _ in range(asked.pairs) for half in random.choice([(True, False), (False, True)])]
with serving(asked.dbms, parameters, asked.study) as (server, where, folder):
    what = None if asked.sampled else recorded(mode, server.build.program, where, server.pids)
    words = what.words if what else f"waits from /proc {SampledWaits.looks_per_s} times a second"
    on = {"server_cpus": kind.cpus(where), "cpus": where.observer_cpus}
    with (
        recording(what, scratch=folder, **on) if what else nullcontext(Span()) as perf,
        Generator(
            (server,), find(asked.step), parameters, seed=1, cpus=where.client_cpus, log=folder / "log"
        ) as load,
    ):
        origin_ns = load.wait_for_begin()
        for number, sampled in enumerate(halves):
            rest_s = (origin_ns - time.monotonic_ns()) / 1e9 + (number + 1) * asked.seconds
            with observed(perf) if sampled else nullcontext():
                time.sleep(rest_s)
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
report(f"{asked.step}, operations/s, observed (me: {words}) against not (base), {where.kind}", pairs)
longer_us = median(1e6 / recorded_rate - 1e6 / alone for recorded_rate, alone in pairs)
print(f"an operation takes {longer_us:+.1f} µs while it is observed, as a median of the pairs")
