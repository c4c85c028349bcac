"""A profile of callgrind's as rows of the table `instructions`: whole stacks from the statement's function on."""

import re
from pathlib import PurePath

import polars as pl

from rqps.observe.instructions.reading import UNKNOWN, Function, Profile
from rqps.store.schemas import INSTRUCTIONS

COUNTED = "dispatch_command"
"""What is counted is a server's function of this name and all that it calls, in every release: a client's command."""
ROLE = "connection"
"""Only threads that serve a client get into it."""
_ADDRESS = re.compile(r"0x[0-9a-f]+")


def instruction_rows(profile: Profile, step: str) -> pl.DataFrame:
    """One row a stack with its own instructions, those of its last frame; they add up to the profile's total."""
    instructions: dict[tuple[Function, ...], int] = {}
    calls: dict[tuple[Function, ...], int] = {}
    for chain, cost in profile.costs.items():
        stack = from_counted(chain)
        instructions[stack] = instructions.get(stack, 0) + cost.instructions
        calls[stack] = calls.get(stack, 0) + cost.calls
    rows = [
        {
            "step": step,
            "role": ROLE,
            "frames": [_name(function) for function in stack],
            "modules": [_module(function) for function in stack],
            "calls": calls[stack],
            "instructions": own,
        }
        for stack, own in instructions.items()
        if own or calls[stack]
    ]
    return pl.DataFrame(rows, schema=INSTRUCTIONS).sort("instructions", "frames", descending=[True, False])


def from_counted(chain: tuple[Function, ...]) -> tuple[Function, ...]:
    """A stack from the counted function on, root first; all that is known of it where that function is not in it.

    What is above differs with how the thread came to its connection, and nothing there is counted.
    """
    outermost = max((place for place, each in enumerate(chain) if is_counted(each.name)), default=len(chain) - 1)
    return tuple(reversed(chain[: outermost + 1]))


def is_counted(name: str) -> bool:
    """Whether this is the function that switches counting on, in any release's signature.

    >>> is_counted("dispatch_command(THD*, COM_DATA const*, enum_server_command)"), is_counted("do_command(THD*)")
    (True, False)
    """
    return name.partition("(")[0] == COUNTED and name.endswith(")")


def incomplete(rows: pl.DataFrame) -> float:
    """The share of instructions whose stacks do not begin with the counted function."""
    total = rows["instructions"].sum()
    begins = rows["frames"].list.first().map_elements(is_counted, return_dtype=pl.Boolean)
    return float(rows.filter(~begins)["instructions"].sum() / total) if total else 0.0


def _name(function: Function) -> str:
    """Where there is no symbol callgrind has the address instead, which differs between builds and says nothing."""
    return "[unknown]" if function.name == UNKNOWN or _ADDRESS.fullmatch(function.name) else function.name


def _module(function: Function) -> str:
    return "[unknown]" if function.module == UNKNOWN else PurePath(function.module).name
