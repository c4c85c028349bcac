"""Output of a chart in a notebook: its specification for JupyterLab and for a page, a picture for everything else.

JupyterLab contains Vega-Lite 5.6 and draws specifications of version 5, in trusted and untrusted notebooks, without
network access. A page draws the same specification with its own copy of Vega-Lite.
"""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import altair as alt
import polars as pl
from altair.utils.schemapi import SchemaBase, _FromDict
from altair.vegalite.v6.schema.core import VegaLiteSchema
from great_tables import GT

from rqps import keeper
from rqps.errors import RqpsError
from rqps.show import drawing
from rqps.show.drawing import png
from rqps.show.theme import PICTURE_WIDTH_PX
from rqps.show.words import Nothing

MIME = "application/vnd.vegalite.v5+json"
SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"
EMBEDDED = {"embed_options": {"actions": False, "renderer": "svg"}}
PICTURES = "RQPS_PICTURES"
"""Environment variable of a Jupyter kernel: the folder where it leaves its charts for another process to draw."""
_NUMBERS = count()


def enable() -> None:
    """Registers `bundle` as the output of all Altair charts in a notebook, and sets the format of its tables."""
    pl.Config.set_tbl_hide_dataframe_shape(True)
    pl.Config.set_tbl_hide_column_data_types(True)
    pl.Config.set_tbl_rows(50).set_tbl_cols(30).set_fmt_str_lengths(80)  # by default, polars hides most of a frame
    alt.renderers.register("rqps", bundle)
    alt.renderers.enable("rqps")
    alt.theme.enable("rqps")
    alt.data_transformers.disable_max_rows()  # by default, Altair refuses more than 5000 rows
    VegaLiteSchema.from_dict = classmethod(_from_dict)  # type: ignore[assignment]
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if shell and shell.display_formatter:
        formatters = shell.display_formatter.formatters
        formatters["text/html"].for_type(GT, _table_html)
        formatters["text/plain"].for_type(GT, lambda table, printer, _cycle: printer.text(_in_words(table)))


def _from_dict(schema: type[SchemaBase], content: dict[str, Any], validate: bool = True) -> Any:
    """Does what Altair's own `from_dict` does, but collects Altair's thousand classes only once: Altair would collect
    them again for every column that a chart names."""
    if validate:
        schema.validate(content)
    return _classes().from_dict(content, schema)


@cache
def _classes() -> _FromDict:
    return _FromDict(VegaLiteSchema._default_wrapper_classes())


def _table_html(table: GT) -> str:
    """The HTML of a table. A table without rows becomes a `Nothing`, which a page leaves out."""
    return light_html(table.as_raw_html()) if len(table._tbl_data) else Nothing(["No rows."])._repr_html_()


def light_html(html: str) -> str:
    """Shrinks the HTML of a table to about a third of its size: removes attributes with default values and unused
    style rules, and replaces the inline style of small print by a class.

    >>> light_html('<style>#t .gt_a { top: 0; }\\n#t .gt_b { top: 1px; }</style><td headers="x" class="gt_b">1</td>')
    '<style>\\n#t .gt_b{top:1px}\\n</style><td class="gt_b">1</td>'
    """
    head, end, body = html.partition("</style>")
    before, begin, rules = head.partition("<style>")
    body = _SAID_ANYWAY.sub("", re.sub(r"\n\s*", "\n", body))
    of_table = re.search(r'id="([^"]+)"', before)
    styles = list(dict.fromkeys(_SMALL.findall(body))) if of_table else []
    for number, style in enumerate(styles):
        body = body.replace(f'<span style="{style}">', f'<span class="s{number}">')
    used = set(re.findall(r"gt_\w+", body))
    used_rules = [
        re.sub(r"\s*([{};:,])\s*", r"\1", rule.strip()).replace(";}", "}")
        for rule in re.findall(r"[^{}]+\{[^{}]*\}", rules)
        if set(re.findall(r"gt_\w+", rule.partition("{")[0])) <= used
    ]
    used_rules += [f"#{of_table[1]} .s{number}{{{style}}}" for number, style in enumerate(styles) if of_table]
    return before + begin + (begin and "\n" + "\n".join(used_rules) + "\n") + end + body


_SAID_ANYWAY = re.compile(
    r' (?:headers="[^"]*"|id="[^"]*(?<!-title)")| (?:row|col)span="1"| data-quarto-[-\w]+="false"'
)
_SMALL = re.compile(r'<span style="(font-size:[^"]*)">')


def _in_words(table: GT) -> str:
    """The number of rows and the columns of a table, as text. The table's own repr is a hundred times longer."""
    cells = pl.DataFrame(table._tbl_data)
    return f"a table of {cells.height} rows: {', '.join(cells.columns)}"


def bundle(spec: dict[str, Any], **_options: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The MIME bundle of a chart, and the metadata of the bundle."""
    fixed = spec | {"$schema": SCHEMA}
    # JupyterLab ignores the width `container` and gets a width in pixels; the script of a page restores `container`.
    if fixed.get("width") == "container":
        known = fixed.get("usermeta", {})
        fluid = {"usermeta": known | {"rqps": known.get("rqps", {}) | {"fluid": True}}}
        # With autosize, this width is the width of the whole chart, with axes and legend. So the chart fits
        # JupyterLab's column, which is only a little wider.
        fixed |= {"width": PICTURE_WIDTH_PX, "autosize": {"type": "fit-x", "contains": "padding"}, **fluid}
    folder = os.environ.get(PICTURES)
    picture = _left(fixed, Path(folder)) if folder else png(fixed)
    return {MIME: fixed, "image/png": picture, "text/plain": spec.get("description", "a chart")}, {MIME: EMBEDDED}


def _left(fixed: dict[str, Any], folder: Path) -> str:
    """Writes a chart into the folder for the drawing process; returns the file name that its picture will have."""
    name = f"{os.getpid()}-{next(_NUMBERS)}.png"
    new = folder / f"{name}.new"
    new.write_text(json.dumps(fixed), encoding="utf-8")
    new.rename(folder / f"{name}.json")
    return name


@contextmanager
def drawn_beside(folder: Path, log: Path) -> Iterator[Callable[[str], None]]:
    """Starts a process that draws the charts that Jupyter kernels leave in a folder. Yields a function that waits
    until all charts of a notebook are drawn."""
    program = [sys.executable, "-I", drawing.__file__, str(folder)]
    with (
        log.open("wb") as words,
        subprocess.Popen(
            # In its own session, the drawing process does not get a terminal's Ctrl-C.
            keeper.command("exec", program, cpus=()),
            stdin=subprocess.PIPE,
            stderr=words,
            start_new_session=True,
        ) as process,
    ):

        def wait(notebook: str) -> None:
            while any(folder.glob("*.json")) and process.poll() is None:
                time.sleep(drawing.LOOK_EVERY_S)
            if process.poll() is not None:
                last = log.read_text(errors="replace").strip().rpartition("\n")[2]
                message = f"a chart could not be drawn: {last[:300] or f'exit code {process.returncode}'}"
                fix = "open the notebook in JupyterLab, set `study` and run it: it draws each chart below its cell"
                raise RqpsError(f"{notebook}: {message}", fix=fix)

        try:
            yield wait
        finally:
            process.kill()
