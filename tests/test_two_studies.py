"""Two studies side by side: what changed in their ratios, and in their conditions."""

from pathlib import Path

import polars as pl
import pytest
import rqps
import synthetic
from browser import Browser, each_width, opened
from rqps import stats
from rqps.cli import main
from rqps.errors import RqpsError
from rqps.report import check, two_studies
from rqps.report.two_studies import _of_the_same_hosts, pages_beside
from rqps.store import load, write_study_card
from rqps.store.packing import pack
from test_hosts_beside import write_hosts

SHAPE = synthetic.Shape(dbms=("my1.base", "my2.base"))


def write(
    data: Path,
    study: str,
    slower: float = 1.0,
    kernel: str = "6.1",
    shape: synthetic.Shape = SHAPE,
    near_kb: int = 4096,
) -> None:
    """A study on a machine with so much room in the cache; without room, the machine's state was not recorded."""
    folder = data / f"raw/study={study}"
    write_study_card(folder, synthetic.card(shape, study=study))
    loads_ns = {0: 0.4, near_kb: 20.0, 65536: 200.0} if near_kb else {}
    for number in range(1, shape.rounds + 1):
        for dbms in shape.dbms:
            machine = {"kernel": kernel, "load_1min": number, "cache_kb": 32768}
            facts = synthetic.manifest(dbms, number, shape, study=study, machine=machine)
            rows = synthetic.tables(facts, shape)
            for step in rows["steps"]:
                step["operations_per_s"] *= slower if dbms == "my2.base" else 1.0
            state = {"step": shape.steps[0], "moment": "before"}
            rows["machine_state"] = [{**state, "kb": kb, "load_ns": ns} for kb, ns in loads_ns.items()]
            synthetic.write_rows(folder, facts, rows)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    write(tmp_path, "before")
    write(tmp_path, "after", 0.9, "6.8")
    return tmp_path


def changes(data: Path, *studies: str) -> pl.DataFrame:
    result = stats.change(*(stats.relate(load(study, data))[1] for study in studies))
    return result.filter(metric="operations_per_s")


def test_the_change_has_the_reach_of_both_intervals(data: Path) -> None:
    for row in changes(data, "before", "after").to_dicts():
        assert row["verdict"] == "slower"
        assert row["estimate"] == pytest.approx(0.9)
        assert row["low"] < 0.9 < row["high"]
        one, other = row["first"], row["second"]
        widths = [record["high"] / record["low"] for record in (one, other, row)]
        assert max(widths[:2]) < widths[2] < widths[0] * widths[1]


def test_the_same_study_twice_has_not_changed(data: Path) -> None:
    assert set(changes(data, "before", "before")["verdict"]) <= {"same", "unsure"}


def test_few_rounds_decide_nothing(data: Path) -> None:
    write(data, "short", 0.9, shape=synthetic.Shape(dbms=SHAPE.dbms, rounds=3))
    write(data, "once", 0.9, shape=synthetic.Shape(dbms=SHAPE.dbms, rounds=1))
    for other in ("short", "once"):
        assert set(changes(data, "before", other)["verdict"]) == {"unsure"}


def test_conditions_that_changed_are_named_and_those_of_a_moment_are_not(data: Path) -> None:
    write(data, "option")
    result = stats.changed_conditions(load("before", data), load("after", data))
    assert result.rows() == [("machine", "kernel", "6.1", "6.8", "all")]
    assert stats.changed_conditions(load("before", data), load("option", data)).is_empty()


def test_a_state_of_the_machine_that_differs_is_a_sentence(data: Path) -> None:
    write(data, "crowded", near_kb=1024)
    write(data, "older", near_kb=0)
    before, after, crowded, older = (load(name, data) for name in ("before", "after", "crowded", "older"))
    assert stats.changed_state(before, after) == ""
    assert stats.changed_state(before, crowded) == (
        "The state of the machine differs, and ratios depend on it: in before 4 of the 32 MB of last-level cache, "
        "clock 2.5 GHz; in crowded 1 of the 32 MB of last-level cache, clock 2.5 GHz."
    )
    assert stats.changed_state(before, older) == "The state of the machine was not recorded in older."
    assert stats.changed_state(older, older) == ""
    two_studies("before", "crowded", data)
    assert stats.changed_state(before, crowded) in (data / "report/before-crowded.html").read_text()


@pytest.mark.page
@each_width
def test_the_page_says_what_changed(browser: Browser, data: Path, width: int) -> None:
    assert main(["report", "before", "after", "--data", str(data)]) == 0
    with pytest.raises(RqpsError, match=r"before-after\.html: this page compares two studies") as caught:
        check(data / "report/before-after.html", data=data)
    assert caught.value.fix == "check the report of each: rqps report --check before or after"
    page = data / "report/before-after.html"
    with opened(browser, page, width) as tab:
        tab.must_fit(width)
        text = tab.run("document.body.innerText")
        assert tab.complaints() == []
    assert "In both studies, 2 of 2 comparisons regressed." in text
    assert " regressed most: throughput of my2.base relative to my1.base was 0.70" in text
    assert "Conditions that changed: machine (1)." in text


def test_two_of_one_name_are_told_by_their_time(data: Path) -> None:
    [file] = pack("before", data / "june.rqps", data)
    assert main(["report", str(file), "before", "--data", str(data), "--out", str(data)]) == 0
    text = (data / "before-before.html").read_text()
    assert "before of 2026-01-05 12:00" in text
    assert "No recorded condition changed." in text


def test_dbms_that_only_one_study_has_are_named(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(data, "more", shape=synthetic.Shape(dbms=(*SHAPE.dbms, "my3.base")))
    assert main(["report", "before", "more", "--data", str(data)]) == 0
    shared = "2 dbms are in both studies; before has 2 and more has 3. Only more has my3.base. Both studies have the "
    shared += "same 2 steps."
    assert capsys.readouterr().out.startswith(shared)
    assert shared in (data / "report/before-more.html").read_text()


def test_studies_that_have_nothing_in_common_say_so(data: Path) -> None:
    write(data, "others", shape=synthetic.Shape(dbms=("my8.base", "my9.base")))
    assert main(["report", "before", "others", "--data", str(data)]) == 0
    assert "before and others have no comparison in common." in (data / "report/before-others.html").read_text()


def test_the_report_of_a_study_links_to_the_pages_that_set_it_beside_another(data: Path) -> None:
    assert pages_beside("after", data, data / "report") == []
    two_studies("before", "after", data)
    assert pages_beside("after", data, data / "report") == [("../before-after.html", "Beside the study before")]
    (data / "report/gone-after.html").write_text("of a study that is no longer there")
    assert len(pages_beside("after", data, data / "report")) == 1
    assert pages_beside("before", data, data / "report") == []


def test_a_study_of_one_host_is_compared_with_the_same_host_of_another(tmp_path: Path) -> None:
    both = stats.relate(rqps.load("synthetic", write_hosts(tmp_path)))[1]
    one = both.filter(host="big")
    first, second = _of_the_same_hosts([one, both])
    assert set(first["dbms"]) == set(second["dbms"]) == {"my2.base"}
    assert {*_of_the_same_hosts([both, both])[0]["dbms"]} == {
        f"my2.base on {host}" for host in ("big", "small", "twin")
    }
