"""Warnings and conditions beside the numbers stay short where there are many steps."""

from pathlib import Path

import polars as pl
import rqps
from rqps import show
from rqps.report.index import facts_of
from rqps.show import sections
from rqps.stats import options_of_some, throughput_over_time
from rqps.stats.conditions import config_changes
from rqps.store import Study
from synthetic import write_study

STEPS = ("scan", "insert", "delete", "update-one", "update-zipf")


def warnings_of(study: Study, steps: tuple[str, ...], text: str) -> pl.DataFrame:
    one = study.warnings.head(1).select(pl.all().exclude("step", "text", "round"))
    rows = pl.DataFrame({"step": list(steps), "text": [text.format(16 + 21 * n) for n in range(len(steps))]})
    rounds = pl.Series("round", [n % 2 + 1 for n in range(len(steps))], pl.Int32)
    return one.join(rows.with_columns(rounds), how="cross").select(study.warnings.columns)


def test_a_warning_of_many_steps_is_one_row_with_its_reach(study: Study) -> None:
    html = sections.warnings_table(warnings_of(study, STEPS, "others kept {}% of a CPU busy")).as_raw_html()
    assert "others kept 16 to 100% of a CPU busy" in html
    assert "5 steps" in html
    assert ">1, 2</td>" in html
    assert html.count("others kept") == 1


def test_a_warning_of_few_steps_is_listed_for_each(study: Study) -> None:
    html = sections.warnings_table(warnings_of(study, STEPS[:3], "others kept {}% of a CPU busy")).as_raw_html()
    assert [f"others kept {n}% of" in html for n in (16, 37, 58)] == [True] * 3
    assert [step in html for step in STEPS] == [True, True, True, False, False]


def test_no_warning_is_said_to_be_none(study: Study) -> None:
    assert "No run gave a warning." in sections.warnings_table(study.warnings.clear()).as_raw_html()


def test_options_that_not_all_have_are_listed_with_who_has_them(study: Study) -> None:
    ours = study.conditions
    lacking = ours.filter(~((pl.col("name") == "max_connections") & (pl.col("dbms") == "my1.base")))
    assert options_of_some(lacking, study.runs).rows() == [("max_connections", "100", "my2.base, my2.ps0")]
    assert options_of_some(ours, study.runs).is_empty(), "performance_schema has two values, and all have it"


def test_a_step_of_one_second_has_no_course(study: Study) -> None:
    first = throughput_over_time(study.intervals.filter(pl.col("second") == 0), study.steps)
    assert "has no course" in repr(show.throughput(first))


def test_many_parameters_are_shown_by_their_first_and_last(tmp_path: Path) -> None:
    steps = tuple(f"step-{number}" for number in range(20))
    study = rqps.load("synthetic", data=write_study(tmp_path, steps=steps, rounds=1))
    assert "steps step-0 to step-19, 20 in all;" in dict(facts_of(study, study.runs))["load"]


def test_the_first_page_counts_the_runs_that_it_lists(study: Study) -> None:
    """Also those of the base with itself, of which a round has two."""
    both = pl.concat([study.runs, study.runs.head(2).with_columns(mode=pl.lit("health"))])
    facts = dict(facts_of(study, both))
    assert facts["when"].endswith(f", {both.height} runs.")
    one, beside = study.runs.height, "2 more of the base against itself"
    assert facts["runs"].endswith(f"{one} of {one} runs finished; {beside}")


def test_a_config_without_options_differs_from_one_that_has_some() -> None:
    rows = [("my8.ps0", "option", "performance_schema", "OFF")]
    rows += [(dbms, "machine", "cpus", "2") for dbms in ("my8.defaults", "my8.ps0")]
    conditions = pl.DataFrame(rows, schema=["dbms", "kind", "name", "value"], orient="row")
    changes = config_changes(conditions.with_columns(build=pl.lit("my8")))
    assert changes.rows() == [
        ("my8.defaults", "my8.ps0", "performance_schema=not set"),
        ("my8.ps0", "my8.defaults", "performance_schema=OFF"),
    ]
