"""Ours beside theirs: by label, for the nearest releases, with all that differs."""

import re
from pathlib import Path

import polars as pl
import pytest
from great_tables import GT
from hypothesis import given
from hypothesis import strategies as st
from rqps.pages.published_results import beside_table
from rqps.published import read
from rqps.published.compare_published import Beside, beside, what_differs
from rqps.published.figures import Published
from rqps.published.versions import Pair, Server, nearest, pairs_of, server
from rqps.store import read_manifest, read_study_card, write_manifest, write_study_card
from synthetic import Shape, write_study

SAMPLES = Path(__file__).parent.parent / "data/sample"
HOSTS = ("beelink", "pn53", "socket2", "dell32", "ax162-s")
STEPS = (
    "point-query",
    "random-points_range=1000",
    "read-only.pre_range=10",
    "read-only-sum_range=1000",
    "update-index",
)


@pytest.fixture(scope="module")
def numbers() -> Published:
    return read()


def study_of(data: Path, **versions: str) -> Path:
    """A made-up study whose builds report these versions."""
    write_study(data, Shape(steps=STEPS))
    for run in data.glob("raw/*/run=*"):
        facts = read_manifest(run)
        write_manifest(run, facts.model_copy(update={"version": versions.get(facts.build, facts.version)}))
    return data


@pytest.fixture(scope="module")
def compared(numbers: Published, tmp_path_factory: pytest.TempPathFactory) -> Beside:
    return beside(numbers, "synthetic", study_of(tmp_path_factory.mktemp("data"), my1="8.0.28", my2="8.0.40"))


def test_steps_are_matched_by_their_published_label_and_stand_in_groups(compared: Beside) -> None:
    steps = compared.numbers.select("group", "step").unique(maintain_order=True).rows()
    assert steps == [
        ("Point queries", "point-query_range=100"),
        ("Point queries", "random-points_range=1000"),
        ("Range queries with aggregation", "read-only.pre_range=10"),
        ("Writes", "update-index_range=100"),
    ]
    messages = [*what_differs(compared)]
    assert messages[-1] == "Of our steps these are in none of their tables: read-only-sum_range=1000."


def test_every_printed_table_is_a_column_but_for_the_copied_one(numbers: Published, compared: Beside) -> None:
    theirs = [(one.conditions["column"].split(", ")[-1], one.conditions["host"]) for one in compared.theirs]
    hardware = {host: numbers.sources["regressions-8040-2024"].hosts[host].hardware for host in HOSTS}
    assert theirs == [
        ("advanced-mysql-2024", hardware["dell32"]),
        ("busy-wait-2024", hardware["dell32"]),
        *(("regressions-8040-2024", hardware[host]) for host in HOSTS),
    ]
    of_pn53 = compared.numbers.filter(pl.col("column").str.starts_with("pn53"))
    assert "read-only.pre_range=10" not in of_pn53["step"].to_list(), "it was not measured there"


def test_a_number_is_the_printed_one_and_ours_has_its_interval(compared: Beside) -> None:
    of_step = compared.numbers.filter(step="update-index_range=100")
    dell32 = of_step.filter(pl.col("column").str.contains("dell32.*regressions")).row(0, named=True)
    assert (dell32["printed"], dell32["low"], dell32["rounds"]) == ("0.56", None, None)
    ours = of_step.filter(pl.col("rounds").is_not_null()).row(0, named=True)
    assert ours["printed"] == "0.70"
    assert ours["low"] <= ours["value"] <= ours["high"]
    assert ours["rounds"] == 6
    table = beside_table(compared)
    assert isinstance(table, GT)
    html = table.as_raw_html()
    assert re.search(r"<b>0\.70</b><span .*?0\.70–0\.7\d · n=6", html)
    assert html.count("<tr>") == 4, "a row a step"


def test_the_same_releases_are_called_the_same(compared: Beside) -> None:
    assert next(iter(what_differs(compared))) == (
        "The releases are the same: theirs are 8.0.40 against 8.0.28, ours 8.0.40 against 8.0.28."
    )


