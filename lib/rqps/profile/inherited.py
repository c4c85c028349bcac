"""The components of a tree's frames: each inherits from its callers what it does not claim itself."""

from collections.abc import Sequence

from rqps.pages.flamegraph_breakdown.stack_tables import KERNEL_MARK, OTHER
from rqps.profile.frames import claim, last_resort

_Claims = tuple[str | None, str | None]
"""The nearest one, and the nearest of last resort."""
_Path = tuple[_Claims, _Claims]
"""Those of the server and those of the kernel."""
_NOBODY: _Path = ((None, None), (None, None))


def components_of_frames(parents: Sequence[int | None], names: Sequence[str]) -> list[str]:
    """What `component_of` says of the path to each frame; callers stand before callees, the root first."""
    paths: list[_Path] = [_NOBODY]
    found = [OTHER]
    known: dict[tuple[_Path, str], tuple[_Path, str]] = {}  # the same steps are taken over and over
    for parent, name in zip(parents[1:], names[1:], strict=True):
        step = (paths[parent or 0], name)
        if step not in known:
            known[step] = _one_further(*step)
        path, component = known[step]
        paths.append(path)
        found.append(component)
    return found


def _one_further(path: _Path, name: str) -> tuple[_Path, str]:
    server, kernel = path
    in_kernel = name.endswith(KERNEL_MARK)
    claimed, at_last = kernel if in_kernel else server
    mine = (claim(name) or claimed, last_resort(name) or at_last)
    return (server, mine) if in_kernel else (mine, kernel), mine[0] or mine[1] or OTHER
