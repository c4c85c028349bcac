"""Numbers lead on to their profile, and only where there is one."""

from collections.abc import Iterator
from pathlib import Path

import nbformat
import polars as pl
import pytest
import rqps
from browser import Browser, opened
from markupsafe import Markup
from rqps import charts
from rqps.analysis import profiled, relative, summarise
from rqps.report.outputs import json_in_html
from rqps.report.pages import notebook_page
from synthetic import write_study
from synthetic_report import notebook_of

BASE = "my1.base"


def frames(measured: set[tuple[str, int, str, str]]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Runs and steps of (mode, round, step, dbms)."""
    rows = [
        {"run": f"{mode}{number}@{dbms}", "mode": mode, "host": "here", "round": number, "step": step, "dbms": dbms}
        for mode, number, step, dbms in sorted(measured)
    ]
    frame = pl.DataFrame(rows)
    return frame.select("run", "mode").unique(), frame.drop("mode")


def test_a_number_has_a_profile_where_both_sides_have_one() -> None:
    measured = {
        *(("throughput", 1, "point", dbms) for dbms in (BASE, "my2.base")),
        *(("stacks", 1, "point", dbms) for dbms in (BASE, "my3.base", "my4.base")),
        *(("instructions", 1, "point", dbms) for dbms in (BASE, "my2.base", "my3.base")),
        *(("stacks", 2, "insert", dbms) for dbms in ("my2.base", "my3.base")),
    }
    runs, steps = frames(measured)
    assert profiled(runs, steps, BASE).rows() == [
        ("here", "point", "my2.base", "instructions"),
        ("here", "point", "my3.base", ""),
        ("here", "point", "my4.base", ""),
    ]
    of_ordinary_ones, their_steps = frames({("throughput", 1, "point", BASE), ("throughput", 1, "point", "my2.base")})
    assert profiled(of_ordinary_ones, their_steps, BASE).is_empty()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as running:
        yield running


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A heatmap and both kinds of tables of a made-up study, one of whose numbers has a profile."""
    folder = tmp_path_factory.mktemp("profiled")
    study = rqps.load("synthetic", data=write_study(folder))
    summary = summarise(relative(study.steps, study.runs, BASE))
    notebook = notebook_of([charts.heatmap(summary)])
    stub = charts.plain_table(summary.filter(metric="operations_per_s").select("step", "dbms", "median"), "stub")
    for table in (charts.relative_table(summary), stub.tab_stub(rowname_col="dbms", groupname_col="step")):
        output = nbformat.v4.new_output("execute_result", {"text/html": table.as_raw_html()})
        notebook.cells.append(nbformat.v4.new_code_cell("table", outputs=[output]))
    nbformat.write(notebook, folder / "page.ipynb")
    cells = {"page": "page.html", "cells": [["point-query", "my2.base", ""], ["gone", "my9.base", "instructions"]]}
    for name, leads in (("page", json_in_html(cells)), ("plain", Markup(""))):
        _, html = notebook_page(
            folder / "page.ipynb", study="s", lead="", home="index.html", made="today", profiled=leads
        )
        (folder / f"{name}.html").write_text(html, encoding="utf-8")
    return folder / "page.html"


@pytest.mark.page
def test_cells_of_tables_become_links(browser: Browser, page: Path) -> None:
    with opened(browser, page, 1280) as tab:
        links = "[...document.querySelectorAll('a.profiled')].map(a => [a.getAttribute('href'), a.innerText.trim()])"
        href = "page.html#step=point-query&dbms=my2.base"
        in_table, in_stub = tab.run(links)
        assert in_table[0] == in_stub[0] == href
        assert in_table[1].startswith("▼ 0.70")
        assert in_stub[1] == "my2.base"
        assert tab.complaints() == []


@pytest.mark.page
def test_a_click_on_a_mark_leads_there_too(browser: Browser, page: Path) -> None:
    with opened(browser, page, 1280) as tab:
        tab.wait_for("document.documentElement.dataset.charts === '1 of 1'")
        marks = "[...document.querySelectorAll('#chart-1 svg .layer_0_marks path')]"
        datum = "p.__data__.datum"
        described = f"{marks}.findIndex(p => {datum}.step === 'point-query' && {datum}.dbms === 'my2.base')"
        tab.run(f"{marks}[{described}].scrollIntoView({{block: 'center', behavior: 'instant'}})")
        box = tab.run(f"(({{x, y}}) => ({{x, y}}))({marks}[{described}].getBoundingClientRect())")
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            at = {"x": box["x"] + 4, "y": box["y"] + 4}
            tab.call("Input.dispatchMouseEvent", type=kind, button="left", clickCount=1, **at)
        tab.wait_for("location.hash === '#step=point-query&dbms=my2.base'")


@pytest.mark.page
def test_where_there_is_no_profile_nothing_leads_anywhere(browser: Browser, page: Path) -> None:
    with opened(browser, page.with_name("plain.html"), 1280) as tab:
        tab.wait_for("document.documentElement.dataset.charts === '1 of 1'")
        assert tab.run("document.querySelectorAll('a.profiled').length") == 0
        assert tab.complaints() == []
