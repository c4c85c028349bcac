"""The other side of `relating.py`: DuckDB, in SQL, reads the same of the same files and makes the same ratios.

With `all`, like rqps, it reads the manifests with all the conditions in them, sees to it that each table that is read
is of the right version, takes the steps into memory, and leaves the intervals where they are until they are needed.
With `needed` it reads what the table is made of, and nothing else. It names neither intervals nor verdicts.
"""

import os
import sys

import duckdb  # type: ignore[import-not-found]
from duckdb_extensions import import_extension  # type: ignore[import-not-found]
from relating_side import Rows, serve

place, task, base, reads = sys.argv[1:]
connection = duckdb.connect()
IS_PACKED = place.startswith("s3:") or os.path.exists(f"{place}/runs.parquet")  # noqa: PTH110
if place.startswith("s3:"):
    import_extension("httpfs")
    connection.execute(f"""
        LOAD httpfs;
        CREATE SECRET (TYPE s3, KEY_ID '{os.environ["AWS_ACCESS_KEY_ID"]}', URL_STYLE 'path', USE_SSL false,
                       SECRET '{os.environ["AWS_SECRET_ACCESS_KEY"]}', REGION '{os.environ["AWS_REGION"]}',
                       ENDPOINT '{os.environ["AWS_ENDPOINT_URL"].removeprefix("http://")}')
    """)


def table(name: str) -> str:
    """The rows of a table, each with its run."""
    if IS_PACKED:
        return f"read_parquet('{place}/{name}.parquet')"
    files = f"read_parquet('{place}/run=*/{name}.parquet', hive_partitioning = true)"
    return f"(SELECT * FROM {files} JOIN runs USING (run))"


FACTS = ("options", "parameters", "placement", "machine", "tools")
COLUMNS = ", ".join(f"{name}: 'VARCHAR'" for name in ("study", "run", "host", "dbms", "build", "config"))
RUNS = f"""
    CREATE OR REPLACE TABLE runs AS
    SELECT * EXCLUDE filename
    FROM read_json('{place}/run=*/manifest.json', filename = true, columns = {{
        {COLUMNS}, round: 'INTEGER', position: 'INTEGER', seed: 'BIGINT', workload: 'VARCHAR', identity: 'VARCHAR',
        version: 'VARCHAR', version_comment: 'VARCHAR', build_source: 'VARCHAR', build_digest: 'VARCHAR',
        rqps_version: 'VARCHAR', git_revision: 'VARCHAR', started_at: 'TIMESTAMP', ended_at: 'TIMESTAMP',
        elapsed_s: 'DOUBLE', measured_s: 'DOUBLE', outcome: 'VARCHAR', error: 'VARCHAR', warnings: 'JSON',
        {", ".join(f"{name}: 'JSON'" for name in FACTS)} }})
"""
ONLY_RUNS = f"""
    CREATE OR REPLACE TABLE runs AS
    SELECT * FROM read_json('{place}/run=*/manifest.json', columns = {{ {COLUMNS}, round: 'INTEGER' }})
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
    SELECT count(*), count(*) FILTER (value = '2') FROM parquet_kv_metadata('{place}/run=*/{table}.parquet')
    WHERE key = 'rqps_schema_version'
"""
OF_STEPS = """
    SELECT host, dbms, round, step, operations_per_s,
           server_cpu_s * 1e6 / operations AS server_cpu_us_per_operation,
           server_instructions / operations AS server_instructions_per_operation
    FROM steps WHERE operations > 0 AND errors = 0 AND operations_per_s > 0
"""
OF_INTERVALS = f"""
    SELECT host, dbms, round, step, sum(operations) / count(*) AS operations_per_s
    FROM {table("intervals")} WHERE second >= 0 GROUP BY ALL
"""
RATIOS = f"""
    WITH wide AS ({OF_STEPS if task == "steps" else OF_INTERVALS}),
    tidy AS (UNPIVOT wide ON COLUMNS('.*per_.*') INTO NAME metric VALUE value),
    ratios AS (
        SELECT host, step, metric, me.dbms, me.value / base.value AS ratio
        FROM tidy AS me JOIN tidy AS base USING (host, step, metric, round)
        WHERE base.dbms = '{base}' AND me.dbms <> '{base}' AND base.value > 0
    )
    SELECT host, step, metric, dbms, count(*) AS n, median(ratio) FROM ratios GROUP BY ALL
"""


def load() -> None:
    if not IS_PACKED:
        connection.execute(RUNS if reads == "all" else ONLY_RUNS)
    if reads == "all":
        connection.execute(CONDITIONS)
        connection.execute(WARNINGS)
        check("steps")
    if reads == "all" or task == "steps":
        connection.execute(f"CREATE OR REPLACE TABLE steps AS SELECT * FROM {table('steps')}")


def check(name: str) -> None:
    files, right = connection.execute(VERSIONS.format(place=place, table=name)).fetchone()
    assert files == right > 0, (files, right)


def relate(_: None) -> Rows:
    if reads == "all" and task == "intervals":
        check("intervals")
    rows: Rows = connection.execute(RATIOS).fetchall()
    return rows


serve(load, relate)
