"""One regression on one screen: its numbers are those of the other pages, and its lists choose without a kernel."""

import ast
import base64
import json
import re
import zlib
from pathlib import Path
from typing import Any

import nbformat
import polars as pl
import pytest
import rqps
from browser import DESKTOP, PHONE, Browser, Tab, opened
from rqps import stats
from rqps.errors import RqpsError
from rqps.pages import one_regression as page
from rqps.show.flame import Drawing
from rqps.stats.status_counters import CERTAIN
from rqps.store import write_study_card
from rqps.study import ROUNDS_FOR_A_VERDICT
from synthetic import Shape, card, manifest, write_run, write_study
from synthetic_report import HOSTILE, page_of

ROOT = Path(__file__).parent.parent
SAMPLE = ROOT / "data"
NOTEBOOK = ROOT / "notebooks/investigate/one_regression.ipynb"


def executed(study: str, data: Path, **parameters: str) -> dict[str, Any]:
    """The names that the notebook's cells make, and the screen among them."""
    names: dict[str, Any] = {}
    for cell in nbformat.read(NOTEBOOK, as_version=4).cells:
        if cell.cell_type != "code":
            continue
        tree = ast.parse(cell.source)
        exec(compile(tree, "cell", "exec"), names)
        if "parameters" in cell.metadata.get("tags", []):
            names |= {"study": study, "data": str(data), **parameters}
        elif "show.questions(" in cell.source:
            assert isinstance(tree.body[-1], ast.Expr)
            names["screen"] = eval(compile(ast.Expression(tree.body[-1].value), "cell", "eval"), names)
    return names


def sections(screen: Drawing) -> dict[tuple[str, str, str], str]:
    """The HTML of each question of a screen, by step, dbms and base."""
    packed = re.findall(
        r'<script type="application/x-rqps-question" data-host="[^"]*" data-step="([^"]*)" data-base="([^"]*)" '
        r'data-dbms="([^"]*)">([^<]*)<',
        screen.html,
    )
    return {(step, me, base): json.loads(zlib.decompress(base64.b64decode(text))) for step, base, me, text in packed}


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return executed("synthetic", write_study(tmp_path_factory.mktemp("study")))


@pytest.fixture(scope="module")
def sample() -> dict[str, Any]:
    return executed("where-did-it-go", SAMPLE)


@pytest.fixture(scope="module")
def screen(names: dict[str, Any]) -> Drawing:
    made = names["screen"]
    assert isinstance(made, Drawing)
    return made


def test_it_begins_with_the_surest_great_difference(names: dict[str, Any], screen: Drawing) -> None:
    assert names["first"] == ("here", "update-index", "my1.base", "my2.base")
    shown = screen.html.partition('<div class="rqps-chosen">')[2].partition("<script")[0]
    assert "update-index: my2.base against my1.base" in shown
    assert re.search(r"update-index: MySQL 2\.0\.0 runs at 0\.7\d+x of MySQL 1\.0\.0 ", shown)
    assert len(sections(screen)) == names["answers"].height


def test_its_numbers_are_those_of_every_other_page(names: dict[str, Any]) -> None:
    _, compared = stats.relate(names["measured"])
    keys = ["step", "metric", "base", "dbms"]
    both = names["compared"].join(compared, on=keys, suffix="_there")
    assert both.height == compared.height
    assert both.filter(pl.col("estimate") != pl.col("estimate_there")).is_empty()
    assert both.filter(pl.col("verdict") != pl.col("verdict_there")).is_empty()


def test_counted_instructions_are_decided_as_on_every_other_page() -> None:
    study = rqps.load("where-did-it-go", SAMPLE)
    _, compared = page.relate(study, page.pairs_of(study))
    ours = compared.filter(base=study.card.base, metric="server_instructions_per_operation")
    theirs = stats.relate(study)[1].filter(metric="server_instructions_per_operation")
    assert ours.height > 0
    assert ours.select(theirs.columns).equals(theirs)


def test_a_base_is_the_study_s_or_the_release_before_or_the_same_build(names: dict[str, Any]) -> None:
    pairs = set(names["answers"].select("base", "dbms").rows())
    assert pairs == {("my1.base", "my2.base"), ("my1.base", "my2.ps0"), ("my2.base", "my2.ps0")}


