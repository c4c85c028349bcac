"""The page of relative throughput: its sentences and tables agree with the frames, on made-up studies and samples."""

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import altair as alt
import polars as pl
import pytest
import rqps
from executed import Notebook
from rqps import show, stats
from rqps.stats.metrics import THROUGHPUT
from rqps.store import Study
from synthetic import Shape, write_study
from test_insert_report import cells_of

SAMPLES = Path(__file__).parent.parent / "data/sample"
STUDIES = ["releases", "sysbench-releases", "where-did-it-go", "point-lookups", "insert-releases-cpu"]


@pytest.fixture(scope="module", params=STUDIES)
def page(request: pytest.FixtureRequest) -> Notebook:
    return Notebook("relative_throughput", rqps.load(str(SAMPLES / f"study={request.param}")))


def sentences(page: Notebook) -> list[str]:
    return [unescape(text) for text in re.findall(r"<li[^>]*>(.*?)</li>", page.html)]


def charts_of(node: Any, rows: list[dict[str, Any]], datasets: dict[str, Any]) -> Iterator[tuple[set[str], set[str]]]:
    """Of each mark the columns of its tooltip, and those of its data."""
    if isinstance(node, dict):
        data = node.get("data")
        rows = datasets.get(str(data.get("name")), rows) if isinstance(data, dict) else rows
        if "encoding" in node and rows:
            asked = node["encoding"].get("tooltip") or []
            yield {field["field"] for field in asked if "field" in field}, set(rows[0])
        for name, value in node.items():
            if name != "datasets":
                yield from charts_of(value, rows, datasets)
    elif isinstance(node, list):
        for value in node:
            yield from charts_of(value, rows, datasets)


def charts(page: Notebook) -> list[dict[str, Any]]:
    return [shown.to_dict() for shown in page.outputs if isinstance(shown, alt.TopLevelMixin)]


def test_every_number_of_a_tooltip_is_in_the_chart(page: Notebook) -> None:
    assert len(charts(page)) > 2
    for chart in charts(page):
        for asked, columns in charts_of(chart, [], chart["datasets"]):
            assert asked <= columns, chart.get("title")


def test_verdicts_are_counted_once_and_alike_everywhere(page: Notebook) -> None:
    throughput = page["throughput"]
    counts = {verdict: throughput.filter(verdict=verdict).height for verdict in stats.verdict.VERDICTS}
    assert show.verdict_counts(throughput["verdict"]) in sentences(page)[1]
    assert (page["changes"]["verdict"] == "slower").sum() == counts["slower"]
    assert (page["faster"].height, page["unsure"].height) == (counts["faster"], counts["unsure"])
    assert page["groups"].select("slower", "faster", "same", "unsure").sum().row(0) == tuple(counts.values())
    claim = charts(page)[0]["usermeta"]["rqps"]["claim"]
    counted = re.findall(r"(\d+)(?: of \d+ comparisons)?[^,:]*? (regressed|improved|unchanged|inconclusive)", claim)
    words = {"slower": "regressed", "faster": "improved", "same": "unchanged", "unsure": "inconclusive"}
    assert {word: int(count) for count, word in counted} == {
        words[way]: count for way, count in counts.items() if count
    }


def test_what_changed_most_is_the_lowest_and_the_highest_that_is_sure(page: Notebook) -> None:
    for way, verdict, best in (("regressed", "slower", pl.min), ("improved", "faster", pl.max)):
        without = [step for steps in stats.left_out(page["measured"]).values() for step in steps]
        sure = page["throughput"].filter(~pl.col("step").is_in(without), verdict=verdict)
        named = [text for text in sentences(page) if f"{way} most" in text]
        if sure.is_empty():
            assert not named
            continue
        row = sure.filter(pl.col("estimate") == sure.select(best("estimate")).item()).row(0, named=True)
        names = stats.short_names(page["measured"])
        message = show.comparison(row, names[row["dbms"]], names[row["base"]])
        assert named == [f"{row['step']} {way} most: {message}."]


