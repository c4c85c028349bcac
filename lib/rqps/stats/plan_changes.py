"""Plans that differ between a study's base and its other dbms: a difference in cost may then come from the plan."""

import polars as pl

from rqps.store.read import Study
from rqps.workloads import PARAMETERS

SCHEMA = pl.Schema(dict.fromkeys(("step", "base", "dbms", "base_plan", "plan"), pl.String))
WHOLE_TABLE = "no index"


def plan_changes(study: Study) -> pl.DataFrame:
    """One row per step and dbms whose plans differ from the base's: both plans, as access method and index per table.

    Empty for workloads whose plans are not a finding: they fail, or warn, if a plan is not the plan of their step.
    """
    if not PARAMETERS[study.card.workload].plans_are_findings:
        return SCHEMA.to_frame()
    first = study.plans.collect().unique(["step", "dbms", "statement", "access", "key", "extra"], maintain_order=True)
    access = pl.format("{} ({})", pl.col("access").fill_null("none"), pl.col("key").fill_null(WHOLE_TABLE))
    one_round = pl.col("round") == pl.col("round").min().over("step", "dbms")
    plans = first.filter(one_round).group_by("step", "dbms", maintain_order=True).agg(plan=access.str.join(", "))
    base = plans.filter(dbms=study.card.base).select("step", base="dbms", base_plan="plan")
    differ = plans.join(base, on="step", how="inner", maintain_order="left").filter(
        pl.col("plan") != pl.col("base_plan")
    )
    return differ.select(*SCHEMA)
