"""Reads a YAML text into plain values, with the line of each value and a list of the mistakes in the text.

Plain YAML lets the second of two equal keys win silently, and reads `010` as 8 and `12:30` as 750. Here each key is
read as text, and a repeated key is a mistake, as is a number that YAML reads otherwise than a person does. A file
that expands to too many values is refused, since a few lines of YAML can expand to more than fits into memory.
"""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml
from yaml.composer import Composer

from rqps.errors import RqpsError

MOST_BYTES = 1_000_000
MOST_VALUES, LONGEST_LIST = 10_000, 1000
"""Maximum number of values in a file and in one list. The values of an anchor count each time an alias repeats
them."""
DEEPEST = 30
"""Maximum depth of mappings and lists inside one another."""
LONGEST_NUMBER, LARGEST_NUMBER = 40, 2**64
MOST_PROBLEMS, LONGEST_PROBLEM = 100, 1000
"""Maximum number of problems that an error names, and maximum length of each, in characters."""
INCLUDE = "include"
SECTIONS = ("builds", "configs", "hosts", "studies")
MOST_INCLUDED = 20
_TAG = "tag:yaml.org,2002:"
_TEXT = frozenset(_TAG + kind for kind in ("str", "timestamp", "value", "merge"))
_WHOLE = re.compile(r"[-+]?(0|[1-9][0-9_]*)")
_DECIMAL = re.compile(r"[-+]?([0-9][0-9_]*\.[0-9]*|\.[0-9]+)([eE][-+][0-9]+)?")
_BOOLEAN = {"on": True, "yes": True, "true": True, "off": False, "no": False, "false": False}

Place = tuple[str | int, ...]
"""The path to a value in the file: `("studies", "demo", "dbms", 2)`."""


@dataclass(frozen=True)
class Problem:
    place: Place
    text: str
    line: int | None = None
    """The line of the problem, if it is not the line of `place`."""
    file: str | None = None
    """The file of the problem, if it is not the file of `place`."""


@dataclass
class Document:
    """A file as values. `words` has the spelling of each scalar in the file, `quoted` the places of scalars in
    quotes, and `files` the file of each included build, config, host and study."""

    value: Any = None
    lines: dict[Place, int] = field(default_factory=dict)
    words: dict[Place, str] = field(default_factory=dict)
    quoted: set[Place] = field(default_factory=set)
    files: dict[Place, str] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def line_of(self, place: Place) -> int:
        """The line of a place, or of the nearest enclosing place that is written in the file."""
        while place and place not in self.lines:
            place = place[:-1]
        return self.lines.get(place, 1)


def read_text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise RqpsError(
                f"{path}: is larger than {MOST_BYTES // 10**6} MB, the limit for a file of studies",
                fix="split it into several files, and name one of them with --runs-yaml",
            )
        return content.decode("utf-8-sig")
    except OSError as error:
        fix = "go to the folder that has it, or name a file with --runs-yaml"
        raise RqpsError(f"{path}: can't be read: {error.strerror}", fix=fix) from None
    except UnicodeDecodeError as error:
        raise RqpsError(f"{path}: byte {error.start} is not UTF-8 text", fix="save the file as UTF-8") from None


class _TooMuch(Exception):
    """The text exceeds a limit. The arguments are the limit in words, and the line, counted from 0."""


class _Loader(Composer, yaml.CSafeLoader):
    """A loader with a maximum depth, on PyYAML's parser in C: ten times as fast as the loader in Python."""

    def __init__(self, text: str) -> None:
        yaml.CSafeLoader.__init__(self, text)
        Composer.__init__(self)
        self._depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        self._depth += 1
        if self._depth > DEEPEST:
            assert parent is not None
            raise _TooMuch(f"more than {DEEPEST} deep", parent.start_mark.line)
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node


def read_document(path: Path) -> Document:
    """Reads a file and adds the builds, configs, hosts and studies of the files that it includes."""
    document = parse(read_text(path))
    if not isinstance(document.value, dict):
        return document
    names = document.value.pop(INCLUDE, [])
    if not isinstance(names, list) or len(names) > MOST_INCLUDED:
        text = f"a list of at most {MOST_INCLUDED} files is due, such as [published.yaml]"
        document.problems.append(Problem((INCLUDE,), text))
        return document
    for position, name in enumerate(names):
        place: Place = (INCLUDE, position)
        if not isinstance(name, str) or Path(name).is_absolute() or ".." in Path(name).parts:
            text = f"{name!r} is not a file in the same folder or below it; write one such as published.yaml"
            document.problems.append(Problem(place, text))
        elif not (path.parent / name).is_file():
            document.problems.append(Problem(place, f"there is no file {name!r} beside {path.name}"))
        else:
            _include(document, path.parent / name)
    return document


