"""Instructions per operation: their ratio to the base's, and whether CPU time grew alike."""

import shutil
from collections import defaultdict
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import rqps
from hypothesis import given
from hypothesis import strategies as st
from rqps import stats
from rqps.errors import RqpsError
from rqps.profile import instructions_per_operation, most_expensive_functions
from rqps.report.profiles import Links
from rqps.report.rounds import numbers
from rqps.show.table import absolute_table
from rqps.stats import absolute, measured
from rqps.stats.metrics import INSTRUCTIONS, THROUGHPUT
from rqps.store import Study, read_manifest, write_manifest
from synthetic import Shape, manifest, tables, write_rows, write_study

SHAPE = Shape(rounds=6, noise=0.003)
BASE = "my1.base"
PER_OPERATION = {"my1.base": 40_000, "my2.base": 57_000, "my2.ps0": 50_000}
"""The base of 20 µs an operation, the others of 28.6 and 25: in CPU time, 1.43 and 1.25 of it."""
OPERATIONS = 1000
ROOT = "dispatch_command(THD*, COM_DATA const*, enum_server_command)"
EXECUTE = "bool Sql_cmd_dml::execute<true>(THD*) [clone .isra.0]"


def count_runs(folder: Path, rounds: int, shape: Shape = SHAPE, spread: float = 0.0) -> None:
    """Runs in which instructions were counted: each round one in a thousand more than the one before, and the counts
    of `my2.base` up and down by the share `spread` from round to round."""
    for round_ in range(1, rounds + 1):
        for dbms in shape.dbms:
            facts = manifest(dbms, round_, shape, run=f"i{round_:02}@{dbms}@here", mode="instructions")
            off = spread * (-1) ** round_ if dbms == "my2.base" else 0.0
            of_run = tables(facts, shape)
            for row in of_run["steps"]:
                row |= {"operations": OPERATIONS, "transactions": OPERATIONS}
            of_run["instructions"] = [
                row
                for step in shape.steps
                for row in stacks(step, round(PER_OPERATION[dbms] * OPERATIONS * (1 + off)), round_)
            ]
            write_rows(folder, facts, of_run)


