"""What speaks against a profile: too few samples, lost ones, functions without names, time that it did not see."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rqps.errors import RqpsError
from rqps.observe.stacks.fold import Folded, Stack
from rqps.observe.stacks.frames import UNKNOWN
from rqps.observe.stacks.sampling import Sampling
from rqps.store.manifest import Warning_

KIND = "stacks"
FEW_SAMPLES = 200
"""Below that, a tenth of the cost is known to a third of itself only."""
IDLE_SAMPLES = 20
"""A server that used less CPU than this many samples stand for has nothing to be sampled."""
UNSEEN_TIME = 0.05
UNSEEN_CPU = 0.10
UNKNOWN_SHARE = 0.05
STRIPPED_SHARE = 0.5


@dataclass(frozen=True)
class Expected:
    """What the kernel's own counters say of the part of a step that was to be sampled."""

    pid: int
    program: str
    """The name of the server's file."""
    elapsed_s: float
    sampled_s: float
    """For how long samples were taken."""
    server_cpu_s: float

    @property
    def seen_cpu_s(self) -> float:
        """What of it was used while samples were taken, if it used it evenly."""
        return self.server_cpu_s * min(1.0, self.sampled_s / self.elapsed_s)


def doubts(stacks: Sequence[Stack], folded: Folded, sampling: Sampling, expected: Expected) -> Iterator[Warning_]:
    """Warnings about a step's profile; an error where it is none of the server's."""
    samples = sum(stack.samples for stack in stacks)
    to_be_seen = expected.seen_cpu_s * sampling.samples_per_s
    if samples == 0:
        yield _nothing(to_be_seen, expected)
        return
    if samples < FEW_SAMPLES:
        yield _doubt(f"only {samples} samples: a longer step or more rounds would tell more")
    if to_be_seen >= FEW_SAMPLES and abs(samples / to_be_seen - 1) > UNSEEN_CPU:
        seen_s = samples / sampling.samples_per_s
        used_s = expected.seen_cpu_s
        yield _doubt(f"the samples stand for {seen_s:.2f} s of CPU, but the server used {used_s:.2f} s meanwhile")
    if expected.sampled_s < (1 - UNSEEN_TIME) * expected.elapsed_s:
        share = expected.sampled_s / expected.elapsed_s
        yield _doubt(f"only {share:.0%} of the measured time was sampled, since perf was not ready before")
    if folded.lost:
        yield _doubt(f"perf lost {folded.lost} records, since it could not write as fast as they came")
    if folded.unreadable:
        yield _doubt(f"{folded.unreadable} pieces of what perf script wrote are no samples, and are left out")
    yield from _unknown(stacks, samples, expected.program)


def _nothing(to_be_seen: float, expected: Expected) -> Warning_:
    used = f"the server used {expected.server_cpu_s:.3f} s of CPU"
    if to_be_seen >= IDLE_SAMPLES:
        raise RqpsError(
            f"no sample is of the server (process {expected.pid}), though {used} meanwhile",
            fix="see that it runs on the CPUs that were sampled (rqps plan shows the placement), and try again",
        )
    return _doubt(f"no samples: {used} in {expected.elapsed_s:.1f} s, so it was idle or the step too short")


def _unknown(stacks: Sequence[Stack], samples: int, program: str) -> Iterator[Warning_]:
    own = nameless_own = nameless = 0
    for stack in stacks:
        if not stack.frames:
            nameless += stack.samples
            continue
        if stack.frames[-1].name == UNKNOWN:
            nameless += stack.samples
        for frame in stack.frames:
            if frame.module == program:
                own += stack.samples
                nameless_own += stack.samples if frame.name == UNKNOWN else 0
    if own and nameless_own > STRIPPED_SHARE * own:
        yield _doubt(
            f"{program} has no symbols: {nameless_own / own:.0%} of its frames have no name; "
            "install its debug symbols or use a build that was not stripped"
        )
    elif nameless > UNKNOWN_SHARE * samples:
        yield _doubt(f"{nameless / samples:.0%} of the samples are in functions without a name")


def _doubt(text: str) -> Warning_:
    return Warning_(kind=KIND, text=text)
