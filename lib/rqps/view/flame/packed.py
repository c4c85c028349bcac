"""A tree in few bytes, for the script of a page: each name once, numbers as whole quanta, deflated."""

import base64
import json
import struct
import sys
import zlib
from array import array
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from rqps.view.flame.tree import Tree

# The whole operation in quanta. Finer than anything that is shown, also after thousands of roundings.
QUANTA = 1 << 26


def packed(tree: Tree, **told: Any) -> str:
    """The tree as text: its head as JSON, then each column in planes, the lowest byte of every number first.

    Planes of equal significance deflate better than numbers in a row, and need no decoder but a shift.
    """
    quantum = max(tree.base_total[0], tree.me_total[0]) / QUANTA or 1.0
    names, name = _numbered(tree.name)
    components, component = _numbered(tree.component)
    columns = {
        "up": _up(tree.depth),
        "name": name,
        "component": component,
        "base": _quanta(tree.base_self, quantum),
        "me": _quanta(tree.me_self, quantum),
        "error": _quanta(tree.error, quantum),
    }
    planes = {title: _planes(values) for title, values in columns.items()}
    head = {
        **told,
        "frames": len(tree),
        "quantum": quantum,
        "names": names,
        "components": components,
        "columns": [(title, len(each)) for title, each in planes.items()],
    }
    text = json.dumps(head, separators=(",", ":"), ensure_ascii=False).encode()
    body = b"".join(plane for each in planes.values() for plane in each)
    return base64.b64encode(zlib.compress(struct.pack("<I", len(text)) + text + body, 9)).decode()


def _numbered(values: Sequence[str]) -> tuple[list[str], list[int]]:
    """Each value once, the frequent ones first, so that most numbers are small."""
    names = [name for name, _ in Counter(values).most_common()]
    number = {name: i for i, name in enumerate(names)}
    return names, [number[value] for value in values]


def _up(depth: Sequence[int]) -> list[int]:
    """How many frames end before each one."""
    return [0, *(above + 1 - here for above, here in pairwise(depth))]


def _quanta(values: Sequence[float], quantum: float) -> list[int]:
    return [min(round(value / quantum), 0xFFFFFFFF) for value in values]


def _planes(values: Sequence[int]) -> list[bytes]:
    raw = array("I", values)
    if sys.byteorder == "big":
        raw.byteswap()
    data, size = raw.tobytes(), raw.itemsize
    width = max(1, (max(values).bit_length() + 7) // 8)
    return [data[plane::size] for plane in range(width)]
