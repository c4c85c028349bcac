"""What a run is about to measure, in words."""

import polars as pl

from rqps import placement
from rqps.modes import in_words
from rqps.run.job import Job, threads


def conditions(job: Job) -> pl.DataFrame:
    """The conditions of a run as a table for its notebook."""
    run = job.run
    rows = {
        "question": run.question,
        "run": f"{in_words(run.mode, run.round)} of {run.study} on {run.host}, "
        f"number {run.position + 1} in random order",
        "dbms": f"{run.dbms}: MySQL {job.build.version} from {job.build.source}",
        "options left out": ", ".join(job.translated.left_out) or "none",
        "placement": placement.reason(run.placement, job.placement, threads(run)),
        **{name.replace("_", " "): _plain(value) for name, value in run.parameters.model_dump().items()},
    }
    return pl.DataFrame({"condition": list(rows), "value": list(rows.values())})


def _plain(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
