"""Differential flame graphs, and an explorer of many of them; drawn by a small program that each page carries."""

from rqps.charts.flame.drawing import Drawing, without_program
from rqps.charts.flame.explorer import explorer
from rqps.charts.flame.graph import flame_graph, flame_svg
from rqps.charts.flame.script import script_element

__all__ = ["Drawing", "explorer", "flame_graph", "flame_svg", "script_element", "without_program"]
