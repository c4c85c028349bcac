"""The drawing's program, put together from its files. A page needs it once, a cell of a notebook by itself."""

import json
from functools import cache
from pathlib import Path

from rqps.view.flame.look import constants

PARTS = ("tree.js", "draw.js", "save.js", "graph.js", "explorer.js")
_HERE = Path(__file__).parent


@cache
def script() -> str:
    """One function that is called at once, so that nothing of it is left on the page."""
    style = _HERE.joinpath("flame.css").read_text(encoding="utf-8")
    told = f"const LOOK = {_literal(constants())};\nconst STYLE = {_literal(style)};"
    parts = "\n".join(_HERE.joinpath(name).read_text(encoding="utf-8") for name in PARTS)
    return f'(() => {{\n"use strict";\n{told}\n{parts}}})();\n'


@cache
def script_element() -> str:
    """As it stands in the output of a notebook's cell."""
    return f"<script>{script()}</script>"


def _literal(value: object) -> str:
    return json.dumps(value, ensure_ascii=False).replace("<", "\\u003c")
