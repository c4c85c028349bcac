"""Draws the rooms of the library for docs/architecture.md: python tests/draw_rooms.py

A floor a line, from the top down; a room's line is the first sentence of its docstring. Nothing is drawn by hand.
"""

import ast
from html import escape
from pathlib import Path

from test_rooms import LIBRARY, ROOMS

PICTURE = Path(__file__).parent.parent / "docs/rooms.svg"
WIDTH, FLOOR_HEIGHT, MARGIN, NAME_WIDTH = 980, 46, 16, 130
LONGEST = 118


def about(room: str) -> str:
    """The first sentence of a room's docstring."""
    package = LIBRARY / room / "__init__.py"
    file = package if package.is_file() else LIBRARY / f"{room}.py"
    text = ast.get_docstring(ast.parse(file.read_text())) if file.is_file() else None
    sentence = " ".join((text or "").split("\n\n")[0].split()).split(". ")[0].rstrip(".:")
    return sentence if len(sentence) <= LONGEST else f"{sentence[:LONGEST].rsplit(' ', 1)[0]} …"


def picture() -> str:
    """The rooms as SVG, the commands on top and what everything stands on below."""
    rows = [room for floor in reversed(ROOMS) for room in floor]
    starts = {floor[0] for floor in ROOMS}
    height = 2 * MARGIN + FLOOR_HEIGHT * len(rows)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif">',
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>',
    ]
    for number, room in enumerate(rows):
        top = MARGIN + FLOOR_HEIGHT * number
        lines += [
            f'<rect x="{MARGIN}" y="{top + 4}" width="{WIDTH - 2 * MARGIN}" height="{FLOOR_HEIGHT - 8}" rx="5" '
            f'fill="{"#e8f1f8" if room in starts else "#f4f4f4"}" stroke="#9bb5c9"/>',
            f'<text x="{MARGIN + 14}" y="{top + 28}" font-size="15" font-weight="bold" fill="#1b3a52">{room}</text>',
            f'<text x="{MARGIN + NAME_WIDTH}" y="{top + 28}" font-size="13" fill="#333">{escape(about(room))}</text>',
        ]
    return "\n".join([*lines, "</svg>"]) + "\n"


if __name__ == "__main__":
    PICTURE.write_text(picture())
