"""Renders executed notebooks as pages. A page is one file with its style, scripts and pictures; it loads nothing."""

import json
import re
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from itertools import chain, count, takewhile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import nbformat
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from nbconvert.filters import ansi2html, strip_ansi
from nbconvert.filters.highlight import Highlight2HTML
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from nbconvert.preprocessors import CoalesceStreamsPreprocessor
from nbconvert.preprocessors.sanitize import SanitizeHTML
from nbformat import NotebookNode, ValidationError

from rqps.engines.cache import cache_dir, made_once
from rqps.errors import RqpsError
from rqps.scratch import replacing
from rqps.show.claims import as_item
from rqps.show.drawing import VEGALITE
from rqps.show.flame import script_element, without_program
from rqps.show.lines import NUMBERS
from rqps.show.renderer import MIME
from rqps.show.words import Nothing

# This policy makes the browser block all requests of the page. Vega compiles its expressions, hence unsafe-eval.
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline' 'unsafe-eval'"
# Maximum number of rows of a table that is shown open; a longer table is folded.
MOST_ROWS = 55
FOLDED = "folded"
"""The tag of a prose cell whose section few readers need: the page folds this section."""
FRAME = 'class="dataframe"'
"""An attribute by which the HTML of a polars frame is recognised."""

_TABLE_TITLE = re.compile(r"<[^>]* class=\"[^\"]*gt_title[^\"]*\"[^>]*>([^<]+)<")
_HEADING = re.compile(r"<h2>(.*?)</h2>", re.DOTALL)
_FIRST = re.compile(r"\s*(<h2.*?</h2>)(.*)", re.DOTALL)
_ANCHORED = re.compile(r'<h2 id="([^"]+)">')
_PLAIN = re.compile(r'<span class="(?!(?:k|kn|kc|s1|s2|c1|mi|mf)")\w+">([^<]*)</span>')
"""Matches words of highlighted code for which the page's style has no colour."""
_TAG = re.compile(r"<[^>]+>")
_NOTHING = Markup("")
_STYLE = re.compile(r"<(style|script)\b.*?</\1>", re.DOTALL | re.IGNORECASE)
_OF_PROGRAMS = {
    *("url", "href", "loader", "params", "transform", "expr", "signal", "signals"),
    *("test", "update", "on", "expressionFunctions", "embedOptions"),
}
"""Keys in the specification of a chart that could load data, link elsewhere or run expressions."""
_OF_TABLES = [
    *("table", "caption", "thead", "tbody", "tfoot", "tr", "th", "td"),
    *("div", "p", "small", "br", "b", "i", "code"),
]


def notebook_page(
    notebook: Path,
    *,
    study: str,
    home: str,
    made: str,
    lead: str = "",
    to_rounds: Markup = _NOTHING,
    logs: Mapping[str, str] | None = None,
    names: Mapping[str, str] | None = None,
    pictures: Path | None = None,
    trusted: bool = True,
) -> tuple[str, str]:
    """The title and the HTML of an executed notebook's page. `home` is the relative path of the study's index,
    `pictures` the folder of the charts that another process drew.

    `to_rounds` has the links from numbers to their rounds, as JSON (see `links_to_rounds`). `logs` maps names to
    logs, which are shown at the end; `names` maps dbms to names, which are shown as a legend. If a notebook is not
    trusted, its page shows no HTML except tables.
    """
    try:
        read = nbformat.read(notebook, as_version=4)
        if pictures:
            _put_in_place(read, pictures)
        content = content_of(read if trusted else _without_programs(read))
    except (OSError, ValueError, KeyError, AttributeError, ValidationError) as error:
        fix = "replace the notebook by an undamaged copy, or move it away: the report is then made without its page"
        raise RqpsError(f"{notebook}: can't be read as a notebook: {str(error)[:300]}", fix=fix) from error
    content.heading = content.heading or notebook.stem
    if logs:
        content.contents["logs"] = "Logs"
    words = {"title": f"{content.heading} · {study}", "lead": lead, "study": study, "home": home, "made": made}
    scripts = {"vega": vega() if content.specs else "", "js": asset("page.js"), "to_rounds": to_rounds}
    lists = {"logs": logs or {}, "names": names or {}}
    return content.heading, render("notebook.html.j2", **words, **vars(content), **scripts, **lists)


