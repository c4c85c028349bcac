"""Numbers lead to their rounds, and these to a profile, where there is one."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nbformat
import polars as pl
import pytest
import rqps
import synthetic_scenarios
from browser import Browser, opened
from executed import Notebook
from markupsafe import Markup
from rqps import show
from rqps.report.profiles import links_to_profiles, profiled
from rqps.report.render import json_in_html, notebook_page
from rqps.report.rounds import links_to_rounds
from rqps.stats import relate
from rqps.store import write_study_card
from synthetic import Shape, card, manifest, write_run, write_study
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


QUICK = Shape(rounds=1)
PROFILES = "flamegraph_breakdown"


def write_profiled(
    data: Path, study: str, parameters: Mapping[str, Any] | None = None, digest: str = "", **changes: Any
) -> None:
    """A study that counted the instructions of two dbms."""
    folder = data / f"raw/study={study}"
    of_study = {**card(QUICK).parameters, **(parameters or {})}
    write_study_card(folder, card(QUICK, study=study, parameters=of_study))
    for dbms in QUICK.dbms[:2]:
        facts = {"study": study, "run": f"i01@{dbms}@here", "mode": "instructions", "parameters": of_study} | changes
        built = {"build_digest": digest} if digest and dbms != BASE else {}
        write_run(folder, manifest(dbms, 1, QUICK, **facts, **built), QUICK)


def test_a_study_without_profiles_says_how_to_get_them(tmp_path: Path) -> None:
    write_study(tmp_path, QUICK)
    result = links_to_profiles("synthetic", tmp_path, PROFILES, tmp_path / "report")
    assert result.by == {}
    assert "stacks_rounds: 4" in result.note


def test_a_study_with_profiles_leads_to_its_own(tmp_path: Path) -> None:
    write_profiled(tmp_path, "counted")
    result = links_to_profiles("counted", tmp_path, PROFILES, tmp_path / "report")
    assert result.page == f"{PROFILES}.html"
    assert result.by == {(step, QUICK.dbms[1]): "instructions" for step in QUICK.steps}
    assert result.note == ""
    assert links_to_profiles("counted", tmp_path, None, tmp_path / "report").by == {}


def test_a_study_links_to_the_profiles_of_another_of_the_same_work_once_they_are_rendered(tmp_path: Path) -> None:
    write_study(tmp_path, QUICK)
    write_profiled(tmp_path, "counted", {"seconds": 99, "counted_operations": 10})
    report = tmp_path / "report"
    result = links_to_profiles("synthetic", tmp_path, PROFILES, report)
    assert result.by == {}, "nothing leads to a page that is not there"
    assert "rqps report counted" in result.note
    (report / "counted").mkdir(parents=True)
    (report / "counted" / f"{PROFILES}.html").write_text("profiles")
    result = links_to_profiles("synthetic", tmp_path, PROFILES, report)
    assert result.page == f"../counted/{PROFILES}.html"
    assert {dbms for _, dbms in result.by} == {QUICK.dbms[1]}
    assert "the study counted" in result.note


def test_a_machine_is_the_same_whatever_it_is_called(tmp_path: Path) -> None:
    write_study(tmp_path, QUICK)
    write_profiled(tmp_path, "counted", host="there")
    result = links_to_profiles("synthetic", tmp_path, PROFILES, tmp_path / "report")
    assert "rqps report counted" in result.note


@pytest.mark.parametrize(
    "other",
    [
        {"parameters": {"table_rows": 5}},
        {"digest": "another binary"},
        {"machine": {"cpu_model": "Another CPU", "memory_kb": 1000}},
    ],
)
def test_profiles_of_other_tables_binaries_or_machines_are_not_led_to(other: dict[str, Any], tmp_path: Path) -> None:
    write_study(tmp_path, QUICK)
    write_profiled(tmp_path, "counted", **other)
    result = links_to_profiles("synthetic", tmp_path, PROFILES, tmp_path / "report")
    assert "stacks_rounds: 4" in result.note


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A heatmap and all kinds of tables of a made-up study, one of whose numbers has rounds."""
    folder = tmp_path_factory.mktemp("profiled")
    study = rqps.load("synthetic", data=write_study(folder))
    _, summary = relate(study)
    notebook = notebook_of([show.heatmap(summary)])
    few = summary.filter(metric="operations_per_s").select("step", "dbms", "estimate")
    stubbed = show.table(few, [show.Column("estimate")], name="stub", group="step", rows="dbms")
    named = show.table(few.with_columns(pl.col("estimate").round(2)), name="named")
    wide = pl.DataFrame({"dbms": ["my2.base"], "insert": ["0.9"], "point-query": ["0.7"]})
    by_dbms = show.table(wide, name="wide")
    for table in (show.ratio_table(summary), stubbed, named, by_dbms):
        output = nbformat.v4.new_output("execute_result", {"text/html": table.as_raw_html()})
        notebook.cells.append(nbformat.v4.new_code_cell("table", outputs=[output]))
    nbformat.write(notebook, folder / "page.ipynb")
    cells = [
        {"step": step, "dbms": [dbms], "base": [BASE]}
        for step, dbms in (("point-query", "my2.base"), ("gone", "my9.base"))
    ]
    leads = {"page": "page.html", "base": BASE, "cells": cells}
    for name, links in (("page", json_in_html(leads)), ("plain", Markup(""))):
        _, html = notebook_page(
            folder / "page.ipynb", study="s", lead="", home="index.html", made="today", to_rounds=links
        )
        (folder / f"{name}.html").write_text(html, encoding="utf-8")
    return folder / "page.html"


