"""From call stacks to what an operation costs: by component, by function, and along the call tree."""

from rqps.pages.flamegraph_breakdown.stack_findings import breakdown_findings
from rqps.profile.breakdown import breakdown
from rqps.profile.costs import instruction_costs, stack_costs
from rqps.profile.exports import folded, folded_difference, speedscope
from rqps.profile.operations import operation_costs
from rqps.profile.profile import Profile, most_changed_part, part_from, profile, profile_findings
from rqps.profile.tree import FOLD_BELOW, flame_tree
from rqps.profile.trees import flame_trees

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