def _put_in_place(notebook: NotebookNode, pictures: Path) -> None:
    """Replaces the file name of a picture in each output by the picture itself."""
    outputs = (output for cell in notebook.cells for output in cell.get("outputs", ()))
    for data in (output.data for output in outputs if "data" in output):
        if MIME in data and data["image/png"].endswith(".png"):
            data["image/png"] = b64encode((pictures / data["image/png"]).read_bytes()).decode()


class Part(NamedTuple):
    """A part of the page. `html` and `heading` are inserted as they are; all other texts are escaped."""

    kind: str
    html: Markup = _NOTHING
    heading: Markup = _NOTHING
    """The heading of a section that the page folds, since few readers need it."""
    text: str = ""
    rows: int = 0
    """Number of rows of a folded table; 0 if the table is not folded."""
    anchor: str = ""
    claim: str = ""
    how: str = ""
    min_width_px: int = 0
    png: str = ""


_EMPTY_CHART = Part("chart")


@dataclass
class Content:
    """The parts of a notebook's page."""

    heading: str = ""
    parts: list[Part] = field(default_factory=list)
    contents: dict[str, str] = field(default_factory=dict)
    """Maps anchors to headings; an anchor is made from the words of its heading."""
    specs: dict[str, Markup] = field(default_factory=dict)
    """Maps anchors to charts as JSON; an anchor is made from the heading above the chart."""

    def anchor(self, words: str, taken: Mapping[str, object]) -> str:
        """An anchor made from words, so that links to it stay valid while the words do not change. If the anchor is
        taken, a number is added.

        >>> Content().anchor("Over time, again", {"over-time-again": ""})
        'over-time-again-2'
        """
        name = "-".join(re.findall(r"\w+", words.lower())) or "part"
        numbered = (f"{name}-{number}" for number in count(2))
        return next(candidate for candidate in chain([name], numbered) if candidate not in taken)


def content_of(notebook: NotebookNode) -> Content:
    """The parts of a notebook's page; the notebook's first heading is the page's title."""
    content = Content()
    # A Jupyter kernel sends printed text in pieces, some of them parts of a line. This merges the pieces.
    notebook, _ = CoalesceStreamsPreprocessor().preprocess(notebook, {})  # type: ignore[no-untyped-call]
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            _add_prose(content, cell.source, FOLDED in cell.metadata.get("tags", ()))
        elif cell.cell_type == "code" and cell.source.strip():
            html = _highlighted(cell.source)
            # If the code cell before had no output, both cells are shown as one.
            if content.parts and content.parts[-1].kind == "code":
                html = content.parts.pop().html + html
            content.parts.append(Part("code", html=html))
            content.parts += [
                _EMPTY_CHART if _is_empty(output) else _part(content, output) for output in cell.outputs
            ]
    _remove_empty_sections(content)
    if any(part.kind == "drawing" for part in content.parts):
        # One script serves all drawings of the page.
        content.parts.append(Part("drawing", html=Markup(script_element())))
    return content


@cache
def _highlighted(code: str) -> Markup:
    """The HTML of a cell's code. The notebooks of a study's runs have the same cells."""
    return Markup(_PLAIN.sub(r"\1", Highlight2HTML()(code)))  # type: ignore[no-untyped-call]


def _without_programs(notebook: NotebookNode) -> NotebookNode:
    """The notebook without scripts: its HTML keeps only the tags of tables; a chart that could run code is replaced
    by its picture."""
    cleaner = SanitizeHTML(tags=_OF_TABLES, attributes={"*": ["class"]}, strip=True)  # type: ignore[no-untyped-call]
    for output in (output for cell in notebook.cells for output in cell.get("outputs", ())):
        data = output.get("data", {})
        if _has_program(data.get(MIME)):
            del data[MIME]
        if "text/html" in data:
            html = _STYLE.sub("", _of_frame("".join(data["text/html"])))
            data["text/html"] = cleaner.sanitize_html_tags(html)  # type: ignore[no-untyped-call]
    return notebook


