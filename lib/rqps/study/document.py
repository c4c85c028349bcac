"""A YAML text as plain values, with the line of each and without YAML's surprises.

YAML lets a second key win silently, reads `010` as 8 and `12:30` as 750. Here a mapping's keys are the words
that stand in the file, a key stands once, and a number is what it looks like.
"""

import re
from dataclasses import dataclass, field
from typing import Any

import yaml

from rqps.study.problems import Place, Problem

_TAG = "tag:yaml.org,2002:"
_TEXT = frozenset(_TAG + kind for kind in ("str", "timestamp", "value", "merge"))
_WHOLE = re.compile(r"[-+]?(0|[1-9][0-9_]*)")
_DECIMAL = re.compile(r"[-+]?([0-9][0-9_]*\.[0-9]*|\.[0-9]+)([eE][-+][0-9]+)?")
_BOOLEAN = {"on": True, "yes": True, "true": True, "off": False, "no": False, "false": False}


@dataclass
class Document:
    """What a file says. `words` holds each single value as it is spelt there, `quoted` those in quotes."""

    value: Any = None
    lines: dict[Place, int] = field(default_factory=dict)
    words: dict[Place, str] = field(default_factory=dict)
    quoted: set[Place] = field(default_factory=set)
    problems: list[Problem] = field(default_factory=list)


def parse(text: str) -> Document:
    """Reads one YAML document; what is wrong with it is in its `problems`."""
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
    """The value of a single word, or what is wrong with it."""
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
