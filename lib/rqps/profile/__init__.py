"""From call stacks to the cost of an operation: by component, by function, and along the call tree."""

from rqps.profile.breakdown import breakdown, measured_costs, operation_costs
from rqps.profile.broken_stacks import completeness
from rqps.profile.call_tree import flame_tree, flame_trees, folded, folded_difference, speedscope
from rqps.profile.components import in_layers
from rqps.profile.costs import as_measured, instruction_costs, stack_costs
from rqps.profile.instructions import (
    instructions_beside,
    most_expensive_functions,
)
from rqps.stats.metrics import instructions_per_operation
