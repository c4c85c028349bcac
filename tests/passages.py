"""Prints passages of the project at random, for a reader who marks those that a database engineer would stop at.

    python tests/passages.py --seed 1
    python tests/passages.py --seed 2 --number 20

Docstrings, comments, errors, prose of notebooks and guides; the same seed gives the same passages of the same tree.
Beside a passage stands what its reader always sees with it: the line of code that a docstring or a comment is about,
the heading above a paragraph. A reader gets docs/glossary.md besides, and nothing else.
"""

import argparse
import ast
import random
import re
from collections.abc import Iterator
from pathlib import Path

import nbformat

ROOT = Path(__file__).parent.parent
SHORTEST, LONGEST = 25, 900
NUMBER = 60
"""At most three of so many may stop a reader, in two samples in a row."""
Passage = tuple[str, str, str]
"""A place, the text, and what stands beside it."""


def passages() -> Iterator[Passage]:
    """Every passage of the project."""
    for path in sorted(ROOT.glob("lib/rqps/**/*.py")):
        yield from _of_code(path)
    for path in sorted(ROOT.glob("notebooks/*/*.ipynb")):
        cells = nbformat.read(path, as_version=nbformat.NO_CONVERT).cells
        yield from _paragraphs(path, "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown"))
    for path in [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/*.md")), ROOT / "benchmarks/README.md"]:
        yield from _paragraphs(path, re.sub(r"^```.*?^```", "", path.read_text(), flags=re.DOTALL | re.MULTILINE))


def _of_code(path: Path) -> Iterator[Passage]:
    text, name = path.read_text(), str(path.relative_to(ROOT))
    for parent in ast.walk(ast.parse(text)):
        before: ast.AST = parent
        for node in ast.iter_child_nodes(parent):
            place = f"{name}:{getattr(node, 'lineno', 0)}"
            if (
                isinstance(node, ast.Expr)
                and isinstance(node.value, ast.Constant)
                and isinstance(node.value.value, str)
            ):
                about = "" if isinstance(before, ast.Module) else ast.unparse(before)
                head = re.match(r"(?:@.*\n)*(.*)", about)
                yield (
                    place,
                    re.sub(r"^\s*>>>.*", "", node.value.value, flags=re.DOTALL | re.MULTILINE),
                    head[1] if head else "",
                )
            elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "RqpsError":
                yield place, ast.unparse(node), ""
            if isinstance(node, ast.stmt):
                before = node
    yield from _comments(name, text.splitlines())


def _comments(name: str, lines: list[str]) -> Iterator[Passage]:
    """Comments beside code with their code, and blocks of comments with the line of code below."""
    block: list[str] = []
    for number, line in enumerate(lines, start=1):
        if line.strip().startswith("#"):
            block.append(line.strip())
            continue
        if block:
            yield f"{name}:{number - len(block)}", " ".join(block), line.strip()
        block = []
        if "  # " in line:
            yield f"{name}:{number}", line.strip(), ""


def _paragraphs(path: Path, text: str) -> Iterator[Passage]:
    heading = ""
    for paragraph in re.split(r"\n\s*\n", text):
        if paragraph.startswith("#"):
            heading = paragraph.splitlines()[0]
        elif not paragraph.startswith(("|", "<", "!")):
            yield str(path.relative_to(ROOT)), paragraph, heading


def sample(number: int, seed: int) -> list[Passage]:
    """So many passages, each kind of file by its share of the text."""
    tidy = [(place, " ".join(text.split()), beside) for place, text, beside in passages()]
    long_enough = [passage for passage in tidy if SHORTEST <= len(passage[1]) <= LONGEST]
    return random.Random(seed).sample(long_enough, number)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--number", type=int, default=NUMBER)
    asked = parser.parse_args()
    for position, (place, text, beside) in enumerate(sample(asked.number, asked.seed), start=1):
        print(f"{position}. [{place}] {beside[:150]}\n   {text}\n")
