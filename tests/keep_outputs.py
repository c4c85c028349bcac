"""Keep what the samples show, after one was measured anew or pages changed: notebooks as they ran, and pictures.

python tests/keep_outputs.py                                                # everything
python tests/keep_outputs.py notebooks/analysis/relative_throughput.ipynb
"""

import os
import struct
import subprocess
import sys
import tempfile
import zlib
from base64 import b64encode
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import vl_convert
from browser import Browser, opened
from nbclient import NotebookClient
from rqps.report import build
from rqps.show.drawing import VEGALITE
from rqps.show.renderer import MIME

ROOT = Path(__file__).parent.parent
PICTURED = "releases"
"""The study whose first page is the README's picture."""
WIDTH_PX, HEIGHT_PX = 960, 1100
BYTES_A_PIXEL, MOST_COLOURS = 4, 256
LEVELS = (17, 34, 51, 85)


def keep(notebook: Path) -> None:
    """Runs a notebook, and keeps its outputs."""
    content = nbformat.read(notebook, as_version=4)
    NotebookClient(content, kernel_name="python3", timeout=300).execute()
    for cell in content.cells:
        cell.metadata.pop("execution", None)
        for output in cell.get("outputs", ()):
            if MIME in output.get("data", {}):
                output.data["image/png"] = b64encode(light_picture(output.data[MIME])).decode() + "\n"
    content.metadata.language_info = {"name": "python"}
    nbformat.write(content, notebook)


def light_picture(chart: dict[str, Any]) -> bytes:
    """A picture of a chart in a tenth of the bytes, for those who read a notebook on a web page of its repository: as
    many pixels as it has on a screen, of at most 256 colours. JupyterLab and our pages draw the chart itself."""
    still = chart | {"config": chart.get("config", {}) | {"aria": False}, "params": []}
    picture = vl_convert.vegalite_to_png(still, vl_version=VEGALITE, scale=1)
    pixels = _pixels(picture)
    for level in LEVELS:  # coarser until the colours are few enough
        shades = (pixels[..., :3].astype(np.int32) + level // 2) // level
        code, places = np.unique(shades @ np.array([1 << 16, 1 << 8, 1]), return_inverse=True)
        if len(code) <= MOST_COLOURS:
            break
    palette = np.stack([code >> 16, code >> 8 & 255, code & 255], axis=1) * level
    height, width = pixels.shape[:2]
    rows = np.insert(places.reshape(height, width).astype(np.uint8), 0, 0, axis=1)
    parts = {
        b"IHDR": struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0),
        b"PLTE": palette.clip(0, 255).astype(np.uint8).tobytes(),
        b"IDAT": zlib.compress(rows.tobytes(), 9),
        b"IEND": b"",
    }
    return picture[:8] + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        for kind, body in parts.items()
    )


def _pixels(picture: bytes) -> np.ndarray:
    """The pixels of a PNG that vl-convert wrote: red, green, blue and opacity; each row has a filter of its own."""
    packed, at = b"", 8
    while at < len(picture):
        length, kind = struct.unpack(">I4s", picture[at : at + 8])
        if kind == b"IHDR":
            width, height = struct.unpack(">II", picture[at + 8 : at + 16])
        packed += picture[at + 8 : at + 8 + length] if kind == b"IDAT" else b""
        at += 12 + length
    rows = np.frombuffer(zlib.decompress(packed), np.uint8).reshape(height, 1 + BYTES_A_PIXEL * width)
    pixels = np.zeros((height + 1, width + 1, BYTES_A_PIXEL), np.int32)
    for number, row in enumerate(rows, 1):
        method, values = row[0], row[1:].reshape(width, BYTES_A_PIXEL)
        above, line = pixels[number - 1], pixels[number]
        if method in (0, 2):
            line[1:] = values + above[1:] * (method == 2) & 255
        elif method == 1:
            line[1:] = np.cumsum(values, axis=0) & 255
        else:
            _add_to_neighbours(line.tolist(), above.tolist(), values.tolist(), method == 4, line)
    return pixels[1:, 1:].astype(np.uint8)


def _add_to_neighbours(
    line: list[list[int]], above: list[list[int]], values: list[list[int]], paeth: bool, into: np.ndarray
) -> None:
    """A row whose values are added to the mean of left and above, or to the nearest of three neighbours."""
    for at, value in enumerate(values, 1):
        for part in range(BYTES_A_PIXEL):
            left, up, corner = line[at - 1][part], above[at][part], above[at - 1][part]
            if paeth:
                guess = left + up - corner
                near = min((left, up, corner), key=lambda neighbour: abs(guess - neighbour))
            else:
                near = (left + up) // 2
            line[at][part] = value[part] + near & 255
    into[:] = line


def keep_pictures(data: Path) -> None:
    """Takes the picture of a report's first page, and draws that of a duet."""
    index = build(PICTURED, data, data / "report")
    with Browser() as browser, opened(browser, index, WIDTH_PX) as tab:
        tab.screenshot(ROOT / "docs/demo-page.png", HEIGHT_PX)
    subprocess.run([sys.executable, ROOT / "benchmarks/verdicts", "picture", "--study", PICTURED], check=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "sample").symlink_to(ROOT / "data/sample")  # and nothing that was measured here
        os.environ |= {"RQPS_DATA": folder, "TZ": "UTC"}
        named = [Path(one) for one in sys.argv[1:]]
        every = (*ROOT.glob("notebooks/analysis/*.ipynb"), *ROOT.glob("notebooks/investigate/*.ipynb"))
        for one in named or every:
            keep(one)
        if not named:
            keep_pictures(Path(folder))
