"""Maps names to the frames of a study; the numbers in sentences are checked against these frames."""

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from pkgutil import resolve_name

import polars as pl

from rqps import stats
from rqps.errors import RqpsError
from rqps.report.profiles import asked_by
from rqps.show.sentences import CELL
from rqps.stats.metrics import CPU, USER_CPU
from rqps.store.read import Study

KERNEL_CPU = "kernel CPU per operation"


def compared_frame(study: Study) -> pl.DataFrame:
    """All comparisons of a study: with the base, and between configs of the same build."""
    _, compared = stats.relate(study)
    both = pl.concat([compared, stats.relate_configs(study, compared)[1]], how="diagonal_relaxed")
    return both.unique(CELL, keep="first", maintain_order=True)


def differences(study: Study) -> pl.DataFrame:
    """The difference of each dbms from the base in CPU per operation: total, in user space, and in the kernel.
    The difference in the kernel, which is total minus user space, has no interval."""
    values, base = stats.measured(study, (CPU, USER_CPU)), study.card.base
    costs = stats.compare(stats.rounds(values, study.runs, base), of="difference")
    user = costs.filter(metric=USER_CPU).select(*CELL[:-1], user="estimate")
    kernel = costs.filter(metric=CPU).join(user, on=CELL[:-1], maintain_order="left")
    kernel = kernel.with_columns(metric=pl.lit(KERNEL_CPU), estimate=pl.col("estimate") - pl.col("user"))
    return pl.concat([costs, kernel.select(*CELL, "estimate")], how="diagonal")


def decided_frame(compared: pl.DataFrame) -> pl.DataFrame:
    """One row per comparison, in the metric that gives its verdict: throughput or, if the comparison of throughput is
    unsure, a cost per operation. `size` is the change without its sign, as a ratio: 1.1 for ratios of 0.9 and 1.1."""
    return stats.deciding(compared).with_columns(size=1 + (pl.col("estimate") - 1).abs())


FRAMES: dict[str, Callable[[Study], pl.DataFrame]] = {
    "compared": compared_frame,
    "decided": lambda study: decided_frame(stats.relate(study)[1]),
    "means": stats.means,
    "differences": differences,
    "changes": lambda study: stats.courses_of(study).changes,
    "courses": lambda study: stats.courses_of(study).summary,
    "plans": stats.plan_changes,
    "layouts": stats.known_layouts,
}
"""Maps names to functions that make a frame of a study. A notebook can add frames of its own in its metadata:
`frames: {name: module:function}`."""


def frames_of(study: Study, notebooks: Sequence[Path] = ()) -> Callable[[str], pl.DataFrame]:
    """Returns a function that gives a frame of the study by name; each frame is made when it is first asked for."""
    own = {name: place for notebook in notebooks for name, place in asked_by(notebook).get("frames", {}).items()}

    @cache
    def frame(name: str) -> pl.DataFrame:
        if name not in FRAMES and name not in own:
            raise RqpsError(f"no frame {name!r} for a claim", fix=f"name one of: {', '.join([*FRAMES, *own])}")
        make: Callable[[Study], pl.DataFrame] = FRAMES.get(name) or resolve_name(own[name])
        return make(study)

    return frame