def test_other_releases_are_not_comparable(numbers: Published, tmp_path: Path) -> None:
    result = beside(numbers, "synthetic", study_of(tmp_path, my1="8.0.33", my2="9.7.0"))
    assert {str(one.pair) for one in result.theirs} == {"8.0.40 against 8.0.28"}
    first = next(iter(what_differs(result)))
    assert first.startswith("The releases: theirs are 8.0.40 against 8.0.28, ours 9.7.0 against 8.0.33, the nearest")
    assert first.endswith("do not set one number against the other.")


def test_what_differs_names_host_threads_seconds_and_size(compared: Beside) -> None:
    text = "\n".join(what_differs(compared))
    assert "Threads: theirs 24, 1, 16 (scan 8), 24 (scan 8), 40 (scan 8); ours 1." in text
    assert "Seconds: theirs 300, writes 600, not said; ours 5." in text
    assert "8 x 10,000,000 rows" in text
    assert "not said x 1,000 rows" in text
    assert "neither a count nor a spread" in text
    assert compared.conditions.height == len(compared.theirs) + len(compared.ours) == 8


def test_every_study_of_the_workload_stands_there_the_asked_one_first(numbers: Published, tmp_path: Path) -> None:
    data = study_of(tmp_path, my1="8.0.28", my2="8.0.40")
    (data / "raw/study=another").symlink_to(data / "raw/study=synthetic")
    for study in ("synthetic", "another"):
        columns = [one.conditions["column"] for one in beside(numbers, study, data).ours]
        assert columns[0].endswith(", synthetic"), "the card's own name"
        assert len(columns) == 2
    card = read_study_card(data / "raw/study=synthetic")
    write_study_card(data / "raw/study=synthetic", card.model_copy(update={"workload": "point-lookups"}))
    assert not beside(numbers, "synthetic", data).ours


def test_releases_of_another_engine_are_set_beside_none(numbers: Published, tmp_path: Path) -> None:
    (tmp_path / "sample").mkdir()
    (tmp_path / "sample/study=pg-releases").symlink_to(SAMPLES / "study=pg-releases")
    assert not beside(numbers, "pg-releases", tmp_path).ours


def test_a_study_that_can_not_be_compared_is_reported_and_hides_no_other(numbers: Published, tmp_path: Path) -> None:
    data = study_of(tmp_path, my1="8.0.28", my2="8.0.40")
    run = data / "raw/study=synthetic/run=r02@my2.base@here"
    facts = read_manifest(run)
    free = facts.placement.model_copy(update={"kind": "free"})
    write_manifest(run, facts.model_copy(update={"placement": free}))
    result = beside(numbers, "synthetic", data)
    assert not result.ours
    (text, nothing) = [*what_differs(result)]
    why = "here: runs with different placement can't be in one comparison"
    assert text.startswith(f"The study synthetic is left out: {why}")
    assert nothing.startswith("No study of sysbench has been measured here")


@pytest.mark.usefixtures("data_folder")
def test_without_a_study_of_ours_the_page_says_so(numbers: Published) -> None:
    result = beside(numbers, "releases")
    assert result.numbers.is_empty()
    assert [*what_differs(result)] == [
        "No study of sysbench has been measured here: there is nothing to set beside theirs."
    ]
    assert "No study of ours" in repr(beside_table(result))


def test_a_build_of_a_published_name_is_that_build() -> None:
    ours = [server("my8028_rel_o2nofp", "8.0.28"), server("my8040_rel_o2nofp"), server("my8040adv_rel_o2nofp")]
    theirs = [Pair(server("my8028_rel_o2nofp"), server("my8040adv_rel_o2nofp"))]
    result = nearest(pairs_of(ours), theirs)
    assert result is not None
    assert result.me.name == "my8040adv_rel_o2nofp"
    assert result.is_same(theirs[0])


versions = st.tuples(st.integers(5, 9), st.integers(0, 9), st.integers(0, 99)).map(
    lambda item: "{}.{}.{}".format(*item)
)


@given(st.sets(versions, min_size=2, max_size=6), st.sets(versions, min_size=2, max_size=6))
def test_a_later_release_stands_against_an_earlier_one_and_none_is_nearer(here: set[str], existing: set[str]) -> None:
    ours, theirs = (pairs_of([Server(name, name) for name in sorted(names)]) for names in (here, existing))
    result = nearest(ours, theirs)
    assert result is not None
    assert result.base.place < result.me.place
    best = min(one.distance(other) for one in ours for other in theirs)
    assert min(result.distance(other) for other in theirs) == best
