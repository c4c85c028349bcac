"""Parameters of a notebook, checked before it runs: papermill only warns, and then runs the defaults."""

import difflib
import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rqps.errors import RqpsError

FIX = "the cell tagged `parameters` has one line `name: type = default` for each of: "


def check_parameters(notebook: Path, given: Mapping[str, object]) -> None:
    """Refuse a notebook whose `parameters` cell does not take exactly what is given."""
    tagged = _parameters_cells(notebook)
    fix = FIX + ", ".join(given)
    if tagged != 1:
        found = "no cell" if tagged == 0 else f"{tagged} cells"
        raise RqpsError(f"{notebook}: {found} tagged `parameters`; there has to be exactly one", fix=fix)
    takes = _inspect(notebook)
    wrong = [_unknown(name, takes) for name in given if name not in takes]
    wrong += [f"{name!r} is not given and would keep its default" for name in takes if name not in given]
    for name, value in given.items():
        kind = takes.get(name, {}).get("inferred_type_name", "None")
        if kind not in ("None", type(value).__name__):
            wrong.append(f"{name!r} is {kind} there, and {type(value).__name__} is given")
    if wrong:
        raise RqpsError(f"{notebook}: its parameters do not fit: {'; '.join(wrong)}", fix=fix)


def _unknown(name: str, takes: Mapping[str, object]) -> str:
    near = difflib.get_close_matches(name, takes, n=1)
    return f"it does not take {name!r}" + (f" (is {near[0]!r} meant?)" if near else "")


def _parameters_cells(notebook: Path) -> int:
    fix = "see that the checkout is whole"
    try:
        found = json.loads(notebook.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise RqpsError(f"{notebook}: there is no such notebook", fix=fix) from None
    except (OSError, ValueError) as error:
        raise RqpsError(f"{notebook}: not a notebook: {error}", fix=fix) from error
    if not isinstance(found, dict) or "cells" not in found:
        raise RqpsError(f"{notebook}: not a notebook: it has no cells", fix=fix)
    return sum("parameters" in cell["metadata"].get("tags", ()) for cell in found["cells"])


def _inspect(notebook: Path) -> dict[str, dict[str, Any]]:
    import papermill

    logging.getLogger("papermill").propagate = False
    try:
        takes: dict[str, dict[str, Any]] = papermill.inspect_notebook(literal(notebook))
    except ValueError as error:  # papermill's word for a notebook that names no kernel or language
        raise RqpsError(f"{notebook}: {error}", fix="give it the kernel python3 in JupyterLab") from error
    return takes


def literal(path: Path) -> str:
    """A path for papermill, which fills in braces."""
    return str(path).replace("{", "{{").replace("}", "}}")
