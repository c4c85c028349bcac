"""Differential flame graphs, and an explorer of many of them; drawn by a small program that each page carries."""

from rqps.view.flame.drawing import Drawing, without_program
from rqps.view.flame.explorer import explorer
from rqps.view.flame.graph import flame_graph, flame_svg
from rqps.view.flame.script import script_element

__all__ = ["Drawing", "explorer", "flame_graph", "flame_svg", "script_element", "without_program"]
