"""From a number back to the rows that it comes from."""

from pathlib import PurePath

import polars as pl


def where_from(
    ratios: pl.DataFrame, runs: pl.DataFrame, step: str, dbms: str, metric: str = "operations_per_s"
) -> pl.DataFrame:
    """The rounds behind one ratio: both values, and the row of `steps.parquet` that each is in."""
    files = {row["run"]: f"{PurePath(row['folder']).name}/steps.parquet" for row in runs.iter_rows(named=True)}
    rows = ratios.filter(step=step, dbms=dbms, metric=metric)
    return rows.select(
        "host",
        "round",
        "me_value",
        "base_value",
        "ratio",
        pl.col("run").replace_strict(files, return_dtype=pl.String).alias("me_file"),
        pl.col("base_run").replace_strict(files, return_dtype=pl.String).alias("base_file"),
        pl.format("step = '{}'", "step").alias("row"),
    )


def strongest(summary: pl.DataFrame, metric: str = "operations_per_s") -> tuple[str, str]:
    """The step and dbms whose median is farthest from 1: the number to check first."""
    row = summary.filter(metric=metric).sort(pl.col("median").log().abs(), descending=True, maintain_order=True)
    return str(row["step"][0]), str(row["dbms"][0])


def builds(runs: pl.DataFrame, conditions: pl.DataFrame) -> pl.DataFrame:
    """One row a dbms: the server that answered, its binary, how often it ran, and options in which others differ."""
    options = conditions.filter(kind="option").select("dbms", "name", "value").unique()
    told = options.filter(pl.col("value").n_unique().over("name") > 1).sort("name").group_by("dbms")
    differing = told.agg(pl.format("{}={}", "name", pl.col("value")).str.join(", ").alias("options"))
    counted = runs.group_by("host", "dbms", maintain_order=True).agg(
        pl.len().alias("runs"),
        *(pl.col(name).first() for name in ("version", "version_comment", "build_source", "build_digest")),
    )
    return (
        counted.join(differing, on="dbms", how="left", maintain_order="left")
        .with_columns(pl.col("build_digest").str.slice(0, 12).alias("sha256"), pl.col("options").fill_null("–"))
        .select("dbms", "version", "version_comment", "build_source", "sha256", "runs", "options")
        .sort("version", "dbms")
    )
