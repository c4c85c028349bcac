"""The proof of the verdicts, benchmarks/verdicts, measures what it says: one round of it on real servers."""

import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

pytestmark = pytest.mark.live
PROOF = Path(__file__).parent.parent / "benchmarks/verdicts"


def proven(part: str, results: Path, *asked: str) -> tuple[pl.DataFrame, str]:
    """The rows that a part leaves, and the table that it prints."""
    command = [sys.executable, str(PROOF), "--results", str(results), part, *asked, "--seconds", "1"]
    proof = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert proof.returncode == 0, proof.stderr
    return pl.read_parquet(results / f"{part}.parquet"), proof.stdout


def test_a_duet_of_equal_servers_gives_a_ratio_for_each_step(tmp_path: Path) -> None:
    every, table = proven("aa", tmp_path, "--duets", "1")
    rows = every.filter(metric="operations_per_s")
    assert sorted(rows["step"]) == ["insert", "point-query", "range-covered-si", "update-index"]
    assert rows["ratio"].is_finite().all()
    assert "| alone | point-query | throughput | 1 |" in table


def test_a_server_that_burns_says_how_long_it_did_for_each_packet(tmp_path: Path) -> None:
    rows, table = proven("power", tmp_path, "--size", "3", "--rounds", "1", "--published", "0")
    selected = rows.select(
        "unit", pl.col("note").str.json_decode(pl.Struct({"loops": pl.Int64, "burnt_us": pl.Float64}))
    )
    burning = selected.unnest("note").filter(~pl.col("unit").str.starts_with("calibration"))
    assert selected.unnest("note").filter(unit="calibration of point-query")["loops"].unique().to_list() == [0]
    assert set(burning["unit"]) == {"duet, 3 % of point-query", "rounds, 3 % of point-query"}
    assert (burning["loops"] > 0).all()
    assert (burning["burnt_us"] > 0).all()
    assert "| 3 % of point-query | throughput | duet |" in table


def test_a_server_that_walks_memory_says_how_long_that_takes_quiet_and_crowded(tmp_path: Path) -> None:
    rows, table = proven("footprint", tmp_path, "--kb", "64", "--rounds", "1")
    noted = pl.Struct({"walked_kb": pl.Int64, "burnt_us": pl.Float64})
    walks = rows.select("unit", "step", pl.col("note").str.json_decode(noted)).unnest("note")
    assert set(walks.select("unit", "step").rows()) == {
        (f"{state}, 64 KB", step) for state in ("quiet", "crowded") for step in ("point-query", "update-index")
    }
    assert set(walks["walked_kb"]) == {64}
    assert (walks["burnt_us"] > 0.5).all(), "1024 loads that wait for each other"
    assert "| quiet | 64 KB | update-index | throughput |" in table