def test_a_question_can_be_named(tmp_path: Path) -> None:
    data = write_study(tmp_path)
    named = executed("synthetic", data, step="point-query", me="my1.base", base="my2.ps0")
    assert named["first"] == ("here", "point-query", "my2.ps0", "my1.base")
    with pytest.raises(RqpsError, match="did you mean 'point-query'"):
        executed("synthetic", data, step="point-quary")
    with pytest.raises(RqpsError, match=r"did you mean 'my2\.base'"):
        executed("synthetic", data, me="my2.bas")


def test_a_study_of_people_s_own_is_no_what_if_whatever_its_name(tmp_path: Path) -> None:
    data, own = write_study(tmp_path), "synthetic-if-cached"
    write_study_card(tmp_path / f"raw/study={own}", card(study=own))
    for dbms in ("my1.base", "my2.base"):
        write_run(tmp_path / f"raw/study={own}", manifest(dbms, 1, study=own), Shape())
    assert stats.what_ifs(rqps.load("synthetic", data)).is_empty()


def test_a_disturbed_round_is_marked(screen: Drawing) -> None:
    """The second run of the made-up study, that of my2.base, has a warning in a step."""
    assert "⚠ 2 % of CPU time was stolen" in sections(screen)["point-query", "my2.base", "my1.base"]


def test_settings_that_differ_are_those_of_the_two(names: dict[str, Any]) -> None:
    asked = names["settings"].filter(dbms="my2.ps0", base="my2.base", asked_for="yes", step="point-query")
    assert asked.select("name", "base_value", "me_value").rows() == [("performance_schema", "ON", "OFF")]


def test_of_lists_of_flags_only_what_differs_is_shown(sample: dict[str, Any]) -> None:
    settings = sample["settings"].filter(name="optimizer_switch", asked_for="")
    base, me = settings.filter(base="my5624.common", dbms="my8033.common").select("base_value", "me_value").row(0)
    assert "skip_scan=on" in me
    assert "index_merge=on" not in f"{base}{me}"


def test_what_to_try_would_change_something_and_touches_enough(sample: dict[str, Any]) -> None:
    tries = sample["tries"].filter(pl.col("call").str.starts_with("rqps.what_if"))
    assert not tries.filter(
        pl.col("dbms").str.ends_with(".ps0"), pl.col("call").str.contains("performance_schema")
    ).height
    assert tries.filter(
        pl.col("dbms").str.ends_with(".common"), pl.col("call").str.contains("performance_schema")
    ).height
    percents = tries.with_columns(percent=pl.col("it_would_tell").str.extract(r": ([\d.]+) %").cast(pl.Float64))
    assert percents["percent"].min() >= 2.0, "the smallest effect"
    schema = sample["components"].filter(part="performance schema").join(percents, on=sample["keys"])
    schema = schema.filter(pl.col("call").str.contains("performance_schema"))
    off = schema["percent"] - 100 * schema["me_estimate"] / schema["me_measured"]
    assert schema.height > 0
    assert off.abs().max() < 0.06, "as the table of components has it"
    of_questions = percents.group_by(sample["keys"], maintain_order=True).agg("percent")["percent"].to_list()
    assert all(sizes == sorted(sizes, reverse=True) for sizes in of_questions)


