"""Call stacks, sampled by perf while a step is measured."""

from rqps.observe.stacks.profiling import Profile, Profiling, profiling
from rqps.observe.stacks.recording import Sampling, choose_sampling, sampled_event

__all__ = ["Profile", "Profiling", "Sampling", "choose_sampling", "profiling", "sampled_event"]
