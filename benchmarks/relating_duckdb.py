"""The other side of `relating.py`: DuckDB, in SQL, reads the same of the same files and makes the same tables.

With `all`, like rqps, it reads the manifests with all the conditions in them, sees to it that each table that is read
is of the right version, takes the steps into memory, and leaves the intervals where they are until they are needed.
With `needed` it reads what the table is made of, and nothing else.
"""

import sys

import duckdb  # type: ignore[import-not-found]
from relating_side import Rows, serve

folder, task, base, n, k, reads = sys.argv[1:]
connection = duckdb.connect()

FACTS = ("options", "parameters", "placement", "machine", "tools")
RUNS = f"""
    CREATE OR REPLACE TABLE runs AS
    SELECT replace(filename, '/manifest.json', '') AS folder, * EXCLUDE filename
    FROM read_json('{folder}/run=*/manifest.json', filename = true, columns = {{
        study: 'VARCHAR', run: 'VARCHAR', host: 'VARCHAR', dbms: 'VARCHAR', build: 'VARCHAR', config: 'VARCHAR',
        round: 'INTEGER', position: 'INTEGER', seed: 'BIGINT', workload: 'VARCHAR', identity: 'VARCHAR',
        version: 'VARCHAR', version_comment: 'VARCHAR', build_source: 'VARCHAR', build_digest: 'VARCHAR',
        rqps_version: 'VARCHAR', git_revision: 'VARCHAR', started_at: 'TIMESTAMP', ended_at: 'TIMESTAMP',
        elapsed_s: 'DOUBLE', measured_s: 'DOUBLE', outcome: 'VARCHAR', error: 'VARCHAR', warnings: 'JSON',
        {", ".join(f"{name}: 'JSON'" for name in FACTS)} }})
"""
ONLY_RUNS = f"""
    CREATE OR REPLACE TABLE runs AS
    SELECT * FROM read_json('{folder}/run=*/manifest.json', columns = {{
        study: 'VARCHAR', run: 'VARCHAR', host: 'VARCHAR', dbms: 'VARCHAR', build: 'VARCHAR', config: 'VARCHAR',
        round: 'INTEGER' }})
"""
CONDITIONS = "CREATE OR REPLACE TABLE conditions AS " + " UNION ALL ".join(
    f"""SELECT study, run, host, dbms, build, config, round, '{name}' AS kind, fact.fullkey AS name,
               fact.atom AS value
        FROM runs, json_tree(runs.{name}) AS fact WHERE fact.atom IS NOT NULL"""
    for name in FACTS
)
WARNINGS = """
    CREATE OR REPLACE TABLE warnings AS
    SELECT study, run, host, dbms, build, config, round, warning.value ->> 'kind' AS kind,
           warning.value ->> 'step' AS step, warning.value ->> 'text' AS text
    FROM runs, json_each(runs.warnings) AS warning
"""
VERSIONS = """
    SELECT count(*), count(*) FILTER (value = '1') FROM parquet_kv_metadata('{folder}/run=*/{table}.parquet')
    WHERE key = 'rqps_schema_version'
"""
STEPS = f"""
    CREATE OR REPLACE TABLE steps AS
    SELECT runs.study, run, host, dbms, build, config, round, steps.* EXCLUDE (study, run)
    FROM read_parquet('{folder}/run=*/steps.parquet', hive_partitioning = true) AS steps JOIN runs USING (run)
"""

OF_STEPS = """
    SELECT host, dbms, round, step, threads, operations_per_s,
           server_cpu_s * 1e6 / operations AS server_cpu_us_per_operation,
           client_cpu_s * 1e6 / operations AS client_cpu_us_per_operation
    FROM steps WHERE operations > 0 AND errors = 0 AND operations_per_s > 0
"""
OF_INTERVALS = f"""
    SELECT host, dbms, round, step, 1 AS threads, sum(operations) / count(*) AS operations_per_s
    FROM read_parquet('{folder}/run=*/intervals.parquet', hive_partitioning = true) JOIN runs USING (run)
    WHERE second >= 0
    GROUP BY ALL
"""
# The same interval of the median: from the k-th smallest to the k-th largest of n.
RELATED = f"""
    WITH wide AS ({OF_STEPS if task == "steps" else OF_INTERVALS}),
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
    if reads == "needed":
        connection.execute(ONLY_RUNS)
        connection.execute(STEPS if task == "steps" else "SELECT 1")
        return
    for statement in (RUNS, CONDITIONS, WARNINGS):
        connection.execute(statement)
    check("steps")
    connection.execute(STEPS)


def check(table: str) -> None:
    files, right = connection.execute(VERSIONS.format(folder=folder, table=table)).fetchone()
    assert files == right > 0, (files, right)


def relate(_: None) -> Rows:
    if reads == "all" and task == "intervals":
        check("intervals")
    rows: Rows = connection.execute(RELATED).fetchall()
    return rows


serve(load, relate)
