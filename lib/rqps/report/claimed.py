"""The frames of a study that sentences make claims on, by their names: the claims are checked against them."""

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


def compared_frame(study: Study) -> pl.DataFrame:
    """All comparisons: with the base, and of configs within each build."""
    _, compared = stats.relate(study)
    both = pl.concat([compared, stats.relate_configs(study, compared)[1]], how="diagonal_relaxed")
    return both.unique(CELL, keep="first", maintain_order=True)


def differences(study: Study) -> pl.DataFrame:
    """The CPU per operation that each dbms takes more than the base, in all and in user space."""
    values, base = stats.measured(study, (CPU, USER_CPU)), study.card.base
    return stats.compare(stats.rounds(values, study.runs, base), of="difference")


FRAMES: dict[str, Callable[[Study], pl.DataFrame]] = {
    "compared": compared_frame,
    "decided": lambda study: stats.deciding(stats.relate(study)[1]),
    "means": stats.means,
    "differences": differences,
}
"""Frames of every study. A notebook adds its own by its metadata: `frames: {name: module:function}`."""


def frames_of(study: Study, notebooks: Sequence[Path] = ()) -> Callable[[str], pl.DataFrame]:
    """The frames of a study by name, each made when it is asked for first."""
    own = {name: place for notebook in notebooks for name, place in asked_by(notebook).get("frames", {}).items()}

    @cache
    def frame(name: str) -> pl.DataFrame:
        if name not in FRAMES and name not in own:
            raise RqpsError(f"no frame {name!r}", fix=f"a claim is on one of: {', '.join([*FRAMES, *own])}")
        make: Callable[[Study], pl.DataFrame] = FRAMES.get(name) or resolve_name(own[name])
        return make(study)

    return frame
