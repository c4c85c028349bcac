"""What a run is about to measure, in words."""

import polars as pl

from rqps.observe import placement
from rqps.run.count import counted_with
from rqps.run.job import Job
from rqps.study import in_words


def conditions(job: Job) -> pl.DataFrame:
    """The conditions of a run as a table for its notebook."""
    run = job.run
    rows = {
        "question": run.question,
        "run": f"{in_words(run.mode, run.round)} of {run.study} on {run.host}, "
        f"number {run.position + 1} in random order",
        "dbms": f"{run.dbms}: MySQL {job.build.version} from {job.build.source}",
        "options left out": ", ".join(job.translated.left_out) or "none",
        "performance schema": _scenario(job),
        "placement": placement.reasons(run.placement, job.placements),
        **counted_with(job),
        **{name.replace("_", " "): _plain(value) for name, value in run.parameters.model_dump().items()},
    }
    return pl.DataFrame({"condition": list(rows), "value": list(rows.values())})


def _scenario(job: Job) -> str:
    if job.scenario is None:
        return "as its options have it"
    name, by = job.scenario.scenario.name, job.scenario.by
    return f"{name}, told {by}" if job.scenario.scenario.kind == "on" else name


def _plain(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
