"""47 steps of 10 builds: the heatmap at a glance, a small chart a step, tables that begin with the worst."""

import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import rqps
from great_tables import GT
from rqps import show
from rqps.pages.relative_throughput import by_group, group_table
from rqps.show.words import short_dbms, short_steps
from rqps.stats import relate
from rqps.store import Study
from synthetic import shape_of_many, write_study

HOSTILE = "<img src=x onerror=alert(1)>"
GROUPS = ["Point queries", "Range queries without aggregation", "Range queries with aggregation", "Writes"]


@pytest.fixture(scope="module")
def summary(many: Study) -> pl.DataFrame:
    return relate(many)[1]


@pytest.fixture(scope="module")
def heatmap(summary: pl.DataFrame) -> dict[str, Any]:
    spec: dict[str, Any] = show.heatmap(summary).to_dict()
    return spec


def test_the_heatmap_has_a_row_a_step_below_its_group(heatmap: dict[str, Any]) -> None:
    rows = heatmap["layer"][0]["encoding"]["y"]["sort"]
    assert len(rows) == 47 + 4
    headings = [row for row in rows if row.endswith("⋅ ")]
    assert headings == [f"{group} ⋅ " for group in GROUPS]
    assert rows[1:5] == [
        "Point queries ⋅ point-query.pre",
        "Point queries ⋅ point-query",
        "Point queries ⋅ hot-points",
        "Point queries ⋅ random-points.pre 10",
    ]
    cells = heatmap["datasets"][heatmap["layer"][0]["data"]["name"]]
    assert len(cells) == 47 * 9
    assert {cell["row"] for cell in cells} == set(rows) - set(headings)


def test_the_heatmap_fits_a_screen_and_a_phone(heatmap: dict[str, Any]) -> None:
    assert heatmap["height"] < 1050
    assert heatmap["usermeta"]["rqps"]["minWidth"] <= 390 - 2 * 16


def test_what_all_names_end_with_is_left_out_once(heatmap: dict[str, Any]) -> None:
    assert heatmap["layer"][0]["encoding"]["x"]["sort"] == [f"my{number}" for number in range(2, 11)]
    assert "All names end with _rel_o2nofp.cz10a, which is left out." in heatmap["usermeta"]["rqps"]["how"]


def test_steps_are_short_where_they_stay_distinct() -> None:
    names = ["scan_range=100", "read-only_range=10", "read-only.pre_range=10", "read-only_range=100", "innodb.pk@4"]
    kinds = ["scan", "read-only", "read-only.pre", "read-only", "pk"]
    steps = pl.DataFrame({"step": names, "kind": kinds, "range": [100, 10, 10, 100, None]})
    short = ["scan", "read-only 10", "read-only.pre", "read-only 100", "innodb.pk@4"]
    assert list(short_steps(steps).values()) == short
    assert short_dbms(["my1.base", "my2.base"]) == ({"my1.base": "my1", "my2.base": "my2"}, ".base")
    assert short_dbms(["my1.base"]) == ({"my1.base": "my1.base"}, "")
    assert short_dbms(["a.b", "c.a.b"])[1] == ".b", "a name is never left out whole"


@pytest.mark.parametrize("names", [["x", "y.x"], ["a.base", "a.base"], ["a_b.c", "d_b.c", "b.c"]])
def test_shortened_names_stay_different(names: list[str]) -> None:
    short, end = short_dbms(names)
    assert len(set(short.values())) == len(set(names))
    assert all(name == short[name] + end for name in names)


def test_a_group_is_a_column_and_a_dbms_a_row(summary: pl.DataFrame) -> None:
    throughput = summary.filter(metric="operations_per_s")
    groups = by_group(throughput)
    html = group_table(throughput).as_raw_html()
    assert [group for group in GROUPS if f"{group} (" in html] == GROUPS
    assert html.count("<tr>") >= 9
    row = groups.filter(group="Writes").row(0, named=True)
    assert f"<b>{row['middle']:.2f}</b>" in html
    assert f"{row['low']:.2f} to {row['high']:.2f}" in html


def test_the_relative_table_has_the_groups_as_headings(summary: pl.DataFrame) -> None:
    html = show.ratio_table(summary).as_raw_html()
    places = [html.index(f">{group}</th>") for group in GROUPS]
    assert places == sorted(places)
    assert html.index("insert_range=100") > places[-1]


def test_the_text_form_separates_its_groups(summary: pl.DataFrame) -> None:
    text = show.ratio_text(summary)
    assert [block.splitlines()[0] for block in text.split("\n\n")[2:]] == GROUPS[1:]
    assert len(re.findall(r"_range=\d+$", text, re.MULTILINE)) == 47


def test_names_stay_text(summary: pl.DataFrame) -> None:
    one = summary.filter(metric="operations_per_s").head(1)
    named = one.with_columns(step=pl.lit(HOSTILE), dbms=pl.lit(HOSTILE), group=pl.lit(HOSTILE))
    for table in (group_table(named), show.ratio_table(named)):
        assert isinstance(table, GT)
        assert "<img" not in table.as_raw_html()


def test_one_round_has_no_interval_anywhere(tmp_path: Path) -> None:
    steps = shape_of_many().steps[:14]
    study = rqps.load("synthetic", data=write_study(tmp_path, dbms=shape_of_many().dbms[:3], steps=steps, rounds=1))
    _, ratios = relate(study)
    assert "no interval" in str(show.heatmap(ratios).to_dict()["datasets"])
