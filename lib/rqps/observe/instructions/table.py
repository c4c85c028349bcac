"""A profile of callgrind's as rows of the table `instructions`: whole stacks from the statement's function on."""

import re
from pathlib import PurePath

import polars as pl

from rqps.observe.instructions.reading import UNKNOWN, Cost, Function, Profile
from rqps.store.schemas import INSTRUCTIONS

COUNTED = "dispatch_command"
"""What is counted is a server's function of this name and all that it calls, in every release: a client's command."""
ROLE = "connection"
"""Only threads that serve a client get into it."""
STUB_INSTRUCTIONS = 3
"""A call."""
_ADDRESS = re.compile(r"0x[0-9a-f]+")


def instruction_rows(profile: Profile, step: str) -> pl.DataFrame:
    """One row a stack with its own instructions, those of its last frame; they add up to the profile's total."""
    stacks: dict[tuple[tuple[str, str], ...], Cost] = {}
    for chain, cost in without_stubs(profile).costs.items():
        stack = tuple((_name(function), _module(function)) for function in from_counted(chain))
        known = stacks.setdefault(stack, Cost())
        known.instructions += cost.instructions
        known.calls += cost.calls
    rows = [
        {
            "step": step,
            "role": ROLE,
            "frames": [name for name, _ in stack],
            "modules": [module for _, module in stack],
            "calls": cost.calls or None,  # callgrind began in the middle of it, and did not see the call
            "instructions": cost.instructions,
        }
        for stack, cost in stacks.items()
        if cost.instructions
    ]
    return pl.DataFrame(rows, schema=INSTRUCTIONS).sort("instructions", "frames", descending=[True, False])


def without_stubs(profile: Profile) -> Profile:
    """The profile without the linker's stubs, through which a function of another file is called.

    They have no symbol, and callgrind does not know them as such in newer binaries. What is called through one is
    called by its caller, which also gets the few instructions of the jump.
    """
    known: dict[Function, Cost] = {}
    for chain, cost in profile.costs.items():
        if _is_nameless(chain[0]):
            own = known.setdefault(chain[0], Cost())
            own.instructions += cost.instructions
            own.calls += cost.calls
    stubs = {each for each, cost in known.items() if cost.instructions <= STUB_INSTRUCTIONS * cost.calls}
    costs: dict[tuple[Function, ...], Cost] = {}
    for chain, cost in profile.costs.items():
        rest = tuple(each for each in chain if each not in stubs)
        into = costs.setdefault(rest or chain, Cost())
        into.instructions += cost.instructions
        into.calls += 0 if chain[0] in stubs else cost.calls
    return Profile(costs, profile.total)


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
    begins = rows["frames"].list.first().map_elements(is_counted, return_dtype=pl.Boolean)
    total, others = (int(part["instructions"].sum()) for part in (rows, rows.filter(~begins)))
    return others / total if total else 0.0


def _is_nameless(function: Function) -> bool:
    """Where there is no symbol callgrind has the address instead, which differs between builds and says nothing."""
    return function.name == UNKNOWN or bool(_ADDRESS.fullmatch(function.name))


def _name(function: Function) -> str:
    return "[unknown]" if _is_nameless(function) else function.name


def _module(function: Function) -> str:
    return "[unknown]" if function.module == UNKNOWN else PurePath(function.module).name
