"""What EXPLAIN says of a kind of query on an engine, held against what the kind is named for."""

from rqps.engines.instance import Server
from rqps.store.manifest import Warning_
from rqps.workloads.explain import Plan, explain, plan_row
from rqps.workloads.point_lookups.steps import Step
from rqps.workloads.protocol import Checked

WHOLE_TABLE = ("ALL", "index")
"""Kinds of access that read every row, or every entry of an index."""


def check_plan(server: Server, step: Step) -> Checked:
    """The plan of a step. One that differs from the kind's name is no error but a finding, told with the number."""
    plan = _plan(server, step)
    differs = difference(step, plan)
    warnings = (Warning_(kind="plan", text=differs, step=step.name),) if differs else ()
    return Checked(plans=(plan_row(step.name, step.kind.query, plan),), warnings=warnings)


def reads_whole_table(server: Server, step: Step) -> bool:
    """Whether each query of a step reads the whole table."""
    return _plan(server, step)["type"] in WHOLE_TABLE


def difference(step: Step, plan: Plan) -> str:
    """How a plan differs from what the kind is named for, in words; empty where it does not."""
    kind, key = step.kind, plan["key"]
    if key != kind.index:
        by = f"by index {key}" if key else f"all of about {plan['rows']} rows by no index"
        return f"{step.engine} reads {by}, not by {kind.index}: {kind.query}"
    if plan["type"] in WHOLE_TABLE:
        return f"{step.engine} reads all of index {key}: {kind.query}"
    covered = "Using index" in str(plan["Extra"]).split("; ")
    if covered != kind.covers:
        how = "alone" if covered else "and the row with it"
        return f"{step.engine} reads index {key} {how}, which is not what the kind is named for: {kind.query}"
    return ""


def _plan(server: Server, step: Step) -> Plan:
    connection = server.connect(step.database)
    plan = explain(connection, step.kind.query)
    connection.close()
    return plan
