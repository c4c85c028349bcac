"""Checks a report against its data: makes every page again, compares every number, and recomputes every claim in its
sentences."""

import re
from collections.abc import Callable, Iterator, Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple

import polars as pl
from markupsafe import Markup

from rqps.engines.cache import sha256
from rqps.errors import RqpsError
from rqps.report.claimed import frames_of
from rqps.report.one_file import unpacked
from rqps.report.site import NOTEBOOKS, analysis_notebooks, build
from rqps.scratch import Scratch
from rqps.show.claims import from_item, wrong
from rqps.store.packed import SUFFIX
from rqps.store.read import check_whole, load

LONGEST_SHOWN, WORDS_BEFORE, MOST_SHOWN = 240, 60, 20
"""Limits on what is shown of a difference: characters of a line, characters before the first that differs, and lines
per page."""
_STUDY, _DIGEST, _BESIDE = (
    re.compile(rf'<meta name="{name}" content="([^"]+)">') for name in ("study", "data", "beside")
)
_ROWS = re.compile(r"(?<=}),(?={)")
_ITEM = re.compile(r"<li(?=[\s/>]).*?</li\b.*?>", re.DOTALL | re.IGNORECASE)
_HASH = re.compile(r'"data-[0-9a-f]{32}"')
"""Matches the name that Altair gives to the data of a chart."""

Line = tuple[str, str]
"""A line of text that contains a number: its place on the page, and the line."""


class Checked(NamedTuple):
    """The result of a check: the number of compared pages, the differences between old and new pages, and the pages
    that could not be compared."""

    pages: int
    differences: list[str]
    unchecked: list[str]


def check(
    path: Path, study: str | None = None, data: Path | str | None = None, notebooks: Path = NOTEBOOKS
) -> Checked:
    """Compare a report (a folder or one file) with a new report that is made from the same data: from the data packed
    inside the old report, or else from its study in the data folder. If `study` is given, the new report is made from
    that study.
    """
    path = path.parent if path.name == "index.html" else path
    files = _files(path)
    index = files.get("index.html", b"").decode(errors="replace")
    if beside := _BESIDE.search(index):
        fix = f"check the report of each: rqps report --check {' or '.join(Markup(beside[1]).unescape().split())}"
        raise RqpsError(f"{path}: this page compares two studies, and contains the data of neither", fix=fix)
    name_of_study, digest = _STUDY.search(index), _DIGEST.search(index)
    if not name_of_study:
        raise RqpsError(f"{path}: not a report", fix="give the folder of one, or the file that --single-file made")
    with Scratch() as scratch:
        enclosed = None if study else next((name for name in files if name.endswith(SUFFIX)), None)
        if enclosed:
            study = str(scratch / enclosed)
            Path(study).write_bytes(files[enclosed])
            if digest and digest[1] != sha256(Path(study)):
                what = f"{path}: {enclosed} is not the file that was put into this report"
                raise RqpsError(what, fix="have the report sent again")
        study = study or Markup(name_of_study[1]).unescape()
        check_whole(study, data)
        made = _files(build(study, data, scratch / "report", notebooks).parent)
        pages = [name for name in files if name.endswith(".html")]
        compared = [name for name in pages if name in made]
        frame_of = frames_of(load(study, data), analysis_notebooks(notebooks))
        claims = [line for name in compared for line in wrong_claims(name, files[name], frame_of)]
    differences = [line for name in compared for line in _differences(name, files[name], made[name])]
    missing = [f"{name}: is not there" for name in made if "/" not in name and name not in files]
    return Checked(len(compared), [*differences, *claims, *missing], [name for name in pages if name not in compared])


def wrong_claims(name: str, page: bytes, frame_of: Callable[[str], pl.DataFrame]) -> list[str]:
    """Describes each claim on a page that the frames contradict, with the name of the page."""
    # Most of a page is in no list. To parse all of it would take ten times as long.
    lists = _ITEM.findall(page.decode(errors="replace"))
    items = _Claims("".join(item for item in lists if "data-claims" in item.lower())).items
    return [f"{name}: {problem}" for text, claims in items for problem in wrong(from_item(text, claims), frame_of)]


