"""Draws charts as PNG pictures. Run as a program, this module draws the charts that a notebook leaves in a folder. It
needs its own process: vl-convert blocks all other threads of a process, such as papermill's.
"""

import json
import select
import struct
import sys
import zlib
from pathlib import Path
from typing import Any

VEGALITE = "6.4"
"""The Vega-Lite version for pages and pictures. JupyterLab has version 5.6, so no chart may use newer features."""
SHARP, PLAIN = 1.5, 1.0
TALL_PX = 900
LOOK_EVERY_S = 0.05
_PNG = b"\x89PNG\r\n\x1a\n"


def png(chart: dict[str, Any]) -> bytes:
    import vl_convert

    if not any(chart.get("datasets", {"": True}).values()):
        # vl-convert fails if a facet has no rows, so a chart without data is drawn as an empty chart.
        chart = {"mark": "point", "data": {"values": []}}
    # At full resolution, the file of a tall picture would be larger than the rest of its page.
    height = chart.get("height")
    scale = PLAIN if isinstance(height, int | float) and height > TALL_PX else SHARP
    # A picture needs no ARIA texts. It can't be zoomed, so `params` are left out: with them, vl-convert clips every
    # mark, which doubles the time to draw.
    still = chart | {"config": chart.get("config", {}) | {"aria": False}, "params": []}
    return _repacked(vl_convert.vegalite_to_png(still, vl_version=VEGALITE, scale=scale))


def _repacked(png: bytes) -> bytes:
    """Compresses the picture again, to about a third of its size: vl-convert chooses speed over size."""
    before, pixels, at = [], b"", len(_PNG)
    while at < len(png):
        length, kind = struct.unpack(">I4s", png[at : at + 8])
        body = png[at + 8 : at + 8 + length]
        at += 12 + length
        if kind == b"IDAT":
            pixels += body
        elif kind != b"IEND":
            before.append((kind, body))
    packed = [*before, (b"IDAT", zlib.compress(zlib.decompress(pixels), 6)), (b"IEND", b"")]
    checked = ((kind + body, len(body)) for kind, body in packed)
    return _PNG + b"".join(
        struct.pack(">I", size) + part + struct.pack(">I", zlib.crc32(part)) for part, size in checked
    )


def _draw(folder: Path) -> None:
    for left in sorted(folder.glob("*.json")):
        chart = json.loads(left.read_text(encoding="utf-8"))
        try:
            picture = png(chart)
        except ValueError as error:
            why = " ".join(line for line in str(error).splitlines() if not line.startswith("    at "))
            sys.exit(f"{chart.get('description', 'one')}: {why}")
        (folder / left.stem).write_bytes(picture)
        left.unlink()


def _draw_until_end(folder: Path) -> None:
    """Draws each chart that another process writes into the folder, until the standard input is closed."""
    png({"mark": "point", "data": {"values": []}})  # warms up: the first picture takes half a second longer
    while not select.select([sys.stdin], [], [], LOOK_EVERY_S)[0]:
        _draw(folder)


if __name__ == "__main__":
    _draw_until_end(Path(sys.argv[1]))