def _has_program(chart: Any) -> bool:
    """True if a chart could do more than show its own data, such as load a URL.

    >>> _has_program({"mark": "bar", "data": {"url": "https://example.org/"}}), _has_program({"mark": "bar"})
    (True, False)
    """
    if isinstance(chart, list):
        return any(map(_has_program, chart))
    if not isinstance(chart, dict):
        return False
    return any(
        key in _OF_PROGRAMS or (key.endswith("Expr") and value != NUMBERS) or _has_program(value)
        for key, value in chart.items()
        if key != "datasets"  # a column of the data may have the name of such a key
    )


def _remove_empty_sections(content: Content) -> None:
    """Removes each section, with its heading and prose, whose outputs show no result but only the reason why there is
    none."""
    groups: list[list[Part]] = []
    for part in content.parts:
        if part.kind == "prose" or not groups:
            groups.append([])
        groups[-1].append(part)
    headings = [_ANCHORED.findall(group[0].heading + group[0].html) for group in groups]
    empty = [_shows_nothing(group) for group in groups]
    content.parts = []
    for number, group in enumerate(groups):
        following = takewhile(lambda later: not headings[later], range(number + 1, len(groups)))
        of_section = [number, *following] if headings[number] else [number]
        if all(empty[part] for part in of_section):
            for anchor in headings[number]:
                del content.contents[anchor]
        else:
            content.parts += [part for part in group if part is not _EMPTY_CHART]


def _shows_nothing(group: list[Part]) -> bool:
    shown = [part for part in group if part.kind not in ("prose", "code")]
    return bool(shown) and all(Nothing.MARK in part.html or part is _EMPTY_CHART for part in shown)


def _add_prose(content: Content, source: str, folded: bool) -> None:
    if not content.heading and source.startswith("# "):
        first, _, source = source.partition("\n")
        content.heading = first.removeprefix("# ").strip()
    renderer = IPythonRenderer(escape=True, allow_harmful_protocols=False, exclude_anchor_links=True)
    html = MarkdownWithMath(renderer=renderer).render(source)

    def anchored(heading: re.Match[str]) -> str:
        text = Markup(_TAG.sub("", heading[1])).unescape()
        anchor = content.anchor(text, content.contents)
        content.contents[anchor] = text
        return f'<h2 id="{anchor}">{heading[1]}</h2>'

    html = _HEADING.sub(anchored, html)
    begin = _FIRST.match(html) if folded else None
    heading, rest = begin.groups() if begin else ("", html)
    content.parts.append(Part("prose", html=Markup(rest), heading=Markup(heading)))


def _is_empty(output: NotebookNode) -> bool:
    """True if an output is a chart without rows, which would show only axes."""
    datasets = output.get("data", {}).get(MIME, {}).get("datasets", {})
    return bool(datasets) and not any(datasets.values())


def _of_frame(html: str) -> str:
    """The HTML of a polars frame for a page: texts without quotes, and a dash for null. A frame without rows becomes
    a sentence.

    >>> _of_frame('<table class="dataframe"><tbody><tr><td>&quot;scan&quot;</td><td>null</td></tr></tbody>')
    '<table class="dataframe"><tbody><tr><td>scan</td><td>–</td></tr></tbody>'
    """
    if "<tbody></tbody>" in html:
        return Nothing(["The study has none of these."])._repr_html_()
    return re.sub(r"<td>&quot;(.*?)&quot;</td>", r"<td>\1</td>", html).replace("<td>null</td>", "<td>–</td>")


