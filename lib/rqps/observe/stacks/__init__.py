"""Call stacks, sampled by perf while a step is measured."""

from rqps.observe.stacks.profile import Profile, Profiling, profiling
from rqps.observe.stacks.sampling import Sampling, choose, event

__all__ = ["Profile", "Profiling", "Sampling", "choose", "event", "profiling"]
