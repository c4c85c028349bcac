"""Tables of the insert benchmark's report as they are shown: their words, their colours, and what is beside them."""

import re
from html import unescape
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import rqps
import synthetic_inserts as made_up
from great_tables import GT
from rqps.pages import insert_benchmark_report as page
from rqps.pages.insert_benchmark_report.published_tables import (
    histogram,
    insert_rate_table,
    relative_table,
    throughput_table,
)
from rqps.show import Sentences
from rqps.show.words import in_percent
from rqps.store import Study

BASE = "my1.base"
COLOURS = {
    "#FF9A9A": "red",
    "#81FFA6": "green",
    "#D7D7D7": "grey",
    "#FFDD81": "yellow",
    "#81FFF9": "blue",
    "#ffffff": "white",
}
HOSTILE = "my2.<img src=x onerror=alert(1)>"


def cells_of(table: GT | Sentences) -> list[list[str]]:
    """Each row as its cells: their text, with a slash between lines, and their colour."""
    assert isinstance(table, GT)
    body = table.as_raw_html().split("<tbody", 1)[1].split("</tbody>", 1)[0]
    rows = re.findall(r"<tr[^>]*>(.*?)</tr>", body, re.DOTALL)
    return [[_cell(style, text) for style, text in re.findall(r"<t[dh]([^>]*)>(.*?)</t[dh]>", row)] for row in rows]


def _cell(style: str, text: str) -> str:
    colour = re.search(r"background-color: (#\w+)", style)
    said = unescape(re.sub(r"<[^>]*>", "", text.replace("<br>", " / ")))
    return f"{said} {COLOURS.get(colour[1], colour[1])}" if colour else said


def numbers(rows: list[tuple[Any, ...]], **more: Any) -> pl.DataFrame:
    """One row per step, dbms and median; its interval reaches a hundredth to both sides."""
    frame = pl.DataFrame(rows, schema=["step", "position", "dbms", "estimate"], orient="row")
    reach = {"low": pl.col("estimate") * 0.99, "high": pl.col("estimate") * 1.01}
    usual = {"host": pl.lit("here"), "n": pl.lit(6), "coverage": pl.lit(0.97), "metric": pl.lit("operations_per_s")}
    usual |= {"smallest_effect": pl.lit(0.02)}
    return frame.with_columns(**reach, **usual, **{name: pl.lit(value) for name, value in more.items()})


FOUND = numbers(
    [
        ("l.i0", 0, BASE, 1000.0),
        ("l.i0", 0, "my1.ps0", 1500.0),
        ("l.i0", 0, "my2.base", 1200.0),
        ("qr100", 1, BASE, 95.0),
        ("qr100", 1, "my1.ps0", 100.0),
        ("qr100", 1, "my2.base", 99.0),
    ]
).with_columns(on_target=pl.Series([None, None, None, True, True, False]))
RATIOS = numbers(
    [
        ("l.i0", 0, "my1.ps0", 1.5),
        ("l.i0", 0, "my2.base", 1.2),
        ("qr100", 1, "my1.ps0", 1.05),
        ("qr100", 1, "my2.base", 0.94),
    ],
    base=BASE,
).with_columns(verdict=pl.Series(["faster", "unsure", "same", "slower"]))
RATES = numbers([("qr100", 1, BASE, 190.0), ("qr100", 1, "my2.base", 189.9)], target=200.0).with_columns(
    missed=pl.Series([1, 6]), on_target=pl.Series([True, False])
)


def test_throughput_is_in_the_published_colours_with_the_verdict_beside() -> None:
    assert cells_of(throughput_table(FOUND, RATIOS)) == [
        ["my1.base", "1,000  / 990–1,010 red", "95.0  / 94.0–96.0"],
        ["my1.ps0", "1,500 ▲ / 1,485–1,515 green", "100 = / 99.0–101 green"],
        ["my2.base", "1,200 ? / 1,188–1,212", "99.0 ▼ / 98.0–100.0 grey"],
    ]


