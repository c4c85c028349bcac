"""Scenarios of the performance schema, as a config asks for them."""

from rqps.study.perf_schema.absent import absent, class_of, classes, later_than
from rqps.study.perf_schema.scenario import Scenario, State, Switch, decides, fits, unmatched
from rqps.study.perf_schema.spec import PerfSchema, ScenarioSpec, named, names, says, scenario

__all__ = [
    "PerfSchema",
    "Scenario",
    "ScenarioSpec",
    "State",
    "Switch",
    "absent",
    "class_of",
    "classes",
    "decides",
    "fits",
    "later_than",
    "named",
    "names",
    "says",
    "scenario",
    "unmatched",
]
