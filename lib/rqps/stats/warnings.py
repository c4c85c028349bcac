"""Warnings as values that travel with the numbers that they concern."""

from typing import Any

import polars as pl

from rqps.stats.conditions import (
    hidden_differences,
    unasked_settings,
    unsteady_machine,
    unsteady_settings,
)
from rqps.stats.metrics import missed_targets, unusable
from rqps.store.read import Study


def all_warnings(study: Study) -> pl.DataFrame:
    """Notices of the runs, steps that give no number, missed rates, and conditions that differ unasked."""
    hidden = hidden_differences(study.settings, study.conditions, study.card.base)
    return pl.concat(
        [
            study.warnings,
            missing_rounds(study),
            unusable(study.steps),
            missed_targets(study.steps),
            unsteady_machine(study.conditions, study.card.study),
            unsteady_settings(study.settings),
            unasked_settings(hidden, study.runs),
        ]
    )


def missing_rounds(study: Study) -> pl.DataFrame:
    """Warnings for a dbms that has finished fewer rounds than the study plans, or that can have none.

    Runs that look closer give none here: the study's card does not say how many of them are planned.
    """
    if "throughput" not in set(study.runs["mode"]):
        return study.warnings.clear()
    finished = {(str(row[0]), str(row[1])): int(row[2]) for row in study.runs.group_by("host", "dbms").len().rows()}
    rows = []
    for host in study.runs["host"].unique().sort():
        for dbms in study.card.dbms:
            build, _, config = dbms.partition(".")
            whose = {"study": study.card.study, "host": host, "dbms": dbms, "build": build, "config": config}
            if dbms in study.card.absent:
                rows.append({**whose, "kind": "absent", "text": f"not in this version: {study.card.absent[dbms]}"})
            elif (done := finished.get((host, dbms), 0)) < study.card.rounds:
                text = f"{done} of {study.card.rounds} rounds have finished"
                rows.append({**whose, "kind": "rounds", "text": text})
    return pl.DataFrame(rows, schema=study.warnings.schema)


def with_warnings(compared: pl.DataFrame, warnings: pl.DataFrame) -> pl.DataFrame:
    """The compared frame with `warnings`: the kinds that concern me or base, in this step or in all of them."""
    rows = warnings.select("host", "dbms", "step", "kind").unique().sort("kind").to_dicts()
    numbers = compared.select("host", "step", "base", "dbms").iter_rows(named=True)
    kinds = [sorted({str(row["kind"]) for row in rows if _concerns(row, number)}) for number in numbers]
    return compared.with_columns(pl.Series("warnings", kinds, dtype=pl.List(pl.String)))


carried = with_warnings


def _concerns(warning: dict[str, Any], number: dict[str, Any]) -> bool:
    return (
        warning["host"] == number["host"]
        and warning["dbms"] in (None, number["dbms"], number["base"])
        and warning["step"] in (None, number["step"])
    )
