"""Pictures of charts. As a program, it draws those that a notebook leaves in a folder, beside its kernel: vl-convert
lets no other thread of its process work meanwhile, so that papermill would keep the kernel waiting.
"""

import json
import select
import struct
import sys
import zlib
from pathlib import Path
from typing import Any

VEGALITE = "6.4"
"""The version that draws pages and pictures. JupyterLab has an older one: a chart uses nothing newer than 5.6."""
SHARP, PLAIN = 1.5, 1.0
TALL_PX = 900
LOOK_EVERY_S = 0.05
_PNG = b"\x89PNG\r\n\x1a\n"


def png(chart: dict[str, Any]) -> bytes:
    import vl_convert

    if not any(chart.get("datasets", {"": True}).values()):
        chart = {"mark": "point", "data": {"values": []}}  # panels of no rows have no size
    # A tall picture at full sharpness would weigh more than all the rest of its page.
    height = chart.get("height")
    scale = PLAIN if isinstance(height, int | float) and height > TALL_PX else SHARP
    # A picture has no words for each mark. Nothing in it moves: to cut off what might move out takes half the time.
    still = chart | {"config": chart.get("config", {}) | {"aria": False}, "params": []}
    return _repacked(vl_convert.vegalite_to_png(still, vl_version=VEGALITE, scale=scale))


def _repacked(png: bytes) -> bytes:
    """A picture in a third of its bytes: vl-convert packs quickly, and not as well as zlib can."""
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
    """Draws what comes until the standard input is closed, and then what is left."""
    png({"mark": "point", "data": {"values": []}})  # the first one takes half a second more
    while not select.select([sys.stdin], [], [], LOOK_EVERY_S)[0]:
        _draw(folder)


if __name__ == "__main__":
    _draw_until_end(Path(sys.argv[1]))