def stacks(step: str, instructions: int, round_: int) -> list[dict[str, Any]]:
    more = instructions * (round_ - 1) // 1000
    shares = {(ROOT,): (OPERATIONS, instructions // 4), (ROOT, EXECUTE): (2 * OPERATIONS, instructions // 2)}
    shares[ROOT, EXECUTE, "memcpy"] = (8 * OPERATIONS, instructions - instructions // 4 - instructions // 2 + more)
    ours = {"step": step, "role": "connection"}
    rows = []
    for frames, (calls, own) in shares.items():
        stack = {"frames": list(frames), "modules": ["mysqld"] * len(frames)}
        rows.append({**ours, **stack, "calls": calls, "instructions": own})
    return rows


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_study(tmp_path_factory.mktemp("counted"), SHAPE)
    count_runs(folder / "raw/study=synthetic", rounds=3)
    return folder


@pytest.fixture(scope="module")
def timed(data: Path) -> Study:
    return rqps.load("synthetic", data=data)


@pytest.fixture(scope="module")
def counted(data: Path) -> Study:
    return rqps.load("synthetic", data=data, mode="instructions")


def test_a_metric_of_runs_of_another_mode_is_an_error(timed: Study, counted: Study) -> None:
    with pytest.raises(RqpsError, match="the timed runs did not measure server_instructions_per_op") as of_timed:
        measured(timed, [INSTRUCTIONS])
    assert "stats.relate(study)" in of_timed.value.fix
    assert INSTRUCTIONS in set(stats.relate(timed)[1]["metric"])
    with pytest.raises(RqpsError, match="do not measure operations_per_s") as of_counted:
        measured(counted, [THROUGHPUT])
    assert of_counted.value.fix == 'load its timed runs: rqps.load("synthetic")'
    assert set(measured(timed, [THROUGHPUT, INSTRUCTIONS])["metric"]) == {THROUGHPUT}


def test_what_was_counted_is_divided_by_what_was_done(counted: Study) -> None:
    values = instructions_per_operation(counted.instructions, counted.steps, counted.runs)
    of_base = values.filter(dbms=BASE, step="point-query").sort("round")
    assert of_base["value"].to_list() == [40_000, 40_040, 40_080]
    assert set(values["metric"]) == {"instructions_per_operation"}


def test_a_round_is_compared_with_its_own_base(timed: Study) -> None:
    rounds, compared = stats.relate(timed)
    of_me = (pl.col("step") == "point-query") & (pl.col("dbms") == "my2.base") & (pl.col("metric") == INSTRUCTIONS)
    row = compared.filter(of_me).row(0, named=True)
    assert row["estimate"] == pytest.approx(57 / 40)
    # The seed is another in each round, for all dbms alike.
    assert rounds.filter(of_me)["ratio"].to_list() == pytest.approx([57 / 40] * 3)
    assert (row["base_estimate"], row["me_estimate"], row["n"]) == (40_040, 57_057, 3)


def test_four_counted_rounds_decide_what_time_leaves_open(tmp_path: Path) -> None:
    count_runs(write_study(tmp_path, SHAPE) / "raw/study=synthetic", rounds=4)
    study = rqps.load("synthetic", data=tmp_path)
    _, compared = stats.relate(study)
    open_by_time = pl.when(metric=INSTRUCTIONS).then("verdict").otherwise(pl.lit("unsure")).alias("verdict")
    decided = stats.deciding(compared.with_columns(open_by_time))
    assert set(decided["metric"]) == {INSTRUCTIONS}
    assert set(decided["verdict"]) == {"slower"}


def test_counts_that_differ_from_round_to_round_have_intervals_as_wide_as_that(tmp_path: Path) -> None:
    """Counts of writes do. What all dbms of a round share does not widen the interval."""
    halves = {}
    for spread in (0.0, 0.1):
        count_runs(write_study(tmp_path / f"{spread}", SHAPE) / "raw/study=synthetic", rounds=2, spread=spread)
        _, compared = stats.relate(rqps.load("synthetic", data=tmp_path / f"{spread}"))
        row = compared.filter(metric=INSTRUCTIONS, step="point-query", dbms="my2.base").row(0, named=True)
        halves[spread] = (row["high"] / row["low"]) ** 0.5 - 1
    assert halves[0.0] < 0.005
    assert halves[0.1] > 0.2, "two rounds that differ by 20 % say nothing more exact"


def test_functions_are_summed_up_by_their_readable_names(counted: Study) -> None:
    first = counted.runs.filter(dbms=BASE, round=1)["run"].item()
    result = most_expensive_functions(counted.instructions.filter(run=first), counted.steps.filter(run=first), most=2)
    assert result.filter(step="point-query").drop("run", "step").rows() == [
        ("Sql_cmd_dml::execute", 20_000.0, 0.5, 2.0),
        ("dispatch_command", 10_000.0, 0.25, 1.0),
    ]
    assert result["step"].to_list() == ["point-query"] * 2 + ["update-index"] * 2


def test_a_step_with_nothing_done_gives_no_ratio(counted: Study) -> None:
    steps = counted.steps.with_columns(
        pl.when(pl.col("step") == "update-index").then(0).otherwise("operations").alias("operations")
    )
    values = instructions_per_operation(counted.instructions, steps, counted.runs)
    assert set(values["step"]) == {"point-query"}


@given(st.lists(st.integers(1, 10**12), min_size=1, max_size=30), st.integers(1, 10**6))
def test_parts_add_up_to_the_whole(parts: list[int], operations: int) -> None:
    facts = manifest(BASE, 1, SHAPE)
    identity = {name: [getattr(facts, name)] for name in ("study", "run", "host", "dbms", "build", "config", "round")}
    steps = pl.DataFrame(
        {**identity, "step": ["s"], "position": [0], "clients": [1], "operations": [operations], "errors": [0]}
        | {"retries": [0], "operations_per_s": [1.0]}
    )
    rows = pl.DataFrame({"instructions": parts}).with_columns(
        pl.lit(facts.run).alias("run"),
        pl.lit("s").alias("step"),
        pl.lit(None, pl.Int64).alias("calls"),
        pl.format("f{}", pl.int_range(pl.len())).alias("frame"),
    )
    rows = rows.with_columns(pl.concat_list("frame").alias("frames"))
    alike = {name: [""] for name in ("build_digest", "workload", "parameters", "placement")}
    runs = pl.DataFrame(
        {**identity, **alike, "identity": [""], "version": ["1.0.0"], "listed": [0], "unit": ["r"]}
        | {"side": [None], "occasion": [1], "layout": [None]}
    )
    [complete] = instructions_per_operation(rows, steps, runs)["value"].to_list()
    assert complete == pytest.approx(sum(parts) / operations, rel=1e-12)
    functions = most_expensive_functions(rows, steps, most=len(parts))
    assert functions["instructions_per_operation"].sum() == pytest.approx(complete, rel=1e-9)
    assert functions["share"].sum() == pytest.approx(1, rel=1e-9)


def test_the_cpu_s_counters_stand_beside_throughput_where_there_are_any(tmp_path: Path) -> None:
    shape = Shape(rounds=2)
    folder = write_study(tmp_path, shape) / "raw/study=synthetic"
    for file in folder.glob("run=*/steps.parquet"):
        counted = pl.read_parquet(file).with_columns(server_instructions=pl.col("operations") * 41_000)
        counted.write_parquet(file, metadata=pl.read_parquet_metadata(file))
        write_manifest(file.parent, read_manifest(file.parent))
    study = rqps.load("synthetic", data=tmp_path)
    html = absolute_table(absolute(measured(study))).as_raw_html()
    assert "instructions/o" in html
    assert "41,000" in html
    assert "cycles/o" not in html


def test_rounds_that_count_are_rows_of_their_own_with_their_runs(tmp_path: Path) -> None:
    """Also where the timed run of a round is missing."""
    folder = write_study(tmp_path, SHAPE) / "raw/study=synthetic"
    count_runs(folder, rounds=3)
    shutil.rmtree(folder / "run=r02@my2.base@here")
    study = rqps.load("synthetic", data=tmp_path)
    rounds, compared = stats.relate(study)
    files: dict[str, str | None] = defaultdict(lambda: None)
    rows = next(one for one in numbers(study, rounds, compared, files, Links()) if "my2.base" in one["title"])[
        "rounds"
    ]
    runs = {(row["round"], run["raw"]) for row in rows for run in row["runs"]}
    assert {(2, "run=i02@my2.base@here/instructions.parquet"), (1, "run=r01@my2.base@here/steps.parquet")} <= runs
    assert len(rows) == 5 + 3
