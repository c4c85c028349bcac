"""Turns call stacks into the cost of an operation: by component, by function, and along the call tree."""

from rqps.profile.breakdown import Profile, breakdown, measured_costs, operation_costs, profile_of, profiled_costs
from rqps.profile.broken_stacks import completeness
from rqps.profile.call_tree import FOLD_BELOW, flame_tree, flame_trees, folded, folded_difference, speedscope
from rqps.profile.components import component_colours, in_layers
from rqps.profile.connections import time_of_connections
from rqps.profile.costs import as_measured, function_changes, instruction_costs, most_expensive_functions, stack_costs
from rqps.profile.waits import idle_waits, time_of_clients, time_of_threads, wait_colours, waiting
from rqps.stats.metrics import instructions_per_operation
