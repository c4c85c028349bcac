"""One regression on one screen: its numbers are those of the other pages, and its lists choose without a kernel."""

from pathlib import Path
from typing import Any

import nbformat
import polars as pl
import pytest
import rqps
from browser import DESKTOP, PHONE, Browser, Tab, opened
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from rqps import stats
from rqps.errors import RqpsError
from rqps.pages import one_regression as page
from rqps.report.render import notebook_page
from rqps.show.flame import Drawing
from rqps.stats.status_counters import CERTAIN
from rqps.store import write_study_card
from synthetic import Shape, card, manifest, write_run, write_study
from synthetic_report import HOSTILE

SAMPLE = Path(__file__).parent.parent / "data"


@pytest.fixture(scope="module")
def evidence(tmp_path_factory: pytest.TempPathFactory) -> page.Evidence:
    return page.gather("synthetic", str(write_study(tmp_path_factory.mktemp("study"))))


def html_of(evidence: page.Evidence) -> str:
    made = page.screen(evidence)
    assert isinstance(made, Drawing)
    return made.html


def test_it_begins_with_the_surest_great_difference(evidence: page.Evidence) -> None:
    assert evidence.first == ("here", "update-index", "my1.base", "my2.base")
    claim = "update-index: my2.base runs at 0.7"
    assert html_of(evidence).index(" open><summary>update-index: my2.base against my1.base") > 0
    assert claim in html_of(evidence)


def test_its_numbers_are_those_of_every_other_page(evidence: page.Evidence) -> None:
    _, compared = stats.relate(evidence.study)
    keys = ["step", "metric", "base", "dbms"]
    both = evidence.compared.join(compared, on=keys, suffix="_there")
    assert both.height == compared.height
    assert both.filter(pl.col("estimate") != pl.col("estimate_there")).is_empty()
    assert both.filter(pl.col("verdict") != pl.col("verdict_there")).is_empty()


def test_a_base_is_the_study_s_or_the_release_before_or_the_same_build(evidence: page.Evidence) -> None:
    pairs = {(question.base, question.me) for question in evidence.questions}
    assert pairs == {("my1.base", "my2.base"), ("my1.base", "my2.ps0"), ("my2.base", "my2.ps0")}


def test_a_question_can_be_named(tmp_path: Path) -> None:
    data = str(write_study(tmp_path))
    named = page.gather("synthetic", data, step="point-query", me="my1.base", base="my2.ps0")
    assert named.first == ("here", "point-query", "my2.ps0", "my1.base")
    with pytest.raises(RqpsError, match="did you mean 'point-query'"):
        page.gather("synthetic", data, step="point-quary")
    with pytest.raises(RqpsError, match=r"did you mean 'my2\.base'"):
        page.gather("synthetic", data, me="my2.bas")


def test_a_study_of_people_s_own_is_no_what_if_whatever_its_name(tmp_path: Path) -> None:
    data, own = write_study(tmp_path), "synthetic-if-cached"
    write_study_card(tmp_path / f"raw/study={own}", card(study=own))
    for dbms in ("my1.base", "my2.base"):
        write_run(tmp_path / f"raw/study={own}", manifest(dbms, 1, study=own), Shape())
    assert page.gather("synthetic", str(data)).what_ifs.is_empty()


def test_a_disturbed_round_is_marked(evidence: page.Evidence) -> None:
    """The second run of the made-up study, that of my2.base, has a warning in a step."""
    html = html_of(evidence)
    section = html.partition("<summary>point-query: my2.base against my1.base")[2].partition("</details>")[0]
    assert "⚠ 2 % of CPU time was stolen" in section


def test_settings_that_differ_are_those_of_the_two(evidence: page.Evidence) -> None:
    asked = evidence.settings.filter(dbms="my2.ps0", base="my2.base", asked=True)
    assert asked.select("name", "base_value", "value").rows() == [("performance_schema", "ON", "OFF")]


def test_of_lists_of_flags_only_what_differs_is_shown() -> None:
    from rqps.pages.one_regression.screen import _values

    base, me = "index_merge=on,mrr=on,skip_scan=on", "index_merge=on,mrr=off"
    shown = [text.partition(">")[2].partition("<")[0] for text in _values(base, me)]
    assert shown == ["mrr=on, skip_scan=on", "mrr=off"]


def test_counters_that_changed_alike_stand_by_name() -> None:
    """Whatever the last digits of their means."""
    runs: list[dict[str, Any]] = [
        {"host": "vm", "run": f"{dbms}{number}", "dbms": dbms, "round": number, "step": "scan"}
        for dbms in ("a.x", "b.x")
        for number in (1, 2, 3)
    ]
    rows = [
        {**run, "name": f"counter-{scale:02}", "moment": moment, "value": str(value)}
        for run in runs
        for scale in range(1, 31)
        for moment, value in (("before", 0), ("after", scale * (run["round"] + 7 * (run["dbms"] == "b.x"))))
    ]
    of_step: dict[str, Any] = {
        "operations": 7,
        "errors": 0,
        "operations_per_s": 5.0,
        "elapsed_s": 2.0,
        "warmup_s": 0.3,
    }
    of_step |= {"engine": "mysql"}
    found = stats.status_changes(
        pl.DataFrame(rows), pl.DataFrame([{**run, **of_step} for run in runs]), [("a.x", "b.x")]
    )
    assert found["name"].is_sorted()


