"""Costs of an operation are calculated as published, and shown beside what the server itself used."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import rqps
from hypothesis import given
from hypothesis import strategies as st
from nbformat.v4 import new_code_cell, new_notebook, new_output
from rqps import stats
from rqps.pages.cost_per_operation import as_published, cost_table, cost_tables, costs
from rqps.report.render import content_of
from rqps.stats import MEDIAN, PUBLISHED
from rqps.store import Study
from rqps.store.schemas import IDENTITY, TABLES
from synthetic import write_study

BASE = "my1.base"
HOSTILE = "<img src=x onerror=alert(1)>"
USED = (
    *["step", "position", "clients", "unit", "errors", "retries", "operations", "transactions"],
    *["latency_mean_us", "operations_per_s"],
)


def table_of(study: Study, **columns: pl.Expr) -> pl.DataFrame:
    """The published table; `columns` change what was counted a second."""
    return costs(replace(study, counters=study.counters.with_columns(**columns)), published=True)


def table_against(base: str, values: pl.DataFrame, study: Study) -> pl.DataFrame:
    return cost_table(values, stats.compare(stats.rounds(values, study.runs, base)))


second = st.fixed_dictionaries(
    {name: st.integers(0, 400) for name in ("user", "system", "idle", "iowait", "steal", "cs", "reads")}
)


def published_average(lines: list[str], column: int) -> float:
    """As the published scripts do it: of what vmstat wrote, without lines with swpd and without the first."""
    saved = [line.split() for line in lines if "swpd" not in line][1:]
    return sum(float(words[column]) if words[column].isdigit() else 0.0 for words in saved) / len(saved)


def vmstat(seconds: list[dict[str, int]]) -> list[str]:
    """Lines of vmstat for such seconds: headings before each 21 lines, of which the first is of no second."""
    lines: list[str] = []
    for number, ticks in enumerate([{}, *seconds]):
        if number % 21 == 0:
            lines += ["procs memory cpu cpu cpu cpu", "swpd free cs us sy id"]
        if total := sum(ticks.get(name, 0) for name in ("user", "system", "idle", "iowait", "steal")):
            us, sy = ((100 * ticks[name] + total // 2) // total for name in ("user", "system"))
            lines.append(f"0 0 {ticks['cs']} {us} {sy} 0")
    return lines


@given(st.lists(second.filter(lambda one: one["idle"] > 0), min_size=2, max_size=90))
def test_costs_are_those_that_the_published_scripts_make_of_the_same_seconds(seconds: list[dict[str, int]]) -> None:
    identity = {"study": "s", "run": "r", "host": "h", "dbms": BASE, "build": "my1", "config": "base", "round": 1}
    step = {"step": "insert", "position": 0, "clients": 1, "unit": "query", "operations": 5, "operations_per_s": 2.5}
    schema = {**IDENTITY, **{name: TABLES["steps"][name] for name in (*USED, "host_cpu_user_s")}}
    steps = pl.DataFrame(
        [
            identity
            | step
            | {"operations": 5, "operations_per_s": 2.5, "errors": 0, "retries": 0, "host_cpu_user_s": 1.0}
        ],
        schema=schema,
    )
    counted = [
        {"run": "r", "step": "insert", "second": number + 1.0, "interval_s": 1.0}
        | {f"host_cpu_{name}_s": one[name] / 100 for name in ("user", "system", "idle", "iowait", "steal")}
        | {"host_context_switches": one["cs"], "host_reads": one["reads"]}
        | {"host_read_kb": 0.0, "host_write_kb": None}
        for number, one in enumerate(seconds)
    ]
    counters = pl.LazyFrame(counted, schema_overrides={"host_write_kb": pl.Float64})
    alike = dict.fromkeys(("build_digest", "identity", "workload", "parameters", "placement"), "")
    runs = pl.DataFrame(
        [
            identity
            | alike
            | {"version": "8.0.1", "listed": 0, "unit": "r", "side": None, "occasion": 1, "layout": None}
        ]
    )
    facts = dict(as_published(steps, counters, runs).select("metric", "value").rows())
    lines = vmstat(seconds)
    assert facts.keys() == PUBLISHED.keys() - {"wKB/o"}
    assert facts["cs/o"] == pytest.approx(published_average(lines, 2) / 2.5)
    busy = published_average(lines, 3) + published_average(lines, 4)
    # A half of a percent may be cut off on either side of it in floating point.
    assert facts["cpu/o"] == pytest.approx(busy / 2.5, abs=2 / 2.5)
    assert facts["r/o"] == pytest.approx(sum(one["reads"] for one in seconds) / len(seconds) / 2.5)


def test_whole_percent_of_the_host_for_an_operation(study: Study) -> None:
    ticks = {"user": 0.254, "system": 0.1, "idle": 0.646, "iowait": 0.0, "steal": 0.0}
    table = table_of(study, **{f"host_cpu_{name}_s": pl.lit(value) for name, value in ticks.items()})
    row = table.filter(metric="cpu/o", dbms=BASE, step="point-query").row(0, named=True)
    rate = table.filter(metric="o/s", dbms=BASE, step="point-query")["estimate"].item()
    assert row["estimate"] == pytest.approx(35 / rate, rel=0.01)


def test_seconds_of_the_warm_up_are_not_counted(study: Study) -> None:
    early = study.counters.with_columns(pl.col("second") - 6, pl.lit(1_000_000).alias("host_context_switches"))
    both = pl.concat([study.counters, early], how="vertical_relaxed")
    assert as_published(study.steps, both, study.runs).equals(as_published(study.steps, study.counters, study.runs))


def test_of_a_scan_an_operation_is_a_thousand_rows_of_one_table(study: Study) -> None:
    scans = study.steps.with_columns(
        pl.lit("row").alias("unit"),
        pl.lit(4_000_000).alias("operations"),
        pl.lit(4).alias("transactions"),
        pl.lit(2e6).alias("latency_mean_us"),
    )
    values = as_published(scans, study.counters, study.runs)
    assert set(values.filter(metric="o/s")["value"]) == {500.0}


@pytest.mark.parametrize("wrong", [{"operations": 0}, {"errors": 3}, {"operations_per_s": None}])
def test_a_step_with_errors_or_without_operations_gives_no_number(study: Study, wrong: dict[str, Any]) -> None:
    bad = (pl.col("dbms") == BASE) & (pl.col("step") == "point-query")
    steps = study.steps.with_columns(
        pl.when(bad).then(pl.lit(value)).otherwise(pl.col(name)).cast(study.steps.schema[name]).alias(name)
        for name, value in wrong.items()
    )
    values = as_published(steps, study.counters, study.runs)
    assert values["value"].is_finite().all()
    table = table_against(BASE, values, study)
    assert table.filter(step="point-query")["ratio"].is_null().all()
    assert "my1.base" not in table.filter(step="point-query")["dbms"].to_list()
    assert table.filter(~pl.col("is_base"), step="update-index")["ratio"].drop_nulls().len() > 0


def test_published_columns_beside_the_base(study: Study) -> None:
    reads = pl.when(pl.col("dbms") == "my2.ps0").then(3).otherwise(0)
    table = table_of(study, host_reads=reads, host_read_kb=pl.lit(0.0)).filter(step="update-index")
    for column, digits, wanted in (("estimate", 6, ESTIMATES), ("ratio", 2, RATIOS)):
        wide = table.with_columns(pl.col(column).round(digits)).pivot(
            "metric", list(wanted), index="dbms", values=column
        )
        assert wide.select(list(wanted)).to_dict(as_series=False) == wanted
    with_interval = table.filter(metric="cpu/o", dbms=BASE).select(pl.col("low", "high").round(6)).row(0)
    assert with_interval == (0.006276, 0.006331)
    of_ratio = table.filter(metric="cpu/o", dbms="my2.base").select(pl.col("ratio_low", "ratio_high").round(2)).row(0)
    assert of_ratio == (1.41, 1.42)
    assert set(table["n"]) == {6}


ESTIMATES = {"cpu/o": [0.006295, 0.008935, 0.007815], "r/o": [0.0, 0.0, 0.000375], "rKB/o": [0.0, 0.0, 0.0]}
RATIOS = {"cpu/o": [None, 1.42, 1.24], "r/o": [None, None, None], "o/s": [None, 0.70, 0.80]}


def test_a_number_of_one_round_has_no_interval(tmp_path: Path) -> None:
    table = table_of(rqps.load("synthetic", data=write_study(tmp_path, rounds=1)))
    assert table["low"].is_null().all()
    assert set(table["n"]) == {1}


def test_the_base_is_the_first_though_others_are_older(tmp_path: Path) -> None:
    study = rqps.load("synthetic", data=write_study(tmp_path, rounds=1))
    values = as_published(study.steps, study.counters, study.runs)
    table = table_against("my2.base", values, study)
    assert table.group_by("step", maintain_order=True).first()["dbms"].to_list() == ["my2.base"] * 2


def test_tables_are_one_a_group_with_every_step_and_dbms(study: Study) -> None:
    table = table_of(study)
    points, writes = (one.as_raw_html() for one in cost_tables(table))
    assert "Point queries" in points
    assert "Writes" in writes
    for name in (*PUBLISHED, "point-query", "my1.base", "my2.base", "my2.ps0", "rounds"):
        assert name in points, name
    assert "http" not in points
    assert "▲" not in writes, "verdicts are on what the server does"
    ours = costs(study).filter(metric="server_cpu_us_per_operation")
    assert "▲ 1.4" in next(cost_tables(ours)).as_raw_html()


def test_names_stay_text(study: Study) -> None:
    table = table_of(study).with_columns(pl.lit(HOSTILE).alias("step"))
    (html,) = (one.as_raw_html() for one in cost_tables(table.unique(["dbms", "metric"])))
    assert "<img" not in html
    assert "&lt;img" in html


def test_47_steps_of_10_builds_stay_light(many: Study) -> None:
    table = table_of(many)
    named = table.with_columns(pl.lit("Reads & writes").alias("group"))
    (html,) = (one.as_raw_html() for one in cost_tables(named))
    assert len(html) < 3_000_000
    cell = new_code_cell("show()", outputs=[new_output("display_data", {"text/html": html})])
    (_, part) = content_of(new_notebook(cells=[cell])).parts
    assert part.claim == "Reads & writes"
    assert part.rows > 470


@given(st.lists(st.tuples(st.sampled_from("abc"), st.floats(0.1, 9.0)), min_size=1, max_size=60))
def test_groups_are_estimated_as_each_would_be_alone(rows: list[tuple[str, float]]) -> None:
    result = MEDIAN.estimate(pl.DataFrame(rows, schema=["key", "value"], orient="row"), ["key"], "value")
    for row in result.to_dicts():
        alone = pl.DataFrame(
            [record for record in rows if record[0] == row["key"]], schema=["key", "value"], orient="row"
        )
        assert MEDIAN.estimate(alone, ["key"], "value").to_dicts() == [row]