def test_relative_throughput_begins_with_the_base() -> None:
    assert cells_of(relative_table(RATIOS)) == [
        ["my1.base", "1.00", "1.00"],
        ["my1.ps0", "▲ 1.50 / 1.48–1.52 blue", "= 1.05 / 1.04–1.06"],
        ["my2.base", "? 1.20 / 1.19–1.21", "▼ 0.94 / 0.93–0.95 yellow"],
    ]


def test_the_rate_of_inserts_has_its_target_in_the_last_row() -> None:
    assert cells_of(insert_rate_table(RATES, BASE)) == [
        ["my1.base", "190 / 188–192 / missed in 1 of 6"],
        ["my2.base", "190 / 188–192 / missed in 6 of 6 red"],
        ["target", "200 grey"],
    ]


def test_each_host_has_colours_of_its_own() -> None:
    other = FOUND.with_columns(pl.col("estimate", "low", "high") * 10, host=pl.lit("there"))
    both = cells_of(throughput_table(pl.concat([FOUND, other]), RATIOS))
    assert [row[0] for row in both] == [
        f"{dbms} on {host}" for host in ("here", "there") for dbms in FOUND["dbms"][:3]
    ]
    colours = ["red", "green", "1,188–1,212", "red", "green", "11,880–12,120"]
    assert [row[1].rpartition(" ")[2] for row in both] == colours


def test_response_times_are_shaded_by_their_share_and_red_where_they_are_longest() -> None:
    shares = [(dbms, bucket, value) for dbms in (BASE, "my2.base") for bucket, value in SHARES]
    frame = numbers([("l.i0", 0, dbms, value) for dbms, _, value in shares], statement="insert")
    found = frame.with_columns(
        pl.Series("bucket", [bucket for _, bucket, _ in shares]),
        pl.when(pl.col("dbms") == BASE).then("estimate").otherwise(pl.col("estimate") * 0.9).alias("estimate"),
    )
    heading, first, second = cells_of(histogram(found, "insert"))
    assert heading == ["l.i0"]
    assert first == [
        "my1.base",
        "  white",
        "75.000 / 74.250–75.750 #adadad",
        "nonzero / ±0 white",
        "0.500 / 0.495–0.505 red",
    ]
    assert second[-1] == "0.450 / 0.495–0.505", "not green where the times are near each other"


SHARES = (("256us", 0.0), ("1ms", 75.0), ("4ms", 0.0004), ("max", 0.5))


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    shape = made_up.Shape(stalls={("my2.base", "qr100"): range(3, 6)}, noise=0.0)
    return rqps.load("inserts", data=made_up.write(tmp_path_factory.mktemp("data"), shape))


def test_the_columns_are_those_that_are_published_in_their_order(study: Study) -> None:
    found = page.columns_text(study)
    assert found.note.startswith(
        "Medians of 6 rounds; ± how far the 97 % intervals reach. Lines in the order my1.base, "
    )
    head, first, reach, *others = found.texts["qr100"].splitlines()
    published = (
        "ips qps rps rmbps wps wmbps rpq rkbpq wpi wkbpi csps cpups cspq cpupq dbgb1 dbgb2 rss maxop p50 p99 tag"
    )
    assert head.split() == published.split()
    line = "195 15610 0 0.0 1 0.2 0.000 0.000 0.005 1.024 48000 20.0 3.075 26 0.2 2.0 0.5 0.002 8000 8000 my1.base"
    assert first.split() == line.split()
    assert set(reach.split()) == {"±0"}
    relative = others[others.index("relative to my1.base") + 1].split()
    assert relative[:4] == ["1.00", "1.10", "-", "-"], "nothing is divided by 0"
    assert relative[-1] == "my1.ps0"


