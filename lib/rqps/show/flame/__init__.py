"""Differential flame graphs, and an explorer of many of them. A small script, which each page contains, draws them
and reacts to clicks."""

from rqps.show.flame.explorer import PARTS_STYLE, address, difference_of, explorer, parts_table
from rqps.show.flame.frames import tree_of
from rqps.show.flame.graph import (
    Drawing,
    claim_of,
    figure_of,
    flame_graph,
    flame_svg,
    how_of,
    script_element,
    shared_names,
    without_program,
)
from rqps.show.flame.picture import figure
