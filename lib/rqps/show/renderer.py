"""Output of a chart in a notebook: its specification for JupyterLab and for a page, a picture for everything else.

JupyterLab brings Vega-Lite 5.6 and draws what is of version 5, whether or not the notebook is trusted, and asks for
nothing from the network. A page draws the same with a Vega-Lite of its own.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import altair as alt
import polars as pl

from rqps import keeper
from rqps.errors import RqpsError
from rqps.show import drawing
from rqps.show.drawing import png
from rqps.show.theme import PICTURE_WIDTH_PX

MIME = "application/vnd.vegalite.v5+json"
SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"
EMBEDDED = {"embed_options": {"actions": False, "renderer": "svg"}}
PICTURES = "RQPS_PICTURES"
"""Variable of a kernel: the folder where it leaves its charts, to be drawn by another process meanwhile."""
_NUMBERS = count()


def enable() -> None:
    """Make every Altair chart and every polars frame of a notebook show itself this way."""
    pl.Config.set_tbl_hide_dataframe_shape(True)
    pl.Config.set_tbl_hide_column_data_types(True)
    alt.renderers.register("rqps", bundle)
    alt.renderers.enable("rqps")
    alt.theme.enable("rqps")
    alt.data_transformers.disable_max_rows()  # an error in the place of the chart


def bundle(spec: dict[str, Any], **_options: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The MIME bundle of one chart, and its metadata."""
    fixed = spec | {"$schema": SCHEMA}
    if fixed.get("width") == "container":  # which JupyterLab takes for none at all; a page has it again
        known = fixed.get("usermeta", {})
        fixed |= {"width": PICTURE_WIDTH_PX, "usermeta": known | {"rqps": known.get("rqps", {}) | {"fluid": True}}}
    folder = os.environ.get(PICTURES)
    picture = _left(fixed, Path(folder)) if folder else png(fixed)
    return {MIME: fixed, "image/png": picture, "text/plain": spec.get("description", "a chart")}, {MIME: EMBEDDED}


def _left(fixed: dict[str, Any], folder: Path) -> str:
    """The name of the picture that a chart will have, which is left to be drawn."""
    name = f"{next(_NUMBERS)}.png"
    new = folder / f"{name}.new"
    new.write_text(json.dumps(fixed), encoding="utf-8")
    new.rename(folder / f"{name}.json")
    return name


@contextmanager
def drawn_beside(folder: Path, log: Path) -> Iterator[None]:
    """Draws the charts that a kernel leaves in a folder, in a process beside it; at the end all are drawn."""
    program = [sys.executable, "-I", drawing.__file__, str(folder)]
    with (
        log.open("wb") as words,
        subprocess.Popen(
            # In a session of its own, so that Ctrl-C in a terminal reaches us alone.
            keeper.command("exec", program, cpus=()),
            stdin=subprocess.PIPE,
            stderr=words,
            start_new_session=True,
        ) as process,
    ):
        try:
            yield
        except BaseException:
            process.kill()
            raise
    if process.returncode:
        said = log.read_text(errors="replace").strip().rpartition("\n")[2] or f"exit code {process.returncode}"
        fix = "open the notebook in JupyterLab, set `study` and run it: it draws each chart below its cell"
        raise RqpsError(f"{folder.parent.name}: a chart could not be drawn: {said[:300]}", fix=fix)
