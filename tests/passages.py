"""Prints passages of the project at random, for a reader who marks those that a database engineer would stop at.

    python tests/passages.py --seed 1
    python tests/passages.py --seed 2 --number 20

Docstrings, comments, errors, prose of notebooks and guides; the same seed gives the same passages of the same tree. A
reader gets docs/glossary.md beside them and nothing else.
"""

import argparse
import ast
import random
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import nbformat

ROOT = Path(__file__).parent.parent
SHORTEST, LONGEST = 25, 900
NUMBER = 60
"""At most three of so many may stop a reader, in two samples in a row."""
Passage = tuple[str, str]


def passages() -> Iterator[Passage]:
    """The place and the text of every passage."""
    for path in sorted(ROOT.glob("lib/rqps/**/*.py")):
        yield from _of_code(path)
    for path in sorted(ROOT.glob("notebooks/*/*.ipynb")):
        cells = nbformat.read(path, as_version=nbformat.NO_CONVERT).cells
        yield from _paragraphs(path, "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown"))
    for path in [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/*.md")), ROOT / "benchmarks/README.md"]:
        yield from _paragraphs(path, re.sub(r"^```.*?^```", "", path.read_text(), flags=re.DOTALL | re.MULTILINE))


def _of_code(path: Path) -> Iterator[Passage]:
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        place = f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}"
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield place, re.sub(r"^\s*>>>.*", "", node.value.value, flags=re.DOTALL | re.MULTILINE)
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "RqpsError":
            yield place, ast.unparse(node)
    with path.open("rb") as file:
        for token in tokenize.tokenize(file.readline):
            if token.type == tokenize.COMMENT:
                yield f"{path.relative_to(ROOT)}:{token.start[0]}", f"{token.line.strip()}"


def _paragraphs(path: Path, text: str) -> Iterator[Passage]:
    for paragraph in re.split(r"\n\s*\n", text):
        if not paragraph.startswith(("#", "|", "<", "!")):
            yield str(path.relative_to(ROOT)), paragraph


def sample(number: int, seed: int) -> list[Passage]:
    """So many passages, each kind of file by its share of the text."""
    tidy = [(place, " ".join(text.split())) for place, text in passages()]
    long_enough = [(place, text) for place, text in tidy if SHORTEST <= len(text) <= LONGEST]
    return random.Random(seed).sample(long_enough, number)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--number", type=int, default=NUMBER)
    asked = parser.parse_args()
    for position, (place, text) in enumerate(sample(asked.number, asked.seed), start=1):
        print(f"{position}. [{place}]\n   {text}\n")
