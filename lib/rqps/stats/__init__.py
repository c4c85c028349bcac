"""Turns measured values into verdicts, for every metric that has a value per round: throughput, CPU, instructions.

    values   = measured(study)          one row per step, run and metric
    rounds_  = rounds(values, study.runs, base)           me's value beside the base's value of the same round
    compared = compare(rounds_)                           one row per step, metric and dbms: the tidy frame

Every table, chart and sentence reads the tidy frame. Its main columns are `host, step, position, table_position,
kind, range, group, clients, metric, base, dbms, build, config, n, base_estimate, me_estimate, estimate, low, high,
coverage, verdict, needs, rounds_needed, looks`; `with_warnings` adds `warnings` and `explained`, `with_layouts`
`by_layout` and `within_layout`. `absolute(values)` gives similar rows for values that are not compared, without base
and verdict.

>>> import polars as pl
>>> ratios = [0.60, 0.62, 0.61, 0.65, 0.63, 0.62]
>>> step = {"host": "vm", "step": "scan", "metric": "operations_per_s", "base": "my56.z", "dbms": "my80.z"}
>>> paired = pl.DataFrame([{**step, "base_value": 10.0, "me_value": 10 * ratio, "ratio": ratio} for ratio in ratios])
>>> numbers = pl.col("estimate", "low", "high").round(3)
>>> compare(paired).select("step", "dbms", "n", numbers, "verdict").row(0)
('scan', 'my80.z', 6, 0.621, 0.604, 0.64, 'slower')

All verdicts of a study are corrected for multiple comparisons together, so pages take each comparison from `relate`
and do not compute it a second time.

Ratios of rounds are averaged by `STUDENT`, the mean of their logarithms; values that are not compared, by `MEDIAN`.
The column `estimate` holds this mean or this median.
"""

from rqps.stats import verdict
from rqps.stats.build_versions import by_version, superseded, watched
from rqps.stats.change_points import ALL_STEPS, courses_of, releases
from rqps.stats.comparison import (
    absolute,
    between_hosts,
    change,
    compare,
    config_gains,
    in_tables,
    metric_of,
    most_changed,
    over_steps,
    quotient,
    relate,
    relate_configs,
    strongest,
    what_ifs,
)
from rqps.stats.conditions import (
    all_warnings,
    builds,
    changed_conditions,
    config_changes,
    hidden_differences,
    options_of_some,
    plan_changes,
    same_for_all,
    with_warnings,
)
from rqps.stats.disagreement import SAME_WORK, deciding, side_by_side, waiting
from rqps.stats.estimate import MEDIAN, STUDENT
from rqps.stats.flavours import effects_of_options, flavours, means_of_pairs, pairs_by_option
from rqps.stats.health import Health, health
from rqps.stats.interim import InterimAnalyses
from rqps.stats.layouts import known_layouts, luck_of_layouts, with_layouts
from rqps.stats.machine_states import changed_state, machine_state, recorded_findings
from rqps.stats.metrics import (
    COMPARED,
    PUBLISHED,
    SIDES,
    THROUGHPUTS,
    TITLES,
    measured,
    tidy,
    usable,
    version_order,
    with_groups,
)
from rqps.stats.naming import names, short_names
from rqps.stats.near_pairs import has_few_rounds, near_pairs, noise_floors, usual_spreads
from rqps.stats.over_time import counters_over_time, latencies_of_steps, throughput_over_time
from rqps.stats.pairing import comparable, rounds, rounds_of_pairs, rounds_within_build, where_from
from rqps.stats.status_counters import latch_waits, status_changes
from rqps.stats.summary import OVER_ALL, asks, left_out, means, means_by_work, means_to_base
from rqps.stats.verdict import holds_for
from rqps.stats.writes import by_purpose, other_io
