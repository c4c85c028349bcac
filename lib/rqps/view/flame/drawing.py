"""What a cell of a notebook shows as a drawing: HTML with its own program, which also reads well without it."""

from dataclasses import dataclass
from typing import Any

from rqps.view.flame.script import script_element


@dataclass(frozen=True)
class Drawing:
    """Shows itself in JupyterLab and on a page, with no kernel and no network."""

    claim: str
    how: str
    html: str
    """Without the program."""

    def __repr__(self) -> str:
        return f"{self.claim} {self.how}"

    def _repr_mimebundle_(self, **_options: Any) -> dict[str, str]:
        return {"text/html": self.html + script_element(), "text/plain": repr(self)}


def without_program(html: str) -> str | None:
    """The drawing in a cell's output, for a page that has the program once; None for other outputs."""
    bare = html.removesuffix(script_element())
    return bare if bare != html else None
