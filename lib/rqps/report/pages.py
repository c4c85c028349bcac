"""Pages from templates. Each is one file that asks for nothing: style, scripts and pictures are inside."""

from functools import cache
from pathlib import Path
from typing import Any

import nbformat
import vl_convert
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from rqps.report.outputs import content_of
from rqps.view.renderer import VEGALITE

# The browser itself holds the page to that. Vega compiles its expressions, hence unsafe-eval.
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline' 'unsafe-eval'"
NOTHING = Markup("")


def notebook_page(
    notebook: Path, *, study: str, lead: str, home: str, made: str, profiled: Markup = NOTHING
) -> tuple[str, str]:
    """The title and the page of an executed notebook. `home` is where the study's index is from there.

    `profiled` says, as JSON, of which steps and dbms a page tells where the time goes.
    """
    content = content_of(nbformat.read(notebook, as_version=4))
    title = content.title or notebook.stem
    page = _render(
        "notebook.html.j2",
        title=f"{title} · {study}",
        heading=title,
        lead=lead,
        study=f"study {study}",
        home=home,
        made=made,
        profiled=profiled,
        contents=content.contents,
        parts=content.parts,
        specs=content.specs,
        vega=vega() if content.specs else "",
        js=asset("page.js"),
    )
    return title, page


def index_page(*, profiled: Markup = NOTHING, **told: Any) -> str:
    """The page that leads to all others."""
    return _render("index.html.j2", contents=(), profiled=profiled, **told)


@cache
def vega() -> Markup:
    """Vega, Vega-Lite and the embedder in one script, once a page."""
    bundle: str = vl_convert.javascript_bundle(vl_version=VEGALITE)  # type: ignore[call-arg]
    return Markup(bundle.replace("</script", "<\\/script"))


@cache
def asset(name: str) -> Markup:
    return Markup((Path(__file__).parent / "templates" / name).read_text(encoding="utf-8"))


@cache
def _templates() -> Environment:
    return Environment(
        loader=PackageLoader("rqps.report"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )


def _render(template: str, **values: Any) -> str:
    assets = {"css": asset("page.css"), "sort": asset("sort.js"), "profiled_js": asset("profiled.js")}
    return _templates().get_template(template).render(policy=POLICY, **assets, **values)
