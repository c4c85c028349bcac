"""The other side of `relating.py`: the same tables by DuckDB, from the same files, in SQL."""

import sys

import duckdb  # type: ignore[import-not-found]
from relating_side import Rows, serve

folder, task, base, n, k = sys.argv[1:]
connection = duckdb.connect()

RUNS = f"""
    CREATE OR REPLACE TABLE runs AS
    SELECT replace(filename, '/manifest.json', '') AS folder, run, host, dbms, round
    FROM read_json('{folder}/run=*/manifest.json', filename = true, maximum_object_size = 10000000,
                   columns = {{run: 'VARCHAR', host: 'VARCHAR', dbms: 'VARCHAR', round: 'INTEGER'}})
"""

STEPS = f"""
    SELECT host, dbms, round, step, threads, operations_per_s,
           server_cpu_s * 1e6 / operations AS server_cpu_us_per_operation,
           client_cpu_s * 1e6 / operations AS client_cpu_us_per_operation
    FROM read_parquet('{folder}/run=*/steps.parquet', filename = true) AS steps
    JOIN runs ON steps.filename = runs.folder || '/steps.parquet'
    WHERE operations > 0 AND errors = 0 AND operations_per_s > 0
"""

INTERVALS = f"""
    SELECT host, dbms, round, step, 1 AS threads, sum(operations) / count(*) AS operations_per_s
    FROM read_parquet('{folder}/run=*/intervals.parquet', filename = true) AS intervals
    JOIN runs ON intervals.filename = runs.folder || '/intervals.parquet'
    WHERE second >= 0
    GROUP BY ALL
"""

# The same interval of the median: from the k-th smallest to the k-th largest of n.
RELATED = f"""
    WITH wide AS ({STEPS if task == "steps" else INTERVALS}),
    tidy AS (UNPIVOT wide ON COLUMNS('.*per_.*') INTO NAME metric VALUE value),
    ratios AS (
        SELECT host, step, metric, me.dbms, me.value / base.value AS ratio
        FROM tidy AS me JOIN tidy AS base USING (host, step, threads, metric, round)
        WHERE base.dbms = '{base}' AND me.dbms <> '{base}' AND base.value > 0
    ),
    groups AS (
        SELECT host, step, metric, dbms, count(*) AS n, list_sort(list(ratio)) AS sorted
        FROM ratios GROUP BY ALL
    )
    SELECT host, step, metric, dbms, n, (sorted[(n + 1) // 2] + sorted[n // 2 + 1]) / 2 AS median,
           CASE n WHEN {n} THEN sorted[{k}] END AS low, CASE n WHEN {n} THEN sorted[n + 1 - {k}] END AS high
    FROM groups
"""


def load() -> None:
    connection.execute(RUNS)


def relate(_: None) -> Rows:
    rows: Rows = connection.execute(RELATED).fetchall()
    return rows


serve(load, relate)
