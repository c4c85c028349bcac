"""The order of the functions in a layout, and the share of this order that a linked program has."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise

NEVER_MOVED = {"main", "_start", "_dl_relocate_static_pie", "frame_dummy", "__do_global_dtors_aux"}
NEVER_MOVED |= {"register_tm_clones", "deregister_tm_clones"}
"""Functions that no layout moves: those of the C library's start files, which are precompiled, and `main`, which gcc
puts into a section for start-up code."""
LEAST_SHARE = 0.8
"""Minimum of `share_in_order` for a layout. PostgreSQL 15 linked by gold reaches 0.97; a linker that ignores the
order reaches almost 0."""


def of_layout(names: Iterable[str], key: str, number: int | None) -> list[str]:
    """The functions in the order of a layout. The order depends only on the build's key, the layout's number and the
    functions' names, so it is the same on all machines. Cold parts of functions are left out: the compiler keeps them
    together."""
    movable = {name for name in names if ".cold" not in name} - NEVER_MOVED
    return sorted(movable, key=lambda name: hashlib.sha256(f"{key} {number} {name}".encode()).digest())


def share_in_order(asked: Sequence[str], linked: Sequence[str]) -> float:
    """The share of functions that directly follow the same function in `linked` as in `asked`. Names that several
    functions share are not counted.

    >>> share_in_order(["c", "a", "b", "d"], ["_start", "c", "a", "b", "d"])
    1.0
    >>> round(share_in_order(["c", "a", "b", "d"], ["a", "b", "c", "d"]), 2)
    0.33
    """
    known = {name for name, number in Counter(linked).items() if number == 1} & {*asked}
    as_linked, as_asked = ([*pairwise(name for name in names if name in known)] for names in (linked, asked))
    return len({*as_linked} & {*as_asked}) / max(len(as_asked), 1)
