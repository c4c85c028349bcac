"""What a run is for. One that is looked into more closely is slower, so its throughput is compared with nothing."""

from typing import Literal

Mode = Literal["throughput", "stacks", "instructions"]

MODES: dict[Mode, str] = {"throughput": "r", "stacks": "s", "instructions": "i"}
"""In the order in which a study does them, and how the ids of their runs begin."""


def in_words(mode: Mode, number: int) -> str:
    """A round as people call it.

    >>> in_words("throughput", 2), in_words("stacks", 1)
    ('round 2', 'stacks, round 1')
    """
    return f"round {number}" if mode == "throughput" else f"{mode}, round {number}"