def test_a_geometric_mean_names_its_steps_and_those_left_out(page: Notebook) -> None:
    throughput, means, left_out = page["throughput"], page["means"], stats.left_out(page["measured"])
    without = {step for steps in left_out.values() for step in steps}
    (text,) = [text for text in sentences(page) if text.startswith("The geometric mean")]
    for row in means.to_dicts():
        of_dbms = throughput.filter(dbms=row["dbms"], host=row["host"])
        assert set(row["over"]) == set(of_dbms["step"]) - without
        free = of_dbms.filter(pl.col("step").is_in(row["over"]))
        assert row["steps"] == free.height
        assert row["estimate"] == pytest.approx(free.select(pl.col("estimate").log().mean().exp()).item(), rel=5e-3)
    assert f"over {'all ' * (not without)}{means['steps'][0]} steps" in text
    assert ("It leaves out" in text) == bool(without)


def test_losses_gains_and_what_is_open_stand_in_sections_of_their_own(page: Notebook) -> None:
    for name, rows in (("slower", page["changes"].filter(verdict="slower")), ("faster", page["faster"])):
        if rows.height:
            table = cells_of(page.shown(name))
            assert [row[:2] for row in table] == [list(row) for row in rows.select("step", "dbms").iter_rows()]
            sizes = [abs(float(row[2])) for row in table]
            assert sizes == sorted(sizes, reverse=True)


def test_a_reason_stands_only_where_waiting_decides_it(page: Notebook) -> None:
    waits = page["waits"].filter(pl.min_horizontal("base_estimate", "me_estimate") >= 0)
    explained = page["differ"].filter(pl.col("reason") != stats.SAME_WORK)
    with_waits = explained.join(waits, on=["host", "step", "base", "dbms"])
    assert with_waits.height == explained.height
    for row in with_waits.to_dicts():
        assert row["high"] < 0 if "less wait" in row["reason"] or "waits less" in row["reason"] else row["low"] > 0


def test_waiting_of_an_insert_is_as_the_slices_have_it() -> None:
    waits = stats.waiting(rqps.load(str(SAMPLES / "study=where-did-it-go")))
    insert = waits.filter(step="insert", dbms="my8033.common").row(0, named=True)
    assert (round(insert["base_estimate"], 1), round(insert["me_estimate"], 1)) == (4.2, 1.4)
    assert insert["verdict"] == "faster"


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    return rqps.load("synthetic", data=write_study(tmp_path_factory.mktemp("data"), Shape()))


def test_a_config_of_a_build_stands_beside_its_other_one(study: Study) -> None:
    page = Notebook("relative_throughput", study)
    assert "my2.ps0 (performance_schema=OFF) against my2.base" in page.html
    assert page["gains"].filter(metric=THROUGHPUT)["estimate"].to_list() == pytest.approx([0.1, 0.1], abs=0.02)
    assert page["means"]["estimate"].to_list() == pytest.approx([0.7, 0.8], rel=0.02)


def test_a_step_that_one_dbms_lacks_is_left_out_by_name(study: Study) -> None:
    rounds, _ = stats.relate(study)
    lacking = rounds.filter((pl.col("dbms") != "my2.ps0") | (pl.col("step") != "update-index"))
    three = pl.concat([lacking, rounds.filter(step="update-index").with_columns(step=pl.lit("scan"))])
    means = stats.over_steps(three, {}).filter(metric=THROUGHPUT)
    text = show.steps_of_means(means, {})
    assert "The geometric mean of my2.ps0 is over 2 steps" in text
    assert "It leaves out update-index, in which my2.ps0 was not compared." in text
    first = three.filter((pl.col("round") > 1) | (pl.col("step") != "scan"))
    incomplete = stats.over_steps(first, {}).filter(metric=THROUGHPUT)
    assert set(incomplete["incomplete"]) == {1}
    assert "1 round without one of the steps" in show.steps_of_means(incomplete, {})


def test_too_few_rounds_find_nothing_but_what_it_would_take(tmp_path: Path) -> None:
    page = Notebook("relative_throughput", rqps.load("synthetic", data=write_study(tmp_path, rounds=3)))
    assert sentences(page)[1] == "By throughput 4 of 4 comparisons are inconclusive."
    assert page["unsure"]["needs"].to_list() == ["4 rounds: there are 3"] * 4
