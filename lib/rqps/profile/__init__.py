"""From call stacks to the cost of an operation: by component, by function, and along the call tree."""

from rqps.profile.breakdown import breakdown
from rqps.profile.broken_stacks import completeness
from rqps.profile.call_tree import flame_tree, folded, folded_difference, speedscope
from rqps.profile.costs import instruction_costs, stack_costs
from rqps.profile.instructions import (
    instruction_ratios,
    instructions_beside,
    instructions_per_operation,
    most_expensive_functions,
)

__all__ = ["breakdown", "completeness", "instruction_costs", "stack_costs"]
__all__ += ["flame_tree", "folded", "folded_difference", "speedscope"]
__all__ += ["instruction_ratios", "instructions_beside", "instructions_per_operation", "most_expensive_functions"]
