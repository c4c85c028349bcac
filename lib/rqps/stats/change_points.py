"""Change points in courses over releases: the releases that changed a metric, by how much, and with what certainty.

A course is a step's ratio to the first release, release after release. It is constant between changes, or it drifts.
The changes are those that minimize the sum of squared errors plus a penalty for each change. The penalty is the
squared error that a change must explain, so that at most one page of twenty names a false change
(benchmarks/change_points.py).

>>> levels = {"my57.z": 1.001, "my80.z": 0.87, "my84.z": 0.871, "my90.z": 0.869}
>>> cell = {"host": "vm", "step": "scan", "metric": "operations_per_s", "base": "my56.z"}
>>> starts = enumerate((0.002, -0.001, 0.003, -0.002))
>>> rows = [cell | {"dbms": dbms, "round": one, "ratio": levels[dbms] + (-1) ** at * luck}
...         for one, luck in starts for at, dbms in enumerate(levels)]
>>> course = courses(pl.DataFrame(rows), ["my56.z", *levels])
>>> course.changes.select("before", "dbms", pl.col("estimate", "certainty").round(2)).rows()
[('my57.z', 'my80.z', 0.87, 1.0)]
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import polars as pl

from rqps.stats.build_versions import versions
from rqps.stats.comparison import relate
from rqps.stats.metrics import version_order, with_groups
from rqps.stats.summary import OVER_ALL, left_out, means
from rqps.store.read import Study

FALSE_PAGES = 0.03
"""Share of pages of equal releases on which a change is named by mistake, if noise is normally distributed. Real
noise has longer tails and causes more mistakes, so this share is less than the one in twenty that is allowed."""
CELL = ("host", "step", "metric")
ALL_STEPS = "all steps"
"""The name of the course of the geometric mean over the steps of a study."""
_NUMBERS = dict.fromkeys(("estimate", "low", "high"), pl.Float64)
_KEYS = dict.fromkeys((*CELL, "base"), pl.String)
_SCHEMAS: tuple[dict[str, Any], ...] = (
    {"rank": pl.Int32, "dbms": pl.String, "n": pl.Int32, **_NUMBERS, "level": pl.Float64},
    {"rank": pl.Int32, **dict.fromkeys(("before", "dbms", "until", "earliest", "latest"), pl.String)}
    | {**_NUMBERS, "points": pl.Float64, "way": pl.String, "certainty": pl.Float64},
    {"course": pl.String, "first": pl.String, "last": pl.String, **_NUMBERS}
    | {"points": pl.Float64, "resolves": pl.Float64},
)


class Courses(NamedTuple):
    """The courses of a study."""

    points: pl.DataFrame
    """One row per host, step, metric and release in order: the `estimate` relative to the first release, with its
    95 % interval, and the `level` of the course at this release, which is constant between two changes."""
    changes: pl.DataFrame
    """One row per change. `estimate` is the ratio of the level after the change to the level before the change, with
    an interval, and `way` is up or down. `points` is the difference, in percentage points, between two ratios to the
    base that the tables print: the ratio of `dbms` minus the ratio of `before`. The change most likely lies between
    the releases `before` and `dbms`, with the probability `certainty`; with 95 % probability, one of the releases
    from `earliest` to `latest` caused the change. `until` is the last release before the next change."""
    summary: pl.DataFrame
    """One row per host, step and metric. `course` is `flat`, `steps` or `drift`. `estimate` is the ratio of the last
    release to the first, with an interval, and `points` is the difference between the ratios of these two releases to
    the base, in percentage points; both are computed from the ratios that the tables print. `resolves` is the
    smallest change that would be named if only the last release had it."""


def releases(study: Study) -> list[str]:
    """The dbms with the base's config: first one dbms per version, in the order of versions, then the versions of
    rebuilt builds, in the order of their numbers."""
    alike = study.runs.filter(config=study.configs.get(study.card.base, ""))
    ordered = alike.join(version_order(study.runs), on="dbms").sort("rank")
    ordered = ordered.join(versions(study), on="build", how="left", maintain_order="left")
    one_each = ordered.unique(["version", "build_of", "number"], keep="first", maintain_order=True)
    return one_each.sort("build_of", "number", nulls_last=False, maintain_order=True)["dbms"].to_list()


@lru_cache(maxsize=2)  # the page `history` and a report's first page both use the result
def courses_of(study: Study) -> Courses:
    """The courses of a study's steps, with the `group` and `kind` of each step; if there are several steps, also the
    course of their geometric mean, which is named `ALL_STEPS`."""
    paired, compared = relate(study)
    without = [step for steps in left_out(study).values() for step in steps]
    keys = [name for name in ("host", "metric", "base", "dbms", "occasion", "round") if name in paired.columns]
    usual = [name for name in ("usual_spread",) if name in paired.columns]
    steps = pl.col("step").n_unique().over("host", "metric", "base", "dbms")
    of_all = (
        paired.filter(~pl.col("step").is_in(without))
        .with_columns(steps=steps)
        .group_by(keys, maintain_order=True)
        .agg(pl.len(), pl.col("steps", *usual).first(), pl.col("ratio").log().mean().exp())
        .filter(pl.col("len") == pl.col("steps"), pl.col("steps") > 1)
        .select(*keys, *usual, "ratio", step=pl.lit(ALL_STEPS))
    )
    of_means = means(study).filter(OVER_ALL, relation="base").with_columns(step=pl.lit(ALL_STEPS))
    shown = pl.concat(frame.select(*CELL, "base", "dbms", "estimate") for frame in (compared, of_means))
    of_study = courses(pl.concat([paired, of_all], how="diagonal"), releases(study), shown)
    return Courses(*(with_groups(frame, compared) for frame in of_study))


def courses(paired: pl.DataFrame, ordered: Sequence[str], shown: pl.DataFrame | None = None) -> Courses:
    """The courses of paired rounds over the releases in `ordered`. All changes of the frame are corrected for
    multiple comparisons together. `shown` has the comparisons that the tables print: estimates and percentage points
    are computed from their ratios, so that courses agree with tables."""
    from rqps.stats.stretches import course_of  # imports numpy, which most processes do not need

    rows = paired.filter(pl.col("dbms").is_in(ordered), pl.col("base").is_in(ordered))
    cells = rows.partition_by(*CELL, "base", as_dict=True, maintain_order=True)
    known = {} if shown is None else shown.partition_by(*CELL, "base", as_dict=True)
    estimates = {cell: dict(rows.select("dbms", "estimate").iter_rows()) for cell, rows in known.items()}
    of_cells = {
        cell: course
        for cell, rounds in cells.items()
        if (course := course_of(rounds, ordered, estimates.get(cell, {})))
    }
    splits = sum(len(course.dbms) - 1 for course in of_cells.values())
    parts: tuple[list[dict[str, Any]], ...] = ([], [], [])
    for cell, course in of_cells.items():
        described = course.described(1 - FALSE_PAGES / splits)
        for frame, rows_of_course in zip(parts, described, strict=True):
            frame += [dict(zip(_KEYS, cell, strict=True)) | row for row in rows_of_course]
    frames = (pl.DataFrame(part, schema=_KEYS | schema) for part, schema in zip(parts, _SCHEMAS, strict=True))
    return Courses(*frames)
