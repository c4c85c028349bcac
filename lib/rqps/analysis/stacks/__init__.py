"""From call stacks to what an operation costs: by component, by function, and along the call tree."""

from rqps.analysis.stacks.breakdown import breakdown
from rqps.analysis.stacks.costs import instruction_costs, stack_costs
from rqps.analysis.stacks.exports import folded, folded_difference, speedscope
from rqps.analysis.stacks.findings import breakdown_findings
from rqps.analysis.stacks.operations import operation_costs
from rqps.analysis.stacks.profile import Profile, most_changed_part, part_from, profile, profile_findings
from rqps.analysis.stacks.tree import FOLD_BELOW, flame_tree
from rqps.analysis.stacks.trees import flame_trees

__all__ = [
    "FOLD_BELOW",
    "Profile",
    "breakdown",
    "breakdown_findings",
    "flame_tree",
    "flame_trees",
    "folded",
    "folded_difference",
    "instruction_costs",
    "most_changed_part",
    "operation_costs",
    "part_from",
    "profile",
    "profile_findings",
    "speedscope",
    "stack_costs",
]
