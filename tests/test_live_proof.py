"""The proof of the verdicts, benchmarks/verdicts, measures what it says: one round of it on real servers."""

import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

pytestmark = pytest.mark.live
PROOF = Path(__file__).parent.parent / "benchmarks/verdicts"


def test_a_duet_of_equal_servers_gives_a_ratio_for_each_step(tmp_path: Path) -> None:
    asked = ("--results", tmp_path, "aa", "--duets", "1", "--seconds", "1")
    proof = subprocess.run([sys.executable, PROOF, *asked], capture_output=True, text=True, timeout=600)
    assert proof.returncode == 0, proof.stderr
    rows = pl.read_parquet(tmp_path / "aa.parquet").filter(metric="operations_per_s")
    assert sorted(rows["step"]) == ["insert", "point-query", "range-covered-si", "update-index"]
    assert rows["ratio"].is_finite().all()
    assert "| alone | point-query | throughput | 1 |" in proof.stdout
