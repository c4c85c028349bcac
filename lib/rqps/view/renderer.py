"""Output of a chart in a notebook: its specification for JupyterLab and for a page, a picture for everything else.

JupyterLab brings Vega-Lite 5.6 and draws what is of version 5, whether or not the notebook is trusted, and asks for
nothing from the network. A page draws the same with a Vega-Lite of its own.
"""

import json
import os
import struct
import zlib
from itertools import count
from pathlib import Path
from typing import Any

import altair as alt

from rqps.view.theme import PICTURE_WIDTH_PX

MIME = "application/vnd.vegalite.v5+json"
SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"
VEGALITE = "6.4"
"""The version that draws pages and pictures. JupyterLab's is older: nothing newer than 5.6 may stand in a chart."""
EMBEDDED = {"embed_options": {"actions": False, "renderer": "svg"}}
SHARP, PLAIN = 1.5, 1.0
TALL_PX = 900
PICTURES = "RQPS_PICTURES"
"""Variable of a kernel: the folder where it leaves its charts for another process to `draw` meanwhile."""
_NUMBERS = count()
_PNG = b"\x89PNG\r\n\x1a\n"


def enable() -> None:
    """Make every Altair chart show itself this way."""
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


def draw(folder: Path) -> None:
    """Draw the charts that a kernel has left in a folder by now."""
    for left in sorted(folder.glob("*.json")):
        (folder / left.stem).write_bytes(png(json.loads(left.read_text(encoding="utf-8"))))
        left.unlink()


def png(fixed: dict[str, Any]) -> bytes:
    """A picture of a chart."""
    import vl_convert

    # A tall picture at full sharpness would weigh more than all the rest of its page.
    height = fixed.get("height")
    tall = isinstance(height, int | float) and height > TALL_PX
    return _repacked(vl_convert.vegalite_to_png(fixed, vl_version=VEGALITE, scale=PLAIN if tall else SHARP))


def _repacked(png: bytes) -> bytes:
    """A picture in a third of its bytes: vl-convert packs quickly, and not as well as zlib can."""
    before, pixels, at = [], b"", len(_PNG)
    while at < len(png):
        length, kind = struct.unpack(">I4s", png[at : at + 8])
        body = png[at + 8 : at + 8 + length]
        at += 12 + length
        if kind == b"IDAT":
            pixels += body
        elif kind != b"IEND":
            before.append((kind, body))
    packed = [*before, (b"IDAT", zlib.compress(zlib.decompress(pixels), 6)), (b"IEND", b"")]
    checked = ((kind + body, len(body)) for kind, body in packed)
    return _PNG + b"".join(
        struct.pack(">I", size) + part + struct.pack(">I", zlib.crc32(part)) for part, size in checked
    )