def _title_of(chart: dict[str, Any]) -> str:
    """The title in a chart's own specification, for a chart that was not made by `titled`."""
    title = chart.get("title", "")
    return str(title.get("text", "")) if isinstance(title, dict) else str(title)


def _part(content: Content, output: NotebookNode) -> Part:
    """An output of a cell in the best form that a page can show offline."""
    if output.output_type == "stream":
        return Part("text", text=strip_ansi(output.text))  # type: ignore[no-untyped-call]
    if output.output_type == "error":
        text = "\n".join(output.traceback) or f"{output.ename}: {output.evalue}"
        return Part("error", html=Markup(ansi2html(text)))  # type: ignore[no-untyped-call]
    data: dict[str, Any] = output.data
    if MIME in data and "image/png" in data:
        anchor = content.anchor(f"{next(reversed(content.contents), '')} chart", content.specs)
        content.specs[anchor] = json_in_html(data[MIME])
        caption = data[MIME].get("usermeta", {}).get("rqps", {})
        return Part(
            "chart",
            anchor=anchor,
            claim=caption.get("claim") or _title_of(data[MIME]),
            how=caption.get("how", ""),
            min_width_px=int(caption.get("minWidth", 0)),
            png="".join(data["image/png"].split()),
        )
    if "text/html" in data and (drawing := without_program(data["text/html"])):
        return Part("drawing", html=Markup(drawing))
    if "text/html" in data:
        html = _of_frame(data["text/html"]) if FRAME in data["text/html"] else data["text/html"]
        rows, title = html.count("<tr"), _TABLE_TITLE.search(html)
        named = Markup(title[1]).unescape() if title else "the table"
        return Part("table", html=Markup(html), claim=named, rows=rows if rows > MOST_ROWS else 0)
    if "image/png" in data:
        return Part("picture", png="".join(data["image/png"].split()), text=data.get("text/plain", ""))
    return Part("text", text=data.get("text/plain", ""))


def json_in_html(value: object) -> Markup:
    """JSON for a script element, escaped so that no text inside it can end the element.

    >>> json_in_html({"a": "</script>"})
    Markup('{"a":"\\\\u003c/script>"}')
    """
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return Markup(text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029"))


def write_page(file: Path, page: str) -> Path:
    """Writes a page atomically: it replaces an older page only when it is complete."""
    with replacing(file) as new:
        new.write_text(page, encoding="utf-8")
    return file.resolve()


@cache
def vega() -> Markup:
    """Vega, Vega-Lite and vega-embed in one script, which a page contains once. Making it takes more than a second,
    so the script is stored in the user's cache."""

    def make(folder: Path) -> None:
        import vl_convert

        script: str = vl_convert.javascript_bundle(vl_version=VEGALITE)  # type: ignore[call-arg]
        (folder / "vega.js").write_text(script.replace("</script", "<\\/script"), encoding="utf-8")

    name = f"vega-lite-{VEGALITE}-of-vl-convert-{version('vl-convert-python')}"
    with TemporaryDirectory(prefix="rqps-") as temporary:
        try:
            folder = made_once(cache_dir() / "tools" / name, make, lambda _: None)
        except RqpsError:  # the cache can't be written: this process makes its own copy
            make(folder := Path(temporary))
        return Markup((folder / "vega.js").read_text(encoding="utf-8"))


@cache
def asset(name: str) -> Markup:
    return Markup((Path(__file__).parent / "templates" / name).read_text(encoding="utf-8"))


@cache
def _templates() -> Environment:
    made = Environment(loader=PackageLoader("rqps.report"), autoescape=True, undefined=StrictUndefined)
    made.trim_blocks = made.lstrip_blocks = True
    made.filters["as_item"] = lambda sentence: Markup(as_item(sentence))
    return made


def render(template: str, **values: Any) -> str:
    """Renders a template with its values, and with the style and scripts that all pages share."""
    assets = {"css": asset("page.css"), "tables_js": asset("tables.js"), "to_rounds_js": asset("to_rounds.js")}
    return _templates().get_template(template).render(policy=POLICY, **assets, **values)
