"""Where published numbers are from: `sources.yaml`, strictly."""

from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from rqps.study.document import Document, Problem, all_at_once, parse

T = TypeVar("T")


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Host(_Strict):
    hardware: str
    cores: int | None = None
    threads: int | None = None
    tables: int | None = None
    rows_per_table: int | None = None


class Seconds(_Strict):
    """How long a step was measured."""

    read: int
    write: int


class Source(_Strict):
    author: str
    author_printed: bool
    title: str | None
    date: str | None = Field(pattern=r"^\d{4}-\d\d-\d\d$")
    dated: str
    url: str | None = None
    measured: str
    seconds: Seconds | None = None
    hosts: dict[str, Host]


class Reading(_Strict):
    """A contradiction that was found by reading, not by calculating."""

    source: str
    place: str
    kind: str
    says: str
    evidence: str
    difference: str = ""


def read_sources(path: Path) -> dict[str, Source]:
    """The sources by their keys."""
    document = _document(path)
    return _valid(path, document, TypeAdapter(dict[str, Source]))


def read_readings(path: Path, sources: dict[str, Source], kinds: tuple[str, ...]) -> tuple[Reading, ...]:
    """What was found by reading. Each names a source that is there and a kind that is explained."""
    document = _document(path)
    readings = _valid(path, document, TypeAdapter(list[Reading]))
    problems = [
        Problem((number, name), f"{word!r} is none of {', '.join(known)}")
        for number, reading in enumerate(readings)
        for name, word, known in (("source", reading.source, tuple(sources)), ("kind", reading.kind, kinds))
        if word not in known
    ]
    if problems:
        raise all_at_once(str(path), problems, document.lines)
    return tuple(readings)


def _document(path: Path) -> Document:
    document = parse(path.read_text(encoding="utf-8"))
    if document.problems:
        raise all_at_once(str(path), document.problems, document.lines)
    return document


def _valid(path: Path, document: Document, kind: TypeAdapter[T]) -> T:
    try:
        return kind.validate_python(document.value)
    except ValidationError as error:
        problems = [Problem(each["loc"], each["msg"]) for each in error.errors()]
        raise all_at_once(str(path), problems, document.lines) from error
