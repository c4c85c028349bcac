"""Cost of an operation by component and function, sampled or counted, and how far it can be trusted."""

from dataclasses import replace

from rqps.pages import FirstPage
from rqps.pages.flamegraph_breakdown.charts import components, explorer, thread_time
from rqps.pages.flamegraph_breakdown.findings import Profile, parts_of, profile
from rqps.pages.flamegraph_breakdown.tables import beside, changed_functions, check, completeness, explained


def on_first_page(page: FirstPage) -> FirstPage:
    """The parts of the headline's difference, if nothing else explains it, and the functions that changed."""
    explanation, row = page.explanation, page.row
    if row and not explanation:
        explanation = parts_of(page.study, row["step"], row["base"], row["dbms"])
    functions = changed_functions(page.study, page.decided)
    table = () if functions is None else (("Where the time goes", functions),)
    return replace(page, explanation=explanation, tables=(*page.tables, *table))
