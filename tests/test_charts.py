"""Charts say what the frames say, weigh little, show themselves without a network, and keep names as text."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import rqps
from great_tables import GT
from rqps import show
from rqps.numbers import change
from rqps.pages.relative_throughput import group_table
from rqps.show import sections
from rqps.show.renderer import MIME, bundle
from rqps.show.theme import COLOURS, PALE, PICTURE_WIDTH_PX, colour_of, dbms_colours
from rqps.stats import counters_over_time, hidden_differences, relate, same_for_all, throughput_over_time
from rqps.stats.metrics import CPU, THROUGHPUT
from rqps.store import Study
from synthetic import write_study

BASE = "my1.base"
STOLEN = "steal: 2 % of CPU time was stolen"
HOSTILE = "<img src=x onerror=alert(1)>"


def all_charts(study: Study) -> dict[str, Any]:
    _, compared = relate(study)
    run = study.runs["run"][0]
    of_run = counters_over_time(study.counters.filter(run=run), study.steps.filter(run=run), study.runs)
    return {
        "heatmap": show.heatmap(compared),
        "throughput": show.throughput(throughput_over_time(study.intervals, study.steps)),
        "counters": show.counters(of_run),
    }


@pytest.fixture(scope="module")
def big_charts(many: Study) -> dict[str, Any]:
    return all_charts(many)


def rows_of(spec: dict[str, Any]) -> int:
    return sum(len(rows) for rows in spec["datasets"].values())


def test_every_chart_has_a_claim_and_says_how_many_rounds(study: Study) -> None:
    for name, chart in all_charts(study).items():
        spec = chart.to_dict()
        claim, how = spec["usermeta"]["rqps"]["claim"], spec["usermeta"]["rqps"]["how"]
        assert claim.endswith("."), name
        assert "6 rounds" in how or "n is one run" in how, name
        assert " ".join(spec["title"]["text"]) == claim
        assert spec["description"] == f"{claim} {how}"


def test_every_axis_has_its_unit(study: Study) -> None:
    titles = {name: set(titles_of(chart.to_dict())) for name, chart in all_charts(study).items()}
    assert {"operations/s", "seconds since the step began"} <= titles["throughput"]


def titles_of(spec: object) -> Iterator[str]:
    if isinstance(spec, dict):
        yield from [spec["title"]] if isinstance(spec.get("title"), str) else []
        yield from (title for value in spec.values() for title in titles_of(value))
    elif isinstance(spec, list):
        yield from (title for value in spec for title in titles_of(value))


def test_47_steps_of_10_builds_stay_light_and_drawable(big_charts: dict[str, Any]) -> None:
    for name, chart in big_charts.items():
        spec = chart.to_dict()
        assert rows_of(spec) <= 5000, name
        assert len(json.dumps(spec)) < 300_000, name
        assert len(bundle(spec)[0]["image/png"]) < 2_000_000, name
    assert len(big_charts["heatmap"].to_dict()["datasets"]) == 2, "cells, and the headings of groups"


def test_many_seconds_of_many_dbms_stay_drawable(many: Study) -> None:
    each_second = pl.int_ranges(0, 300, dtype=pl.Int32).alias("second")
    seconds = many.steps.lazy().select("run", "step", each_second, kind="step").explode("second")
    intervals = seconds.with_columns(operations=pl.lit(1, pl.Int64), transactions=1, latency_mean_us=1.0)
    series = throughput_over_time(intervals, many.steps.with_columns(elapsed_s=300.0))
    assert 1000 < series.height <= 5000
    assert series["estimate"].unique().to_list() == [1.0]


def test_a_chart_that_leaves_steps_out_says_so(big_charts: dict[str, Any]) -> None:
    meta = big_charts["throughput"].to_dict()["usermeta"]["rqps"]
    assert "of 47 steps" in meta["how"]


def test_a_cell_of_the_heatmap_has_sign_ratio_and_interval(study: Study) -> None:
    spec = all_charts(study)["heatmap"].to_dict()
    (cells,) = spec["datasets"].values()
    first = next(cell for cell in cells if cell["dbms"] == "my2.base" and cell["step"] == "point-query")
    assert (first["label"], first["interval"], first["warned"]) == ("▼ 0.70 ⚠", "0.70–0.70", STOLEN)
    assert spec["layer"][0]["encoding"]["color"]["scale"]["domain"][2:4] == [0.95, 1.05]


@pytest.mark.parametrize("dbms", ["few", "many"])
def test_a_heatmap_has_percent_in_place_of_ratios(dbms: str, study: Study, many: Study) -> None:
    compared = relate(study if dbms == "few" else many)[1].filter(metric="operations_per_s")
    spec, as_ratios = (show.heatmap(compared, percent=percent).to_dict() for percent in (True, False))
    first = spec["layer"][0]
    cells = spec["datasets"][first["data"]["name"] if "data" in first else spec["data"]["name"]]
    assert len(cells) == compared.height
    for cell in cells:
        assert cell["change"] == pytest.approx(cell["estimate"] - 1)
        assert f" {change(cell['estimate'])}" in cell["label"]
        assert cell["interval"].endswith(" %")
        assert round(100 * cell["change"]) == int(cell["number"].replace("−", "-"))
    legend = first["encoding"]["color"]["legend"]
    assert (legend["title"], "datum.value - 1" in legend["labelExpr"]) == ("change, %", True)
    assert {"field": "change", "format": "+.2%", "title": "mean change", "type": "quantitative"} in first["encoding"][
        "tooltip"
    ]
    assert first["encoding"]["color"]["scale"] == as_ratios["layer"][0]["encoding"]["color"]["scale"]
    assert spec["usermeta"]["rqps"]["how"].startswith("Change of operations/s from my")
    assert spec["usermeta"]["rqps"]["minWidth"] <= 390 - 2 * 16


def test_what_warns_of_every_number_is_said_once(study: Study) -> None:
    _, summary = relate(study)
    more = {"warnings": "settings", "explained": "settings: moved"}
    of_all = summary.with_columns(pl.concat_list(pl.lit(item), name).alias(name) for name, item in more.items())
    spec = show.heatmap(of_all).to_dict()
    (cells,) = spec["datasets"].values()
    assert sorted(cell["warned"] for cell in cells) == ["", "", "", STOLEN]
    assert "A warning concerns every number here: settings: moved." in spec["usermeta"]["rqps"]["how"]
    html = show.ratio_table(of_all).as_raw_html()
    assert html.count("⚠") == 2
    assert f"⚠ point-query, my2.base: {STOLEN}." in html


def test_of_a_long_list_of_flags_those_that_differ_are_shown() -> None:
    """Cut to the same first letters in every column, it would say nothing."""
    flags = {f"a_long_flag_{number}": "on" for number in range(20)}
    value = ",".join(f"{name}={state}" for name, state in (flags | {"a_long_flag_19": "off"}).items())
    names = {"host": "here", "base": BASE, "dbms": "my2.base", "name": "optimizer_switch"}
    row = {**names, "base_value": ",".join(f"{name}={state}" for name, state in flags.items()), "value": value}
    shown = sections.differences_table(pl.DataFrame([row]))
    assert isinstance(shown, GT)
    assert "a_long_flag_19=off" in shown.as_raw_html()


def test_what_is_unsure_has_no_strong_colour_anywhere(study: Study) -> None:
    _, summary = relate(study)
    unsure = summary.with_columns(verdict=pl.lit("unsure"))
    strong = {colour for colour in COLOURS if colour != colour_of(1.0)}
    for shown in (show.ratio_table(unsure), group_table(unsure.filter(metric="operations_per_s"))):
        assert strong.isdisjoint(re.findall(r"background-color: (#\w+)", shown.as_raw_html()))
    cells = show.heatmap(unsure).to_dict()["layer"][0]["encoding"]
    assert cells["fillOpacity"]["condition"] == [{"test": "datum.verdict === 'unsure'", "value": PALE}]


def test_a_dbms_has_one_colour_whoever_stands_beside_it() -> None:
    alone, among = dbms_colours(["my8033.ps0"]), dbms_colours(["my5624.common", "my97.ps0", "my8033.ps0"])
    assert alone["my8033.ps0"] == among["my8033.ps0"]
    many = [f"my80{number}_rel.c{number}" for number in range(10)]
    assert len(set(dbms_colours(many).values())) == 10


def test_settings_that_differ_stand_in_one_row_each(study: Study) -> None:
    long = "index_merge=on," * 20
    rows = [("my2.base", "sql_mode", "", HOSTILE), ("my2.ps0", "sql_mode", "", "STRICT"), ("my2.ps0", "x", "1", long)]
    frame = pl.DataFrame(rows, schema=["dbms", "name", "base_value", "value"], orient="row")
    table = sections.differences_table(frame.with_columns(host=pl.lit("here"), base=pl.lit(BASE)))
    assert isinstance(table, GT)
    html = table.as_raw_html()
    assert html.count("sql_mode") == 1
    assert "(empty)" in html
    assert "<img" not in html
    assert f'title="{long}"' in html
    alike = sections.differences_table(hidden_differences(study, BASE))
    assert repr(alike) == "- None: all settings that no config sets are the same."


def test_a_chart_shows_itself_as_a_specification_and_a_picture(study: Study) -> None:
    data, metadata = all_charts(study)["heatmap"]._repr_mimebundle_()
    assert MIME == "application/vnd.vegalite.v5+json"  # which JupyterLab draws
    assert data[MIME]["$schema"].endswith("/vega-lite/v5.json")
    assert data[MIME]["width"] == PICTURE_WIDTH_PX
    assert metadata[MIME]["embed_options"]["actions"] is False
    assert data["image/png"].startswith(b"\x89PNG")
    assert "text/html" not in data


def test_the_relative_table_in_its_published_form(study: Study) -> None:
    summary = relate(study)[1].with_columns(group=pl.lit(""))
    assert show.ratio_text(summary) == "\n".join(
        [
            "Relative to: my1.base",
            "col-1 : my2.base",
            "col-2 : my2.ps0",
            "",
            "col-1                   col-2                   step",
            "0.70 (0.70–0.70) ▼ n=6  0.80 (0.79–0.80) ▼ n=6  point-query",
            "0.70 (0.70–0.70) ▼ n=6  0.80 (0.80–0.80) ▼ n=6  update-index",
        ]
    )


def test_a_frame_of_one_metric_needs_no_name_of_it(study: Study) -> None:
    compared = relate(study)[1]
    cpu = compared.filter(metric=CPU)
    assert cpu.height
    assert show.ratio_text(cpu) == show.ratio_text(compared, CPU)
    assert show.ratio_table(cpu).as_raw_html() == show.ratio_table(compared, CPU).as_raw_html()
    assert show.heatmap(cpu).to_dict() == show.heatmap(compared, CPU).to_dict()
    assert show.ratio_text(compared) == show.ratio_text(compared, THROUGHPUT)


def test_what_got_worse_has_the_same_colour_for_every_metric() -> None:
    slower = {"metric": THROUGHPUT, "estimate": 0.5, "verdict": "slower"}
    dearer = {"metric": CPU, "estimate": 2.0, "verdict": "slower"}
    assert show.ratio_colour(slower) == show.ratio_colour(dearer) == COLOURS[0]
    assert show.ratio_colour(dearer | {"estimate": 0.5, "verdict": "faster"}) == COLOURS[-1]
    assert show.ratio_colour({"estimate": 1.0}) is None


def test_a_verdict_has_a_colour_as_it_is_and_in_words() -> None:
    for metric in (THROUGHPUT, CPU):
        colour: Any = show.verdict_colour(metric).to_dict()
        domain, words = colour["scale"]["domain"], show.verdict_words(metric)
        assert {*words, *words.values()} == {*domain}
        assert colour["legend"]["values"] == list(words.values())
        shades = dict(zip(domain, colour["scale"]["range"], strict=True))
        assert all(shades[verdict] == shades[word] for verdict, word in words.items())


def test_a_number_without_interval_says_so(tmp_path: Path) -> None:
    study = rqps.load("synthetic", data=write_study(tmp_path, rounds=1))
    summary = relate(study)[1]
    assert "0.70 (no interval) ? n=1" in show.ratio_text(summary)
    assert "no interval" in show.ratio_table(summary).as_raw_html()
    assert all_charts(study)


def test_a_dbms_that_is_missing_from_a_step_leaves_a_gap(study: Study) -> None:
    summary = relate(study)[1]
    gap = summary.filter(~((pl.col("dbms") == "my2.base") & (pl.col("step") == "point-query")))
    line = next(line for line in show.ratio_text(gap).splitlines() if line.endswith("point-query"))
    assert line.startswith(("-                       0.80", "0.80"))
    assert "–" in show.ratio_table(gap).as_raw_html()


def test_names_stay_text_in_tables_and_sentences(study: Study) -> None:
    summary = relate(study)[1]
    named = summary.with_columns(pl.lit(HOSTILE).alias("step"), pl.lit(HOSTILE).alias("base")).unique(
        ["metric", "dbms"]
    )
    warnings = study.warnings.with_columns(pl.lit(HOSTILE).alias("text"))
    conditions = same_for_all(study.conditions).with_columns(pl.lit(HOSTILE).alias("value"))
    shown = [
        show.ratio_table(named).as_raw_html(),
        sections.warnings_table(warnings).as_raw_html(),
        *(table.as_raw_html() for table in sections.conditions_tables(conditions)),
        show.Sentences([HOSTILE])._repr_html_(),
    ]
    for html in shown:
        assert "<img" not in html
        assert "&lt;img" in html


def test_two_hosts_are_two_columns(study: Study) -> None:
    summary = relate(study)[1]
    both = pl.concat([summary, summary.with_columns(pl.lit("there").alias("host"))])
    text = show.ratio_text(both)
    assert "col-3 : my2.base on there" in text
