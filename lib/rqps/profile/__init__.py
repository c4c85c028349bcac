"""From call stacks to the cost of an operation: by component, by function, and along the call tree."""

from rqps.profile.breakdown import breakdown, operation_costs
from rqps.profile.broken_stacks import completeness
from rqps.profile.costs import instruction_costs, stack_costs
from rqps.profile.instructions import (
    instruction_ratios,
    instructions_beside,
    instructions_per_operation,
    most_expensive_functions,
)
from rqps.profile.tree import FOLD_BELOW, flame_tree, flame_trees, folded, folded_difference, speedscope

__all__ = [
    "FOLD_BELOW",
    "breakdown",
    "completeness",
    "flame_tree",
    "flame_trees",
    "folded",
    "folded_difference",
    "instruction_costs",
    "instruction_ratios",
    "instructions_beside",
    "instructions_per_operation",
    "most_expensive_functions",
    "operation_costs",
    "speedscope",
    "stack_costs",
]
