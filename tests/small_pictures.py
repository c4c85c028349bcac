"""Draws the charts of a report as `rqps.show.drawing` does, with a hundredth of the pixels."""

import runpy
from pathlib import Path

import vl_convert

if __name__ == "__main__":
    in_full = vl_convert.vegalite_to_png
    vars(vl_convert)["vegalite_to_png"] = lambda chart, scale, **how: in_full(chart, scale=scale / 10, **how)
    runpy.run_path(str(Path(__file__).parents[1] / "lib/rqps/show/drawing.py"), run_name="__main__")
