"""What a run is about to measure, in words."""

import polars as pl

from rqps.engines import engine_of
from rqps.observe import placement
from rqps.run.count import counted_with
from rqps.run.job import Job
from rqps.study import in_words


def conditions(job: Job) -> pl.DataFrame:
    """The conditions of a run as a table for its notebook."""
    run, build = job.run, job.prepared.build
    rows = {
        "question": run.question,
        "run": f"{in_words(run.mode, run.round)} of {run.study} on {run.host}, "
        f"number {run.position + 1} in random order",
        "dbms": f"{run.dbms}: {engine_of(run.build_spec).title} {build.version} from {build.source}",
        **job.prepared.in_words,
        "placement": placement.reasons(run.placement, job.placements),
        **counted_with(job),
        **{name.replace("_", " "): _plain(value) for name, value in run.parameters.model_dump().items()},
    }
    return pl.DataFrame({"condition": list(rows), "value": list(rows.values())})


def _plain(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
