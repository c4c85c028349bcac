"""Which analysis notebooks a study's report has: those that have something to say of it."""

from pathlib import Path

import pytest
import rqps
import synthetic
import synthetic_inserts
import synthetic_scenarios
from rqps.engines.mysql.perf_schema import named
from rqps.report import build
from rqps.report.site import NOTEBOOKS, analysis_notebooks, applies
from rqps.store.manifest import LEVELS

ROOT = Path(__file__).parent.parent
NOTEBOOK = "cost_per_operation"


def chosen(data: Path, study: str = "synthetic") -> set[str]:
    read = rqps.load(study, data=data)
    return {path.stem for path in analysis_notebooks(NOTEBOOKS) if applies(path, read.runs, read)}


def test_a_study_of_scenarios_gets_their_page_and_any_other_does_not(tmp_path: Path) -> None:
    with_scenarios, without = tmp_path / "with", tmp_path / "without"
    synthetic_scenarios.write(with_scenarios, rounds=1)
    synthetic.write_study(without, rounds=1)
    assert "perf_schema_overhead" in chosen(with_scenarios)
    assert "perf_schema_overhead" not in chosen(without)
    assert "relative_throughput" in chosen(with_scenarios) & chosen(without)


def test_an_insert_benchmark_of_both_gets_the_page_of_the_performance_schema(tmp_path: Path) -> None:
    both, on = tmp_path / "both", tmp_path / "on"
    synthetic_inserts.write(both, synthetic_inserts.Shape(rounds=1))
    synthetic_inserts.write(on, synthetic_inserts.Shape(dbms={"my1.base": 1.0, "my2.base": 0.7}, rounds=1))
    assert "perf_schema_overhead" in chosen(both, "inserts")
    assert "perf_schema_overhead" not in chosen(on, "inserts")


def test_scenarios_that_were_only_counted_have_their_page_too(samples: Path) -> None:
    pages = chosen(samples, "ps-index-creation-counts")
    assert "perf_schema_overhead" in pages
    assert "relative_throughput" not in pages


@pytest.mark.parametrize("levels", [0, 1])
def test_a_study_with_measured_parts_gets_their_page(levels: int, tmp_path: Path) -> None:
    servers = {f"my8.{name}": named(name) for name in ("all-disabled", "all-enabled")}
    for number in range(levels + 1):
        name = f"apart-{number}" if number else "apart"
        synthetic_scenarios.write(tmp_path, servers, study=name, rounds=1)
        if number:
            (tmp_path / "raw/study=apart" / LEVELS).write_text("studies: {}\n")
    assert ("perf_schema_instruments" in chosen(tmp_path, "apart")) == bool(levels)


@pytest.mark.usefixtures("one_kernel")
def test_steps_of_less_than_a_second_have_a_page_too(tmp_path: Path, samples: Path) -> None:
    """A scan of the MEMORY engine is over before vmstat would show a line of it."""
    (tmp_path / "notebooks").mkdir()
    (tmp_path / f"notebooks/{NOTEBOOK}.ipynb").symlink_to(ROOT / f"notebooks/analysis/{NOTEBOOK}.ipynb")
    index = build("point-lookups", samples, tmp_path / "report", tmp_path / "notebooks")
    assert (index.parent / f"{NOTEBOOK}.html").is_file()
    assert "This study has no profiles." in index.read_text()
