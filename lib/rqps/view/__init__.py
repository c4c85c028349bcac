"""From a frame to what is seen: the theme, tables, charts and the words of a finding. No page is known here by name.

>>> import polars as pl
>>> costs = pl.DataFrame({"step": ["scan"], "cost_us": [12.3456]})
>>> made = table(costs, [Column("step"), Column("cost_us", "CPU, µs", form=".2f")], name="costs", note="Medians.")
>>> [text in made.as_raw_html() for text in ("CPU, µs", "12.35", "Medians.")]
[True, True, True]
"""

# ruff: noqa: E402
import sys

# jsonschema, which altair imports, builds a grammar of web addresses where it finds this package, as it does with
# JupyterLab. That takes more than a second in every run, and no chart has an address to check.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]

from rqps.view import renderer
from rqps.view.answer import answer_text
from rqps.view.duet import duet
from rqps.view.heatmap import heatmap
from rqps.view.lines import counters, over_releases, throughput
from rqps.view.rows import (
    ROW_PX,
    bars,
    dots,
    interval_ticks,
    latencies,
    on_rows,
    room,
    row_axis,
    row_labels,
    slim,
    verdict_colour,
    with_rows,
)
from rqps.view.sections import (
    absolute,
    builds,
    conditions,
    cpu,
    method,
    sampled,
    seconds,
    side_by_side,
    trace,
    warnings,
)
from rqps.view.table import (
    Column,
    cut,
    ratio_cell,
    ratio_colour,
    ratio_table,
    ratio_text,
    spread,
    table,
    two_lines,
    whose,
)
from rqps.view.theme import COLOURS, GRID, INK, LIMITS, MUTED, SERIES, VERDICT_COLOURS, colour_of, titled
from rqps.view.words import (
    COST_SIGNS,
    SIGNS,
    Nothing,
    Row,
    Sentences,
    Text,
    by_host,
    coverage_of,
    in_order,
    interval_of,
    legend_of,
    number_of,
    ratio,
    rounds_of,
    signs_of,
    smallest_effect,
    verdict_words,
)

__all__ = ["answer_text", "counters", "duet", "heatmap", "over_releases", "throughput"]
__all__ += ["ROW_PX", "bars", "dots", "interval_ticks", "latencies", "on_rows", "room"]
__all__ += ["row_axis", "row_labels", "slim", "verdict_colour", "with_rows"]
__all__ += ["absolute", "builds", "conditions", "cpu", "method", "sampled", "seconds", "side_by_side", "trace"]
__all__ += ["Column", "cut", "ratio_cell", "ratio_colour", "ratio_table", "ratio_text", "spread", "warnings"]
__all__ += ["table", "two_lines", "whose"]
__all__ += ["COLOURS", "GRID", "INK", "LIMITS", "MUTED", "SERIES", "VERDICT_COLOURS", "colour_of", "titled"]
__all__ += ["COST_SIGNS", "SIGNS", "Nothing", "Row", "Sentences", "Text", "by_host", "coverage_of", "in_order"]
__all__ += ["interval_of", "legend_of", "number_of", "ratio", "rounds_of", "signs_of", "smallest_effect"]
__all__ += ["verdict_words"]

renderer.enable()
