"""A run in which stacks are sampled: perf is ready before each step's measured part, and read after it."""

from collections.abc import Sequence

from rqps.engines import Opened
from rqps.engines.sources.programs import perf
from rqps.observe.perf_events import EventCounters
from rqps.observe.stacks import choose_sampling, profiling, sampled_event
from rqps.run.job import Job, Say
from rqps.run.observe import Observed, observe
from rqps.study import Run
from rqps.workloads.protocol import Load


def ready_to_sample(runs: Sequence[Run], say: Say) -> None:
    """Finds perf, and what it may do here, before anything is measured."""
    if any(run.mode == "stacks" for run in runs):
        perf(say)
        sampled_event()


def sampled_with(job: Job) -> dict[str, str]:
    """What sampled the stacks of a run, and how."""
    if job.run.mode != "stacks":
        return {}
    sampling = choose_sampling(job.prepared.build.program, len(job.placement.server_cpus))
    return {"perf": f"{perf().version}, {sampling.words}"}


def sample(job: Job, server: Opened, events: EventCounters, load: Load, step: str) -> Observed:
    """Observes a step as in any run, and samples stacks of the server meanwhile."""
    where = job.placement_of(step)
    sampling = choose_sampling(server.build.program, len(where.server_cpus))
    with profiling(server, where, sampling) as profiling_step:
        observed = observe(job, server, events, load, step, profiling_step)
        profile = profiling_step.profile(step, observed.columns["server_cpu_s"])
    return Observed(
        columns=observed.columns,
        tables={**observed.tables, "stacks": profile.stacks, "threads": profile.threads},
        warnings=(*observed.warnings, *profile.warnings),
        busy_s=observed.busy_s,
    )