def test_counters_that_changed_alike_stand_by_name() -> None:
    """Whatever the last digits of their means."""
    runs: list[dict[str, Any]] = [
        {"host": "vm", "run": f"{dbms}{number}", "dbms": dbms, "round": number, "step": "scan"}
        for dbms in ("a.x", "b.x")
        for number in (1, 2, 3)
    ]
    rows = [
        {**run, "name": f"counter-{scale:02}", "object": None, "moment": moment, "value": str(value)}
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
    result = stats.status_changes(
        pl.DataFrame(rows), pl.DataFrame([{**run, **of_step} for run in runs]), [("a.x", "b.x")]
    )
    assert result["name"].is_sorted()


def test_counters_are_ranked_by_how_unlikely_their_change_is() -> None:
    study = rqps.load("where-did-it-go", SAMPLE)
    base, other = study.card.base, study.card.dbms[-1]
    result = stats.status_changes(study.status.filter(step="point-query"), study.steps, [(base, other)])
    assert result["chance"].clip(CERTAIN).is_sorted()
    one = result.filter(name="com_stmt_execute").row(0, named=True)
    assert one["base_value"] == pytest.approx(1, rel=0.02)
    assert one["n"] >= ROUNDS_FOR_A_VERDICT


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
                key = {**run, "name": name, "object": None}
                status += [{**key, "moment": at, "value": str(value)} for at, value in values.items()]
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
    width: int, browser: Browser, screen: Drawing, tmp_path: Path
) -> None:
    with opened(browser, page_of(tmp_path, screen), width) as tab:
        assert shown(tab) == "update-index: my2.base against my1.base"
        choose(tab, "step", "point-query")
        assert shown(tab, step="point-query") == "point-query: my2.base against my1.base"
        choose(tab, "dbms", "my2.ps0")
        choose(tab, "base", "my2.base")
        assert shown(tab, base="my2.base") == "point-query: my2.ps0 against my2.base"
        choose(tab, "dbms", "my2.base")
        assert shown(tab, dbms="my2.base") == "point-query: my2.base against my1.base", (
            "of that base there is nothing"
        )
        assert "operations/s" in rounds(tab)
        choose(tab, "measure", "server_cpu_us_per_operation")
        assert "CPU per operation" in rounds(tab)
        assert tab.run("location.hash") == "#step=point-query&dbms=my2.base&base=my1.base"
        tab.run("location.hash = '#step=update-index&dbms=my2.ps0&base=my2.base'")
        assert shown(tab, step="update-index") == "update-index: my2.ps0 against my2.base"
        tab.must_fit(width)
        assert tab.complaints() == []


@pytest.mark.page
def test_a_page_has_the_nodes_of_one_question_and_no_id_twice(
    browser: Browser, sample: dict[str, Any], tmp_path: Path
) -> None:
    with opened(browser, page_of(tmp_path, sample["screen"]), DESKTOP) as tab:
        drawn(tab)
        first = shown(tab)
        choose(tab, "step", "insert")
        assert shown(tab, step="insert") != first
        drawn(tab)
        assert tab.run("document.querySelectorAll('*').length") < 20_000
        ids = "[...document.querySelectorAll('[id]')].map(one => one.id)"
        assert tab.run(f"{ids}.length - new Set({ids}).size") == 0
        assert tab.complaints() == []


@pytest.mark.page
def test_without_scripts_the_first_question_is_there(browser: Browser, screen: Drawing, tmp_path: Path) -> None:
    with opened(browser, page_of(tmp_path, screen), DESKTOP, scripts=False):
        pass
    assert screen.html.count('<section class="rqps-question"') == 1


def test_names_with_markup_stay_text(tmp_path: Path) -> None:
    data = write_study(tmp_path, Shape(steps=("point-query", f"a {HOSTILE}")))
    made = executed("synthetic", data)["screen"]
    assert "<img src=x" not in made.html + "".join(sections(made).values())


def test_a_study_with_nothing_to_compare_says_so(tmp_path: Path) -> None:
    with pytest.raises(RqpsError, match="no round has both its base and another dbms"):
        executed("synthetic", write_study(tmp_path, Shape(dbms=("my1.base",))))


def shown(tab: Tab, **chosen: str) -> str:
    """The question that the screen shows, once it has these names."""
    for name, value in chosen.items():
        tab.wait_for(f"document.querySelector('.rqps-question')?.dataset.{name} === {value!r}")
    head: str = tab.run("document.querySelector('.rqps-question .rqps-head').innerText")
    return head


def drawn(tab: Tab) -> None:
    """Waits for the flame graph, which is drawn when it comes into view."""
    tab.run("document.querySelector('.rqps-flame').scrollIntoView()")
    tab.wait_for("document.querySelector('.rqps-flame').dataset.drawn === 'yes'")


def choose(tab: Tab, name: str, value: str) -> None:
    of = f"document.querySelector('.rqps-choose select[name={name}]')"
    tab.run(f"{of}.value = {value!r}; {of}.dispatchEvent(new Event('change', {{bubbles: true}}))")


def rounds(tab: Tab) -> str:
    text: str = tab.run(
        "[...document.querySelectorAll('.rqps-question [data-measure]')].find(table => !table.hidden).innerText"
    )
    return text
