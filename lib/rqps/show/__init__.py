"""Shows frames: the theme, tables, charts and sentences on results. Nothing here refers to a certain page.

>>> import polars as pl
>>> costs = pl.DataFrame({"step": ["scan"], "cost_us": [12.3456]})
>>> made = table(costs, [Column("step"), Column("cost_us", "CPU, µs", form=".2f")], name="costs", note="Medians.")
>>> [text in made.as_raw_html() for text in ("CPU, µs", "12.35", "Medians.")]
[True, True, True]
"""

from rqps.numbers import duration_us, in_percent, ratio, sized
from rqps.show import renderer
from rqps.show.answer import answer_text, watch_text
from rqps.show.claims import Claim, Clause, claims_of, joined, phrase
from rqps.show.heatmap import colour_of_cells, heatmap, ink_of_cells
from rqps.show.lines import counters, duet, throughput
from rqps.show.questions import Question, questions
from rqps.show.rows import row_axis, slim, verdict_colour, with_rows
from rqps.show.sections import (
    absolute,
    builds,
    conditions,
    method,
    sampled,
    seconds,
    trace,
    versions_table,
    versions_text,
    warnings,
)
from rqps.show.sentences import (
    added,
    amount,
    brackets,
    came_from,
    change_of,
    changes,
    comparison,
    few_rounds,
    finding,
    inconclusive,
    listed,
    number_of,
    other_plans,
    steps_of_means,
    verdict_counts,
    within_layouts,
)
from rqps.show.table import (
    Column,
    change_cell,
    cut,
    numbers_table,
    pivoted,
    ratio_cell,
    ratio_colour,
    ratio_table,
    ratio_text,
    spread,
    table,
    two_lines,
    whose,
    with_interval,
)
from rqps.show.theme import MUTED, colour_of
from rqps.show.words import (
    COST_SIGNS,
    Nothing,
    Row,
    Sentences,
    Text,
    by_host,
    coverage_of,
    in_order,
    interval_of,
    legend_of,
    medians_of,
    rounds_of,
    signs_of,
    verdict_words,
)

renderer.enable()