@pytest.mark.page
def test_cells_of_tables_become_links(browser: Browser, page: Path) -> None:
    with opened(browser, page, 1280) as tab:
        links = "[...document.querySelectorAll('a.to-rounds')].map(a => [a.getAttribute('href'), a.innerText.trim()])"
        href = "page.html#step=point-query&dbms=my2.base"
        in_table, in_stub, *in_row, in_column = tab.run(links)
        assert in_table[0] == in_stub[0] == href
        assert in_table[1].startswith("▼ 0.70")
        assert in_stub[1] == "my2.base"
        assert in_column == [href, "0.7"], "of a table with a column a step"
        # of a row that names both, by that name and by its numbers
        assert {one[0] for one in in_row} == {href}
        assert [one[1] for one in in_row] == ["my2.base", "0.7"]
        assert tab.complaints() == []


@pytest.mark.page
def test_a_click_on_a_mark_leads_there_too(browser: Browser, page: Path) -> None:
    with opened(browser, page, 1280) as tab:
        tab.wait_for("document.documentElement.dataset.charts === '1 of 1'")
        marks = "[...document.querySelectorAll('figure svg .layer_0_marks path')]"
        datum = "p.__data__.datum"
        described = f"{marks}.findIndex(p => {datum}.step === 'point-query' && {datum}.dbms === 'my2.base')"
        box = tab.box(f"{marks}[{described}]")
        clicked = ("mouseMoved", "mousePressed", "mouseReleased")
        tab.mouse(box["x"] + 4, box["y"] + 4, *clicked, button="left", clickCount=1)
        tab.wait_for("location.hash === '#step=point-query&dbms=my2.base'")


@pytest.mark.page
@pytest.mark.parametrize("dbms", ["my8.waits-only", "my8.off"], ids=["me", "base"])
def test_each_point_by_number_of_clients_leads_to_its_rounds(dbms: str, browser: Browser, tmp_path: Path) -> None:
    steps = ("read-write@1", "read-write@4")
    study = rqps.load("synthetic", data=synthetic_scenarios.write(tmp_path, steps=steps))
    nbformat.write(notebook_of([Notebook("perf_schema_overhead", study)["by_clients"]]), tmp_path / "page.ipynb")
    links = links_to_rounds(study.card.base, relate(study)[1])
    _, html = notebook_page(tmp_path / "page.ipynb", study="s", home="index.html", made="today", to_rounds=links)
    (tmp_path / "page.html").write_text(html, encoding="utf-8")
    with opened(browser, tmp_path / "page.html", 1280) as tab:
        tab.wait_for("document.documentElement.dataset.charts === '1 of 1'")
        tab.run("addEventListener('click', e => { window.led ??= e.target.hash; e.preventDefault(); })")
        points = "[...document.querySelectorAll('figure svg .mark-symbol path')]"
        named = f"d => d?.dbms === {dbms!r} && d.step === 'read-write@4'"
        box = tab.box(f"{points}.find(p => ({named})(p.__data__?.datum))")
        at = (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        tab.mouse(*at, "mouseMoved", "mousePressed", "mouseReleased", button="left", clickCount=1)
        assert tab.wait_for("window.led").startswith("#step=read-write%404&dbms=my8.")
        if dbms != study.card.base:
            assert tab.run("window.led").endswith(f"&dbms={dbms}")


@pytest.mark.page
def test_a_page_without_rounds_leads_nowhere(browser: Browser, page: Path) -> None:
    with opened(browser, page.with_name("plain.html"), 1280) as tab:
        tab.wait_for("document.documentElement.dataset.charts === '1 of 1'")
        assert tab.run("document.querySelectorAll('a.to-rounds').length") == 0
        assert tab.complaints() == []
