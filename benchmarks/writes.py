"""Do the parts of written bytes come to what the kernel counts? Measures the studies of writes where they are
missing, and prints the share of the process's own count that no part explains, by step and dbms.

The goal is 5 % for update-index and l.i1.
"""

import argparse
import subprocess
import sys
from pathlib import Path

import polars as pl
import rqps
from rqps import stats

STUDIES = ("writes-of-updates", "writes-of-inserts")
GOAL = 0.05

options = argparse.ArgumentParser(description=__doc__)
options.add_argument("--measured", action="store_true", help="only print what was measured before")
asked = options.parse_args()

for study in STUDIES:
    if not asked.measured:
        subprocess.run([Path(sys.executable).with_name("rqps"), "run", study], check=True)
    left = stats.by_purpose(rqps.load(study)).filter(role="rest")
    table = left.with_columns(pl.col("kb", "share").round(3)).select("step", "dbms", "rounds", "kb", "share")
    with pl.Config(tbl_rows=-1):
        print(study, table.with_columns(within=pl.col("share").abs() <= GOAL))
