"""Cache misses beside instructions: work and the time of an instruction, on two pages, with claims that are so."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest
import rqps
from rqps.pages.flamegraph_breakdown import work_and_misses
from rqps.profile.footprint import by_function, density_of, footprint, misses_per_1000, split_of, work_and_cost
from rqps.report.claimed import frames_of
from rqps.report.first_page import answer
from rqps.report.site import NOTEBOOKS, analysis_notebooks
from rqps.show.claims import claims_of, wrong
from rqps.stats import relate
from rqps.store import Study
from synthetic import Shape, manifest, tables, write_rows, write_study
from test_one_regression import executed, sections

SHAPE = Shape(rounds=6, noise=0.003)
OPERATIONS = 1000
ROOT, COPY, LOCK = "dispatch_command(THD*)", "memcpy", "create_metadata_lock"
WORK = {"my1.base": {ROOT: 30, COPY: 10}, "my2.base": {ROOT: 30, COPY: 15, LOCK: 5}, "my2.ps0": {ROOT: 30, COPY: 10}}
"""Thousands of instructions of an operation, by function."""
MISSES = {"my1.base": {COPY: 200}, "my2.base": {COPY: 250, LOCK: 350}, "my2.ps0": {COPY: 200}}
"""Misses of the instruction cache of an operation; of the data cache are half as many, of the last level a tenth."""


def of_stack(function: str) -> dict[str, Any]:
    frames = [ROOT] if function == ROOT else [ROOT, function]
    return {"role": "connection", "frames": frames, "modules": ["mysqld"] * len(frames)}


def count(folder: Path, rounds: int = 4) -> None:
    """Counted runs: the last level of odd rounds is crowded, and misses twice as often."""
    for round_ in range(1, rounds + 1):
        for dbms in SHAPE.dbms:
            facts = manifest(dbms, round_, SHAPE, run=f"i{round_:02}@{dbms}@here", mode="instructions")
            of_run = tables(facts, SHAPE)
            of_run["instructions"], of_run["cache_misses"] = [], []
            for row in of_run["steps"]:
                row |= {"operations": OPERATIONS, "transactions": OPERATIONS}
                for function, thousands in WORK[dbms].items():
                    of = {"step": row["step"], **of_stack(function)}
                    own = {"calls": OPERATIONS, "instructions": thousands * 1000 * OPERATIONS}
                    of_run["instructions"].append(of | own)
                    i1 = MISSES[dbms].get(function, 0) * OPERATIONS
                    last = {
                        "last_level_kb": 4096 if round_ % 2 else 32768,
                        "ll_misses": i1 // (10 if round_ % 2 else 20),
                    }
                    of_run["cache_misses"] += [of | {"i1_misses": i1, "d1_misses": i1 // 2} | last] if i1 else []
            write_rows(folder, facts, of_run)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_study(tmp_path_factory.mktemp("footprint"), SHAPE)
    count(folder / "raw/study=synthetic")
    return folder


@pytest.fixture(scope="module")
def study(data: Path) -> Study:
    return rqps.load("synthetic", data)


def test_a_ratio_of_time_is_work_and_the_time_of_an_instruction(study: Study) -> None:
    split = {(row["step"], row["dbms"]): row for row in split_of(study).to_dicts()}
    cpu = relate(study)[1].filter(metric="server_cpu_us_per_operation", dbms="my2.base", step="point-query")
    row = split["point-query", "my2.base"]
    assert row["work"] == pytest.approx(50 / 40)
    assert row["cpu"] == pytest.approx(cpu["estimate"].item())
    assert row["cost"] == pytest.approx(row["cpu"] / (50 / 40))
    assert split["point-query", "my2.ps0"]["work"] == pytest.approx(1)


def test_misses_are_per_1000_instructions_and_each_last_level_is_of_its_own_rounds(study: Study) -> None:
    rows = density_of(study).filter(step="point-query", dbms="my2.base")
    expected = {
        "misses of the instruction cache": (200 / 40, 600 / 50),
        "misses of the data cache": (100 / 40, 300 / 50),
    }
    expected |= {"misses of 4 MB": (20 / 40, 60 / 50), "misses of 32 MB": (10 / 40, 30 / 50)}
    assert {row["event"]: (row["base_value"], row["me_value"]) for row in rows.to_dicts()} == {
        event: pytest.approx(sides) for event, sides in expected.items()
    }
    assert set(footprint(study).filter(event="misses of 4 MB")["n"]) == {2}


def test_functions_add_up_to_the_footprint_against_any_base(study: Study) -> None:
    for base in ("my1.base", "my2.ps0"):
        events = footprint(study, base)
        assert set(events["base"]) == {base}
        sums = (
            by_function(study, base)
            .group_by("step", "dbms", "base", "event")
            .agg(pl.col("base_value", "me_value").sum())
        )
        both = events.join(sums, on=["step", "dbms", "base", "event"], suffix="_of_functions")
        assert both.height == events.height
        assert both["me_value"].to_list() == pytest.approx(both["me_value_of_functions"].to_list())
        assert both["base_value"].to_list() == pytest.approx(both["base_value_of_functions"].to_list())
    of_lock = by_function(study).filter(function=LOCK, dbms="my2.base", step="insert")
    assert of_lock.is_empty(), "a step that was not counted"


def test_the_page_says_where_the_misses_are_and_claims_what_is_so(study: Study) -> None:
    frame_of = frames_of(study, analysis_notebooks(NOTEBOOKS))
    texts = work_and_misses(study).sentences
    work = next(text for text in texts if text.startswith("point-query: MySQL 2.0.0 uses "))
    assert "1.25x the instructions (work), 1.1" in work
    misses = texts[texts.index(work) + 1]
    assert (
        "misses of the instruction cache rise from 5 to 12 (per operation +350 in create_metadata_lock and +50"
        in misses
    )
    assert all(claims_of(text) for text in texts)
    assert [problem for text in texts for problem in wrong(text, frame_of)] == []
    first = " ".join(answer(study, *relate(study), analysis_notebooks(NOTEBOOKS)).sentences)
    assert misses.removeprefix("point-query") in first, "of the comparison in its headline"


def test_without_ordinary_rounds_or_simulated_caches_nothing_is_invented(study: Study, tmp_path: Path) -> None:
    events = footprint(study)
    (row, *_) = work_and_cost(events, relate(study)[1].clear()).to_dicts()
    assert (row["cpu"], row["cost"]) == (None, None)
    plain = rqps.load("synthetic", write_study(tmp_path, SHAPE))
    assert footprint(plain).is_empty()
    assert misses_per_1000(footprint(plain)).is_empty()
    assert by_function(plain).is_empty()
    assert "No cache misses were simulated" in str(work_and_misses(plain))


def test_one_screen_has_work_and_misses_of_its_question(data: Path) -> None:
    screen = executed("synthetic", data)["screen"]
    shown = sections(screen)["point-query", "my2.base", "my1.base"]
    assert "misses of the instruction cache per 1000" in shown
    assert LOCK in shown.partition("Functions with more misses")[2].partition("</table>")[0]
    other = sections(screen)["point-query", "my2.ps0", "my2.base"]
    assert "Work, and the time of an instruction" in other, "against another base than the study's"