def _include(document: Document, path: Path) -> None:
    """Adds the sections of another file to those of a document."""
    included, file = parse(read_text(path)), str(path)
    problems = [
        replace(problem, line=problem.line or included.line_of(problem.place)) for problem in included.problems
    ]
    sections = included.value if isinstance(included.value, dict) else {}
    if not sections and not problems:
        problems.append(Problem((), f"is empty; an included file has some of the keys {', '.join(SECTIONS)}"))
    for section, entries in sections.items():
        own = document.value.setdefault(section, {}) if section in SECTIONS else None
        if own is None or not isinstance(entries, dict):
            text = f"{section!r} like this is refused; an included file has {', '.join(SECTIONS)}, each by name"
            problems.append(Problem((section,), text, included.line_of((section,))))
            continue
        for name, value in entries.items():
            place = (section, name)
            if not isinstance(own, dict) or name in own:
                first = f"{document.files.get(place, 'the file that includes this one')}:{document.line_of(place)}"
                text = f"{name!r} is here again, first in {first}; keep one"
                problems.append(Problem(place, text, included.line_of(place)))
                continue
            own[name] = value
            document.files[place] = file
            document.lines |= {key: line for key, line in included.lines.items() if key[:2] == place}
            document.words |= {key: word for key, word in included.words.items() if key[:2] == place}
            document.quoted |= {key for key in included.quoted if key[:2] == place}
    document.problems += [replace(problem, file=file) for problem in problems]


def parse(text: str) -> Document:
    """Reads one YAML document; the mistakes in it are in `problems`."""
    document = Document()
    try:
        node = yaml.compose(text, Loader=_Loader)
        if node is not None:
            document.value = _value(node, (), document, inside=())
    except _TooMuch as error:
        what, line = error.args
        problem = Problem((), f"{what}: no file of builds, configs and studies needs that", line + 1)
        document = Document(problems=[problem])
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        saying = ", ".join(part for part in (error.context, error.problem) if part)
        document.problems.append(Problem((), f"not YAML: {saying}", mark.line + 1 if mark else None))
    except yaml.reader.ReaderError as error:
        line = text.encode().count(b"\n", 0, error.position) + 1
        document.problems.append(Problem((), f"not YAML: a character that may not stand here, {error.reason}", line))
    return document


def _value(node: yaml.Node, place: Place, document: Document, inside: tuple[yaml.Node, ...]) -> Any:
    document.lines.setdefault(place, node.start_mark.line + 1)
    too_long = isinstance(node, yaml.SequenceNode) and len(node.value) > LONGEST_LIST
    if len(document.lines) > MOST_VALUES or len(place) > DEEPEST or too_long:
        most = f"{MOST_VALUES:,} values, {LONGEST_LIST:,} in a list, or {DEEPEST} deep"
        raise _TooMuch(f"more than {most}", node.start_mark.line)
    if any(node is outer for outer in inside):
        document.problems.append(Problem(place, "is an alias of what it stands in; write the values out"))
        return None
    if isinstance(node, yaml.MappingNode):
        return _mapping(node, place, document, (*inside, node))
    if isinstance(node, yaml.SequenceNode):
        return [_value(n, (*place, i), document, (*inside, node)) for i, n in enumerate(node.value)]
    assert isinstance(node, yaml.ScalarNode)
    document.words[place] = node.value
    if node.style:
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
    """The value of a scalar, and the mistake in it, if there is one."""
    text, kind = str(node.value), node.tag.removeprefix(_TAG)
    if node.tag in _TEXT:
        return text, None
    if kind == "null":
        return None, None
    if kind == "bool" and text.lower() in _BOOLEAN:
        return _BOOLEAN[text.lower()], None
    if kind in ("int", "float") and len(text) > LONGEST_NUMBER:
        return text, f"is a number of {len(text):,} characters; put it in quotes if it is text"
    if kind == "int" and _WHOLE.fullmatch(text):
        integer = int(text.replace("_", ""))
        if abs(integer) < LARGEST_NUMBER:
            return integer, None
        return text, f"{text} is too large; numbers are below {LARGEST_NUMBER}; put it in quotes if it is text"
    if kind == "float" and _DECIMAL.fullmatch(text) and math.isfinite(number := float(text.replace("_", ""))):
        return number, None
    if kind in ("int", "float"):
        made = yaml.safe_load(text)
        return text, f'{text} is the number {made} to YAML; write that, or "{text}" in quotes if it is text'
    return text, f"the tag {node.tag} means nothing here; leave it out"


def dotted(place: Place) -> str:
    """A place as a path with dots and indices.

    >>> dotted(("studies", "demo", "dbms", 2))
    'studies.demo.dbms[2]'
    """
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place).removeprefix(".")


def all_at_once(file: str, problems: Iterable[Problem], document: Document) -> RqpsError:
    """One error that lists the problems of a file, then those of the files that it includes, in the order of their
    lines."""
    described = {
        (
            problem.file or document.files.get(problem.place[:2], ""),
            problem.line or document.line_of(problem.place),
            dotted(problem.place),
            problem.text,
        )
        for problem in problems
    }
    lines = [
        f"{included or file}:{line}: {f'{at}: ' if at else ''}{text}"
        for included, line, at, text in sorted(described)[:MOST_PROBLEMS]
    ]
    lines = [line if len(line) <= LONGEST_PROBLEM else f"{line[:LONGEST_PROBLEM]}…" for line in lines]
    return RqpsError("\n".join([*lines, *["… and more"] * (len(described) > MOST_PROBLEMS)]))
