"""The order of a layout's functions, and how much of it is in a linked program."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise

NEVER_MOVED = {"main", "_start", "_dl_relocate_static_pie", "frame_dummy", "__do_global_dtors_aux"}
NEVER_MOVED |= {"register_tm_clones", "deregister_tm_clones"}
"""Functions of the C library's start files, which are compiled already, and `main`, which gcc puts with them."""
LEAST_SHARE = 0.8
"""The smallest share of functions that must follow the function that they were asked to follow. PostgreSQL 15 linked
by gold has 0.97; a linker that ignores the order leaves as good as none."""


def of_layout(names: Iterable[str], key: str, number: int | None) -> list[str]:
    """The functions in the order of a layout. It depends on the build's key, the number and the names, and on nothing
    else: a layout is the same on every machine. Cold parts of functions stay together, as the compiler puts them."""
    movable = {name for name in names if ".cold" not in name} - NEVER_MOVED
    return sorted(movable, key=lambda name: hashlib.sha256(f"{key} {number} {name}".encode()).digest())


def share_in_order(asked: Sequence[str], linked: Sequence[str]) -> float:
    """The share of functions that follow the function that they were asked to follow. Functions that share their name
    with others are not counted.

    >>> share_in_order(["c", "a", "b", "d"], ["_start", "c", "a", "b", "d"])
    1.0
    >>> round(share_in_order(["c", "a", "b", "d"], ["a", "b", "c", "d"]), 2)
    0.33
    """
    known = {name for name, number in Counter(linked).items() if number == 1} & {*asked}
    as_linked, as_asked = ([*pairwise(name for name in names if name in known)] for names in (linked, asked))
    return len({*as_linked} & {*as_asked}) / max(len(as_asked), 1)
