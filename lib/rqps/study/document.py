"""A YAML text as plain values, the line of each, and the mistakes in it.

YAML lets a second key win silently, reads `010` as 8 and `12:30` as 750. Here a mapping's keys are the words
that stand in the file, a key stands once, and a number is what it looks like.
"""

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import yaml

from rqps.errors import RqpsError

_TAG = "tag:yaml.org,2002:"
_TEXT = frozenset(_TAG + kind for kind in ("str", "timestamp", "value", "merge"))
_WHOLE = re.compile(r"[-+]?(0|[1-9][0-9_]*)")
_DECIMAL = re.compile(r"[-+]?([0-9][0-9_]*\.[0-9]*|\.[0-9]+)([eE][-+][0-9]+)?")
_BOOLEAN = {"on": True, "yes": True, "true": True, "off": False, "no": False, "false": False}

Place = tuple[str | int, ...]
"""The place of a value: `("studies", "demo", "dbms", 2)`."""


@dataclass(frozen=True)
class Problem:
    place: Place
    text: str
    line: int | None = None
    """Given where it is known better than by `place`."""


@dataclass
class Document:
    """A file as values. `words` has each single value as it is spelt there, `quoted` those that are in quotes."""

    value: Any = None
    lines: dict[Place, int] = field(default_factory=dict)
    words: dict[Place, str] = field(default_factory=dict)
    quoted: set[Place] = field(default_factory=set)
    problems: list[Problem] = field(default_factory=list)

    def line_of(self, place: Place) -> int:
        """The line of a place, or of the nearest thing around it that stands in the file."""
        while place and place not in self.lines:
            place = place[:-1]
        return self.lines.get(place, 1)


def parse(text: str) -> Document:
    """Reads one YAML document; mistakes are in its `problems`."""
    document = Document()
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        saying = ", ".join(part for part in (error.context, error.problem) if part)
        if saying.endswith("got '?'"):
            saying += "; between braces, a key that ends in ? has to be in quotes"
        document.problems.append(Problem((), f"not YAML: {saying}", mark.line + 1 if mark else None))
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        document.problems.append(Problem((), f"not YAML: a character that may not stand here, {error.reason}", line))
    else:
        if node is not None:
            document.value = _value(node, (), document, inside=())
    return document


def _value(node: yaml.Node, place: Place, document: Document, inside: tuple[yaml.Node, ...]) -> Any:
    document.lines.setdefault(place, node.start_mark.line + 1)
    if any(node is outer for outer in inside):
        document.problems.append(Problem(place, "is an alias of what it stands in; write the values out"))
        return None
    if isinstance(node, yaml.MappingNode):
        return _mapping(node, place, document, (*inside, node))
    if isinstance(node, yaml.SequenceNode):
        return [_value(n, (*place, i), document, (*inside, node)) for i, n in enumerate(node.value)]
    assert isinstance(node, yaml.ScalarNode)
    document.words[place] = node.value
    if node.style is not None:
        document.quoted.add(place)
    value, problem = _scalar(node)
    if problem:
        document.problems.append(Problem(place, problem))
    return value


def _mapping(
    node: yaml.MappingNode, place: Place, document: Document, inside: tuple[yaml.Node, ...]
) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key, value in node.value:
        line = key.start_mark.line + 1
        if not isinstance(key, yaml.ScalarNode):
            document.problems.append(Problem(place, "a key has to be one word, not a list or a mapping", line))
            continue
        here = (*place, key.value)
        if key.value in values:
            text = f"key {key.value!r} is here twice, first on line {document.lines[here]}; keep one"
            document.problems.append(Problem(here, text, line))
            continue
        document.lines[here] = line
        values[key.value] = _value(value, here, document, inside)
    return values


def _scalar(node: yaml.ScalarNode) -> tuple[str | int | float | bool | None, str | None]:
    """The value of a single word, and its mistake if it has one."""
    text, kind = str(node.value), node.tag.removeprefix(_TAG)
    if node.tag in _TEXT:
        return text, None
    if kind == "null":
        return None, None
    if kind == "bool" and text.lower() in _BOOLEAN:
        return _BOOLEAN[text.lower()], None
    if kind == "int" and _WHOLE.fullmatch(text):
        return int(text.replace("_", "")), None
    if kind == "float" and _DECIMAL.fullmatch(text):
        return float(text.replace("_", "")), None
    if kind in ("int", "float"):
        made = yaml.safe_load(text)
        return text, f'{text} is the number {made} to YAML; write that, or "{text}" in quotes if it is text'
    return text, f"the tag {node.tag} means nothing here; leave it out"


def dotted(place: Place) -> str:
    """A place as people write it.

    >>> dotted(("studies", "demo", "dbms", 2))
    'studies.demo.dbms[2]'
    """
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place).removeprefix(".")


def all_at_once(file: str, problems: Iterable[Problem], document: Document) -> RqpsError:
    """One error that lists every problem in the order of the file."""
    found = sorted({(each.line or document.line_of(each.place), dotted(each.place), each.text) for each in problems})
    return RqpsError("\n".join(f"{file}:{line}: {f'{at}: ' if at else ''}{text}" for line, at, text in found))


def instead(word: str, known: Iterable[str], kind: str) -> str:
    """Names a word to write in place of an unknown one: the nearest, or all there are.

    >>> instead("mysq", ["mysql", "path"], "keys")
    "did you mean 'mysql'?"
    >>> instead("zzz", ["mysql", "path"], "keys")
    'the keys are mysql, path'
    """
    by_lower = {name.lower(): name for name in known}
    near = difflib.get_close_matches(word.lower(), by_lower, n=1)
    if near:
        return f"did you mean {by_lower[near[0]]!r}?"
    return f"the {kind} are {', '.join(by_lower.values())}" if by_lower else f"there are no {kind} yet"