def _files(path: Path) -> Mapping[str, bytes]:
    """Maps the file names of a report's pages and data to their content."""
    if not path.is_dir():
        return unpacked(path)
    return {
        file.relative_to(path).as_posix(): file.read_bytes()
        for file in sorted(path.rglob("*"))
        if file.suffix in (".html", SUFFIX)
    }


def _differences(name: str, page: bytes, again: bytes) -> Iterator[str]:
    theirs, ours = (_Lines(html.decode(errors="replace")).lines for html in (page, again))
    differ = [(mine, yours) for mine, yours in zip(theirs, ours, strict=False) if mine[1] != yours[1]]
    if len(theirs) != len(ours):
        yield f"{name}: {len(theirs):,} lines with numbers, and its data give {len(ours):,}; the first that differ:"
        differ = differ[:1]
    for (place, text), (_, other) in differ[:MOST_SHOWN]:
        has, gives = _where_they_differ(text, other)
        yield f"{name}, {place}: the report has {has}, its data give {gives}"
    if len(differ) > MOST_SHOWN:
        yield f"{name}: {len(differ) - MOST_SHOWN:,} more lines differ"


def _where_they_differ(*texts: str) -> Iterator[str]:
    """The texts, unchanged if they are short; long texts are cut to the part in which they differ, with some
    characters before that part.

    >>> [len(text) for text in _where_they_differ("a" * 999 + "1", "a" * 999 + "2")]
    [62, 62]
    """
    alike = next((at for at, (one, other) in enumerate(zip(*texts, strict=False)) if one != other), 0)
    start = max(alike - WORDS_BEFORE, 0) if max(map(len, texts)) > LONGEST_SHOWN else 0
    for text in texts:
        shown = text[start:][:LONGEST_SHOWN]
        yield f"{'…' * (start > 0)}{shown}{'…' * (not text.endswith(shown))}"


class _Claims(HTMLParser):
    """Collects the sentences of a page that have claims, each with its claims as JSON."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.items: list[tuple[str, str]] = []
        self._claims, self._text = "", ""
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag == "li":
            self._claims, self._text = dict(attributes).get("data-claims") or "", ""

    def handle_endtag(self, tag: str) -> None:
        if tag == "li" and self._claims:
            self.items.append((self._text, self._claims))
            self._claims = ""

    def handle_data(self, data: str) -> None:
        self._text += data


class _Lines(HTMLParser):
    """Collects the lines with numbers in a page's text and charts, without code, the footer and `aside` elements."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.lines: list[Line] = []
        self._skipped = self._within = self._heading = ""
        self._row: str | None = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        has = dict(attributes)
        program = tag == "script" and has.get("type") != "application/json"
        # A link to another report is missing if the page is made again where that report is not.
        to_another = tag == "a" and str(has.get("href")).startswith("../")
        left_out = program or to_another or tag in ("style", "footer", "aside") or has.get("class") == "code"
        if left_out and not self._skipped:
            self._skipped = tag
        self._within = tag
        if tag == "tr":
            self._row = None  # set by the row's first cell
        if "data-chart" in has:
            self._heading, self._row = str(has["data-chart"]), ""

    def handle_endtag(self, tag: str) -> None:
        if tag == self._skipped:
            self._skipped = ""
        if tag == "table":
            self._row = ""

    def handle_data(self, data: str) -> None:
        if self._skipped:
            return
        text = _HASH.sub('"data"', data) if self._within == "script" else data
        for line in filter(None, (line.strip() for part in text.split("\n") for line in _ROWS.split(part))):
            if self._within in ("h1", "h2"):
                self._heading, self._row = line, ""
            elif self._row is None:
                self._row = line
            if re.search(r"\d", line):
                self.lines.append((", ".join(filter(None, (self._heading, self._row))), line))
