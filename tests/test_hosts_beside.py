"""A study of several hosts on its page: each against its own base, beside each other, never pooled."""

import math
import random
import re
from html import unescape
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import rqps
from browser import PHONE, Browser, opened
from executed import Notebook
from great_tables import GT
from rqps.report import build
from rqps.report.index import facts_of
from rqps.report.profiles import Links
from rqps.report.rounds import rounds_page
from rqps.show import conditions, trace
from rqps.show.sections import differences_table
from rqps.show.table import pivoted
from rqps.stats import between_hosts, relate
from rqps.store import Study, write_study_card
from synthetic import Shape, card, manifest, tables, write_rows
from synthetic_report import only_relative_throughput, page_of
from test_one_regression import choose, executed, shown

BASE, ME = "my1.base", "my2.base"
FACTORS = {"big": 1.0, "small": 0.9, "twin": 1.0}
"""Of each host: how far its ratio of ME is from that of the first."""
FASTER = {"big": 1.0, "small": 3.0, "twin": 1.0}


def write_hosts(data: Path) -> Path:
    """A made-up study of three hosts, the third as the first."""
    shape = Shape(dbms=(BASE, ME), rounds=6)
    folder = data / "raw/study=synthetic"
    write_study_card(folder, card(shape))
    for host, factor in FACTORS.items():
        cpu = {"model": f"CPU of {host}", "cores": 2}
        for round_ in range(1, shape.rounds + 1):
            for dbms in shape.dbms:
                asked = card(shape).parameters | {"table_rows": 500 if host == "small" else 1000}
                machine = {"cpu": cpu, "memory_kb": 1000 * len(host)}
                run = f"r{round_:02}@{dbms}@{host}"
                facts = manifest(dbms, round_, shape, host=host, run=run, machine=machine, parameters=asked)
                rows = tables(facts, shape)
                luck = math.exp(random.Random(run).gauss(0, 0.005))
                for row in rows["steps"]:
                    row["operations_per_s"] *= FASTER[host] * (factor if dbms == ME else 1.0) * luck
                    row["elapsed_s"] = row["operations"] / row["operations_per_s"]
                write_rows(folder, facts, rows)
    return data


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_hosts(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def study(data: Path) -> Study:
    return rqps.load("synthetic", data=data)


def test_each_host_is_compared_with_its_own_base_and_nothing_is_pooled(study: Study) -> None:
    rows = relate(study)[1].filter(metric="operations_per_s")
    assert rows.height == 2 * len(FACTORS)
    for row in rows.to_dicts():
        assert row["n"] == 6
        assert row["estimate"] == pytest.approx(0.7 * FACTORS[row["host"]], rel=0.02)


def test_hosts_agree_where_the_interval_of_their_factor_holds_1(study: Study) -> None:
    result = between_hosts(relate(study)[1].filter(metric="operations_per_s"))
    assert set(result["than"]) == {"big"}
    assert sorted(result["host"].unique()) == ["small", "twin"]
    for row in result.to_dicts():
        assert row["low"] < row["estimate"] < row["high"]
        assert row["estimate"] == pytest.approx(FACTORS[row["host"]], rel=0.02)
        assert (row["low"] < 1 < row["high"]) == (row["host"] == "twin")


def test_the_interval_between_hosts_covers_the_truth_as_often_as_it_says() -> None:
    """Of pairs of hosts that agree: by chance alone, no more than some of a hundred intervals leave out 1."""
    chance = random.Random(1)
    rows: list[dict[str, Any]] = []
    for number in range(400):
        for host in ("one", "other"):
            middle, half = chance.gauss(-0.2, 0.01), 1.96 * 0.01
            ends = {"estimate": middle, "low": middle - half, "high": middle + half}
            named = {"host": host, "step": str(number), "metric": "m", "base": BASE, "dbms": ME}
            rows.append(named | {name: math.exp(item) for name, item in ends.items()})
    result = between_hosts(pl.DataFrame(rows))
    missed = sum(not row["low"] < 1 < row["high"] for row in result.to_dicts())
    assert 8 <= missed <= 32  # 20 are expected


def test_what_differs_between_hosts_stands_side_by_side_and_the_rest_once(study: Study) -> None:
    results = [condition.as_raw_html() for condition in conditions(study) if isinstance(condition, GT)]
    page, (differ,) = " ".join(results), [one for one in results if "rqps-hosts-differ" in one]
    for host in FACTORS:
        assert f">{host}</th>" in differ
        assert page.count(f"CPU of {host}<") == differ.count(f"CPU of {host}<") == 1
    assert page.count("max_connections") == 1
    assert "max_connections" not in differ
    assert page.count("big, small, twin") == 2  # where the same two servers answered


def test_settings_of_hosts_are_beside_the_base_of_their_own() -> None:
    names = {"base": BASE, "dbms": ME, "name": "buffer_pool"}
    rows = [("big", "10", "20"), ("small", "1", "2"), ("twin", "10", "20")]
    frame = [{"host": host, **names, "base_value": base, "value": value} for host, base, value in rows]
    shown = differences_table(pl.DataFrame(frame))
    assert isinstance(shown, GT)
    cells = re.findall(r"<td[^>]*>([^<]*)</td>", shown.as_raw_html().partition("<tbody")[2])
    assert cells[:8] == ["buffer_pool", "big, twin", "10", "20", "buffer_pool", "small", "1", "2"]


def test_it_is_counted_in_how_many_comparisons_hosts_differ(study: Study) -> None:
    page = Notebook("relative_throughput", study)
    assert page["agreement"].rows() == [("small", "big", 2, 2), ("twin", "big", 2, 0)]


def test_the_number_that_is_checked_has_the_rounds_of_its_own_host(study: Study) -> None:
    rounds, compared = relate(study)
    traced = trace(study, rounds, compared).as_raw_html()
    assert "@small" in traced
    assert f"{ME} on small against {BASE}" in traced
    assert not re.search("@big|@twin", traced)


def test_the_first_page_counts_the_runs_of_all_hosts_and_has_the_parameters_of_each(study: Study) -> None:
    facts = dict(facts_of(study, study.runs))
    assert facts["runs"] == "6 rounds on each of 3 hosts planned; 36 of 36 runs finished"
    assert [facts[f"load of {host}"] for host in FACTORS] == ["table_rows 1000", "table_rows 500", "table_rows 1000"]


def test_a_table_without_hosts_in_its_names_has_a_row_for_each_host(study: Study) -> None:
    ratios = relate(study)[1].filter(metric="operations_per_s")
    html = pivoted(ratios, "step", "dbms", lambda row: f"{row['estimate']:.2f}", name="it").as_raw_html()  # type: ignore[union-attr]
    assert all(f"{ME} on {host}" in html for host in FACTORS)


@pytest.mark.page
def test_the_rounds_of_a_number_lead_to_the_screen_of_its_host(
    browser: Browser, data: Path, study: Study, tmp_path: Path
) -> None:
    screen = page_of(tmp_path, executed("synthetic", data)["screen"])
    files: dict[str, str | None] = dict.fromkeys(study.runs["folder"])
    html, _ = rounds_page(study, *relate(study), files, Links(), made="today", screen=screen.name)
    links = re.findall(rf'<a href="{screen.name}(#[^"]*)"', html)
    assert len(links) == 2 * len(FACTORS)
    fragment = unescape(next(link for link in links if link.endswith("small")))
    with opened(browser, screen, PHONE, fragment=fragment) as tab:
        assert shown(tab, host="small") == f"point-query: {ME} on small against {BASE}"
        choose(tab, "host", "twin")
        assert shown(tab, host="twin") == f"point-query: {ME} on twin against {BASE}"
        assert tab.run("location.hash").endswith("&host=twin")


@pytest.mark.usefixtures("one_kernel")
def test_on_a_page_the_hosts_stand_below_each_other(browser: Browser, data: Path, tmp_path: Path) -> None:
    notebooks = only_relative_throughput(tmp_path / "notebooks/analysis")
    page = build("synthetic", data, tmp_path / "report", notebooks).parent / "relative_throughput.html"
    rows = "[...document.querySelectorAll('#rqps-hosts tbody tr')].map(r => r.innerText.split('\\t')[0].trim())"
    wanted = [f"{ME} on {host}" for host in FACTORS]
    links = "[...document.querySelectorAll('#rqps-hosts a.to-rounds')]"
    leads = f"{links}.map(a => new URLSearchParams(a.hash).get('dbms'))"
    with opened(browser, page, PHONE) as tab:
        assert tab.run(leads) == wanted * 2, "each number leads to the rounds of its host"
        tab.must_fit(PHONE)
        assert tab.run(rows) == ["point-query", *FACTORS, "update-index", *FACTORS]
        names = rows.replace("#rqps-hosts", "#rqps-between-hosts")
        assert tab.run(names) == ["point-query", "update-index"] * 2, "of each host"
        assert tab.complaints() == []
