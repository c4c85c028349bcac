"""How a chart leaves a notebook: its specification for a page that can draw it, a picture for everything else.

JupyterLab shows the picture whether or not the notebook is trusted, and asks for nothing from the network.
"""

from copy import deepcopy
from typing import Any

import altair as alt
import vl_convert

from rqps.view.png import repacked
from rqps.view.theme import PICTURE_WIDTH_PX

MIME = "application/vnd.vegalite.v6+json"
VEGALITE = "6.4"
SHARP, PLAIN = 1.5, 1.0
TALL_PX = 900


def enable() -> None:
    """Make every Altair chart show itself this way."""
    alt.renderers.register("rqps", bundle)
    alt.renderers.enable("rqps")
    alt.theme.enable("rqps")


def bundle(spec: dict[str, Any], **_options: Any) -> dict[str, Any]:
    """The MIME bundle of one chart."""
    return {MIME: spec, "image/png": png(spec), "text/plain": spec.get("description", "a chart")}


def png(spec: dict[str, Any]) -> bytes:
    """A picture of a chart, at the width that a page has on a desktop."""
    fixed = deepcopy(spec)
    if fixed.get("width") == "container":
        fixed["width"] = PICTURE_WIDTH_PX
    # A tall picture at full sharpness would weigh more than all the rest of its page.
    height = fixed.get("height")
    tall = isinstance(height, int | float) and height > TALL_PX
    return repacked(vl_convert.vegalite_to_png(fixed, vl_version=VEGALITE, scale=PLAIN if tall else SHARP))
