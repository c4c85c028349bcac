"""Differential flame graphs, and an explorer of many of them; drawn by a small program that each page carries."""

from rqps.view.flame.explorer import explorer
from rqps.view.flame.graph import Drawing, flame_graph, flame_svg, script_element, without_program
from rqps.view.flame.picture import figure, with_error

__all__ = ["Drawing", "explorer", "flame_graph", "flame_svg", "script_element", "without_program"]
__all__ += ["figure", "with_error"]
