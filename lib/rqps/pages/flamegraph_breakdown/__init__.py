"""Cost of an operation by component and function, sampled or counted, and how far it can be trusted."""

from rqps.pages.flamegraph_breakdown.charts import components, explorer, thread_time
from rqps.pages.flamegraph_breakdown.findings import Profile, parts_of, profile
from rqps.pages.flamegraph_breakdown.tables import beside, changed_functions, check, completeness, explained
