"""The first page answers in three sentences: what changed most, where that goes, and what is inconclusive."""

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
import rqps
import synthetic
import synthetic_duet
import synthetic_scenarios
from rqps import stats
from rqps.report.first_page import Answer, answer
from rqps.stats.metrics import INSTRUCTIONS
from rqps.store import write_study_card

ROOT = Path(__file__).parent.parent


ANALYSIS = ROOT / "notebooks/analysis"
WHERE = ("flamegraph_breakdown", "relative_throughput")
"""Notebooks of every study with profiles."""


def answer_of(data: Path, study: str = "synthetic", pages: tuple[str, ...] = ()) -> Answer:
    found = rqps.load(study, data)
    return answer(found, *stats.relate(found), notebooks(*pages))


def notebooks(*names: str) -> list[Path]:
    return [ANALYSIS / f"{name}.ipynb" for name in names]


@pytest.mark.parametrize("write", [synthetic.write_study, synthetic_duet.write_duets])
def test_the_largest_sure_change_comes_first_with_its_interval(write: Callable[[Path], Path], tmp_path: Path) -> None:
    first, second, *others = answer_of(write(tmp_path)).sentences
    assert " regressed most: my2.base runs at 0.70" in first
    assert "x of my1.base (0." in first
    assert first.endswith(", 6 rounds); 4 of 4 comparisons regressed.")
    assert second.startswith("CPU per operation changes by +")
    assert " µs (+" in second
    assert " in user space, " in second
    assert [text.partition(";")[0] for text in others] == ["All comparisons are conclusive"]


def test_what_throughput_leaves_open_is_said_by_the_cpu_of_an_operation(tmp_path: Path) -> None:
    """The load generator took its own time, now this and now that; the server's CPU per operation is as it was."""
    shape, folder = synthetic.Shape(), tmp_path / "raw/study=synthetic"
    write_study_card(folder, synthetic.card(shape))
    for number in range(1, shape.rounds + 1):
        for place, dbms in enumerate(shape.dbms):
            facts = synthetic.manifest(dbms, number, shape)
            rows = synthetic.tables(facts, shape)
            for step in rows["steps"]:
                step["operations_per_s"] /= 1 + (3 * number + 7 * place) % 5
            synthetic.write_rows(folder, facts, rows)
    first, second, last = answer_of(tmp_path).sentences
    assert ": my2.base uses 1.4" in first
    assert "x the CPU of my1.base per operation (" in first
    assert "runs at" not in first
    assert second.startswith("CPU per operation changes by +")
    by_cost = (
        "All comparisons are conclusive; 4 of 4 are decided by cost per operation (throughput is inconclusive "
        "there); the noise floor is "
    )
    assert last.startswith(by_cost)
    assert float(last.removeprefix(by_cost).split()[0]) < 5  # by CPU, throughput can't tell that


def test_an_unsure_number_is_never_the_headline(tmp_path: Path) -> None:
    synthetic.write_study(tmp_path, rounds=2)
    first, *_, last = answer_of(tmp_path).sentences
    assert first == (
        "No change is shown, neither in throughput nor in cost per operation: 4 of 4 comparisons are inconclusive."
    )
    assert last.startswith("Inconclusive: 4 of 4 comparisons (point-query of my2.base, ")
    assert last.endswith("; a verdict takes 4 rounds: there are 2.")


def test_a_study_of_the_performance_schema_answers_with_its_cost(tmp_path: Path) -> None:
    found = answer_of(synthetic_scenarios.write(tmp_path), pages=("perf_schema_overhead",))
    first, second, *_ = found.sentences
    assert first.startswith("All of it costs most: ")
    assert " µs of CPU for point-query (+" in first
    assert "; what the release enables by itself costs " in first
    assert second.startswith("Of what can be recorded, each alone beside nothing enabled, waits costs ")
    assert [heading for heading, _ in found.tables] == ["What the performance schema costs"]


def test_a_study_of_profiles_names_functions(sample: Path) -> None:
    found = answer_of(sample, "where-did-it-go", WHERE)
    assert "(most in " in found.sentences[1]
    assert found.tables[0][0] == "Where the time goes"


def test_one_counted_round_decides_nothing_that_time_leaves_open(sample: Path) -> None:
    reads = rqps.load("rocksdb-reads", sample)
    rounds, compared = stats.relate(reads)
    by_time_nothing = compared.with_columns(verdict=pl.lit("unsure"))
    first, last = answer(reads, rounds, by_time_nothing, notebooks(*WHERE)).sentences
    assert first.startswith("No change is shown")
    assert last.startswith("Inconclusive: 30 of 30 ")
    counted = compared.filter(metric=INSTRUCTIONS)
    assert set(counted["n"]) == {1}
    assert set(counted["verdict"]) == {"unsure"}
    assert set(counted["needs"]) == {"4 rounds: there are 1"}


def test_what_everything_adds_is_made_of_what_is_recorded(sample: Path) -> None:
    """And not of switching the performance schema off."""
    second = answer_of(sample, "ps-statements-as-text", ("perf_schema_overhead",)).sentences[1]
    assert second.startswith("By instructions, of 22,263 that all of it adds to nothing enabled, each alone: what ")
    assert " off " not in second


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The committed samples, whatever was measured here since."""
    alone = tmp_path_factory.mktemp("data")
    (alone / "sample").symlink_to(ROOT / "data/sample")
    return alone


def test_one_line_says_what_it_was_measured_on(tmp_path: Path) -> None:
    written = synthetic.write_study(tmp_path)
    assert answer_of(written).measured == (
        "5 s a step · 1,000 rows · machine, ? CPUs, 0 GB · 6 rounds in random order · 4 of 4 comparisons decided"
    )