def test_counters_are_ranked_by_how_unlikely_their_change_is() -> None:
    study = rqps.load("where-did-it-go", SAMPLE)
    base, other = study.card.base, study.card.dbms[-1]
    found = stats.status_changes(study.status.filter(step="point-query"), study.steps, [(base, other)])
    assert found["chance"].clip(CERTAIN).is_sorted()
    one = found.filter(name="com_stmt_execute").row(0, named=True)
    assert one["base_value"] == pytest.approx(1, rel=0.02)
    assert one["n"] >= stats.verdict.ROUNDS_FOR_A_VERDICT


def test_levels_are_compared_as_levels_and_what_follows_no_operation_is_left_out() -> None:
    status, steps = [], []
    for me, dbms in enumerate(("a.x", "b.x")):
        for number in range(1, 7):
            run = {"host": "vm", "run": f"{dbms}{number}", "dbms": dbms, "round": number, "step": "scan"}
            operations = 100_000 - 20_000 * me + 100 * number
            grown = {"handler_write": 2 * operations, "open_tables": 7 + 5 * me, "uptime": 3, "com_show_status": 1}
            grown["innodb_data_writes"] = 1 + operations % 3 + 400 * me
            for name, growth in grown.items():
                values = {"before": 5, "after": 5 + growth}
                status += [{**run, "name": name, "moment": at, "value": str(value)} for at, value in values.items()]
            of_step = {"operations": operations, "errors": 0, "operations_per_s": 5.0, "elapsed_s": 2.0}
            steps.append({**run, **of_step, "warmup_s": 0.0, "engine": "mysql"})
    compared = stats.status_changes(pl.DataFrame(status), pl.DataFrame(steps), [("a.x", "b.x")])
    rows = {row["name"]: row for row in compared.to_dicts()}
    assert rows.keys() == {"handler_write", "open_tables", "innodb_data_writes"}
    assert (rows["open_tables"]["kind"], rows["open_tables"]["me_value"]) == ("gauge", 17)
    assert rows["handler_write"]["base_value"] == rows["handler_write"]["me_value"] == 2
    assert compared["name"][-1] == "handler_write", "as many per operation: no news"
    assert rows["innodb_data_writes"]["chance"] < CERTAIN


@pytest.mark.page
@pytest.mark.parametrize("width", [DESKTOP, PHONE])
def test_lists_choose_the_question_on_a_page_without_a_kernel(
    width: int, browser: Browser, evidence: page.Evidence, tmp_path: Path
) -> None:
    with opened(browser, page_of(evidence, tmp_path), width) as tab:
        assert shown(tab) == ["update-index: my2.base against my1.base"]
        choose(tab, "step", "point-query")
        assert shown(tab) == ["point-query: my2.base against my1.base"]
        choose(tab, "dbms", "my2.ps0")
        choose(tab, "base", "my2.base")
        assert shown(tab) == ["point-query: my2.ps0 against my2.base"]
        choose(tab, "dbms", "my2.base")
        assert shown(tab) == ["point-query: my2.base against my1.base"], "of that base there is nothing"
        assert "throughput" in rounds(tab)
        choose(tab, "measure", "server_cpu_us_per_operation")
        assert "server CPU" in rounds(tab)
        assert tab.run("location.hash") == "#step=point-query&dbms=my2.base&base=my1.base"
        tab.run("location.hash = '#step=update-index&dbms=my2.ps0&base=my2.base'")
        tab.wait_for(f"{SHOWN}[0]?.dataset.step === 'update-index'")
        assert shown(tab) == ["update-index: my2.ps0 against my2.base"]
        tab.must_fit(width)
        assert tab.complaints() == []


@pytest.mark.page
def test_without_scripts_the_first_question_is_there(
    browser: Browser, evidence: page.Evidence, tmp_path: Path
) -> None:
    with opened(browser, page_of(evidence, tmp_path), DESKTOP, scripts=False):
        pass
    html = html_of(evidence)
    assert html.count('<details class="rqps-question"') == len(evidence.questions)
    assert html.count(" open><summary>") == 1


def test_names_with_markup_stay_text(tmp_path: Path) -> None:
    study = page.gather("synthetic", str(write_study(tmp_path, Shape(steps=("point-query", f"a {HOSTILE}")))))
    html = html_of(study)
    assert "<img src=x" not in html


def test_a_study_with_nothing_to_compare_says_so(tmp_path: Path) -> None:
    with pytest.raises(RqpsError, match="no round has both its base and another dbms"):
        page.gather("synthetic", str(write_study(tmp_path, Shape(dbms=("my1.base",)))))


SHOWN = "[...document.querySelectorAll('.rqps-question')].filter(each => !each.hidden)"


def shown(tab: Tab) -> list[str]:
    found: list[str] = tab.run(f"{SHOWN}.map(each => each.querySelector('summary').innerText)")
    return found


def choose(tab: Tab, name: str, value: str) -> None:
    of = f"document.querySelector('.rqps-choose select[name={name}]')"
    tab.run(f"{of}.value = {value!r}; {of}.dispatchEvent(new Event('change', {{bubbles: true}}))")


def rounds(tab: Tab) -> str:
    found: str = tab.run(f"[...{SHOWN}[0].querySelectorAll('[data-measure]')].filter(e => !e.hidden)[0].innerText")
    return found


def page_of(evidence: page.Evidence, folder: Path) -> Path:
    made = page.screen(evidence)
    assert isinstance(made, Drawing)
    output = new_output("execute_result", dict(made._repr_mimebundle_()))
    cells = [new_markdown_cell("# One regression"), new_code_cell("it", outputs=[output])]
    nbformat.write(new_notebook(cells=cells), folder / "page.ipynb")
    _, html = notebook_page(folder / "page.ipynb", study="s", lead="", home="index.html", made="today")
    (folder / "page.html").write_text(html, encoding="utf-8")
    return folder / "page.html"