def test_corrected_numbers_stand_beside_the_published_ones(study: Study) -> None:
    cpu, rates = (cells_of(page.number_table(study, f"corrected {what}")) for what in ("CPU", "rates"))
    first = cpu[cpu.index(["qr100"]) + 1]
    other = rates[rates.index(["qr100"]) + 3]
    values = ["10.2", "25.6", "23.9", "20", "2", "1.88", "3.08"]
    assert first[:8] == ["my1.base", *(f"{value} / ±0" for value in values)]
    assert other[1:5] == ["5,600 / ±0", "11,200 / ±0", "0 / ±0", "5,600 / ±0"], "the first client stood still"


def tables_of(study: Study) -> list[GT]:
    shown = [page.summary_table(study, what) for what in ("throughput", "relative throughput", "rate of inserts")]
    for what in ("corrected CPU", "corrected rates", "seconds on target", "debt", "reads"):
        shown.append(page.number_table(study, what))
    for statement in ("insert", "delete", "query"):
        shown += page.response_times(study, statement)
    return shown


def test_every_table_of_the_report_has_its_base_first_and_names_stay_text(tmp_path: Path) -> None:
    shape = made_up.Shape(rounds=2, dbms={BASE: 1.0, HOSTILE: 0.7})
    study = rqps.load("inserts", data=made_up.write(tmp_path, shape))
    for table in tables_of(study):
        rows = [row for row in cells_of(table) if len(row) > 1]
        assert [rows[0][0], rows[1][0]] == [BASE, HOSTILE]
        assert "http" not in table.as_raw_html()
        assert "<img" not in table.as_raw_html()
    for dbms, table in zip((BASE, HOSTILE), page.dbms_tables(study), strict=True):
        rows = cells_of(table)
        assert rows[0] == [dbms]
        assert [row[0] for row in rows[1:]] == ["l.i0", "l.x", "l.i1", "l.i2", "qr100", "qp100"]
    html = page.columns_text(study)._repr_html_()
    assert html.count("<details") == html.count("</details>") == 6
    assert "<img" not in html


def test_one_round_has_no_interval(tmp_path: Path) -> None:
    study = rqps.load("inserts", data=made_up.write(tmp_path, made_up.Shape(rounds=1)))
    assert "no interval" in page.summary_table(study, "throughput").as_raw_html()
    assert str(page.columns_text(study)).startswith("One round, which has no interval.")


@pytest.mark.parametrize(("clients", "lines"), [(2, True), (20, False)])
def test_few_clients_are_lines_and_many_are_strips(clients: int, lines: bool, tmp_path: Path) -> None:
    stalls = {(BASE, "qp100"): range(2, 4)}
    shape = made_up.Shape(clients=clients, stalls=stalls, rounds=2, dbms={BASE: 1.0, "my2.base": 0.7})
    study = rqps.load("inserts", data=made_up.write(tmp_path, shape))
    charts = [chart.to_dict() for chart in page.over_time(study)[2:]]
    assert [chart["usermeta"]["rqps"]["claim"] for chart in charts] == [
        "my1.base: in some seconds a client did nothing, in qp100 (1 client).",
        "my2.base: no client did nothing for a whole second.",
    ]
    (facet,) = charts[0]["vconcat"]
    done = {"l.i0": "rows", "l.i1": "rows", "l.i2": "rows", "qr100": "queries", "qp100": "queries"}
    assert facet["facet"]["sort"] == [f"{step}, {what}/s" for step, what in done.items()]
    assert (facet["spec"]["layer"][1]["mark"]["type"] == "line") == lines
    (points,) = charts[0]["datasets"].values()
    assert {point["client"] for point in points} == set(range(1, clients + 1))
    assert len(points) == clients * 5 * 10
    assert sum(point["low"] == 0 for point in points) == 2


def test_percents_are_whole_only_where_nothing_or_all_is_meant() -> None:
    assert [in_percent(value) for value in (1.0, 0.9996, 0.0004, 0.0)] == ["100 %", "100.0 %", "0.0 %", "0 %"]
