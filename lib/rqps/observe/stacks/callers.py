"""Who calls what has no frame pointers, from the few samples whose stack was copied and unwound.

The C library keeps no frame pointers in most distributions, so a stack sampled inside `send` has no caller at all:
on MySQL 8.0 two of five. What is kept of the copied stacks is just what mends those: the paths that lead to a
function with which another stack begins.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from rqps.observe.stacks.fold import Stack
from rqps.observe.stacks.frames import UNKNOWN, Frame, begin
from rqps.store.schemas import CALLERS

_Role = str


def callers_of(stacks: Iterable[Stack], roles: Mapping[int, _Role]) -> Iterator[Stack]:
    """Each path, from the root to the function it leads to, with the samples that had it. Its weight is 0."""
    every = list(stacks)
    begins: dict[_Role, set[Frame]] = {}
    for stack in every:
        if stack.event != CALLERS:
            first = begin(stack.frames)
            begins.setdefault(roles[stack.thread.tid], set()).update(stack.frames[first : first + 1])
    seen: Counter[tuple[_Role, tuple[Frame, ...]]] = Counter()
    of_role: dict[_Role, Stack] = {}
    for stack in every:
        if stack.event == CALLERS:
            role = roles[stack.thread.tid]
            of_role.setdefault(role, stack)
            for at, frame in enumerate(stack.frames):
                if at and frame.name != UNKNOWN and frame in begins.get(role, ()):
                    seen[role, stack.frames[: at + 1]] += stack.samples
    for (role, path), samples in sorted(seen.items()):
        yield of_role[role]._replace(frames=path, samples=samples, weight=0)
